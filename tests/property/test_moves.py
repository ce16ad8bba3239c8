"""`version: {from: offset}` over drawn moves of keys between partitions is right or red, in any order and split.

Red exactly where a key has records in two partitions: one that cannot be compared with an earlier record of its key is
`conflict/incomparable_version`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.tables import staging as C
from tests.support.fold import CONTENT, fold
from tests.support.generate import Arrival
from tests.support.oracle import Decoded

ARRIVALS = 60
KEYS = "abcd"


def arrival(draw: Random, name: str) -> Arrival:
    """A log of two partitions, each key mostly in one of them, in batches that may overlap."""
    home = {key: draw.randrange(2) for key in KEYS}
    moves = draw.random() < 0.5
    log = []
    for offset in range(draw.randrange(3, 9)):
        key = draw.choice(KEYS)
        partition = home[key] ^ int(moves and draw.random() < 0.25)
        position = ("c", "t", 1, partition, offset)
        content = draw.choice(["x", "y", f"{offset}"])
        log.append(Decoded(position, draw.randrange(20), key, content, version=offset, deleted=draw.random() < 0.2))
    batches = [draw.sample(log, draw.randrange(1, len(log) + 1)) for _ in range(draw.randrange(2))]
    rest = draw.sample(log, len(log))
    cut = draw.randrange(len(rest) + 1)
    return Arrival(name, tuple(log), tuple(map(tuple, [*batches, rest[:cut], rest[cut:]])), exact=True)


@settings(max_examples=2)
@given(seed=st.integers(0, 2**32))
def test_L4_it_is_right_or_red(spark: SparkSession, dataset: Callable[..., Dataset], seed: int) -> None:
    draw = Random(seed)
    apply = {"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}, "delete_when": "tombstone"}
    made = dataset(key={"format": "json"}, value={"fields": {"v": "string?"}}, apply=apply)
    arrivals = [arrival(draw, f"a{number}") for number in range(ARRIVALS)]
    moved = 0
    for arrival_, table in zip(arrivals, fold(spark, arrivals, made), strict=True):
        places = defaultdict(set)
        for record in arrival_.log:
            places[record.key].add(record.position[3])
        newest = {record.key: record for record in sorted(table.published(arrival_), key=lambda record: record.version)}
        moves = {key for key, of in places.items() if len(of) > 1}
        reasons = {row[C.REASON] for judged in table.judged for row in judged if row[C.VERDICT] == "conflict"}
        assert reasons == ({"incomparable_version"} if moves else set()), arrival_
        rows = {key.decode().rpartition("|")[2]: row for key, row in table.rows.items()}
        for key in newest.keys() - moves:
            assert (rows[key][CONTENT], rows[key][C.DELETED]) == (newest[key].content, newest[key].deleted), arrival_
        moved += bool(moves)
    assert 0 < moved < ARRIVALS
