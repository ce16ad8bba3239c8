"""Identities that are none warn: a sequence that begins again, and an identity that repeats after more than a day."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dedup.sequences import producers_of
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.quality.documents import CheckResult, gate_of
from onefold.report.document import describe
from onefold.report.ledger import verdicts_of
from tests.support.fold import ORDER_TYPE
from tests.support.pipeline import Sent, export, run

MakeDataset = Callable[..., Dataset]
Fold = Callable[..., BatchRun]
DAY = 24 * 60 * 60 * 1000
LOOSE = {"max_conflicts": 1000, "max_rejected_rate": 1.0}
PRODUCER = {"name": "header.m", "sequence": "header.v"}


def sent(offset: int, sequence: int, content: str = "x", name: str = "p", at: int | None = None, **more: Any) -> Sent:
    """A record of a named producer."""
    stamp = 1_000 + offset if at is None else at
    return Sent(0, offset, stamp, "k", sequence, name, {"id": content} | more)


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of records."""
    names = iter(range(100))

    def run_one(made: Dataset, *records: Sent) -> BatchRun:
        return run(session, lake, made, export(tmp_path / f"e{next(names)}", records))

    return run_one


def check(lake: Lake, made: Dataset, done: BatchRun, id_: str) -> CheckResult | None:
    gate = gate_of(lake, made, done.batch, str(describe(lake, made, done.batch).attempt))
    return next((check for check in gate.checks if check.id == id_), None)


def restarts(lake: Lake, made: Dataset, done: BatchRun) -> list[str]:
    result = check(lake, made, done, "sequence_restarts")
    assert result
    assert (result.severity, int(result.observed)) == ("warning", len(result.first))
    return result.first


# Sequences


CASES: dict[str, tuple[Sequence[int | None], tuple[int, int, int] | None]] = {
    # case: sequences by offset (None: no record of it); offset, sequence and the highest before it of the last restart
    "counts on": (range(1, 9), None),
    "begins again": ((1, 2, 3, 1, 2), (3, 1, 3)),
    "begins again below": ((5, 6, 0), (2, 0, 6)),
    "begins again twice": ((1, 2, 3, 1, 2, 1), (5, 1, 3)),
    "begins again behind a hole": ((1, 2, 3, None, 1), (4, 1, 3)),
    "begins again and goes beyond": ((1, 2, 1, 2, 3), (2, 1, 2)),
    "begins again near its start": ((*range(1, 22), 3), (21, 3, 21)),
    "a retry": ((*range(1, 22), 20, 21, 22), None),
    "a retry of half": ((*range(1, 22), 11, 12), None),
    "the same record again": ((1, 1, 2, 2, 3), None),
    "gaps": ((1, 5, 9, 100), None),
}


def staged(spark: SparkSession, logs: dict[str, Sequence[int | None]], epoch: int = -1) -> Any:
    """Staged records of producers, each on a partition of its own."""
    rows = [
        {
            "_order": dict(zip(ORDER_TYPE.names, (0, "c", "t", 1, partition, offset), strict=True)),
            "_producer": {"name": name, "epoch": epoch, "sequence": sequence},
        }
        for partition, (name, sequences) in enumerate(logs.items())
        for offset, sequence in enumerate(sequences)
        if sequence is not None
    ]
    random.Random(7).shuffle(rows)
    producer = pa.struct([("name", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64())])
    schema = pa.schema([("_order", ORDER_TYPE), ("_producer", producer)])
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema))


def expected(sequences: Sequence[int | None]) -> tuple[int, int, int] | None:
    """The rule as a loop: the last fall to the lowest tenth of what was counted."""
    known = [(offset, sequence) for offset, sequence in enumerate(sequences) if sequence is not None]
    tops = accumulate((sequence for _, sequence in known), max)
    falls = [
        (offset, sequence, top)
        for ((_, before), (offset, sequence)), top in zip(pairwise(known), tops, strict=False)
        if sequence < before and sequence <= known[0][1] + (top - known[0][1]) / 10
    ]
    return falls[-1] if falls else None


def test_a_sequence_that_begins_again_is_found_and_a_retry_is_not(spark: SparkSession, draw: random.Random) -> None:
    logs = {name: sequences for name, (sequences, _) in CASES.items()}
    wanted = {name: found for name, (_, found) in CASES.items() if found}
    for number in range(150):
        drawn = [draw.choice([None, *range(30)]) for _ in range(draw.randrange(2, 12))]
        logs[f"drawn {number}"] = drawn
        if found := expected(drawn):
            wanted[f"drawn {number}"] = found
    assert {name: expected(sequences) for name, (sequences, _) in CASES.items()} == {
        name: found for name, (_, found) in CASES.items()
    }
    _, found = producers_of(staged(spark, logs))
    assert {
        overtaken.producer: (overtaken.offset, overtaken.sequence, overtaken.highest) for overtaken in found
    } == wanted
    assert producers_of(staged(spark, logs), whole=True)[1] == found
    assert producers_of(staged(spark, logs, epoch=0))[1] == [], "the log's own producers have epochs"


def test_a_batch_warns_of_it_by_name_and_position_and_says_what_to_declare(
    fold: Fold, lake: Lake, dataset: MakeDataset
) -> None:
    made = dataset(identity={"producer": PRODUCER}, quality=LOOSE)
    done = fold(made, *(sent(n, sequence, str(n)) for n, sequence in enumerate((1, 2, 3, 1, 2))), sent(5, 1, name="q"))
    assert done.published, done.red
    assert restarts(lake, made, done) == ["producer p: 1 at t-0@3, after 3"]
    result = check(lake, made, done, "sequence_restarts")
    assert result
    assert "next to its sequence (identity.producer.epoch: header.epoch)" in result.way_out
    again = fold(made, *(sent(n, sequence, str(n)) for n, sequence in enumerate((1, 2, 3, 1, 2))), sent(6, 4, "new"))
    assert restarts(lake, made, again) == [], "what is covered was said before"


@pytest.mark.nightly(reason="within a batch and against the table goes by day")
def test_it_is_found_from_batch_to_batch_and_once(fold: Fold, lake: Lake, dataset: MakeDataset) -> None:
    made = dataset(identity={"producer": PRODUCER}, quality=LOOSE, mask={"id": "hash"})
    batches = [
        (range(10, 31), []),
        ((30, 31), []),  # a retry
        ((10, 11), ["producer p: 10 at t-0@23, after 31"]),
        ((12, 13), []),  # it counts on
        ((9,), ["producer p: 9 at t-0@27, after 31"]),
    ]
    offset = 0
    for sequences, found in batches:
        done = fold(made, *(sent(offset + n, sequence, f"{offset + n}") for n, sequence in enumerate(sequences)))
        offset += len(sequences)
        assert restarts(lake, made, done) == found


def test_with_an_epoch_next_to_the_sequence_each_start_counts_for_itself(
    fold: Fold, lake: Lake, dataset: MakeDataset
) -> None:
    """Equal content, and an epoch beyond an int: a clock in milliseconds."""
    fields = {"id": "string", "n": "long", "epoch": "long?"}
    identity = {"producer": {"name": "header.m", "epoch": "epoch", "sequence": "n"}}
    made = dataset(identity=identity, value={"fields": fields}, quality=LOOSE)
    first, second = 1_767_225_600_000, 1_767_225_700_000
    log = [(first, 1), (first, 2), (first, 2), (second, 1), (second, 2), (None, 3)]
    done = fold(made, *(sent(n, 0, epoch=epoch, n=number) for n, (epoch, number) in enumerate(log)))
    assert done.published, done.red
    assert done.published.counts == {
        "applied": {"insert": 4},
        "duplicate": {"producer": 1},
        "rejected": {"null_identity": 1},
    }
    assert restarts(lake, made, done) == []
    assert [row["offset"] for row in verdicts_of(lake, made, done.batch)[0] if row["verdict"] != "applied"] == [2, 5]


def test_without_a_named_producer_it_is_not_asked(fold: Fold, lake: Lake, dataset: MakeDataset) -> None:
    made = dataset(identity={"message_id": "header.m"}, quality=LOOSE)
    assert check(lake, made, fold(made, sent(0, 1)), "sequence_restarts") is None


# More than a day


def late(lake: Lake, made: Dataset, done: BatchRun) -> tuple[str, list[str]]:
    result = check(lake, made, done, "identities_over_days")
    assert result
    assert result.severity == "warning"
    return result.observed, result.first


def test_an_identity_that_repeats_after_more_than_a_day_warns_within_a_batch_and_against_the_table(
    fold: Fold, lake: Lake, dataset: MakeDataset
) -> None:
    made = dataset(identity={"message_id": "header.m"}, quality=LOOSE)
    done = fold(
        made,
        sent(0, 0, name="a", at=1_000),
        sent(1, 0, name="a", at=1_000 + DAY),  # just a day
        sent(2, 0, name="a", at=1_001 + DAY),
        sent(3, 0, "other", name="a", at=1_000 + 3 * DAY),  # of other content
        sent(4, 0, name="b", at=-1),
        sent(5, 0, name="b", at=9 * DAY),  # of the other nothing is known
    )
    assert done.published, done.red
    assert late(lake, made, done) == (
        "2",
        ["message_id at t-0@2, of t-0@0, 1.0 days apart", "same_identity at t-0@3, of t-0@0, 3.0 days apart"],
    )
    covered = sent(2, 0, name="a", at=1_001 + DAY)
    done = fold(made, covered, sent(6, 0, name="a", at=1_000 + 7 * DAY), sent(7, 0, name="c"))
    assert late(lake, made, done) == ("1", ["message_id at t-0@6, of t-0@0, 7.0 days apart"])
    result = check(lake, made, done, "identities_over_days")
    assert result
    assert "a digest of the content" in result.way_out


@pytest.mark.nightly(reason="test_situations has versions that begin again by day")
def test_repeated_versions_are_no_repeated_identities(fold: Fold, lake: Lake, dataset: MakeDataset) -> None:
    """A key's version that is loaded again is `key_version`; its message id that is sent again is one."""
    upsert = {"mode": "upsert", "key": ["id"], "version": {"from": "long(header.v)"}}
    made = dataset(identity={"message_id": "header.m"}, apply=upsert, quality=LOOSE)
    log = [sent(0, 1, name="a"), sent(1, 2, name="a", at=6 * DAY)]  # sent again under another version
    log += [sent(2, 1, "y", name="b"), sent(3, 1, "y", name="c", at=5 * DAY)]
    done = fold(made, *log)
    assert done.published, done.red
    assert done.published.counts["duplicate"] == {"key_version": 1, "message_id": 1}
    assert late(lake, made, done)[0] == "1"
    without = dataset("others", apply=upsert, quality=LOOSE)
    assert check(lake, without, fold(without, *log), "identities_over_days") is None, "no identity is declared"
