"""`tie: last | first` goes by offsets: every small log of one version, over partitions, in every order and split.

Clocks run against the offsets here, so that a rule that goes by them is wrong in most logs. Nothing is drawn.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.tables import staging as C
from onefold.tables import state as S
from tests.support import oracle
from tests.support.fold import CONTENT, fold, key_of, order_of
from tests.support.generate import CHAINS, KINDS, SPLITS, Arrival, batches_of, rules_of
from tests.support.oracle import Decoded

RECORDS = 3


def logs() -> Iterator[tuple[Decoded, ...]]:
    """Logs of one version of a key: partitions, contents that count, and contents that do not. The first record is of
    partition 0, for names mean nothing; its content is x."""
    kinds = tuple(itertools.product((0, 1), "xy", "12"))
    for records in itertools.product([(0, "x", "1"), (0, "x", "2"), (1, "x", "1")], *[kinds] * (RECORDS - 1)):
        yield tuple(
            Decoded(
                position=("c", "t", 1, partition, offset),
                timestamp=10 - offset,
                key="k",
                version=1,
                content=content,
                sent=sent,
            )
            for offset, (partition, content, sent) in enumerate(records)
        )


def several(log: tuple[Decoded, ...], name: str) -> bool:
    return len({getattr(record, name) for record in log}) > 1


@pytest.mark.by_day(
    "upsert, tie last, sent_at excepted",
    why="test_laws has tie first by day, and tests/spark/test_ties.py guard contiguous",
)
@pytest.mark.parametrize(
    "kind",
    [
        *("upsert, tie last, sent_at excepted", "upsert, tie first, sent_at excepted"),
        *("contiguous, tie last, sent_at excepted", "contiguous, tie first, sent_at excepted"),
    ],
)
def test_L1_the_row_is_that_of_the_offset_or_the_batch_is_red_in_every_order_and_split(
    plain: SparkSession, dataset: Callable[..., Dataset], kind: str
) -> None:
    made = dataset(**(KINDS | CHAINS)[kind])
    rules = rules_of(made)
    arrivals = [
        Arrival(f"{number}/{split}", log, batches_of(log, split), exact=True)
        for number, log in enumerate(logs())
        for split in SPLITS
    ]
    wrong: list[object] = []
    whole, placeless = defaultdict(set), 0
    for arrival, table in zip(arrivals, fold(plain, arrivals, made), strict=True):
        published = table.published(arrival)
        winner = oracle.rows(published, rules)["k"] if published else None
        expected = winner and (
            key_of(arrival.name, winner),
            winner.order,
            winner.whole,
            rules.placeless(winner, published),
        )
        (found,) = [
            (row[C.KEY], order_of(row), row[CONTENT], bool(row[C.PLACELESS])) for row in table.rows.values()
        ] or [None]
        if found != expected or any(row[S.STATE] != "live" for row in table.rows.values()):
            wrong.append((arrival, expected, found))
        apart = several(arrival.log, "content") and several(arrival.log, "partition")
        if len(arrival.batches) == 1 and bool(table.refused) is not apart:
            wrong.append((arrival, "red at once", table.refused))
        if table.refused and not apart:
            wrong.append((arrival, "never red", table.refused))
        if not table.refused:
            whole[arrival.log].add(found and found[1:3])
            placeless += bool(found and found[3])
    assert not wrong, f"{len(wrong)} wrong; the first: {wrong[0]}"
    assert all(len(rows) == 1 for rows in whole.values()), "a log has one row, however it arrived"
    assert placeless > 100
