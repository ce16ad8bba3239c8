"""A message counts once, as its first delivery: every small log with resends, in every order and split of batches.

What is expected is said as a user would: the row is the message that was first sent last. Nothing is drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.vocabulary import Reason
from tests.support.fold import CONTENT, Table, fold
from tests.support.generate import Arrival, batches_of
from tests.support.oracle import Decoded

MESSAGES = ("m1", "m2", "m3")
NEXT = "m4"
"""A message of the next version."""
_FILE: dict[str, Any] = {
    "key": {"format": "json"},
    "value": {"fields": {"rev": "long", "state": "string"}},
    "identity": {"message_id": "header.m"},
}


@dataclass(frozen=True, slots=True)
class Kind:
    """How deliveries decide. `versions`: of the records of a log, by their places in it."""

    version: dict[str, str]
    versions: Callable[[int], int]
    tie: str = "conflict"
    several: bool = True
    """Whether deliveries in several partitions compare."""
    by_time: bool = False
    goes_on: bool = False
    """Whether each log is also tried with one message more, sent once: the next version of the key's chain."""
    lost: str | None = None
    """The message whose content lost a conflict by a decision."""


KINDS = {
    "offset": Kind({"from": "offset"}, lambda at: at, several=False),
    "a header that is stamped at each send": Kind({"from": "long(header.v)"}, lambda at: 10 * at),
    "a tie, last": Kind({"from": "rev", "tie": "last"}, lambda at: 1, "last", several=False),
    "a chain, last": Kind({"from": "rev", "guard": "contiguous", "tie": "last"}, lambda at: 1, "last", several=False),
    "a chain that goes on": Kind(
        {"from": "long(header.v)", "guard": "contiguous"}, lambda at: 1, by_time=True, goes_on=True
    ),
    "a content that lost": Kind({"from": "long(header.v)"}, lambda at: 1, by_time=True, lost="m3"),
    "a chain, and a content that lost": Kind(
        {"from": "long(header.v)", "guard": "contiguous"}, lambda at: 1, by_time=True, lost="m3"
    ),
    "a chain, first": Kind(
        {"from": "rev", "guard": "contiguous", "tie": "first"}, lambda at: 1, "first", several=False
    ),
    "a tie, first": Kind({"from": "long(header.v)", "tie": "first"}, lambda at: 1, "first", several=False),
}


def orders(count: int) -> Iterator[tuple[int, ...]]:
    """The batch of each record: every way in which records come in batches, one after the other."""
    for batches in range(1, count + 1):
        for split in itertools.product(range(batches), repeat=count):
            if len({*split}) == batches:
                yield split


def logs(kind: Kind) -> Iterator[tuple[tuple[str, int], ...]]:
    """Messages and partitions: all logs of three deliveries in two partitions, and of four in one."""
    if kind.goes_on:
        for messages in itertools.product(MESSAGES, repeat=3):
            if is_named_in_order(messages):
                yield from (tuple((message, 0) for message in log) for log in (messages, (*messages, NEXT)))
        return
    for messages in itertools.product(MESSAGES, repeat=3):
        if is_named_in_order(messages):
            for partitions in itertools.product((0, 1), repeat=2):
                yield tuple(zip(messages, (0, *partitions), strict=True))
    for messages in itertools.product(MESSAGES, repeat=4):
        if is_named_in_order(messages):
            yield tuple((message, 0) for message in messages)


def is_named_in_order(messages: Sequence[str]) -> bool:
    """Names mean nothing: a message's is greater than those of the messages that were sent before."""
    seen = list(dict.fromkeys(messages))
    return seen == list(MESSAGES[: len(seen)])


def log_of(kind: Kind, named: Sequence[tuple[str, int]]) -> tuple[Decoded, ...]:
    """The records: m2 deletes. Clocks run backwards, but where times decide."""
    return tuple(
        Decoded(
            position=("c", "t", 1, partition, at),
            timestamp=100 + at if kind.by_time else 100 - at,
            key="k",
            version=kind.versions(at) + (message == NEXT),
            content="deleted" if message == "m2" else message,
            deleted=message == "m2",
            message_id=message,
        )
        for at, (message, partition) in enumerate(named)
    )


def expected(records: Sequence[Decoded], kind: Kind) -> tuple[str, int]:
    """The message that is the row, and where it was first sent: the last of all first deliveries, or the first."""
    firsts = firsts_of(records)
    message = (min if kind.tie == "first" else max)(
        firsts, key=lambda message: (message == NEXT, message != kind.lost, firsts[message])
    )
    return message, firsts[message]


def firsts_of(records: Sequence[Decoded]) -> dict[str, int]:
    """Where each message was first sent."""
    firsts: dict[str, int] = {}
    for record in sorted(records, key=lambda record: record.position[-1]):
        firsts.setdefault(str(record.message_id), record.position[-1])
    return firsts


def went_on(arrival: Arrival, table: Table, number: int) -> bool:
    """Whether the table had both versions of the chain before a batch."""
    before = (batch for at, batch in enumerate(arrival.batches[:number]) if at not in table.refused)
    return {record.version for batch in before for record in batch} == {1, 2}


def ledger_of(table: Table) -> dict[str, int]:
    found = [(row[C.MESSAGE_ID], row[C.ORDER]["offset"]) for row in table.messages]
    assert len(found) == len(dict(found)), found
    return dict(found)


def row_of(table: Table) -> tuple[str, int] | None:
    rows = list(table.rows.values())
    assert len(rows) <= 1
    for row in rows:
        assert row[S.STATE] == ("deleted" if row[CONTENT] == "deleted" else "live")
        return row[C.MESSAGE_ID], row[C.ORDER]["offset"]
    return None


def reasons(table: Table) -> set[str]:
    return {row[C.REASON] for number in table.refused for row in table.judged[number]} & {
        Reason.EARLIER_DELIVERY,
        Reason.INCOMPARABLE_VERSION,
    }


@pytest.mark.by_day(
    "offset", "a tie, last", "a chain that goes on", why="a version of the log, a tie and a chain's links go by day"
)
@pytest.mark.parametrize("name", KINDS)
def test_L1_the_row_is_the_message_that_was_first_sent_last_or_the_batch_is_red(
    plain: SparkSession, dataset: Callable[..., Dataset], name: str
) -> None:
    kind = KINDS[name]
    apply = {"mode": "upsert", "key": ["key.id"], "version": kind.version, "delete_when": "state = 'gone'"}
    made = dataset(**_FILE | {"apply": apply})
    assert made.versions_by_delivery
    arrivals = [
        Arrival(f"{number}/{split}", log, batches_of(log, split), exact=True)
        for number, named in enumerate(logs(kind))
        for log in [log_of(kind, named)]
        for split in orders(len(log))
    ]
    wrong: list[object] = []
    red = 0
    lost = {arrival.name: [("k", 1, kind.lost)] for arrival in arrivals if kind.lost}
    for arrival, table in zip(arrivals, fold(plain, arrivals, made, lost=lost), strict=True):
        published = table.published(arrival)
        partitions = {record.position[3] for record in arrival.log}
        compare = len(partitions) == 1 or kind.several
        sent = [record.position[-1] for batch in arrival.batches for record in batch]
        in_order = sent == sorted(sent)
        red += bool(table.refused)
        if table.refused and not reasons(table):
            wrong.append((arrival, "red by name", table.judged))
        if compare and published and row_of(table) != expected(published, kind):
            wrong.append((arrival, expected(published, kind), row_of(table)))
        if compare and not table.refused and row_of(table) != expected(arrival.log, kind):
            wrong.append((arrival, expected(arrival.log, kind), row_of(table)))
        if kind.goes_on and any(went_on(arrival, table, number) for number in table.refused):
            wrong.append((arrival, "the first version is no row any more", table.judged))
        if compare and in_order and table.refused:
            wrong.append((arrival, "the log's order is never red", table.judged))
        if compare and table.refused and {*firsts_of(arrival.log)} <= {MESSAGES[0], NEXT}:
            wrong.append((arrival, "copies of the one message of a version are never red", table.judged))
        if compare and ledger_of(table) != firsts_of(published):
            wrong.append((arrival, firsts_of(published), ledger_of(table)))
    assert not wrong, f"{len(wrong)} of {len(arrivals)} wrong; the first: {wrong[0]}"
    assert 0 < red < len(arrivals) / 2
