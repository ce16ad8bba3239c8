"""Every log of three records that are linked by different levels, tied or in conflict, in every order and split.

The rows are the brute-force oracle's; every duplicate has a reason that holds, and points to a record of its own
message. Nothing is drawn here: the domains are small, and all of them is tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.vocabulary import Action
from tests.support import oracle
from tests.support.fold import Row, Table, fold, key_of, order_of
from tests.support.generate import KINDS, SPLITS, Arrival, batches_of, rules_of
from tests.support.oracle import Decoded, Rules, Verdict, same_at

PLACES = (((1, 1, 1), (0, 0, 0)), ((2, 1, 1), (0, 0, 0)), ((1, 1, 1), (1, 0, 0)))
"""Timestamps and partitions: tied; or the first record of the log the latest: then its offset decides nothing; or the
first in another partition, behind the others in the order: a producer counts there anew."""
LINKS = tuple(itertools.product((None, "p"), (None, "m"), ("x", "y")))
"""producer, message id, content"""


def logs(upsert: bool, excepted: bool = False) -> Iterator[tuple[Decoded, ...]]:
    """Logs of three records; the first is always of key k and content x, for names mean nothing. `excepted`: what
    differs in their contents does not count."""
    own = (("k", 1), ("k", 2), ("l", 1)) if upsert else (("k", None), ("l", None))
    for times, partitions in PLACES:
        # Fewer levels where there are versions: a producer where it matters in which partition, else a message id.
        absent = 0 if partitions == (0, 0, 0) else 1
        links = tuple(link for link in LINKS if not upsert or link[absent] is None)
        firsts = itertools.product(own[:1], (link for link in links if link[2] == "x"))
        rest = tuple(itertools.product(own, links))
        for records in itertools.product(firsts, rest, rest):
            yield tuple(
                Decoded(
                    position=("c", "t", 1, partitions[offset], offset),
                    timestamp=times[offset],
                    key=key,
                    version=version,
                    content="" if excepted else content,
                    sent=content if excepted else "",
                    producer=producer,
                    message_id=message_id,
                )
                for offset, ((key, version), (producer, message_id, content)) in enumerate(records)
            )


def arrivals(upsert: bool, excepted: bool = False) -> list[Arrival]:
    """Every log in every split."""
    return [
        Arrival(f"{number}/{split}", log, batches_of(log, split), exact=True)
        for number, log in enumerate(logs(upsert, excepted))
        for split in SPLITS
    ]


@pytest.mark.by_day("append by business_key", "upsert, tie conflict", why="test_laws draws each tie by day")
@pytest.mark.parametrize(
    "kind",
    [
        *("append by business_key", "upsert, tie conflict", "upsert, tie last", "upsert, tie first"),
        *("append, sent_at excepted", "upsert, sent_at excepted"),
    ],
)
def test_L1_every_small_log_has_one_outcome_in_every_order_and_split(
    plain: SparkSession, dataset: Callable[..., Dataset], kind: str
) -> None:
    made = dataset(**KINDS[kind])
    rules, cases = rules_of(made), arrivals(made.apply.mode == "upsert", excepted=bool(made.excepted))
    wrong: list[object] = []
    for arrival, table in zip(cases, fold(plain, cases, made), strict=True):
        rows = oracle.rows(table.published(arrival), rules).values()
        expected = {key_of(arrival.name, one): one.order for one in rows}
        if {key: order_of(row) for key, row in table.rows.items()} != expected:
            wrong.append((arrival, expected))
        wrong += [(arrival, said, row) for said, row in untrue(arrival, table, rules)]
    assert not wrong, f"{len(wrong)} wrong; the first: {wrong[0]}"


def untrue(arrival: Arrival, table: Table, rules: Rules) -> Iterator[tuple[object, object]]:
    """What is wrong with the account: of a batch into an empty table any verdict that is not the oracle's, and behind
    it each duplicate whose reason does not hold, or that points to another record than what stands for its message."""
    first = {
        one.order: told
        for one, told in zip(arrival.batches[0], oracle.verdicts(arrival.batches[0], rules), strict=True)
    }
    for row in table.judged[0]:
        if (expected := first[order_of(row)]).verdict and _told(row) != expected:  # type: ignore[index]
            yield expected, row
    by_order, standing = {one.order: one for one in arrival.log}, dict[object, Decoded]()
    for number, (batch, judged) in enumerate(zip(arrival.batches, table.judged, strict=True)):
        if number in table.refused:
            continue
        for row in judged:
            mine = by_order[order_of(row)]  # type: ignore[index]
            if row[C.VERDICT] == "duplicate":
                survivor, stands = by_order[order_of(row, U.OTHER)], _stands(mine, batch, standing, rules)  # type: ignore[index]
                retry = rules.mode == "upsert" and row[C.REASON] in ("producer", "message_id")
                holds = row[C.REASON] in ("business_key", "key_version") or any(
                    other is not mine and other.key == mine.key and same_at(row[C.REASON], other, mine)
                    for other in arrival.log
                )
                resent = retry and same_at(row[C.REASON], mine, survivor) and mine.key == survivor.key
                if not holds or mine.content != survivor.content or not (survivor == stands or resent):
                    yield stands, row
        acts = [row for row in judged if row[U.ACTION] and row[U.ACTION] != Action.UNPLACE]
        standing |= {by_order[order_of(row)].key: by_order[order_of(row)] for row in acts}  # type: ignore[index]


def _told(row: Row) -> Verdict:
    return Verdict(row[C.VERDICT], row[C.REASON], order_of(row, U.OTHER))


def _stands(mine: Decoded, batch: Sequence[Decoded], standing: dict[object, Decoded], rules: Rules) -> Decoded:
    """What stands for a record's message behind its batch: the best of the batch, or the table's row where that is
    better, or where the batch's best is no row itself, for the batch has a newer version of the key."""
    of_key = [one for one in batch if one.key == mine.key]
    best = oracle.best([one for one in of_key if one.version == mine.version], batch, rules)
    row = standing.get(mine.key)
    if row is None or row.version != mine.version:
        return best
    newer = any(one.version is not None and one.version > mine.version for one in of_key)
    return row if newer or not rules.beats(best, row) or best == mine else best


def test_the_domains_hold_what_they_promise() -> None:
    assert len(SPLITS) == 13
    assert len(list(logs(upsert=False))) == 3 * 4 * 16 * 16
    assert len({tuple(repr(one) for one in log) for log in logs(upsert=True)}) == 3 * 2 * 12 * 12
