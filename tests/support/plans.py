"""Statements as Spark ran them: their final plans, and what their scans read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Executed:
    """One executed statement: its tree of operators, and the description of each operator."""

    text: str
    splits: dict[str, int]
    """Splits read, by scan."""

    @property
    def tree(self) -> str:
        """The operators; of a plan that was adapted, the final ones."""
        return self.text.split("\n\n")[0].split("== Initial Plan ==")[0]

    @property
    def writes(self) -> str | None:
        """The operator that writes, if the statement is a write."""
        top = self.tree.split("\n")[1].split(" ")[0]
        return top if top in ("AppendData", "WriteDelta") else None

    @property
    def exchanges(self) -> int:
        """How many times rows were shuffled. A broadcast is not a shuffle."""
        return len(re.findall(r"(?<![A-Za-z])Exchange \(", self.tree))

    def scanned(self, table: str) -> set[str]:
        """The columns that a table's scans read."""
        scans = re.findall(rf"BatchScan \S*{table}\S*\nOutput \[\d+\]: \[(.*)\]", self.text)
        assert scans
        return {column for scan in scans for column in re.findall(r"(\w+)#", scan)}

    def by_vectors(self, table: str) -> bool:
        """Whether every scan of a table returns vectors instead of single rows."""
        lines = self.tree.splitlines()
        scans = [number for number, line in enumerate(lines) if "BatchScan" in line and table in line]
        assert scans
        return all("ColumnarToRow" in lines[number - 1] for number in scans)

    def sorts_whole(self, table: str) -> int:
        """How many scans of a table are sorted whole, and not only the rows that a broadcast hash selects."""
        lines, sorted_scans = self.tree.splitlines(), 0
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
                        sorted_scans += 1
                        break
        return sorted_scans

    def describe(self, operator: str) -> str:
        """The description of an operator."""
        [description] = re.findall(rf"\(\d+\) {operator}\n((?:.+\n)+)", self.text.split("Initial Plan")[-1])[:1]
        return str(description)


def _depth(line: str) -> int:
    """The column at which the operator in a line of a tree begins."""
    operator = re.search(r"[*A-Za-z]", line)
    return operator.start() if operator else len(line)


def last_statement(session: SparkSession) -> int:
    """The newest statement; `statements` gives the later ones. From here on statements are planned as for users."""
    session.conf.set("spark.sql.adaptive.enabled", "true")
    return max((statement.executionId() for statement in _list_statements(session)), default=-1)


def _list_statements(session: SparkSession) -> list[Any]:
    """Every statement that the JVM ran, from Spark's own record of it."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    executions = session._jsparkSession.sharedState().statusStore().executionsList()  # type: ignore[attr-defined]
    return list(session._jvm.scala.jdk.javaapi.CollectionConverters.asJava(executions))  # type: ignore[union-attr]


def statements(session: SparkSession, before: int) -> Iterator[Executed]:
    """The statements after `before`; Spark forgets the oldest."""
    store = session._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    for statement in (statement for statement in _list_statements(session) if statement.executionId() > before):
        yield Executed(statement.physicalPlanDescription(), _splits(store, statement.executionId()))


def _splits(store: Any, execution: int) -> dict[str, int]:
    """Splits read by the scans of state tables; of several scans of a table, the largest number."""
    values, nodes = store.executionMetrics(execution), store.planGraph(execution).allNodes()
    splits = {}
    for place in range(nodes.size()):
        node = nodes.apply(place)
        state_table = re.search(r"(\w+__state_)", node.name())
        if not state_table:
            continue
        for index in range(node.metrics().size()):
            metric = node.metrics().apply(index)
            if metric.name() == "number of file splits read":
                value = values.get(metric.accumulatorId())
                read = int(value.get()) if value.isDefined() else 0
                splits[state_table[1]] = max(read, splits.get(state_table[1], 0))
    return splits
