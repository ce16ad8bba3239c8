"""Every log of three records that are linked by different levels, tied or in conflict, in every order and split.

The rows are the brute-force oracle's; every duplicate has a reason that is true, and points to a record of its own
message. No case is drawn: the domains are small, and every case is tried.
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
"""Timestamps and partitions. Tied; or the first record of the log is the latest: then its offset decides nothing; or
the first is in another partition, after the others in the order: a producer counts there on its own."""
LINKS = tuple(itertools.product((None, "p"), (None, "m"), ("x", "y")))
"""producer, message id, content"""


def logs(upsert: bool, excepted: bool = False) -> Iterator[tuple[Decoded, ...]]:
    """Logs of three records; the first always has key k and content x, because names mean nothing. `excepted`: their
    contents differ only in fields that do not count."""
    keys_and_versions = (("k", 1), ("k", 2), ("l", 1)) if upsert else (("k", None), ("l", None))
    for times, partitions in PLACES:
        # With versions fewer levels: a producer where the partition matters, otherwise a message id.
        absent = 0 if partitions == (0, 0, 0) else 1
        links = tuple(link for link in LINKS if not upsert or link[absent] is None)
        firsts = itertools.product(keys_and_versions[:1], (link for link in links if link[2] == "x"))
        rest = tuple(itertools.product(keys_and_versions, links))
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


@pytest.mark.by_day(
    "upsert, tie conflict", why="test_laws draws logs of append and of two ties by day, and test_ties of tie last"
)
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
        expected = {key_of(arrival.name, row): row.order for row in rows}
        if {key: order_of(row) for key, row in table.rows.items()} != expected:
            wrong.append((arrival, expected))
        wrong += [(arrival, truth, row) for truth, row in find_untrue(arrival, table, rules)]
    assert not wrong, f"{len(wrong)} wrong; the first: {wrong[0]}"


def find_untrue(arrival: Arrival, table: Table, rules: Rules) -> Iterator[tuple[object, object]]:
    """The wrong verdicts, each after the right one: in the first batch, verdicts that are not the oracle's; in every
    batch, duplicates whose reason is not true, or that do not point to the winner of their message."""
    first = {
        record.order: verdict
        for record, verdict in zip(arrival.batches[0], oracle.verdicts(arrival.batches[0], rules), strict=True)
    }
    for row in table.judged[0]:
        if (expected := first[order_of(row)]).verdict and read_verdict(row) != expected:  # type: ignore[index]
            yield expected, row
    by_order, stored = {record.order: record for record in arrival.log}, dict[object, Decoded]()
    seen: list[Decoded] = []
    for number, (batch, judged) in enumerate(zip(arrival.batches, table.judged, strict=True)):
        if number in table.refused:
            continue
        seen += batch
        firsts = oracle.first_sent(seen, rules)
        counting = [record for record in batch if record in firsts]
        for row in judged:
            record = by_order[order_of(row)]  # type: ignore[index]
            if row[C.VERDICT] == "duplicate":
                survivor, winner = by_order[order_of(row, U.OTHER)], find_winner(record, counting, stored, rules)  # type: ignore[index]
                level = row[C.REASON]
                if level == "late_copy":
                    level = "message_id" if record.message_id else "producer"
                retry = rules.mode == "upsert" and level in ("producer", "message_id")
                holds = level in ("business_key", "key_version") or any(
                    other is not record and other.key == record.key and is_same(level, other, record, rules)
                    for other in arrival.log
                )
                resent = retry and is_same(level, record, survivor, rules) and record.key == survivor.key
                if not holds or record.content != survivor.content or not (survivor == winner or resent):
                    yield winner, row
        acts = [row for row in judged if row[U.ACTION] and row[U.ACTION] != Action.UNPLACE]
        stored |= {by_order[order_of(row)].key: by_order[order_of(row)] for row in acts}  # type: ignore[index]


def is_same(level: str, record: Decoded, other: Decoded, rules: Rules) -> bool:
    """Whether two records are the same message at a level; where a delivery decides, also in two partitions."""
    resent = rules.by_delivery and level == "producer" and record.producer is not None
    return same_at(level, record, other) or (resent and record.producer == other.producer)


def read_verdict(row: Row) -> Verdict:
    return Verdict(row[C.VERDICT], row[C.REASON], order_of(row, U.OTHER))


def find_winner(record: Decoded, batch: Sequence[Decoded], stored: dict[object, Decoded], rules: Rules) -> Decoded:
    """The record that wins a record's message after its batch. It is the best of the batch; or the table's row, if that
    is better, or if the batch has a newer version of the key, so that its best is no row. `batch`: the records without
    copies of messages that were sent before."""
    of_key = [other for other in batch if other.key == record.key]
    of_version = [other for other in of_key if other.version == record.version]
    row = stored.get(record.key)
    if not of_version:
        return row or record
    best = oracle.best(of_version, batch, rules)
    if row is None or row.version != record.version:
        return best
    newer = any(other.version is not None and other.version > record.version for other in of_key)
    return row if newer or not rules.beats(best, row) or best == record else best


def test_the_domains_have_their_sizes() -> None:
    assert len(SPLITS) == 13
    assert len(list(logs(upsert=False))) == 3 * 4 * 16 * 16
    assert len({tuple(repr(record) for record in log) for log in logs(upsert=True)}) == 3 * 2 * 12 * 12
