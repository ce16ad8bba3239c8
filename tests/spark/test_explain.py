"""Why it is there twice: causes, producers and findings of real batches, and `explain` for a key or a position."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.offsets import Position
from onefold.report.document import Report, describe
from onefold.report.explain import explain, explain_position
from onefold.report.ledger import And, equal, one_of, open_catalog, records_of
from onefold.tables.key_digest import digest_of_key
from onefold.tables.names import STAGING, verdict_name
from sample import kcat
from tests.support.files import away, state_files, verdict_files
from tests.support.pipeline import run

MakeDataset = Callable[..., Dataset]


@dataclass(frozen=True, slots=True)
class Line:
    """A record of a named producer: `sent` is its sequence, `id` its business key."""

    offset: int
    producer: str | None
    sent: int
    message: str
    id: str | None
    partition: int = 0
    at: int = 0

    def line(self) -> bytes:
        """As kcat prints it; the timestamp is the offset in seconds, and `at` more."""
        headers = [("m", self.message.encode())]
        if self.producer:
            headers += [("p", self.producer.encode()), ("s", str(self.sent).encode())]
        return kcat.line(
            kcat.Record(
                topic="t",
                partition=self.partition,
                offset=self.offset,
                ts=1000 * (self.offset + self.at),
                broker=1,
                headers=tuple(headers),
                key=None,
                value=json.dumps({"id": self.id} if self.id else {}).encode(),
            )
        )


def put(folder: Path, **files: list[Line]) -> Path:
    folder.mkdir()
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(line.line() for line in lines))
    return folder


FIRST = {
    "a": [
        Line(0, "till-1", 1, "m1", "e1"),
        Line(1, "till-1", 2, "m2", "e2"),
        Line(2, "till-1", 2, "m2", "e2"),  # a lost acknowledgement
        Line(3, "till-1", 3, "m2", "e2"),  # the code around the client tried again
        Line(4, "till-2", 1, "m2", "e2"),  # a restart under another name
        Line(5, None, 0, "m3", "e2"),  # the button, twice
        Line(0, "till-1", 1, "m1", "e1"),  # twice in one file
        Line(6, "till-1", 7, "m7", "e7"),  # 4, 5 and 6 are missing
    ],
    "b": [Line(1, "till-1", 2, "m2", "e2"), Line(0, "till-1", 1, "m2", "e2", partition=1, at=60)],
}
SECOND = {
    "c": [
        Line(6, "till-1", 7, "m7", "e7"),  # the exports overlap
        Line(7, "till-1", 8, "m8", "e8"),
        Line(8, None, 0, "m9", "e1"),  # against the table
        Line(9, None, 0, "m10", None),
    ]
}
THIRD = {"d": [Line(10, "till-1", 6, "m11", "e11"), Line(11, "till-1", 9, "m12", "e12")]}  # counts from 6 again
FOURTH = {
    "e": [
        Line(12, "till-1", 7, "m7", "e7"),  # the broker has forgotten till-1, and takes 7 again
        Line(13, "till-1", 10, "m13", "e13"),
        Line(14, "till-1", 10, "m13", "e13"),  # a lost acknowledgement, as above
    ]
}


@dataclass(frozen=True, slots=True)
class Published:
    """Four batches of the lake, and their reports."""

    lake: Lake
    dataset: Dataset
    reports: list[Report]


@pytest.fixture(scope="module")
def published(
    session_on: Callable[[Lake], SparkSession],
    lake_in: Callable[[Path], Lake],
    dataset: MakeDataset,
    tmp_path_factory: pytest.TempPathFactory,
) -> Published:
    folder = tmp_path_factory.mktemp("explain")
    lake = lake_in(folder)
    made = dataset(
        "entries",
        identity={
            "producer": {"name": "header.p", "sequence": "header.s"},
            "message_id": "header.m",
            "business_key": ["id"],
        },
        target={"table": "tests.entries", "buckets": 4},
    )
    session, reports = session_on(lake), []
    for name, files in (("first", FIRST), ("second", SECOND), ("third", THIRD), ("fourth", FOURTH)):
        done = run(session, lake, made, put(folder / name, **files))
        assert done.red is None, done.red
        reports.append(describe(lake, made, done.batch))
    return Published(lake, made, reports)


@pytest.mark.nightly(
    reason="test_survivors names the narrowest level by day, and tests/process/test_runs.py explains a key"
)
def test_duplicates_have_the_reason_of_the_narrowest_level(published: Published) -> None:
    assert published.reports[0].counts["duplicate"] == {
        "position": 2,
        "producer": 1,
        "message_id": 3,
        "business_key": 1,
    }
    assert published.reports[1].counts["duplicate"] == {"position": 1, "business_key": 1}


@pytest.mark.nightly(reason="tests/unit/test_causes.py has each cause")
def test_each_cause_is_reported_with_its_evidence(published: Published) -> None:
    first, second, _, fourth = (
        {cause.cause.name: (cause.records, cause.seconds) for cause in report.causes} for report in published.reports
    )
    assert first == {
        "written twice by the exporter": (1, (0, 0)),
        "exported twice": (1, (0, 0)),
        "retry after a lost acknowledgement": (1, (1, 1)),
        "sent again by the client": (1, (2, 2)),
        "sent again after a restart": (1, (3, 3)),
        "sent again by the application": (1, (4, 4)),
        "sent again to another place": (1, (59, 59)),
    }
    assert second == {"read again": (1, (0, 0)), "sent again by the application": (1, (8, 8))}
    assert fourth == {"accepted again under its name": (1, (6, 6)), "retry after a lost acknowledgement": (1, (1, 1))}


def test_the_sequence_rule_is_reported_and_removes_nothing(published: Published) -> None:
    found = published.reports[0].producers
    assert found is not None
    assert (found.sessions, found.outcomes, found.missing) == (
        3,
        {"accepted": 5, "repeat": 1, "gap": 1, "fenced": 0},
        3,
    )
    assert [len(report.come_again) for report in published.reports] == [0, 0, 1, 1]
    (stale,) = published.reports[2].come_again
    assert (stale.session.start, stale.session.lowest, stale.highest.sequence, stale.highest.offset) == (10, 6, 8, 7)
    assert published.reports[2].counts == {"applied": {"insert": 2}}
    highest = [
        {sequence.producer: sequence.sequence for sequence in report.highest if "/0" in sequence.partition}
        for report in published.reports
    ]
    assert highest == [{"till-1": top, "till-2": 1} for top in (7, 8, 9, 10)]
    assert {report.left_out for report in published.reports} == {0}


def test_explain_tells_every_record_of_a_key_and_the_row_that_it_became(published: Published) -> None:
    rows = explain(published.lake, published.dataset, digest_of_key(published.dataset, {"id": "e1"}))
    seen = [(row["offset"], row["verdict"], row["reason"], row["scope"], row["row"]) for row in rows]
    row = {"_state": "live", "id": "e1"}
    assert seen == [
        (0, "applied", "insert", "in_batch", row),
        (0, "duplicate", "position", "in_batch", row),
        (8, "duplicate", "business_key", "stored", None),
    ]
    assert [row["batch"] for row in rows] == [published.reports[0].batch] * 2 + [published.reports[1].batch]


def test_explain_of_a_position_is_that_of_its_key_or_of_the_record_alone(published: Published) -> None:
    by_key = explain(published.lake, published.dataset, digest_of_key(published.dataset, {"id": "e1"}))
    assert explain_position(published.lake, published.dataset, Position("t", 0, 8)) == by_key
    (rejected,) = explain_position(published.lake, published.dataset, Position("t", 0, 9))
    assert (rejected["verdict"], rejected["key"], rejected["row"]) == ("rejected", None, None)
    assert explain_position(published.lake, published.dataset, Position("t", 0, 77)) == []
    assert explain_position(published.lake, published.dataset, Position("other", 0, 8)) == []


def test_explain_reads_one_bucket_of_the_attempts_not_the_table(published: Published) -> None:
    """Planned files of the verdict table: of a key its bucket alone, of a position those that can hold the offset."""
    table = open_catalog(published.lake).load_table((STAGING, verdict_name(published.dataset)))
    attempts = [record.attempt for record in records_of(published.lake, published.dataset)]

    def files(wanted: Any) -> int:
        return len(list(table.scan(row_filter=And(wanted, one_of("attempt", attempts))).plan_files()))

    everything = files(equal("topic", "t"))
    of_key = files(equal("key", digest_of_key(published.dataset, {"id": "e1"})))
    assert (of_key, everything > 4) == (2, True)  # a file a batch that has it
    assert 1 <= files(equal("offset", 9)) < everything


def elsewhere(folder: Path, column: str, digest: bytes) -> list[Path]:
    """Files of a table that lie in other buckets than a key does."""
    files = [path for path in folder.rglob("*.parquet") if not path.name.endswith("-deletes.parquet")]

    def bucket(file: Path) -> str:
        parts = file.relative_to(folder).parts[:-1]
        return "/".join(part for part in parts if not part.startswith("attempt="))

    mine = {bucket(file) for file in files if digest in pq.read_table(file)[column].to_pylist()}
    assert len(mine) == 1
    return [file for file in files if bucket(file) not in mine]


def test_L8_explain_of_a_key_opens_files_of_its_bucket_only(published: Published) -> None:
    """Whatever lies in other buckets is taken away meanwhile, rows and verdicts."""
    digest, other = (digest_of_key(published.dataset, {"id": id_}) for id_ in ("e13", "e1"))
    by_key = explain(published.lake, published.dataset, digest)
    assert [(row["offset"], row["verdict"], bool(row["row"])) for row in by_key] == [
        (13, "applied", True),
        (14, "duplicate", False),
    ]
    verdicts = elsewhere(verdict_files(published.lake, published.dataset), "key", digest)
    rows = elsewhere(state_files(published.lake, published.dataset), "_key", digest)
    for gone in (verdicts, rows):
        assert gone
        with away(gone):
            assert explain(published.lake, published.dataset, digest) == by_key
            with pytest.raises(FileNotFoundError):
                explain(published.lake, published.dataset, other)


def test_L8_explain_of_a_position_opens_files_that_can_hold_it_and_its_keys_bucket_only(published: Published) -> None:
    """Taken away: verdicts of other buckets whose offsets end before it, and rows of other buckets."""
    digest = digest_of_key(published.dataset, {"id": "e13"})
    by_key = explain(published.lake, published.dataset, digest)
    verdicts = [
        file
        for file in elsewhere(verdict_files(published.lake, published.dataset), "key", digest)
        if max(pq.read_table(file)["offset"].to_pylist()) < 13
    ]
    assert (
        len({file.relative_to(verdict_files(published.lake, published.dataset)).parts[0] for file in verdicts}) >= 3
    ), "attempts"
    with away([*verdicts, *elsewhere(state_files(published.lake, published.dataset), "_key", digest)]):
        assert explain_position(published.lake, published.dataset, Position("t", 0, 13)) == by_key
        with pytest.raises(FileNotFoundError):
            explain_position(published.lake, published.dataset, Position("t", 0, 0))


def test_the_row_of_a_key_has_every_column_that_readers_see(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    """As of a Mongo document, whose key is `_id`."""
    apply = {"mode": "upsert", "key": ["key._id"], "version": {"from": "offset"}}
    made = dataset("mongo", key={"format": "json"}, value={"fields": {"n": "int"}}, apply=apply)
    sent = kcat.Record(
        topic="t", partition=0, offset=1, ts=1, broker=1, headers=(), key=b'{"_id": "a"}', value=b'{"n": 1}'
    )
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "a.jsonl").write_bytes(kcat.line(sent))
    assert run(session, lake, made, tmp_path / "export").red is None
    [found] = explain(lake, made, digest_of_key(made, {"_id": "a"}))
    assert found["row"] == {"_state": "live", "_id": "a", "n": 1}
