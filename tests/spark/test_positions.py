"""Which offsets a batch holds: bits in Spark against sets in Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from onefold.dedup.positions import offsets_of
from onefold.offsets import TopicPartition
from onefold.tables import staging as C
from tests.support.fold import ORDER_TYPE

BITS = 32768
"""Offsets in one row of what Spark sends; its borders are where an error would be."""
near_borders = st.builds(
    lambda base, border, step: max(0, base + border * BITS + step),
    st.sampled_from((0, 2**31, 2**33 + 1, 2**53, 2**62)),
    st.integers(0, 3),
    st.integers(-3, 3),
)
verdicts = st.sampled_from((None, "rejected", "forgotten"))
offsets = st.lists(st.tuples(near_borders, verdicts), min_size=1, max_size=12)


def staged(session: SparkSession, rows: list[tuple[str, int, int | None, str | None]]) -> DataFrame:
    """Staged rows of (topic, partition, offset, verdict); what is forgotten is a rejection with that reason."""
    table = [
        {
            C.ORDER: {
                "timestamp": 0,
                "cluster": "c",
                "topic": topic,
                "incarnation": 1,
                "partition": partition,
                "offset": at,
            },
            C.VERDICT: "rejected" if verdict == "forgotten" else verdict,
            C.REASON: verdict,
        }
        for topic, partition, at, verdict in rows
    ]
    schema = pa.schema([(C.ORDER, ORDER_TYPE), (C.VERDICT, pa.string()), (C.REASON, pa.string())])
    return session.createDataFrame(pa.Table.from_pylist(table, schema))


@settings(max_examples=3)
@given(drawn=st.lists(offsets, min_size=60, max_size=60))
def test_L2_the_ranges_are_those_of_the_set_of_offsets(
    spark: SparkSession, drawn: list[list[tuple[int, str | None]]]
) -> None:
    """An offset with a usable or a forgotten record is present, whatever else is there; others are quarantined."""
    rows: list[tuple[str, int, int | None, str | None]] = [
        (f"t{n % 3}", n, at, verdict) for n, partition in enumerate(drawn) for at, verdict in partition
    ]
    found = offsets_of(staged(spark, rows))
    for n, partition in enumerate(drawn):
        present = {at for at, verdict in partition if verdict != "rejected"}
        quarantined = {at for at, _ in partition} - present
        result = found.pop(TopicPartition(cluster="c", topic=f"t{n % 3}", incarnation=1, partition=n))
        assert (result.present, result.quarantined) == (ranges(present), ranges(quarantined))
    assert not found


def test_one_range_spans_rows(spark: SparkSession) -> None:
    """A contiguous run over two borders is one range, and a hole on a border splits it."""
    start = 2**31 - 3
    whole = [("t", 0, start + n, None) for n in range(2 * BITS + 5)]
    holed = [("t", 1, n, "duplicate") for n in range(2 * BITS + 1) if n != BITS]
    found = offsets_of(staged(spark, [*whole, *holed]))
    first, second = (TopicPartition(cluster="c", topic="t", incarnation=1, partition=n) for n in (0, 1))
    assert found[first].present == [(start, start + 2 * BITS + 5)]
    assert found[second].present == [(0, BITS), (BITS + 1, 2 * BITS + 1)]


def test_a_line_without_a_position_has_no_offset(spark: SparkSession) -> None:
    assert offsets_of(staged(spark, [("t", 0, None, "rejected")])) == {}


def ranges(of: set[int]) -> list[Any]:
    """Half-open ranges of a set: each start is an offset whose neighbour below is missing."""
    starts = sorted(at for at in of if at - 1 not in of)
    ends = sorted(at + 1 for at in of if at + 1 not in of)
    return list(zip(starts, ends, strict=True))
