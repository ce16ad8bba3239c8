"""The cheaper calls of test processes into their JVM (`tests/support/gateway.py`) give what plain ones give."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark


def is_there(spark: SparkSession, name: str) -> bool:
    """Whether the JVM has an object of that name for Python."""
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    return str(client.send_command(f"c\n{name}\ntoString\ne\n")).startswith("y")


@pytest.mark.parametrize("count", [1, 10, 11, 20, 25])
def test_a_list_of_any_length_arrives_in_its_order(spark: SparkSession, count: int) -> None:
    numbers, names = list(range(count)), [f"c{number}" for number in range(count)]
    made = spark.range(1).select(*(F.lit(number).alias(name) for number, name in zip(numbers, names, strict=True)))
    (row,) = made.withColumns({"together": F.array(*names)}).select(*reversed(names), "together").collect()
    assert [*row] == [*reversed(numbers), numbers]


def test_literals_that_are_equal_in_python_stay_apart(spark: SparkSession) -> None:
    made = spark.range(1).select(F.lit(1), F.lit(True), F.lit(1.0), F.lit("1"), F.lit(None), F.lit(1))
    assert [kind for _, kind in made.dtypes] == ["int", "boolean", "double", "string", "void", "int"]


def test_objects_that_python_has_no_more_leave_the_jvm(spark: SparkSession) -> None:
    kept = F.col("a") + 1
    columns = [kept + number for number in range(1200)]
    names = [column._jc._target_id for column in columns]  # type: ignore[attr-defined]
    assert all(is_there(spark, name) for name in names)
    del columns
    ends = time.monotonic() + 60
    while any(is_there(spark, name) for name in names) and time.monotonic() < ends:
        time.sleep(0.2)
    assert not any(is_there(spark, name) for name in names)
    assert is_there(spark, kept._jc._target_id)  # type: ignore[attr-defined]
