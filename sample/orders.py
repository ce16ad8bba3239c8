"""The story of orders, for two live topics: web and stores write about the same orders, some of them late or twice.

The same messages in every run. `sample.stage` runs the chapters; nothing of it is recorded.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sample.story import Chapter, LostAcknowledgements, Message, Send, Transaction, later, partition_of

WEB, STORES = "shop.orders.web", "shop.orders.stores"
TOPICS = (WEB, STORES)
SEED = 20260305
ORDER_COUNT = 60
OPENED = datetime(2026, 3, 5, 8, tzinfo=UTC)
SKUS = ("tea-100", "tea-250", "pot-1", "cup-2", "caf\u00e9-1")
COUNTRIES = ("DE", "FR", "PL", "GB")


def story() -> list[Chapter]:
    """Two chapters, in the order in which they are sent."""
    orders = Orders()
    return [_placed(orders), _changed(orders)]


def rows() -> dict[str, dict[str, Any]]:
    """The orders that readers must see at the end, by id: the highest revision that was committed."""
    newest: dict[str, dict[str, Any]] = {}
    for chapter in story():
        for step in chapter.steps:
            if isinstance(step, Transaction) and not step.commit:
                continue
            for value in filter(None, map(_usable, step.messages)):
                known = newest.get(value["order_id"], value)
                newest[value["order_id"]] = value if value["revision"] >= known["revision"] else known
    return {order: value for order, value in newest.items() if value["status"] != "erased"}


def _usable(message: Message) -> dict[str, Any] | None:
    if message.value in BROKEN:
        return None
    found: dict[str, Any] = json.loads(message.value or b"")
    return found


def _placed(orders: Orders) -> Chapter:
    placed = orders.placed(ORDER_COUNT)
    paid = orders.changed(range(1, 31), "paid")
    orders.held_back = orders.changed([41, 42, 43], "packed")  # sent in the next chapter, after newer revisions
    newer = orders.changed([41, 42, 43], "sent")
    aborted = orders.changed(range(31, 36), "paid")
    return Chapter(
        "placed",
        (
            Send((*placed, *newer)),
            LostAcknowledgements(tuple(each for each in paid if _place(each) == _place(paid[0]))),
            Send((*(each for each in paid if _place(each) != _place(paid[0])), *later(placed[:8], hours=1))),
            Transaction(aborted, commit=False),
            Transaction(later(aborted), commit=True),
            Send(tuple(_message(WEB, f"o-9{number}", value, f"x-{number}") for number, value in enumerate(BROKEN))),
        ),
    )


def _changed(orders: Orders) -> Chapter:
    orders.day = 1
    sent = orders.changed(range(1, 31), "sent")
    returned = orders.changed([5, 9, 12], "returned")
    # A store takes over orders from the web: the same order, another topic.
    moved = tuple(replace(each, topic=STORES) for each in orders.changed([2, 4, 6, 8], "collected"))
    return Chapter(
        "changed",
        (
            Send((*returned, *sent)),  # returned overtook sent
            Send((*moved, *later(orders.held_back, hours=30))),
            Send(tuple(replace(each, topic=_other(each.topic)) for each in sent[:6])),  # both sides reported it
            Send((*orders.erased([20, 21]), *orders.placed(5))),
            LostAcknowledgements(orders.erased([22])),
            Send(orders.changed([44], "packed")),
        ),
    )


class Orders:
    """Makes the messages, and remembers each order's revision and content."""

    def __init__(self) -> None:
        self.day = 0
        self.held_back: tuple[Message, ...] = ()
        self._random = random.Random(SEED)
        self._clock = 0
        self._orders: dict[int, dict[str, Any]] = {}

    def placed(self, count: int) -> tuple[Message, ...]:
        """New orders, on the web or in a store."""
        first = len(self._orders) + 1
        for number in range(first, first + count):
            lines = [
                {
                    "sku": self._random.choice(SKUS),
                    "quantity": self._random.randrange(1, 5),
                    "price": f"{self._random.randrange(100, 9999) / 100:.2f}",
                }
                for _ in range(self._random.randrange(1, 4))
            ]
            customer: dict[str, Any] = {"id": f"c-{self._random.randrange(1, 30)}", "country": COUNTRIES[number % 4]}
            if number % 3 == 0:
                customer["vip"] = number % 2 == 0
            self._orders[number] = {
                "order_id": f"o-{number}",
                "revision": 0,
                "status": "placed",
                "customer": customer,
                "lines": lines,
                "placed_at": self._tick().isoformat(),
            } | ({"tags": ["gift", None]} if number % 7 == 0 else {})
        return tuple(self._next(number) for number in range(first, first + count))

    def changed(self, numbers: Iterable[int], status: str) -> tuple[Message, ...]:
        """The next revision of each order."""
        return tuple(self._next(number, status=status) for number in numbers)

    def erased(self, numbers: Iterable[int]) -> tuple[Message, ...]:
        """The last revision of each order, which only says that the order is erased."""
        made = []
        for number in numbers:
            message = self._next(number, status="erased")
            gone = {name: self._orders[number][name] for name in ("order_id", "revision", "status")}
            made.append(replace(message, value=json.dumps(gone).encode()))
        return tuple(made)

    def _next(self, number: int, **changes: str) -> Message:
        order = self._orders[number] = self._orders[number] | changes
        order["revision"] += 1
        topic = STORES if number % 3 == 1 else WEB
        name = f"o-{number}"
        text = json.dumps(order, ensure_ascii=False).encode()
        made = _message(topic, name, text, f"{name}.{order['revision']}")
        return replace(made, ts=int(self._tick().timestamp() * 1000))

    def _tick(self) -> datetime:
        self._clock += 1
        return OPENED + timedelta(days=self.day, seconds=37 * self._clock)


BROKEN = (
    b'{"order_id":"o-90","revision":1,"status":"placed","customer":{"country":"DE"},"lines":[],'
    b'"placed_at":"2026-03-05T08:00:00Z"}',
    b'{"order_id":"o-91","revision":1,"status":"placed","customer":{"id":"c-1","country":"DE"},'
    b'"lines":[{"sku":"tea-100","quantity":1.5,"price":"1.00"}],"placed_at":"2026-03-05T08:00:00Z"}',
)
"""Values that must be rejected: a customer without id, a line with half a pot of tea."""


def _message(topic: str, order: str, value: bytes, message_id: str) -> Message:
    ts = int(OPENED.timestamp() * 1000)
    return Message(
        topic, partition_of(order.encode()), order.encode(), value, (("message-id", message_id.encode()),), ts
    )


def _place(message: Message) -> tuple[str, int]:
    return message.topic, message.partition


def _other(topic: str) -> str:
    return STORES if topic == WEB else WEB
