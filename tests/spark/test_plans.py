"""What moves and what is read: the physical plans of a real batch, as Spark ran them (L8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dedup import columns as C
from onefold.lake import Lake
from onefold.upsert import columns as U
from tests.spark.pipeline import Sent, accounts, export, run

BUCKETS = 8


@dataclass(frozen=True, slots=True)
class Executed:
    """One executed statement: its tree of operators and what each said of itself."""

    text: str
    splits: dict[str, int]
    """Splits that were read, by scan."""

    @property
    def tree(self) -> str:
        """The operators, the final ones where the plan was adapted."""
        return self.text.split("\n\n")[0].split("== Initial Plan ==")[0]

    @property
    def writes(self) -> str | None:
        """The operator that writes, if it is a write."""
        top = self.tree.split("\n")[1].split(" ")[0]
        return top if top in ("AppendData", "WriteDelta") else None

    @property
    def exchanges(self) -> int:
        """How often rows were shuffled. A broadcast is no shuffle."""
        return len(re.findall(r"(?<![A-Za-z])Exchange \(", self.tree))

    def scanned(self, table: str) -> set[str]:
        """The columns that a table's scan read."""
        [(_, columns)] = re.findall(rf"BatchScan \S*{table}\S*\nOutput \[(\d+)\]: \[(.*)\]", self.text)
        return set(re.findall(r"(\w+)#", columns))

    def told(self, operator: str) -> str:
        """What an operator said of itself."""
        [found] = re.findall(rf"\(\d+\) {operator}\n((?:.+\n)+)", self.text.split("Initial Plan")[-1])[:1]
        return str(found)


@dataclass(frozen=True, slots=True)
class Batch:
    """The three statements of a batch that write: staging, actions, the merge into the branch."""

    staging: Executed
    actions: Executed
    merge: Executed


@pytest.fixture(scope="module")
def batches(
    session_on: Callable[[Lake], SparkSession],
    lake_in: Callable[[Path], Lake],
    dataset: Callable[..., Dataset],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Batch]:
    """A first batch of many keys, one that updates a single key, and one that updates them all.

    The first and the last one hold a rejected record, too.
    """
    folder = tmp_path_factory.mktemp("plans")
    lake = lake_in(folder)
    session = session_on(lake)
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # as if the batch were large
    made = accounts(dataset, target={"table": "tests.accounts", "buckets": BUCKETS})
    first = [Sent(0, n, 100 + n, f"k{n % 20}", 1, f"m{n}", {"owner": "o", "credit": n}) for n in range(24)]
    first.append(Sent(0, 24, 124, "k0", 1, "m24", "no json"))
    second = [Sent(0, 30, 200, "k1", 2, "m30", {"owner": "p"}), Sent(0, 31, 201, "k1", 3, "m31", {"owner": "q"})]
    found = []
    third = [Sent(0, 40 + n, 300 + n, f"k{n}", 4, f"m{40 + n}", {"owner": "r"}) for n in range(20)]
    third.append(Sent(0, 60, 320, "k0", 5, "m60", "no json"))
    for name, records in (("first", first), ("second", second), ("third", third)):
        before = max((one.executionId() for one in _listed(session)), default=-1)
        assert run(session, lake, made, export(folder / name, records)).red is None
        mine = _executions(session, before)
        writes = [one for one in mine if one.writes and "Scan ExistingRDD" not in one.tree]  # the empty first snapshot
        staging, actions, *_, merge = writes
        found.append(Batch(staging, actions, merge))
    return found


def test_L8_staging_is_written_behind_exactly_one_exchange(batches: list[Batch]) -> None:
    for batch in batches:
        assert (batch.staging.exchanges, batch.staging.tree.count("Window (")) == (1, 4)
        assert "hashpartitioning(_slot#" in batch.staging.told("Exchange")
        assert "REPARTITION_BY_NUM" in batch.staging.told("Exchange")


def test_L8_the_look_up_joins_without_an_exchange(batches: list[Batch]) -> None:
    for batch in batches:
        assert batch.actions.exchanges == 0
    # Into an empty table there is nothing to join with, and Spark finds that out.
    joins = ["SortMergeJoin LeftOuter" in batch.actions.tree for batch in batches]
    assert joins == [False, True, True]


def test_L8_the_look_up_reads_key_order_and_hash_columns_of_the_base_only(batches: list[Batch]) -> None:
    wanted = {C.KEY, C.ORDER, C.VERSION, C.HASH, C.MESSAGE_ID, U.STATE}
    assert [batch.actions.scanned("accounts__state_") for batch in batches] == [wanted] * 3


def test_L8_pure_inserts_append_without_reading_the_table(batches: list[Batch]) -> None:
    merge = batches[0].merge
    assert (merge.writes, merge.exchanges, "accounts__state_" in merge.tree) == ("AppendData", 0, False)


def test_L8_the_merge_shuffles_nothing_and_reads_no_payload_of_the_table(batches: list[Batch]) -> None:
    for merge in (batches[1].merge, batches[2].merge):
        assert (merge.writes, merge.exchanges, "SortMergeJoin" in merge.tree) == ("WriteDelta", 0, True)
        assert merge.scanned("accounts__state_") == {C.KEY, "_file", "_pos", "_spec_id", "_partition"}


def test_L8_look_up_and_merge_read_only_buckets_that_the_batch_has(batches: list[Batch]) -> None:
    one_key, all_keys = batches[1], batches[2]
    assert (one_key.actions.splits, one_key.merge.splits) == ({"accounts__state_": 1}, {"accounts__state_": 1})
    assert all_keys.actions.splits["accounts__state_"] > 1  # so that the line above can fail
    assert all_keys.merge.splits["accounts__state_"] > 1


def _listed(session: SparkSession) -> list[Any]:
    """Every statement that the JVM ran, from Spark's own record of it."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    listed = session._jsparkSession.sharedState().statusStore().executionsList()  # type: ignore[attr-defined]
    return list(session._jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed))  # type: ignore[union-attr]


def _executions(session: SparkSession, before: int) -> Iterator[Executed]:
    """The statements that came after one; Spark forgets the oldest."""
    store = session._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    for one in (one for one in _listed(session) if one.executionId() > before):
        yield Executed(one.physicalPlanDescription(), _splits(store, one.executionId()))


def _splits(store: Any, execution: int) -> dict[str, int]:
    """Splits read by the scans of state tables."""
    values, nodes = store.executionMetrics(execution), store.planGraph(execution).allNodes()
    found = {}
    for place in range(nodes.size()):
        node = nodes.apply(place)
        if "accounts__state_" not in node.name():
            continue
        for index in range(node.metrics().size()):
            metric = node.metrics().apply(index)
            if metric.name() == "number of file splits read":
                value = values.get(metric.accumulatorId())
                found["accounts__state_"] = int(value.get()) if value.isDefined() else 0
    return found
