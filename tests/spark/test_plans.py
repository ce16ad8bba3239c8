"""What moves and what is read: the physical plans of a real batch, as Spark ran them (L8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dataset.reserved_columns import FLAT_ORDER
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.tables import staging as C
from onefold.tables import state as S
from spark_jobs import dedup
from tests.support.pipeline import Sent, accounts, export, run
from tests.support.plans import Executed, last_statement, statements

BUCKETS = 8
PRODUCER = {f"{C.PRODUCER}_{part}" for part in ("name", "epoch", "sequence")}
"""The producer's columns in tables."""
SUITE = """
expectations:
  - type: expect_column_values_to_not_be_null
    kwargs: {column: owner}
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """The statements of a batch that write: staging, actions, new rows of the ledger of messages, deletes (if the batch
    has any), appends."""

    staging: Executed
    actions: Executed
    messages: Executed
    delete: Executed | None
    append: Executed
    gate: list[Executed]
    """The later statements that read the table."""


@pytest.fixture(scope="module", params=[False, True], ids=["", "narrow"])
def narrow(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the table counts as large, compared with the batch."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param:
            patch.setattr("onefold.spark.key_filter.LARGE", 0)
        yield request.param


@pytest.fixture(scope="module")
def batches(
    narrow: bool,
    session_on: Callable[[Lake], SparkSession],
    lake_in: Callable[[Path], Lake],
    dataset: Callable[..., Dataset],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Batch]:
    """A first batch of many keys, one that updates a single key, and one that updates them all.

    The dataset of the first two has a suite, which all rows of the first pass. The first and the last batch hold a
    rejected record, too.
    """
    folder = tmp_path_factory.mktemp("plans")
    lake = lake_in(folder)
    session = session_on(lake)
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # as if the batch were large
    without_suite = accounts(dataset, target={"table": "tests.accounts", "buckets": BUCKETS})
    with_suite = accounts(
        dataset,
        target={"table": "tests.accounts", "buckets": BUCKETS},
        quality={"suite": "suite.yaml", "max_conflicts": 100, "max_rejected_rate": 1.0},
    )
    suite = lake.settings.expectations_folder / "suite.yaml"
    suite.parent.mkdir(parents=True)
    suite.write_text(SUITE)
    first = [Sent(0, n, 100 + n, f"k{n % 20}", 1, f"m{n}", {"owner": "o", "credit": n}) for n in range(24)]
    first.append(Sent(0, 24, 124, "k0", 1, "m24", "no json"))
    second = [Sent(0, 30, 200, "k1", 2, "m30", {"owner": "p"}), Sent(0, 31, 201, "k1", 3, "m31", {"owner": "q"})]
    batches = []
    third = [Sent(0, 40 + n, 300 + n, f"k{n}", 4, f"m{40 + n}", {"owner": "r"}) for n in range(20)]
    third.append(Sent(0, 60, 320, "k0", 5, "m60", "no json"))
    for name, made, records in (
        ("first", with_suite, first),
        ("second", with_suite, second),
        ("third", without_suite, third),
    ):
        before = last_statement(session)
        assert run(session, lake, made, export(folder / name, records)).red is None
        executed = list(statements(session, before))
        # Without the first snapshot of a table; the verdicts are written next to the merge.
        writes = [write for write in executed if write.writes and "+- LocalTableScan (1)" not in write.tree]
        staging, actions, messages, *delete, append = (write for write in writes if "__verdicts_" not in write.text)
        gate = [
            read for read in executed[executed.index(append) :] if "accounts__state_" in read.tree and not read.writes
        ]
        batches.append(Batch(staging, actions, messages, delete[0] if delete else None, append, gate))
    return batches


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_staging_is_written_after_exactly_one_exchange(batches: list[Batch]) -> None:
    for batch in batches:
        operators = [batch.staging.tree.count(f"{name} (") for name in ("Window", "Sort")]
        # By key and version; by key and message id; and narrow rows in the log's order, to see what goes backwards. A
        # header has the version: so the deliveries of a message, and those of a key in the order that decides.
        assert (batch.staging.exchanges, operators) == (1, [6, 5])
        assert "direct_shuffle_partition_id(_slot#" in batch.staging.describe("Exchange")
        assert "REPARTITION_BY_NUM" in batch.staging.describe("Exchange")


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_the_look_up_joins_without_an_exchange(batches: list[Batch]) -> None:
    for batch in batches:
        assert batch.actions.exchanges == 0
    # An empty table has nothing to join with, and Spark finds that out.
    joins = ["SortMergeJoin LeftOuter" in batch.actions.tree for batch in batches]
    assert joins == [False, True, True]


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_the_look_up_reads_key_order_and_hash_columns_of_the_base_only(batches: list[Batch]) -> None:
    expected = {C.KEY, *FLAT_ORDER.values(), C.VERSION, C.HASH, C.MESSAGE_ID, S.STATE, S.MESSAGE}
    assert [batch.actions.scanned("accounts__state_") for batch in batches] == [expected] * 3


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_the_look_up_reads_the_base_by_vectors(batches: list[Batch], levels: Levels) -> None:
    for actions in (*(batch.actions for batch in batches[1:]), levels.actions):
        assert actions.by_vectors("__state_")


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_the_look_up_reads_the_batch_by_vectors_where_no_record_keeps_its_bytes(batches: list[Batch]) -> None:
    assert [batch.actions.by_vectors("accounts__staged_") for batch in batches] == [False, True, False]


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_pure_inserts_append_without_reading_the_table(batches: list[Batch]) -> None:
    assert batches[0].delete is None
    for batch in batches:
        for append in (batch.append, batch.messages):
            assert (append.writes, append.exchanges, "accounts__state_" in append.tree) == ("AppendData", 0, False)


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_the_merge_shuffles_nothing_and_reads_no_payload_of_the_table(batches: list[Batch], narrow: bool) -> None:
    for delete in (batches[1].delete, batches[2].delete):
        assert delete
        assert (delete.writes, delete.exchanges, "SortMergeJoin" in delete.tree) == ("WriteDelta", 0, not narrow)
        assert ("Sort (" in delete.tree) == (not narrow)
        assert delete.scanned("accounts__state_") == {C.KEY, S.STATE, "_file", "_pos", "_spec_id", "_partition"}


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_of_a_large_table_only_keys_that_the_batch_may_have_are_sorted(batches: list[Batch], narrow: bool) -> None:
    for batch in batches[1:]:
        assert batch.delete
        for statement in (batch.actions, batch.delete):
            assert ("BroadcastHashJoin LeftSemi" in statement.tree) == narrow
            whole = 2 if statement is batch.actions else 1  # rows, and the ledger of messages
            assert statement.sorts_whole("accounts__state_") == (0 if narrow else whole), "the join comes first"


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_the_gate_reads_no_payload_where_the_dataset_has_no_suite(batches: list[Batch]) -> None:
    gate = batches[2].gate
    assert gate
    read = set[str]().union(*(statement.scanned("accounts__state_") for statement in gate))
    assert C.KEY in read
    assert not read & {"owner", "credit"}


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_for_a_suite_the_gate_reads_the_payload_that_the_batch_appended(batches: list[Batch]) -> None:
    gate = batches[1].gate
    payload_reads = [read for read in gate if read.scanned("accounts__state_") & {"owner", "credit"}]
    assert payload_reads
    assert max(read.splits["accounts__state_"] for read in payload_reads) == 1  # 0: from the cache
    # Its bucket has the first batch's file, too; of that file keys are read.
    assert max(read.splits.get("accounts__state_", 0) for read in gate) == 2


@pytest.mark.by_day("narrow", why="the other plan differs in its filter alone")
def test_L8_look_up_and_merge_read_only_buckets_that_the_batch_has(batches: list[Batch]) -> None:
    one_key, all_keys = batches[1], batches[2]
    assert one_key.delete
    assert all_keys.delete
    assert (one_key.actions.splits, one_key.delete.splits) == ({"accounts__state_": 1}, {"accounts__state_": 1})
    assert all_keys.actions.splits["accounts__state_"] > 1  # so that the line above can fail
    assert all_keys.delete.splits["accounts__state_"] > 1


@pytest.mark.nightly(reason="the other modes' plans are read by day")
def test_L8_in_mode_increment_only_keys_that_the_batch_may_have_are_sorted(
    narrow: bool,
    session_on: Callable[[Lake], SparkSession],
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
) -> None:
    session = session_on(lake)
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    made = dataset(
        "accounts",
        key={"format": "json"},
        value={"fields": {"credit": "decimal(9,2)"}},
        identity={"message_id": "header.m"},
        apply={"mode": "increment", "key": ["key.id"], "add": {"sum": "credit"}},
    )
    first = [Sent(0, n, 100 + n, f"k{n}", 1, f"m{n}", {"credit": "1.00"}) for n in range(20)]
    second = [Sent(0, 20 + n, 200 + n, f"k{n}", 2 + n, f"m{20 + n}", {"credit": "2.00"}) for n in range(3)]
    second.append(Sent(0, 30, 50, "k5", 1, "m5", {"credit": "1.00"}))  # earlier than the stored delivery
    assert run(session, lake, made, export(tmp_path / "first", first)).red is None
    before = last_statement(session)

    assert run(session, lake, made, export(tmp_path / "second", second)).red is None

    whole = sum(statement.sorts_whole("accounts__state_") for statement in statements(session, before))
    assert (whole > 0) != narrow


@dataclass(frozen=True, slots=True)
class Levels:
    """A batch whose dataset declares every level: the statements of dedup that shuffle, and the look-up."""

    dedup: list[Executed]
    actions: Executed


@pytest.fixture(scope="module")
def levels(
    session_on: Callable[[Lake], SparkSession],
    lake_in: Callable[[Path], Lake],
    dataset: Callable[..., Dataset],
    tmp_path_factory: pytest.TempPathFactory,
) -> Levels:
    """The second batch of a table; two producers, offsets with a hole, keys that are new, stored and repeated."""
    folder = tmp_path_factory.mktemp("levels")
    lake = lake_in(folder)
    session = session_on(lake)
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    made = dataset(
        "entries",
        key={"format": "json"},
        value={"fields": {"id": "string", "credit": "long"}},
        identity={
            "producer": {"name": "key.id", "sequence": "long(header.v)"},
            "message_id": "header.m",
            "business_key": ["id"],
        },
        target={"table": "tests.entries", "buckets": BUCKETS},
    )

    def sent(*numbers: int) -> list[Sent]:
        return [Sent(0, n, n, f"p{n % 2}", n // 2, f"m{n}", {"id": f"k{n % 40}", "credit": 1}) for n in numbers]

    assert run(session, lake, made, export(folder / "first", sent(*range(24)))).red is None
    second = export(folder / "second", sent(*range(24, 60), *range(70, 100)))
    plan = plan_batch(lake, made, export=str(second))
    land_batch(lake, made, plan.batch)
    before = last_statement(session)
    dedup.run(session, lake, made, plan.batch)
    shuffling = [statement for statement in statements(session, before) if statement.exchanges]
    before = last_statement(session)
    assert run(session, lake, made, second).red is None
    [actions] = [write for write in statements(session, before) if write.writes and "entries__state_" in write.tree]
    return Levels(shuffling, actions)


def test_L8_with_every_level_a_batch_is_shuffled_with_its_payload_once_and_narrowly_a_fixed_number_of_times(
    levels: Levels,
) -> None:
    staging, *at_once, sessions, listed = levels.dedup
    assert (staging.writes, staging.exchanges) == ("AppendData", 1)
    # By object; by identity; by partition, then by range: they run at the same time, so in any order.
    assert sorted(statement.exchanges for statement in at_once) == [1, 1, 2]
    # By producer and by session. What is kept of few sessions is in one part, which is summed and ordered as it is.
    assert (sessions.exchanges, listed.exchanges) == (2, 2)
    narrow = {C.KEY, *FLAT_ORDER.values(), *PRODUCER, C.MESSAGE_ID, C.BUSINESS_KEY, C.VERDICT, C.REASON, "_object"}
    for statement in (*at_once, sessions, listed):
        assert statement.scanned("entries__staged_") <= narrow


def test_L8_with_every_level_no_record_of_the_table_is_shuffled(levels: Levels) -> None:
    assert not any("entries__state_" in statement.text for statement in levels.dedup)
    assert (levels.actions.exchanges, "SortMergeJoin LeftOuter" in levels.actions.tree) == (0, True)
    expected = {C.KEY, *FLAT_ORDER.values(), C.HASH, *PRODUCER, C.MESSAGE_ID}
    assert levels.actions.scanned("entries__state_") == expected
