"""Positions received again: a copy counts once whatever tool made it, and a topic that was created again is red."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import GateRedError
from onefold.lake import Lake
from onefold.operations.replay import plan_replay
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.quality.documents import CheckResult, gate_of
from onefold.report.document import describe
from onefold.report.ledger import offsets_of, rows_of, verdicts_of
from onefold.report.quarantine import quarantine_of
from onefold.tables.names import verdict_table
from sample import kcat
from tests.support.pipeline import run

MakeDataset = Callable[..., Dataset]
Counts = dict[str, dict[str, int]]
OPEN = {"max_rejected_rate": 1.0, "max_conflicts": 1000, "max_duplicate_rate": 1.0}


@dataclass(frozen=True, slots=True)
class Line:
    """A record of partition 0 as an exporter wrote it."""

    offset: int
    value: str | None
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    at: int | None = None

    def text(self) -> bytes:
        return kcat.line(
            kcat.Record(
                topic="t",
                partition=0,
                offset=self.offset,
                ts=1_000 + self.offset if self.at is None else self.at,
                broker=1,
                headers=tuple((name, value.encode()) for name, value in self.headers),
                key=None if self.key is None else self.key.encode(),
                value=None if self.value is None else self.value.encode(),
            )
        )


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Callable[..., BatchRun]:
    """Runs a batch of lines."""
    number = iter(range(1000))

    def fold_lines(made: Dataset, lines: Iterable[Line]) -> BatchRun:
        folder = tmp_path / f"export-{next(number)}"
        folder.mkdir()
        (folder / "x.jsonl").write_bytes(b"".join(line.text() for line in lines))
        return run(session, lake, made, folder)

    return fold_lines


def counts(lake: Lake, made: Dataset, done: BatchRun) -> Counts:
    """Verdicts of a batch, red or not."""
    return describe(lake, made, done.batch).counts


def check_of(lake: Lake, made: Dataset, done: BatchRun, name: str) -> CheckResult:
    assert done.published, done.red
    gate = gate_of(lake, made, done.batch, done.published.attempt)
    return next(check for check in gate.checks if check.id == name)


def sent(offset: int, id_: str, note: str, version: int = 1, kind: str = "entry", key: str = "k") -> Line:
    value = f'{{"id": "{id_}", "note": "{note}", "v": {version}, "kind": "{kind}", "n": {version}}}'
    return Line(offset, value, f'{{"k": "{key}"}}', (("mid", f"m{offset}"), ("kind", kind)))


FIELDS = {"id": "string", "note": "string", "v": "long", "kind": "string", "n": "long"}
VERSION = {"from": "v"}
MODES: dict[str, dict[str, Any]] = {
    "append": {"apply": {"mode": "append"}, "identity": {"message_id": "header.mid"}, "filter": "value.kind = 'entry'"},
    "append by position": {"apply": {"mode": "append"}},
    "newer": {
        "apply": {"mode": "upsert", "key": ["id"], "version": VERSION, "delete_when": "note = 'gone'"},
        "filter": "header.kind = 'entry'",
    },
    "contiguous": {"apply": {"mode": "upsert", "key": ["id"], "version": VERSION | {"guard": "contiguous"}}},
    "increment": {
        "apply": {"mode": "increment", "key": ["key.k"], "add": {"total": "n"}},
        "identity": {"message_id": "header.mid"},
        "filter": "value.kind = 'entry'",
    },
}
LOG = [
    sent(0, "a", "first", 1),
    sent(1, "a", "second", 2),
    sent(2, "a", "first", 1),  # append, newer and contiguous: an older version once more
    sent(3, "b", "held", 7),  # contiguous: above a gap
    sent(4, "c", "gone", 1),
    sent(5, "d", "left out", 1, kind="ping"),
    sent(6, "e", "e", 1, key="other"),
]


def dataset_of(dataset: MakeDataset, mode: str, **more: Any) -> Dataset:
    given = dict(MODES[mode])
    source: dict[str, Any] = {"exports": {"path": "e", "layout": "kcat", "origin": {"cluster": "c"}}}
    if "filter" in given:
        source["filter"] = given.pop("filter")
    return dataset(
        source=source, key={"format": "json"}, value={"fields": FIELDS}, **{"quality": OPEN, **given, **more}
    )


@pytest.mark.nightly(reason="other headers, other contents and what was rejected have a test each by day")
@pytest.mark.parametrize("mode", MODES)
def test_a_copy_is_a_duplicate_whatever_its_verdict_was_and_another_content_is_red(
    fold: Callable[..., BatchRun], dataset: MakeDataset, session: SparkSession, lake: Lake, mode: str
) -> None:
    """Copies have other headers or none, other times, and another order of fields; a topic that was created again has
    other contents at the same offsets."""
    made = dataset_of(dataset, mode)
    first = fold(made, LOG)
    assert sum(sum(reasons.values()) for reasons in counts(lake, made, first).values()) == len(LOG)
    rows = rows_of(lake, made)

    same = [replace(line, headers=line.headers[1:] if n % 2 else (), at=9_000 + n) for n, line in enumerate(LOG)]
    assert counts(lake, made, fold(made, same)) == {"duplicate": {"position": len(LOG)}}
    spaced = [replace(line, value=line.value and line.value.replace(": ", ":   ")) for line in LOG]
    filtered = int(made.source.filter is not None and "value" in made.source.filter)
    again = fold(made, [line for line in spaced if not (filtered and line.offset == 5)])
    assert counts(lake, made, again) == {"duplicate": {"position": len(LOG) - filtered}}
    assert rows_of(lake, made) == rows

    other = [replace(line, value=line.value and line.value.replace('"note": "', '"note": "new ')) for line in LOG]
    red = fold(made, other)
    assert isinstance(red.red, GateRedError)
    assert f"no position with two contents: found {len(LOG)}, wanted at most 0" in str(red.red)
    assert counts(lake, made, red) == {"conflict": {"inconsistent_position": len(LOG)}}
    survivors = {row["offset"]: row["survivor"] for row in verdicts_of(lake, made, red.batch)[0]}
    assert survivors == {n: {"topic": "t", "partition": 0, "offset": n} for n in range(len(LOG))}
    assert rows_of(lake, made) == rows
    assert prove(session, lake, made).holds


def entries_of(dataset: MakeDataset, **more: Any) -> Dataset:
    """The message id is in a header."""
    fields = {"fields": {"id": "string", "amount": "long"}}
    return dataset(value=fields, identity={"message_id": "header.mid"}, **more)


def entry(offset: int, amount: str, mid: str | None = "", at: int | None = None) -> Line:
    headers = () if mid is None else (("mid", mid or f"m{offset}"),)
    return Line(offset, f'{{"id": "x{offset}", "amount": {amount}}}', "x", headers, at)


def test_a_topic_that_was_created_again_is_red_though_its_offsets_are_covered(
    fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake
) -> None:
    """The records of the new topic are months younger, and each key has a row already: a later version of it."""
    apply = {"mode": "upsert", "key": ["id"], "version": {"from": "offset"}}
    made = dataset(value={"fields": {"id": "string", "state": "string"}}, apply=apply)

    def state(offset: int, name: str, at: int) -> Line:
        return Line(offset, f'{{"id": "{"abcde"[offset % 5]}", "state": "{name}"}}', at=at)

    fold(made, [state(n, "first" if n < 5 else "second", n) for n in range(10)])
    red = fold(made, [state(n, "of the new topic", 2_592_000_000 + n) for n in range(5)])
    assert counts(lake, made, red) == {"conflict": {"inconsistent_position": 5}}
    assert isinstance(red.red, GateRedError)
    assert {row["state"] for row in rows_of(lake, made)} == {"second"}


@pytest.mark.nightly(reason="a covered record with other headers takes no part by day")
def test_a_tool_that_drops_headers_rejects_nothing_that_is_covered(
    fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake
) -> None:
    """In another batch and in the same; a new record without its header is rejected."""
    made = entries_of(dataset, quality={"max_rejected_rate": 0.0, "min_records": 1})
    assert counts(lake, made, fold(made, [entry(n, "1") for n in range(20)])) == {"applied": {"insert": 20}}
    again = fold(made, [entry(n, "1", None) for n in range(20)])
    assert counts(lake, made, again) == {"duplicate": {"position": 20}}
    both = fold(made, [line for n in range(20, 30) for line in (entry(n, "1", None), entry(n, "1"))])
    assert counts(lake, made, both) == {"applied": {"insert": 10}, "duplicate": {"position": 10}}
    assert quarantine_of(lake, made) == []
    red = fold(made, [*(entry(n, "1", None) for n in range(20)), entry(40, "1", None)])
    assert counts(lake, made, red) == {"duplicate": {"position": 20}, "rejected": {"null_identity": 1}}
    assert "rejected rate: found 1, wanted" in str(red.red)


BAD = '"bad"'


@pytest.mark.nightly(reason="tests/unit/test_known_positions.py has what was rejected twice")
def test_what_is_rejected_again_is_no_news(fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake) -> None:
    """Unless its bytes are others, or one of several copies is new."""
    made = entries_of(dataset, quality={"max_rejected_rate": 0.2, "min_records": 5})
    log = [entry(n, BAD if n == 3 else "1") for n in range(10)]
    fold(made, log)
    [kept] = quarantine_of(lake, made)
    again = fold(made, log)
    assert counts(lake, made, again) == {"duplicate": {"position": 10}}
    assert check_of(lake, made, again, "rejected_rate").observed == "0"
    assert quarantine_of(lake, made) == [kept]
    [row] = offsets_of(lake, made)
    assert (row["covered"], row["quarantined"]) == ([[0, 3], [4, 10]], [[3, 4]])

    changed = fold(made, [*log, entry(3, '"worse"')])
    assert changed.red
    assert counts(lake, made, changed) == {"duplicate": {"position": 9}, "rejected": {"wrong_type": 2}}


def test_what_decodes_at_a_quarantined_position_leaves_the_quarantine(
    fold: Callable[..., BatchRun], dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    """The export cut the record short; the next one has it whole."""
    made = entries_of(dataset, quality={"max_rejected_rate": 0.8, "min_records": 1})
    cut = Line(1, '{"id": "x1", "amo', "x", (("mid", "m1"),))
    first = fold(made, [entry(0, "1"), cut, entry(2, BAD), Line(3, None, None)])
    assert [row["offset"] for row in quarantine_of(lake, made)] == [1, 2, 3]
    mended = fold(made, [entry(1, "7"), entry(4, "1")])
    assert counts(lake, made, mended) == {"applied": {"insert": 2}}
    assert [row["offset"] for row in quarantine_of(lake, made)] == [2, 3]
    assert plan_replay(lake, made, first.batch).plan.records == 2
    assert prove(session, lake, made).holds

    # What cannot be read where it is covered is rejected: no entry, and no news for the rates.
    again = fold(made, [cut, entry(0, BAD)])
    assert counts(lake, made, again) == {"rejected": {"undecodable": 1, "wrong_type": 1}}
    assert [row["offset"] for row in quarantine_of(lake, made)] == [2, 3]
    assert check_of(lake, made, again, "rejected_rate").observed == "0"
    both = fold(made, [entry(5, BAD), entry(5, "5")])
    assert counts(lake, made, both) == {"applied": {"insert": 1}, "rejected": {"wrong_type": 1}}
    assert [row["offset"] for row in quarantine_of(lake, made)] == [2, 3]
    [row] = offsets_of(lake, made)
    assert (row["covered"], row["quarantined"]) == ([[0, 2], [4, 6]], [[2, 4]])


def test_L1_a_covered_record_with_other_headers_takes_no_part_in_the_fold(
    fold: Callable[..., BatchRun], dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    """A tool gave the copy of x0 the message id of x1, and an earlier time: x1 is new all the same."""
    made = entries_of(dataset)
    fold(made, [entry(0, "1")])
    mixed = fold(made, [entry(0, "1", "m1", at=1), entry(1, "2")])
    assert counts(lake, made, mixed) == {"applied": {"insert": 1}, "duplicate": {"position": 1}}
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["x0", "x1"]
    assert prove(session, lake, made).holds


@pytest.mark.nightly(reason="what lakes of earlier releases have")
def test_without_a_kept_content_a_copy_is_a_duplicate_and_the_gate_says_so(
    fold: Callable[..., BatchRun], dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    made = entries_of(dataset)
    fold(made, [entry(0, "1"), entry(1, "1")])
    session.sql(f"UPDATE {verdict_table(made)} SET content = NULL WHERE offset = 1")
    again = fold(made, [entry(0, "1"), entry(1, "2"), entry(2, "1")])
    assert counts(lake, made, again) == {"applied": {"insert": 1}, "duplicate": {"position": 2}}
    warned = check_of(lake, made, again, "positions_compared")
    assert (warned.status, warned.severity, warned.observed) == ("failed", "warning", "1")
    assert prove(session, lake, made).holds
