"""Statements as Spark ran them: their final plans, and what their scans read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession


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
        """The columns that a table's scans read."""
        scans = re.findall(rf"BatchScan \S*{table}\S*\nOutput \[\d+\]: \[(.*)\]", self.text)
        assert scans
        return {column for scan in scans for column in re.findall(r"(\w+)#", scan)}

    def by_vectors(self, table: str) -> bool:
        """Whether every scan of a table gives vectors, and not rows one by one."""
        lines = self.tree.splitlines()
        scans = [number for number, line in enumerate(lines) if "BatchScan" in line and table in line]
        assert scans
        return all("ColumnarToRow" in lines[number - 1] for number in scans)

    def sorts_whole(self, table: str) -> int:
        """How many scans of a table are sorted as they are, and not only what a broadcast hash lets through."""
        lines, found = self.tree.splitlines(), 0
        for number, line in enumerate(lines):
            if "BatchScan" not in line or table not in line:
                continue
            depth = _depth(line)
            for above in reversed(lines[:number]):
                if _depth(above) < depth:
                    depth = _depth(above)
                    if "BroadcastHashJoin LeftSemi" in above:
                        break
                    if "Sort (" in above:
                        found += 1
                        break
        return found

    def told(self, operator: str) -> str:
        """What an operator said of itself."""
        [found] = re.findall(rf"\(\d+\) {operator}\n((?:.+\n)+)", self.text.split("Initial Plan")[-1])[:1]
        return str(found)


def _depth(line: str) -> int:
    """Where the operator of a line of a tree begins."""
    named = re.search(r"[*A-Za-z]", line)
    return named.start() if named else len(line)


def last_statement(session: SparkSession) -> int:
    """The newest statement; `statements` gives those that follow. From here on they are planned as users have them."""
    session.conf.set("spark.sql.adaptive.enabled", "true")
    return max((statement.executionId() for statement in _listed(session)), default=-1)


def _listed(session: SparkSession) -> list[Any]:
    """Every statement that the JVM ran, from Spark's own record of it."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    listed = session._jsparkSession.sharedState().statusStore().executionsList()  # type: ignore[attr-defined]
    return list(session._jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed))  # type: ignore[union-attr]


def statements(session: SparkSession, before: int) -> Iterator[Executed]:
    """The statements that came after one; Spark forgets the oldest."""
    store = session._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    for statement in (statement for statement in _listed(session) if statement.executionId() > before):
        yield Executed(statement.physicalPlanDescription(), _splits(store, statement.executionId()))


def _splits(store: Any, execution: int) -> dict[str, int]:
    """Splits read by the scans of state tables; of several scans of one table the most."""
    values, nodes = store.executionMetrics(execution), store.planGraph(execution).allNodes()
    found = {}
    for place in range(nodes.size()):
        node = nodes.apply(place)
        found_in = re.search(r"(\w+__state_)", node.name())
        if not found_in:
            continue
        for index in range(node.metrics().size()):
            metric = node.metrics().apply(index)
            if metric.name() == "number of file splits read":
                value = values.get(metric.accumulatorId())
                read = int(value.get()) if value.isDefined() else 0
                found[found_in[1]] = max(read, found.get(found_in[1], 0))
    return found
