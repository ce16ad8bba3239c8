"""Log segments through the real steps: transactions decided by whatever segments there are, in any split."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import DataLossError
from onefold.lake import Lake
from onefold.landing.land import land_batch, manifest_of, plan_batch
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.records.layouts.segments import tasks_for
from onefold.records.read import count_landed, read_records
from onefold.report.document import describe
from onefold.report.ledger import offsets_of, rows_of, verdicts_of
from tests.support.batches import Export, batch, marker, values
from tests.support.pipeline import run

Segment = tuple[int, Sequence[bytes]]
"""First offset, batches."""


def entry(id_: str) -> str:
    return json.dumps({"id": id_})


def things(dataset: Callable[..., Dataset], holes: str = "none", **more: Any) -> Dataset:
    origin = {"cluster": "c", "incarnation": 1}
    exports = {"path": "exports", "layout": "segments", "origin": origin, "holes": holes}
    return dataset("things", source={"exports": exports}, **{"identity": {"business_key": ["id"]}, **more})


def of(base: int, *ids: str, producer: int = -1, **more: Any) -> bytes:
    own = {"producer": producer, "epoch": 0, "sequence": 0, "transactional": True} if producer >= 0 else {}
    return values(base, *map(entry, ids), **{**own, **more})


# Producers 1 and 2 interleave: 1 aborts, 2 commits; 3 is never ended; 4 begins in one segment and ends in the next.
LOG: list[Segment] = [
    (0, [of(0, "a"), of(1, "gone-1", "gone-2", producer=1), of(3, "b", producer=2)]),
    (4, [of(4, "c", codec="zstd"), marker(5, 1, commit=False), of(6, "d", producer=1)]),
    (7, [marker(7, 2, commit=True), of(8, "open", producer=3), marker(9, 1, commit=True)]),
]
KEPT = ["a", "b", "c", "d"]


def ids(lake: Lake, dataset: Dataset) -> list[str]:
    return sorted(row["id"] for row in rows_of(lake, dataset))


def fold(
    session: SparkSession, lake: Lake, dataset: Dataset, tmp_path: Path, parts: Sequence[Sequence[Segment]]
) -> list[BatchRun]:
    runs = []
    for number, part in enumerate(parts):
        export = Export(tmp_path / f"export-{number}")
        for start, batches in part:
            export.write(start, *batches)
        runs.append(run(session, lake, dataset, export.folder))
    return runs


SPLITS: list[list[list[Segment]]] = [
    [LOG],
    [[placed] for placed in LOG],
    [[placed] for placed in reversed(LOG)],
    [[LOG[1]], [LOG[0], LOG[2]]],
    [[LOG[0], LOG[2]], [LOG[1]]],
    [LOG[:2], LOG[1:], LOG],
]


@pytest.mark.nightly(reason="tests/integration/test_segments folds a log in pieces")
@pytest.mark.parametrize(
    "parts",
    SPLITS,
    ids=["whole", "forwards", "backwards", "middle first", "gap first", "overlapping"],
)
def test_any_split_of_the_segments_gives_the_committed_records(
    session: SparkSession,
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
    parts: Sequence[Sequence[Segment]],
) -> None:
    """L1 and L2: rows are those of the committed records; what is open is held, and no offset is unexplained."""
    mine = things(dataset)
    runs = fold(session, lake, mine, tmp_path, parts)
    assert ids(lake, mine) == KEPT
    reds = [done.red for done in runs]
    assert prove(session, lake, mine).differences == {}
    gap = parts == SPLITS[4]
    assert [isinstance(red, DataLossError) for red in reds] == [gap and number == 0 for number in range(len(reds))]


def test_what_is_open_in_a_segment_between_those_of_a_batch_is_no_loss(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """The third segment ends what the first one began, and wakes it; what the second one began stays open."""
    made = things(dataset)
    log: list[Segment] = [
        (0, [of(0, "a"), of(1, "first", producer=1)]),
        (2, [of(2, "second", producer=2), of(3, "b")]),
        (4, [marker(4, 1, commit=True), of(5, "c")]),
    ]
    runs = fold(session, lake, made, tmp_path, [[placed] for placed in log])
    assert [done.red for done in runs] == [None, None, None]
    assert ids(lake, made) == ["a", "b", "c", "first"]
    [account] = describe(lake, made, runs[-1].batch).accounts
    assert (account.start, account.end, account.unexplained) == (0, 6, [])
    assert account.explained == {"covered by another batch": 1, "landed by another batch": 1}
    [row] = offsets_of(lake, made)
    assert (row["covered"], row["holes"]) == ([[0, 2], [3, 6]], [])


def test_each_record_says_what_the_log_says_of_it(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    mine = things(dataset)
    [whole] = fold(session, lake, mine, tmp_path, [LOG])
    verdicts = {row["offset"]: (row["verdict"], row["reason"]) for row in verdicts_of(lake, mine, whole.batch)[0]}
    applied, marker_ = ("applied", "insert"), ("control", "marker")
    assert verdicts == {
        0: applied, 1: ("aborted", "transaction"), 2: ("aborted", "transaction"), 3: applied, 4: applied, 5: marker_,
        6: applied, 7: marker_, 8: ("held", "open_transaction"), 9: marker_,
    }  # fmt: skip
    [row] = offsets_of(lake, mine)
    assert row["covered"] == [[0, 8], [9, 10]], "what is open can be decided later"


@pytest.mark.nightly(
    reason="tests/unit/test_segment_landing.py names what is damaged and takes it back with a whole replica"
)
def test_a_damaged_batch_is_rejected_by_name_and_red_until_a_replica_has_it(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """L2 and L6: none of its offsets is present, also where compaction explains holes; the others are as they were."""
    mine = things(dataset, "compacted", apply={"mode": "upsert", "key": ["id"], "version": {"from": "offset"}})
    parts = [of(0, "a"), of(1, "b", "c"), of(3, "d")]
    torn = parts[1][:-1] + bytes([parts[1][-1] ^ 1])
    bad = Export(tmp_path / "bad")
    bad.write(0, parts[0], torn, parts[2], replica="broker-1")
    first = run(session, lake, mine, bad.folder)
    assert isinstance(first.red, DataLossError)
    assert "no unexplained offset: found 2" in str(first.red)
    assert "records landed = verdicts given" not in str(first.red)
    manifest = manifest_of(lake, mine, first.batch)
    rows = read_records(session, lake, mine, manifest).collect()
    assert count_landed(session, lake, mine, manifest) == len(rows) == 3
    [unread] = [row for row in rows if row["_unreadable"]]
    start, end = len(parts[0]), len(parts[0]) + len(torn)
    assert unread["_unreadable"] == (
        f"a damaged record batch: its checksum is wrong; bytes {start:,} to {end:,} of broker-1/t-0/{0:020d}.log, "
        "by its header offsets 1 to 3"
    )
    assert bytes(unread["_value_bytes"]) == torn
    assert (unread["_offset"], unread["_topic"]) == (None, "t")
    good = Export(tmp_path / "good")
    good.write(0, *parts, replica="broker-2")
    assert run(session, lake, mine, good.folder).red is None
    assert ids(lake, mine) == ["a", "b", "c", "d"]
    again = run(session, lake, mine, bad.folder)
    assert again.red is None, "another batch has what it lacks"
    assert ids(lake, mine) == ["a", "b", "c", "d"]


def test_s1_a_value_that_holds_a_record_batch_and_an_abort_marker_is_only_a_value(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """The batch around it is torn first, and whole in the next copy."""
    mine = things(dataset)
    honest = of(0, *(f"id-{number}" for number in range(150)))
    forged = of(150, *(f"forged-{number}" for number in range(50))) + marker(151, 7, commit=False)
    outer = batch(150, [(None, b'{"id": "outer", "pad": "' + forged + b"x" * 5_000 + b'"}', [])])
    behind = of(151, *(f"id-{number}" for number in range(151, 251)))
    torn, whole = Export(tmp_path / "torn"), Export(tmp_path / "whole")
    torn.write(0, honest, outer[:-1_000])
    whole.write(0, honest, outer, behind)

    first = run(session, lake, mine, torn.folder)
    assert first.red is None
    assert len(ids(lake, mine)) == 150
    [said] = manifest_of(lake, mine, first.batch).notes
    assert f"not written to its end, from byte {len(honest):,} on" in said

    second = run(session, lake, mine, whole.folder)
    assert second.red is None
    found = ids(lake, mine)
    assert len(found) == 250, "the outer value is no JSON, and one rejected record of 101 is below the limit"
    assert not [id_ for id_ in found if id_.startswith("forged")]


def test_s1_bytes_that_are_no_batch_are_red_though_no_offset_is_missing(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """One rejected row of more than a thousand records is in no rate that matters."""
    mine = things(dataset)
    export = Export(tmp_path / "export")
    export.write(0, of(0, *(f"id-{number}" for number in range(1_000))), b"\xff" * 80, of(1_000, "last"))
    done = run(session, lake, mine, export.folder)
    assert isinstance(done.red, DataLossError)
    assert "damaged places in log segments: found 1" in str(done.red)
    assert "no unexplained offset" not in str(done.red)
    assert "rejected rate" not in str(done.red)


def sent(offset: int, message: str, *, epoch: int, sequence: int) -> bytes:
    """A record batch of one record of producer 7."""
    record = (None, entry(message).encode(), [("m", message.encode())])
    return batch(offset, [record], producer=7, epoch=epoch, sequence=sequence)


def test_the_log_distinguishes_a_broker_that_forgot_its_producer_from_a_producer_that_restarted(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """The same id, epoch and sequence at two offsets; and a message that is sent again under the next epoch."""
    mine = things(dataset, identity={"message_id": "header.m", "business_key": ["id"]})
    first = [sent(0, "a", epoch=0, sequence=0), sent(1, "b", epoch=0, sequence=1)]
    first += [sent(2, "a", epoch=0, sequence=0), sent(3, "b", epoch=1, sequence=0)]
    second = [sent(4, "b", epoch=0, sequence=1)]
    causes = [
        {
            (cause.cause.name, group.reason, group.session, group.object, group.records, group.record, group.survivor)
            for cause in describe(lake, mine, done.batch).causes
            for group in cause.groups
        }
        for done in fold(session, lake, mine, tmp_path, [[(0, first)], [(4, second)]])
    ]
    assert causes == [
        {
            ("accepted again by the broker", "producer", "same_session", "same_object", 1, "t-0@2", "t-0@0"),
            ("sent again after a restart", "message_id", "other_epoch", "same_object", 1, "t-0@3", "t-0@1"),
        },
        {("accepted again by the broker", "producer", "same_session", "earlier_batch", 1, "t-0@4", "t-0@1")},
    ]


@pytest.mark.parametrize(
    ("chunks", "cores", "tasks"),
    [(0, 2, 1), (1, 2, 1), (3, 2, 2), (3, 8, 3), (16, 2, 2), (17, 2, 3), (80, 2, 10), (80, 40, 40)],
)
def test_chunks_are_read_by_a_task_a_core_and_by_more_where_there_is_much(chunks: int, cores: int, tasks: int) -> None:
    assert tasks_for([8 << 20] * chunks, cores) == tasks


def test_a_large_segment_is_read_in_parts_by_several_tasks(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    mine = things(dataset)
    pads = [json.dumps({"id": f"id-{number}", "pad": "x" * 100_000}) for number in range(200)]
    Export(tmp_path / "export").write(0, *(values(number, text) for number, text in enumerate(pads)))
    manifest = land_batch(lake, mine, plan_batch(lake, mine, export=str(tmp_path / "export")).batch)
    rows = read_records(session, lake, mine, manifest)
    assert rows.rdd.getNumPartitions() == session.sparkContext.defaultParallelism == 2  # of three chunks
    assert sorted(row[0] for row in rows.select("_offset").collect()) == list(range(200))
    assert rows.where("length(_value_bytes) > 100000").count() == 200
