"""Mode increment: sums are those of messages counted once, whatever the order, split and overlap of batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import SumOverflowError
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.maintenance.tables import expire
from onefold.operations.forget import forget
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.quality.branch_facts import unequal_sums
from onefold.report.changes import changes_of
from onefold.report.explain import explain_sum
from onefold.report.ledger import rows_of
from onefold.tables.names import CATALOG, state_table
from onefold.upsert.documents import Upserted
from tests.support.pipeline import Sent, export, increments, moved, run
from tests.support.plans import Executed, last_statement, statements


@pytest.fixture
def stock(dataset: Callable[..., Dataset]) -> Dataset:
    """`stock` and `worth` of an article are what its movements add up to."""
    return increments(dataset, {"delta": "long", "worth": "decimal(9,2)"}, {"stock": "delta", "worth_in_all": "worth"})


def count_verdicts(done: BatchRun) -> dict[str, int]:
    """Verdicts of a published batch."""
    assert done.published, done.red
    return {f"{verdict}/{reason}": n for verdict, count in done.published.counts.items() for reason, n in count.items()}


def sums(lake: Lake, dataset: Dataset) -> dict[str, tuple[int, str]]:
    """The published sums by article."""
    return {row["id"]: (row["stock"], row["worth_in_all"]) for row in rows_of(lake, dataset)}


def oracle(records: Iterable[Sent]) -> dict[str, tuple[int, str]]:
    """Of each message the first in the order counts, by plain Python."""
    first: dict[str, Sent] = {}
    for record in records:
        winner = first.setdefault(record.message_id, record)
        if (record.at, record.partition, record.offset) < (winner.at, winner.partition, winner.offset):
            first[record.message_id] = record
    found: dict[str, list[dict[str, Any]]] = {}
    for record in first.values():
        assert isinstance(record.value, dict)
        found.setdefault(record.id, []).append(record.value)
    return {
        article: (sum(v["delta"] for v in values), f"{sum((Decimal(v['worth']) for v in values), Decimal(0)):.2f}")
        for article, values in found.items()
    }


def test_a_sum_with_a_piece_missing_is_red_unless_that_is_declared(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    strict = increments(dataset, {"delta": "long", "worth": "decimal(9,2)"}, {"stock": "delta"}, quality={})
    records = [moved(10, "a", "m1", 5), Sent(0, 11, 11, "a", 0, "m2", {"delta": None, "worth": "0"})]
    done = run(session, lake, strict, export(tmp_path / "one", records))
    assert done.red
    assert done.red.failed == ("rejected rate: found 0.5, wanted at most 0 [rejected_rate]",)


def test_a_message_is_added_once_and_a_smaller_one_takes_its_place(
    session: SparkSession, lake: Lake, stock: Dataset, tmp_path: Path
) -> None:
    first = run(
        session,
        lake,
        stock,
        export(
            tmp_path / "first",
            [
                moved(10, "a", "m1", 5, "1.50"),
                moved(11, "a", "m1", 5, "1.50"),
                moved(12, "a", "m2", -2),
                moved(13, "b", "m3", 7),
                moved(14, "c", "m4", 1),
                Sent(0, 15, 15, "c", 0, "m5", {"delta": None, "worth": "0"}),
            ],
        ),
    )
    assert count_verdicts(first) == {"applied/add": 4, "duplicate/message_id": 1, "rejected/null_value": 1}
    assert sums(lake, stock) == {"a": (3, "1.50"), "b": (7, "0.00"), "c": (1, "0.00")}
    mark = first.batch
    second = run(
        session,
        lake,
        stock,
        export(
            tmp_path / "second",
            [
                moved(12, "a", "m2", -2),  # read twice
                moved(20, "a", "m1", 5, "1.50"),  # sent again, later
                moved(3, "b", "m3", 9),  # an earlier record of m3 says 9: it wins
                moved(4, "d", "m4", 1),  # and an earlier one of m4 belongs to another article
                moved(21, "a", "m1", 6),  # other content under one id
            ],
        ),
    )
    assert count_verdicts(second) == {"duplicate/position": 1, "duplicate/message_id": 1, "conflict/same_identity": 3}
    assert sums(lake, stock) == {"a": (3, "1.50"), "b": (9, "0.00"), "d": (1, "0.00")}
    view = session.table(f"{CATALOG}.{stock.target.table}")
    assert (view.columns, view.count()) == (["id", "stock", "worth_in_all"], 3)
    assert {(row["change"], row["row"]["id"]) for row in changes_of(lake, stock, mark).rows} == {
        ("updated", "b"),
        ("deleted", "c"),
        ("inserted", "d"),
    }
    of_a = explain_sum(lake, stock, {"id": "a"})
    assert {(row["offset"], row["verdict"]) for row in of_a} == {
        (10, "applied"), (11, "duplicate"), (12, "applied"), (12, "duplicate"), (20, "duplicate"), (21, "conflict")
    }  # fmt: skip


def test_a_sum_is_asked_for_by_its_key_as_a_record_has_it(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    fields = {"delta": "long", "price": "decimal(9,2)", "at": "timestamp", "day": "date"}
    by = {"mode": "increment", "key": ["lower(key.id)", "price", "at", "day"], "add": {"stock": "delta"}}
    identity = {"message_id": "header.m"}
    shop = dataset("shop", key={"format": "json"}, value={"fields": fields}, identity=identity, apply=by)
    value = {"delta": 2, "price": "1.50", "at": "2026-03-02T01:00:00+01:00", "day": "2026-03-02"}
    assert run(session, lake, shop, export(tmp_path / "1", [Sent(0, 0, 1, "ABC", 0, "m", value)])).red is None
    [row] = rows_of(lake, shop)
    assert row["id"] == "abc"
    for key in (
        {"id": "ABC", "price": "1.5", "at": "2026-03-02", "day": "2026-03-02"},
        {"id": "abc", "price": "1.50", "at": "2026-03-02T00:00:00Z", "day": "2026-03-02"},
    ):
        assert [row["verdict"] for row in explain_sum(lake, shop, key)] == ["applied"]
        assert forget(lake, shop, [key], None, "mia", "asked to", dry_run=True)[1].keys == 1


@pytest.mark.nightly(reason="tests/property/test_decided.py tries every order and split of sums by day")
def test_L1_sums_are_a_function_of_the_set_in_any_order_split_and_overlap(
    session: SparkSession, lake: Lake, stock: Dataset, tmp_path: Path
) -> None:
    draw = random.Random(7)
    log = [
        moved(offset, f"a{draw.randrange(12)}", f"m{draw.randrange(90)}", draw.randrange(-3, 4),
              f"{draw.randrange(-500, 500) / 100:.2f}", draw.randrange(40))
        for offset in range(240)
    ]  # fmt: skip
    seen: set[int] = set()
    parts = [draw.sample(log, 80), draw.sample(log, 90), log]
    for number, part in enumerate(parts):
        shuffled = draw.sample(part, len(part)) + draw.sample(part, 10)
        before = last_statement(session)
        run(session, lake, stock, export(tmp_path / f"part-{number}", shuffled, files=2))
        seen |= {record.offset for record in part}
        assert sums(lake, stock) == oracle(record for record in log if record.offset in seen)
        if number:  # L8: of what the batch moves one, of the table none
            assert exchanges(session, before) == [0, 1, 0, 0, 0]


@pytest.mark.nightly(reason="histories of sums clear snapshots by day")
def test_L5_every_state_that_main_had_is_whole_and_the_last_of_them_outlive_an_expiry(
    session: SparkSession, lake: Lake, stock: Dataset, tmp_path: Path
) -> None:
    """Between what leaves with a batch and what comes there is a snapshot, to which `main` never led."""
    for number in range(3):  # each has an earlier record of the one message, which takes the entry's place
        run(session, lake, stock, export(tmp_path / str(number), [moved(10 - number, "a", "m1", 5 + number)]))
    name, table = state_table(stock), StateTable(lake, stock)
    main_snapshots = [row.snapshot_id for row in session.table(f"{name}.history").orderBy("made_current_at").collect()]
    seen = []
    for snapshot in main_snapshots[-3:]:
        rows = session.read.option("versionAsOf", str(snapshot)).table(name).orderBy("_state").collect()
        seen.append([(row._state, row.delta, row.stock) for row in rows])
    assert seen == [[("entry", 5 + number, None), ("live", None, 5 + number)] for number in range(3)]
    assert session.table(f"{name}.snapshots").count() == len(main_snapshots) + 2, (
        "what the second and the third took out"
    )
    assert [table.reach(states) for states in (1, 2, 3)] == [1, 3, 5]
    expire(session, ".".join(table.identifier), datetime.now(UTC), table.reach(2))
    assert [table.table.refresh().snapshot_by_id(snapshot) is not None for snapshot in main_snapshots[-3:]] == [
        False,
        True,
        True,
    ]


def exchanges(session: SparkSession, before: int) -> list[int]:
    """Of each write that reads the table, its exchanges."""
    return [write.exchanges for write in reading(session, before)]


def reading(session: SparkSession, before: int) -> list[Executed]:
    """The writes that read the table: the entries' look-up, the moves, the sums' look-up, the delete, the append."""
    return [write for write in statements(session, before) if write.writes and "stock__state_" in write.text]


@pytest.mark.nightly(reason="test_plans asks it of other modes by day")
def test_L8_a_look_up_reads_only_the_buckets_that_the_batch_has(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    counted = increments(dataset, {"delta": "long"}, {"stock": "delta"}, target={"table": "tests.stock", "buckets": 8})
    many = [moved(number, f"a{number}", f"m{number}", 1) for number in range(40)]
    all_again = [moved(100 + number, f"a{number}", f"m{100 + number}", 1) for number in range(40)]
    threshold = session.conf.get("spark.sql.autoBroadcastJoinThreshold")
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # as if the batch were large
    read = {}
    try:
        for name, records in (("many", many), ("one", [moved(50, "a1", "m50", 1)]), ("all", all_again)):
            before = last_statement(session)
            run(session, lake, counted, export(tmp_path / name, records))
            read[name] = [write.splits.get("stock__state_", 0) for write in reading(session, before)]
    finally:
        session.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold or "10485760")
    assert read["one"] == [1, 1, 2, 0], "the entry's look-up, the sum's, what leaves of both, and what is appended"
    assert min(read["all"][:-1]) > 2, "so that the line above can fail"


def test_a_sum_that_does_not_fit_stops_the_batch_and_moves_nothing(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    largest = 2**63 - 1
    counted = increments(dataset, {"delta": "long", "worth": "string?"}, {"stock": "delta"})
    run(session, lake, counted, export(tmp_path / "first", [moved(1, "a", "m1", largest), moved(2, "b", "m2", 1)]))
    with pytest.raises(SumOverflowError, match=r'stock: stock would be larger than .* \{"id":"a"\}\. The published'):
        run(session, lake, counted, export(tmp_path / "second", [moved(3, "a", "m3", 1), moved(4, "b", "m4", 1)]))
    assert {row["id"]: row["stock"] for row in rows_of(lake, counted)} == {"a": largest, "b": 1}
    # In one batch the order of adding does not matter: only what comes out has to fit.
    within = [moved(5, "a", "m5", 1), moved(6, "a", "m6", -1), moved(7, "a", "m7", 1), moved(8, "a", "m8", -1)]
    run(session, lake, counted, export(tmp_path / "third", within))
    assert {row["id"]: row["stock"] for row in rows_of(lake, counted)} == {"a": largest, "b": 1}


@pytest.mark.nightly(reason="tests/unit/test_checks.py has the count that breaks a law")
def test_the_gate_sees_a_sum_that_is_not_that_of_its_entries(
    session: SparkSession, lake: Lake, stock: Dataset, tmp_path: Path
) -> None:
    run(session, lake, stock, export(tmp_path / "first", [moved(1, "a", "m1", 5), moved(2, "b", "m2", 1)]))
    plan = plan_batch(lake, stock, export=str(export(tmp_path / "second", [moved(3, "a", "m3", 1)])))
    done = run_batch(lake, stock, plan, InSession(lake, session))
    upserted = lake.get(lake_keys.latest(stock, done.batch), Upserted)
    assert upserted
    assert unequal_sums(session, stock, upserted) == 0
    for wrong in ("stock = stock + 1", "_entries = _entries + 1", "worth_in_all = worth_in_all - 0.01"):
        session.sql(f"UPDATE {state_table(stock)} SET {wrong} WHERE _state = 'live' AND id = 'a'")
        [(head,)] = session.sql(f"SELECT snapshot_id FROM {state_table(stock)}.refs WHERE name = 'main'").collect()
        assert unequal_sums(session, stock, upserted.model_copy(update={"head": head})) == 1
