"""Every log of three records that are linked by different levels, tied or in conflict, in every order and split.

The rows are the brute-force oracle's; every duplicate has a reason that holds, and points to a record of its own
message. Nothing is drawn here: the domains are small, and all of them is tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dedup import columns as C
from onefold.upsert import columns as U
from tests import oracle
from tests.oracle import Decoded, Rules, same_at
from tests.property.fold import Table, fold, key_of, order_of
from tests.property.generate import KINDS, Arrival, rules_of

SPLITS = tuple(
    split
    for count in (1, 2, 3)
    for split in itertools.product(range(count), repeat=3)  # the batch of each record
    if set(split) == set(range(count))
)
"""The 13 ways in which three records come in one, two or three batches, one behind the other."""
TIMES = ((1, 1, 1), (2, 1, 1))
"""Tied, or the first record of the log the latest: then its offset decides nothing."""
LINKS = tuple(itertools.product((None, "p"), (None, "m"), ("x", "y")))
"""producer, message id, content"""


def logs(upsert: bool) -> Iterator[tuple[Decoded, ...]]:
    """Logs of three records; the first is always of key k and content x, for names mean nothing."""
    own = (("k", 1), ("k", 2), ("l", 1)) if upsert else (("k", None), ("l", None))
    links = tuple(link for link in LINKS if not upsert or link[0] is None)  # fewer levels, for there are versions
    for times in TIMES:
        firsts = itertools.product(own[:1], (link for link in links if link[2] == "x"))
        rest = tuple(itertools.product(own, links))
        for records in itertools.product(firsts, rest, rest):
            yield tuple(
                Decoded(
                    position=("c", "t", 1, 0, offset),
                    timestamp=times[offset],
                    key=key,
                    version=version,
                    content=content,
                    producer=producer,
                    message_id=message_id,
                )
                for offset, ((key, version), (producer, message_id, content)) in enumerate(records)
            )


def arrivals(upsert: bool) -> list[Arrival]:
    """Every log in every split."""
    return [
        Arrival(f"{number}/{split}", log, _batches(log, split), exact=True)
        for number, log in enumerate(logs(upsert))
        for split in SPLITS
    ]


def _batches(log: tuple[Decoded, ...], split: tuple[int, ...]) -> tuple[tuple[Decoded, ...], ...]:
    places = range(max(split) + 1)
    return tuple(tuple(one for one, at in zip(log, split, strict=True) if at == place) for place in places)


@pytest.mark.parametrize(
    "kind", ["append by business_key", "upsert, tie conflict", "upsert, tie last", "upsert, tie first"]
)
def test_L1_every_small_log_has_one_outcome_in_every_order_and_split(
    plain: SparkSession, dataset: Callable[..., Dataset], kind: str
) -> None:
    made = dataset(**KINDS[kind])
    rules, cases = rules_of(made), arrivals(made.apply.mode == "upsert")
    wrong = []
    for arrival, table in zip(cases, fold(plain, cases, made), strict=True):
        expected = {key_of(arrival.name, one): one.order for one in oracle.rows(arrival.log, rules).values()}
        if {key: order_of(row) for key, row in table.rows.items()} != expected:
            wrong.append((arrival, expected))
        wrong += [(arrival, row) for row in _untrue(arrival, table, rules)]
    assert not wrong, f"{len(wrong)} wrong; the first: {wrong[0]}"


def _untrue(arrival: Arrival, table: Table, rules: Rules) -> Iterator[object]:
    """The duplicates whose reason does not hold, or whose survivor is no record of their message."""
    by_order = {one.order: one for one in arrival.log}
    for row in (row for judged in table.judged for row in judged if row[C.VERDICT] == "duplicate"):
        mine, survivor = by_order[order_of(row)], by_order[order_of(row, U.OTHER)]
        retry = rules.mode == "upsert" and row[C.REASON] in ("producer", "message_id")
        one_message = mine.key == survivor.key and (mine.version == survivor.version or retry)
        repeated = row[C.REASON] in ("business_key", "key_version") or any(
            other is not mine and other.key == mine.key and same_at(row[C.REASON], other, mine) for other in arrival.log
        )
        if not one_message or not repeated or mine.content != survivor.content:
            yield row


def test_the_domains_hold_what_they_promise() -> None:
    assert len(SPLITS) == 13
    assert len(list(logs(upsert=False))) == 2 * 4 * 16 * 16
    assert len({tuple(repr(one) for one in log) for log in logs(upsert=True)}) == 2 * 2 * 12 * 12
