"""The sequence rule over literal logs and drawn ones; the oracle keeps a state, as a broker does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from onefold.dedup.documents import WRAP
from onefold.dedup.sequences import diagnose
from tests.support.sequence_rule import Outcome, Sent, expected

MAX = WRAP - 1
PRODUCER = pa.struct([("name", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64())])
FIELDS = {
    "cluster": pa.string(),
    "topic": pa.string(),
    "incarnation": pa.int32(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "producer": PRODUCER,
}

CASES: dict[str, tuple[list[Sent], list[Outcome]]] = {
    "in a row": (
        [(5, "1", 0, 7), (6, "1", 0, 8), (7, "1", 0, 9)],
        [(5, "accepted", 0), (6, "accepted", 0), (7, "accepted", 0)],
    ),
    "sent again": (
        [(0, "1", 0, 0), (1, "1", 0, 1), (2, "1", 0, 0), (3, "1", 0, 1), (4, "1", 0, 2)],
        [(0, "accepted", 0), (1, "accepted", 0), (2, "repeat", 0), (3, "repeat", 0), (4, "accepted", 0)],
    ),
    "sequences are missing": (
        [(0, "1", 0, 3), (1, "1", 0, 7), (2, "1", 0, 8)],
        [(0, "accepted", 0), (1, "gap", 3), (2, "accepted", 0)],
    ),
    "more than five in flight, reordered": (
        [(0, "1", 0, 0), (1, "1", 0, 6), (2, "1", 0, 1), (3, "1", 0, 7)],
        [(0, "accepted", 0), (1, "gap", 5), (2, "repeat", 0), (3, "accepted", 0)],
    ),
    "the sequence wraps": (
        [(0, "1", 0, MAX - 1), (1, "1", 0, MAX), (2, "1", 0, 0), (3, "1", 0, 1)],
        [(n, "accepted", 0) for n in range(4)],
    ),
    "a repeat behind the wrap": (
        [(0, "1", 0, MAX), (1, "1", 0, 0), (2, "1", 0, MAX)],
        [(0, "accepted", 0), (1, "accepted", 0), (2, "repeat", 0)],
    ),
    "a gap over the wrap": ([(0, "1", 0, MAX), (1, "1", 0, 2)], [(0, "accepted", 0), (1, "gap", 2)]),
    "a new epoch starts at 0": (
        [(0, "1", 0, 9), (1, "1", 1, 0), (2, "1", 1, 1)],
        [(n, "accepted", 0) for n in range(3)],
    ),
    "a new epoch that does not": ([(0, "1", 0, 9), (1, "1", 1, 4)], [(0, "accepted", 0), (1, "gap", 4)]),
    "a zombie": (
        [(0, "1", 0, 0), (1, "1", 2, 0), (2, "1", 0, 1), (3, "1", 1, 0), (4, "1", 2, 1)],
        [(0, "accepted", 0), (1, "accepted", 0), (2, "fenced", 0), (3, "fenced", 0), (4, "accepted", 0)],
    ),
    "a restart is another producer": (
        [(0, "1", 0, 5), (1, "2", 0, 0), (2, "2", 0, 1)],
        [(n, "accepted", 0) for n in range(3)],
    ),
    "two producers in turns": (
        [(0, "1", 0, 5), (1, "2", 3, 8), (2, "1", 0, 6), (3, "2", 3, 9)],
        [(n, "accepted", 0) for n in range(4)],
    ),
    "behind a hole nothing is known": (
        [(0, "1", 0, 0), (2, "1", 0, 5), (3, "1", 0, 5)],
        [(0, "accepted", 0), (2, "accepted", 0), (3, "repeat", 0)],
    ),
    "who tells no producer is no hole": (
        [(0, "1", 0, 0), (1, None, 0, 0), (2, "1", 0, 1)],
        [(0, "accepted", 0), (2, "accepted", 0)],
    ),
    "an offset that was read twice": (
        [(0, "1", 0, 0), (0, "1", 0, 0), (1, "1", 0, 1)],
        [(0, "accepted", 0), (1, "accepted", 0)],
    ),
    "names do not wrap, and have no epoch": (
        [(0, "p", -1, MAX), (1, "p", -1, MAX + 1), (2, "p", -1, 0), (3, "p", -1, MAX + 9)],
        [(0, "accepted", 0), (1, "accepted", 0), (2, "repeat", 0), (3, "gap", 7)],
    ),
}


def outcomes(session: SparkSession, logs: Sequence[Sequence[Sent]], whole: bool = False) -> list[list[Outcome]]:
    """Many logs in one job, each a topic."""
    rows = [
        {"cluster": "c", "topic": f"{number}", "incarnation": 1, "partition": 0, "offset": offset}
        | {"producer": None if name is None else {"name": name, "epoch": epoch, "sequence": sequence}}
        for number, log in enumerate(logs)
        for offset, name, epoch, sequence in log
    ]
    table = session.createDataFrame(pa.Table.from_pylist(rows, pa.schema(list(FIELDS.items()))))
    found: list[list[Any]] = [[] for _ in logs]
    for row in diagnose(table, whole).collect():
        found[int(row.topic)].append((row.offset, row.outcome, row.missing))
    return [sorted(of_log) for of_log in found]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Outcome]]:
    return dict(zip(CASES, outcomes(spark, [log for log, _ in CASES.values()]), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_each_record_has_the_outcome_that_the_rule_gives(found: dict[str, list[Outcome]], case: str) -> None:
    log, wanted = CASES[case]
    assert found[case] == wanted
    assert expected(log) == wanted  # the oracle of the drawn logs agrees with the literal ones


NEAR_THE_WRAP = (0, 1, 2, 3, MAX - 2, MAX - 1, MAX)


def drawn(rng: random.Random, steps: tuple[int, ...]) -> list[Sent]:
    """A short log around the wrap, with a hole or a record read twice now and then, as `steps` say."""
    log: list[Sent] = []
    offset = 0
    for _ in range(rng.randint(2, 12)):
        if not (step := rng.choice(steps)) and log:
            log.append(log[-1])
            continue
        offset += step
        name = rng.choice(("1", "2", None, "p"))
        log.append((offset, name, -1 if name == "p" else rng.randint(0, 2), rng.choice(NEAR_THE_WRAP)))
    return log


@pytest.mark.parametrize(("steps", "whole"), [((0, 1, 1, 1, 1, 2), False), ((0, 1, 1, 1), True)])
def test_drawn_logs_have_the_outcomes_of_a_broker_that_keeps_its_state(
    spark: SparkSession, request: pytest.FixtureRequest, steps: tuple[int, ...], whole: bool
) -> None:
    rng = random.Random(request.config.option.hypothesis_seed)
    logs = [drawn(rng, steps) for _ in range(400)]
    wanted = [expected(log) for log in logs]
    assert {outcome for log in wanted for _, outcome, _ in log} == {"accepted", "repeat", "gap", "fenced"}
    found = zip(logs, wanted, outcomes(spark, logs, whole), strict=True)
    wrong = [(log, want, got) for log, want, got in found if want != got]
    assert not wrong, min(wrong, key=lambda wrong_case: len(wrong_case[0]))


@pytest.mark.parametrize(("whole", "by"), [(False, "log"), (True, "who")])
def test_the_rule_costs_one_exchange(spark: SparkSession, whole: bool, by: str) -> None:
    partition = "cluster string, topic string, incarnation int, partition int, offset long"
    table = spark.createDataFrame([], f"{partition}, producer struct<name: string, epoch: int, sequence: bigint>")
    plan = diagnose(table, whole)._jdf.queryExecution().executedPlan().toString()
    assert plan.count(f"Exchange hashpartitioning({by}#") == plan.count("Exchange") == 1, plan
