"""`identity.within`: a period is part of the identity, and bounds what the look-up and the merge read (L8)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dedup.identity import identify
from onefold.lake import Lake
from onefold.offsets import Position
from onefold.operations.run import BatchRun
from onefold.report.changes import changes_of
from onefold.report.explain import explain, explain_position
from onefold.report.ledger import records_of, rows_of
from onefold.tables import staging as C
from onefold.tables.key_digest import digest_of_key, period_of_key
from onefold.values.decode import decode
from tests.support.envelopes import envelope, record
from tests.support.files import away, state_files, verdict_files
from tests.support.pipeline import Sent, export, run
from tests.support.plans import Executed, last_statement, statements

DAYS = (1, 2, 3, 4, 5)


def booked(dataset: Callable[..., Dataset], within: str = "day(at)") -> Dataset:
    """Append by the id in the value, of one day."""
    return dataset(
        "booked",
        value={"fields": {"id": "string", "at": "timestamp?", "credit": "long"}},
        identity={"message_id": "header.m", "business_key": ["id"], "within": within},
        target={"table": "tests.booked", "buckets": 2},
    )


def sent(offset: int, key: str, at: str | None, credit: int = 1, message: str = "") -> Sent:
    return Sent(0, offset, 100 + offset, key, 1, message or f"m{offset}", {"id": key, "at": at, "credit": credit})


LATE = (
    sent(70, "k3", "2026-03-02T03:00:00Z", message="m23"),
    sent(71, "new", "2026-03-02T23:59:59.999Z"),
    sent(5, "k4", "2026-03-02T20:00:00Z", credit=9),
)
"""Of one day: a retry, a new record, and an earlier one that takes a row's place."""


def counts(done: BatchRun) -> dict[str, int]:
    assert done.published is not None, done.red
    counted = done.published.counts.items()
    return {f"{name}/{reason}": count for name, reasons in counted for reason, count in reasons.items()}


@dataclass
class Days:
    """Ten keys on each of five days in one batch, `LATE` in the next, and what came behind them."""

    lake: Lake
    session: SparkSession
    dataset: Dataset
    folder: Path
    plans: dict[str, list[Executed]] = field(default_factory=dict)

    def run(self, name: str, *records: Sent) -> BatchRun:
        before = last_statement(self.session)
        done = run(self.session, self.lake, self.dataset, export(self.folder / name, records))
        self.plans[name] = list(statements(self.session, before))
        return done

    def read(self, name: str) -> list[int]:
        """Splits of the table that each statement of a batch read, whatever it was for."""
        return [plan.splits["booked__state_"] for plan in self.plans[name] if "booked__state_" in plan.splits]

    def splits(self, name: str) -> list[int]:
        """Splits of the table that each writing statement of a batch read; none of them shuffles."""
        writes = [plan for plan in self.plans[name] if plan.writes and "booked__state_" in plan.splits]
        assert [write.exchanges for write in writes] == [0] * len(writes)
        return [write.splits["booked__state_"] for write in writes]


@pytest.fixture(scope="module", params=[False, True], ids=["", "narrow"])
def days(
    request: pytest.FixtureRequest,
    session_on: Callable[[Lake], SparkSession],
    lake_in: Callable[[Path], Lake],
    dataset: Callable[..., Dataset],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Days]:
    folder = tmp_path_factory.mktemp("within")
    lake = lake_in(folder)
    session = session_on(lake)
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # as if the batches were large
    made = Days(lake, session, booked(dataset), folder)
    records = [sent(10 * day + n, f"k{n}", f"2026-03-0{day}T{n:02}:00:00Z") for day in DAYS for n in range(10)]
    late = {"applied/insert": 1, "conflict/same_identity": 1, "duplicate/message_id": 1}
    with pytest.MonkeyPatch.context() as patch:
        if request.param:  # as if the table were large compared with the batches
            patch.setattr("onefold.spark.key_filter.LARGE", 0)
        assert counts(made.run("first", *records)) == {"applied/insert": 50}
        assert counts(made.run("late", *LATE)) == late
        yield made


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_one_key_in_five_days_is_five_rows(days: Days) -> None:
    assert sorted(row["at"][:10] for row in rows_of(days.lake, days.dataset) if row["id"] == "k3") == [
        f"2026-03-0{day}" for day in DAYS
    ]


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_look_up_and_merge_open_files_of_the_batch_s_days_only(days: Days) -> None:
    everywhere = [sent(60 + day, "k3", f"2026-03-0{day}T03:00:00Z", message=f"m{day}3") for day in DAYS]
    assert counts(days.run("everywhere", *everywhere)) == {"duplicate/message_id": 5}
    # A split is a file here: nothing reads more than the day's, two buckets and what is added; the gate included.
    assert max(days.read("late")) <= 3
    assert len(days.splits("late")) == 2, "the look-up and the merge"
    assert max(days.read("everywhere")) >= len(DAYS)


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_a_record_without_its_period_is_rejected_and_the_next_look_up_is_not_widened(days: Days) -> None:
    done = days.run("nothing", sent(80, "k3", None), sent(81, "k3", "2026-03-04T03:00:00Z", message="m43"))
    assert counts(done) == {"duplicate/message_id": 1, "rejected/null_identity": 1}
    assert days.splits("nothing") == [1]


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_explain_finds_a_key_by_any_instant_of_its_period(days: Days) -> None:

    def explain_at(at: str) -> list[dict[str, Any]]:
        key = {"id": "k7", "at": at}
        return explain(days.lake, days.dataset, digest_of_key(days.dataset, key), period_of_key(days.dataset, key))

    by_day = {
        at: explain_at(at) for at in ("2026-03-03", "2026-03-03T07:00:00Z", "2026-03-04T01:00:00+02:00", "2026-03-06")
    }
    assert [(row["offset"], row["row"]["credit"]) for row in by_day["2026-03-03"]] == [(37, 1)]
    assert by_day["2026-03-03"] == by_day["2026-03-03T07:00:00Z"] == by_day["2026-03-04T01:00:00+02:00"]
    assert by_day["2026-03-06"] == []


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_explain_opens_files_of_the_key_s_period_only(days: Days) -> None:
    """Whatever lies in other periods is taken away meanwhile: rows, and verdicts of batches that have none of it."""
    asked = {"id": "k7", "at": "2026-03-04"}
    digest, period = digest_of_key(days.dataset, asked), period_of_key(days.dataset, asked)
    assert period == "2026-03-04"
    rows = explain(days.lake, days.dataset, digest)
    assert (rows[0]["offset"], rows[0]["verdict"], rows[0]["row"]["id"]) == (47, "applied", "k7")
    at = explain_position(days.lake, days.dataset, Position("t", 0, 70))
    found = {(row["offset"], row["verdict"], bool(row["row"])) for row in at}
    assert found >= {(23, "applied", True), (70, "duplicate", False)}
    with without_others(days, period) as gone:
        assert gone, "the batch late has nothing of this day"
        assert explain(days.lake, days.dataset, digest, period) == rows
        with pytest.raises(FileNotFoundError):
            explain(days.lake, days.dataset, digest)
    with without_others(days, "2026-03-02"):  # that of the batch late, which the position is of
        assert explain_position(days.lake, days.dataset, Position("t", 0, 70)) == at


@contextlib.contextmanager
def without_others(days: Days, period: str) -> Iterator[list[str]]:
    """Takes files of other periods away, and those of batches that have no record of this one; gives these batches."""
    others = [
        committed.attempt for committed in records_of(days.lake, days.dataset) if period not in (committed.within or ())
    ]
    gone = [verdict_files(days.lake, days.dataset) / f"attempt={attempt}" for attempt in others]
    gone += [path for path in state_files(days.lake, days.dataset).iterdir() if path.name != f"_within={period}"]
    assert len(gone) >= len(others) + len(DAYS) - 1  # rejected records, which have no day, lie apart
    with away(gone):
        yield others


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_changes_are_listed_period_by_period(days: Days) -> None:
    until = changes_of(days.lake, days.dataset).until
    assert until
    mark = until.plain()["snapshot"]
    days.run("changes", sent(90, "k8", "2026-03-01T08:00:00Z"), sent(91, "x", "2026-03-05T00:00:00Z", 7))
    found = [(row["change"], row["row"]["id"]) for row in changes_of(days.lake, days.dataset, mark).rows]
    assert found == [("inserted", "x")]


BEGINS = {
    # period: of 2026-03-09T23:30 at two hours west of Greenwich, of the last instant of 1969, of a leap day
    "hour(at)": ("2026-03-10 01:00:00", "1969-12-31 23:00:00", "2024-02-29 00:00:00"),
    "day(at)": ("2026-03-10", "1969-12-31", "2024-02-29"),
    "month(at)": ("2026-03-01", "1969-12-01", "2024-02-01"),
    "year(at)": ("2026-01-01", "1969-01-01", "2024-01-01"),
}


@pytest.mark.parametrize("within", BEGINS)
def test_a_period_begins_in_utc_for_records_and_for_keys_that_are_typed(
    spark: SparkSession, dataset: Callable[..., Dataset], within: str
) -> None:
    instants = ("2026-03-09T23:30:00-02:00", "1969-12-31T23:59:59.999999Z", "2024-02-29T00:00:00Z")
    made = booked(dataset, within)
    values = [json.dumps({"id": "k", "at": at, "credit": 1}).encode() for at in instants]
    records = envelope(spark, [record("", value, offset=n) for n, value in enumerate(values)])
    rows = identify(decode(records, made), made).orderBy(f"{C.ORDER}.offset").select(C.KEY, C.WITHIN).collect()
    assert tuple(str(row[C.WITHIN]) for row in rows) == BEGINS[within]
    assert [bytes(row[C.KEY]) for row in rows] == [digest_of_key(made, {"id": "k", "at": at}) for at in instants]
