"""Two decoders, written in two ways, take the same records and read the same from them: that of a run and that of a
proof."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.identity import identify
from onefold.proof.decode import decode_again
from onefold.tables import staging as C
from onefold.values.decode import DELETED, FILTERED, REJECTED, TOMBSTONE, decode
from tests.support.envelopes import envelope, record
from tests.support.odd_values import FIELDS, value_of

MakeDataset = Callable[..., Dataset]
CASES = 600
KEYS = (
    b"7", b'"7"', b'"k\\ud83d"', b'{"id": 7}', b'{"id": "7"}', b'{"id": 1.50}', b'{"id": 1e3}', b"\xff",
    b"null", b"{", b"-0",
)  # fmt: skip


DATASETS: dict[str, dict[str, Any]] = {
    "append": {"identity": {"message_id": "header.m", "business_key": ["id"]}},
    "filtered": {"identity": {"business_key": ["id"]}, "filter": "s = 'x' or header.m = '1'"},
    "keyed": {
        "key": {"format": "json"},
        "apply": {"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}, "delete_when": "tombstone"},
    },
    "whole key": {
        "key": {"format": "json"},
        "apply": {"mode": "upsert", "key": ["key"], "version": {"from": "offset"}, "delete_when": "b"},
    },
    "text key": {
        "apply": {"mode": "upsert", "key": ["key"], "version": {"from": "offset"}, "delete_when": "tombstone"}
    },
    "filtered deletes": {
        "key": {"format": "json"},
        "apply": {"mode": "upsert", "key": ["key"], "version": {"from": "offset"}, "delete_when": "s = 'x' or b"},
        "filter": "id = 7 or header.m = '1'",
    },
    "strict": {"identity": {"business_key": ["id"]}, "schema_changes": "quarantine"},
}


@pytest.mark.by_day("filtered", "keyed", "filtered deletes", why="the others differ in the key alone")
@pytest.mark.parametrize("name", DATASETS)
def test_both_take_the_same_records_and_read_the_same(
    spark: SparkSession, dataset: MakeDataset, name: str, draw: Random
) -> None:
    given = dict(DATASETS[name])
    value: dict[str, Any] = {"fields": FIELDS}
    value |= {"schema_changes": given.pop("schema_changes")} if "schema_changes" in given else {}
    source = dataset().source.model_dump() | ({"filter": given.pop("filter")} if "filter" in given else {})
    made = dataset(value=value, source=source, **given)
    records = [
        record(
            str(n),
            value_of(draw),
            offset=n,
            key_bytes=draw.choice([*KEYS, None]),
            headers=draw.choice([[], [("m", "1")], [("m", b"\xff")], [("m", None)], [("x", b"\xff"), ("m", "2")]]),
        )
        for n in range(CASES)
    ]
    rows = envelope(spark, records).repartition(2)
    read = [_select_outcome(identify(decoder(rows, made), made), made) for decoder in (decode, decode_again)]
    for n, (first, other) in enumerate(zip(*read, strict=True)):
        assert first == other, (records[n]["_value_bytes"], records[n]["_key_bytes"], records[n]["_headers"])
    taken = sum(row["taken"] for row in read[0])
    assert CASES / 40 < taken < CASES * 0.95, "of each kind there are some"


def _select_outcome(rows: Any, made: Dataset) -> list[dict[str, Any]]:
    """What counts of each record: whether it is taken; and of those that are, all that was read."""
    taken = F.col(REJECTED).isNull() & ~F.col(FILTERED)
    names = [C.KEY, C.HASH, DELETED, TOMBSTONE, *made.fields, *(name for name, _ in made.key_columns)]
    names += [C.VERSION] if made.apply.version else []
    shown = [F.when(taken, F.col(name)).alias(name) for name in dict.fromkeys(names)]
    found = rows.select("case", taken.alias("taken"), *shown).toArrow().to_pylist()
    return sorted(found, key=lambda row: int(row["case"]))
