"""The sample's story: the messages of two applications about payments, and their faults.

Everything here is data made with a seed: keys, values, headers, partitions and timestamps are the
same in every run. `sample.record` plays it, chapter by chapter, against a real broker.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sample.story import Chapter, LostAcknowledgements, Message, Send, Transaction, later, partition_of

ENTRIES = "payments.entries"
ACCOUNTS = "payments.accounts"
SEED = 20260301
CLOSING_DAY = datetime(2026, 3, 9, tzinfo=UTC)
ACCOUNT_COUNT = 40


def story() -> list[Chapter]:
    """The five chapters in the order in which they are sent."""
    entries, accounts = Entries(), Accounts()
    return [
        _first(entries, accounts),
        _second(entries, accounts),
        _late(entries, accounts),
        _next(entries, accounts),
        _closing(entries, accounts),
    ]


def _first(entries: Entries, accounts: Accounts) -> Chapter:
    entries.day, accounts.day = 1, 1
    usual = entries.transfers(28, odd=ODD_AMOUNTS)
    opened = accounts.opened(range(1, ACCOUNT_COUNT + 1))
    changed = accounts.changed(range(1, 25))
    accounts.held_back = accounts.changed([3, 4, 7])  # sent in `next`, after newer versions
    newer = accounts.changed([3, 4])
    closed = accounts.closed([5, 6, 7])
    lost = [entries.transfers(1)[0] for _ in range(3)]
    lost_accounts = accounts.changed([8, 9, 10])
    aborted = entries.transfers(3)
    aborted_accounts = accounts.changed([11, 12])
    return Chapter(
        "first",
        (
            Send((*usual, *opened)),
            Send((*entries.broken(BROKEN_ENTRIES[:4]), *changed, *newer, *entries.curious())),
            *(LostAcknowledgements((each,)) for each in lost),
            *(LostAcknowledgements((each,)) for each in lost_accounts),
            Send((*later(usual[10:18], hours=2), *later(changed[4:9], hours=2))),  # a restart
            Send((*closed, *accounts.broken(BROKEN_ACCOUNTS[:3]))),
            Transaction((*entries.transfers(3), *accounts.changed([13, 14, 15])), commit=True),
            Transaction((*aborted, *aborted_accounts), commit=False),
            Transaction((*later(aborted), *later(aborted_accounts)), commit=True),
            Send((*entries.sent_again(usual[20:24]), *accounts.sent_again(opened[20:23]))),
            Send((*entries.transfers(4), *accounts.changed(range(16, 24)))),
        ),
    )


def _second(entries: Entries, accounts: Accounts) -> Chapter:
    entries.day, accounts.day = 3, 3
    usual = entries.transfers(26)
    changed = accounts.changed([*range(8, 40), 12, 13, 14])
    batch = [each for each in entries.transfers(6) if each.partition == 0][:4]
    return Chapter(
        "second",
        (
            Send((*usual, *swapped(changed))),
            LostAcknowledgements(tuple(batch), times=2),
            LostAcknowledgements(tuple(accounts.closed([30]))),
            Send(entries.broken(BROKEN_ENTRIES[4:7])),
            Send((*accounts.opened([5]), *accounts.broken(BROKEN_ACCOUNTS[3:6]))),
            Transaction((*entries.transfers(4), *accounts.closed([16, 17, 18])), commit=True),
            Send((*later(usual[:6], hours=5), *later(changed[6:10], hours=5))),
            Send((*entries.sent_again(usual[30:33]), *accounts.sent_again(changed[:3]))),
            Send((*entries.transfers(3), *accounts.changed(range(19, 27)))),
        ),
    )


def _late(entries: Entries, accounts: Accounts) -> Chapter:
    entries.day, accounts.day = 5, 5
    usual = entries.transfers(14)
    changed = accounts.changed(range(8, 16))
    return Chapter(
        "late",
        (
            Send((*usual, *changed)),
            LostAcknowledgements((entries.transfers(1)[0],)),
            Send((*accounts.closed([31, 32]), *accounts.opened([16]))),
            Transaction((*entries.transfers(2), *accounts.changed([33, 34])), commit=False),
            Send((*entries.broken(BROKEN_ENTRIES[7:9]), *accounts.broken(BROKEN_ACCOUNTS[6:8]))),
            Send((*entries.transfers(3), *accounts.changed(range(20, 28)))),
        ),
    )


def _next(entries: Entries, accounts: Accounts) -> Chapter:
    entries.day, accounts.day = 6, 6
    usual = entries.transfers(24)
    changed = accounts.changed([*range(8, 16), *range(20, 30), 9, 10, 21, 22])
    lost = accounts.changed([35, 36])
    return Chapter(
        "next",
        (
            Send((*usual, *swapped(changed), *later(accounts.held_back, hours=96))),
            Send((*accounts.opened([31, 6]), *accounts.closed([37]))),
            LostAcknowledgements((entries.transfers(1)[1],), times=2),
            *(LostAcknowledgements((each,)) for each in lost),
            Transaction((*entries.transfers(3), *accounts.changed([38, 39])), commit=True),
            Send((*entries.broken(BROKEN_ENTRIES[9:]), *accounts.broken(BROKEN_ACCOUNTS[8:]))),
            Send((*later(usual[8:14], hours=3), *later(changed[:4], hours=3))),
            Send((*entries.sent_again(usual[2:6]), *accounts.sent_again(lost))),
            Send((*entries.transfers(4), *accounts.changed(range(20, 28)))),
        ),
    )


def _closing(entries: Entries, accounts: Accounts) -> Chapter:
    entries.day, accounts.day = CLOSING_DAY.day, CLOSING_DAY.day
    usual = entries.transfers(6)
    changed = accounts.changed(range(8, 18))
    return Chapter(
        "closing",
        (
            Send((*usual, *changed)),
            LostAcknowledgements((entries.transfers(1)[0],)),
            Send((*entries.conflict("t-0010"), *accounts.conflict(25))),
            Send((*entries.transfers(2), *accounts.changed(range(26, 30)))),
        ),
    )


# Amounts that floating point would change, or that are strings; all are valid.
ODD_AMOUNTS = (
    "0.1",
    "12345678901234.57",
    "9007199254740993",
    '"12345678901234.57"',
    '"0.30"',
    "1.10",
    "-0.01",
    "0.07",
)

# Values that must be rejected; `%(t)s` becomes a transfer of its own.
BROKEN_ENTRIES = (
    b"not json",
    b'{"transfer_id":"%(t)s","account_id":"a-1","amount":5,"booked_at":"2026-03-01T08:00Z"} junk',
    b'{"transfer_id":"%(t)s","account_id":"a-2","amount":true,"booked_at":"2026-03-01T08:00:00Z"}',
    b'{"transfer_id":"%(t)s","amount":7.5,"booked_at":"2026-03-01T08:00:00Z"}',
    b'{"transfer_id":"%(t)s","account_id":"a-3","amount":1.001,"booked_at":"2026-03-03T08:00:00Z"}',
    b'{"transfer_id":"%(t)s","account_id":"caf\xe9","amount":5,"booked_at":"2026-03-03T08:00:00Z"}',
    b"",
    b'{"transfer_id":"%(t)s","account_id":17,"amount":5,"booked_at":"2026-03-05T08:00:00Z"}',
    b'{"transfer_id":"%(t)s","account_id":"a-5","amount":"x","booked_at":"2026-03-05T08:00:00Z"}',
    b'{"transfer_id":"%(t)s","account_id":"a-6","amount":5,"booked_at":',
    b'{"transfer_id":"%(t)s","account_id":"a-7","amount":5,"booked_at":"yesterday"}',
)

GOOD_ACCOUNT = b'{"owner":"Bad","status":"active","credit_limit":10,"changed_at":"2026-03-01T08:00:00Z"}'
# What is broken: the key, the version header, all headers, or the value (its text then follows).
BROKEN_ACCOUNTS: tuple[tuple[str, bytes | None], ...] = (
    ("null key", GOOD_ACCOUNT),
    ("value", b"oops"),
    ("value", GOOD_ACCOUNT + b" junk"),
    ("key", GOOD_ACCOUNT),
    ("version", GOOD_ACCOUNT),
    ("value", b'{"status":"active","credit_limit":10,"changed_at":"2026-03-03T08:00:00Z"}'),
    ("value", b'{"owner":"Zo\xeb","status":"active","changed_at":"2026-03-05T08:00:00Z"}'),
    ("value", b""),
    ("value", b'{"owner":"Bad","status":5,"credit_limit":10,"changed_at":"2026-03-06T08:00:00Z"}'),
    ("value", GOOD_ACCOUNT.replace(b":10,", b":10.005,")),
    ("headers", GOOD_ACCOUNT),
    ("version", None),
)


class Entries:
    """Makes the messages of `payments.entries`, and remembers what it may send again."""

    def __init__(self) -> None:
        self.day = 1
        self._random = random.Random(SEED)
        self._clock = 0
        self._transfers = 0
        self._ids = 0
        self._sent: dict[tuple[str, str], dict[str, str]] = {}

    def transfers(self, count: int, odd: Sequence[str] = ()) -> tuple[Message, ...]:
        """New transfers: two entries each, a debit and a credit."""
        made: list[Message] = []
        for index in range(count):
            self._transfers += 1
            transfer = f"t-{self._transfers:04}"
            amount = f"{self._random.randrange(1, 500_000) / 100:.2f}"
            payer, payee = self._random.sample(range(1, ACCOUNT_COUNT + 1), 2)
            note = self._random.choice(NOTES)
            for account, signed in ((payer, "-" + amount), (payee, amount)):
                text = f'"{signed}"' if self._random.random() < 0.3 else signed
                text = odd[index] if index < len(odd) else text
                made.append(self._entry(transfer, f"a-{account}", text, note))
        return tuple(made)

    def sent_again(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """The same entries under new message ids: the application forgot that it had sent them.

        The text differs, the meaning is the same: another order of names, number or string, another zone.
        """
        made: list[Message] = []
        for index, each in enumerate(messages):
            found = json.loads(each.value or b"")
            fields = self._sent[found["transfer_id"], found["account_id"]]
            amount = fields["amount"].strip('"')
            fields = fields | {"amount": amount if index % 2 else f'"{amount}"'}
            if index % 3 == 0:
                fields["booked_at"] = fields["booked_at"].replace('Z"', '+00:00"')
            if fields.get("note") == "null":
                del fields["note"]
            value = _object(dict(sorted(fields.items())))
            headers = self._headers()
            made.append(replace(each, value=value, headers=headers, ts=each.ts + 5_400_000))
        return tuple(made)

    def broken(self, values: Iterable[bytes]) -> tuple[Message, ...]:
        """Values that cannot be used, each with its own transfer."""
        made: list[Message] = []
        for value in values:
            self._transfers += 1
            transfer = f"t-{self._transfers:04}".encode()
            text = value.replace(b"%(t)s", transfer)
            made.append(self._message(transfer, text))
        return tuple(made)

    def curious(self) -> tuple[Message, ...]:
        """Unusual and valid: a name twice, no key, no message id, two of them, unknown fields."""
        twice, keyless, nameless, two_ids, unknown = (self.transfers(1)[0] for _ in range(5))
        more = b'{"amount":1,"note":"the last name counts",' + (twice.value or b"")[1:]
        with_more = (unknown.value or b"")[:-1] + b',"channel":{"app":"web","tags":["a","b"]}}'
        return (
            replace(twice, value=more),
            replace(keyless, key=None),
            replace(nameless, headers=(("trace", b"c0ffee"),)),
            replace(two_ids, headers=(("message-id", b"draft"), *two_ids.headers)),
            replace(unknown, value=with_more),
        )

    def conflict(self, transfer: str) -> tuple[Message, ...]:
        """One entry once more, with another amount: the same identity, other content."""
        account = next(account for sent, account in self._sent if sent == transfer)
        fields = self._sent[transfer, account] | {"amount": "4711.00"}
        return (self._message(transfer.encode(), _object(fields)),)

    def _entry(self, transfer: str, account: str, amount: str, note: str | None) -> Message:
        ts = self._tick()
        fields = {
            "transfer_id": json.dumps(transfer),
            "account_id": json.dumps(account),
            "amount": amount,
            "booked_at": json.dumps(_booked(ts, self._ids % 7)),
        }
        if note is not None:
            fields["note"] = note
        self._sent[transfer, account] = fields
        return self._message(transfer.encode(), _object(fields), ts)

    def _headers(self) -> tuple[tuple[str, bytes], ...]:
        self._ids += 1
        return (("message-id", f"e-{self._ids:05}".encode()),)

    def _tick(self) -> int:
        self._clock += 1
        jitter = self._random.randrange(-900, 900)
        return _millis(self.day, 45 * self._clock % 70_000 + 1_000 + jitter, self._clock % 1000)

    def _message(self, key: bytes, value: bytes, ts: int | None = None) -> Message:
        at = ts or self._tick()
        return Message(ENTRIES, partition_of(key), key, value, self._headers(), at)


NOTES = (
    None,
    "null",
    '"rent"',
    '"salary March"',
    '"caf\u00e9 \u2615"',
    '"a \\"quoted\\" line\\nand one more"',
    '"\u041f\u0440\u0438\u0432\u0435\u0442"',
)


class Accounts:
    """Makes the messages of `payments.accounts`; a version is given to one content only."""

    def __init__(self) -> None:
        self.day = 1
        self.held_back: tuple[Message, ...] = ()
        self._random = random.Random(SEED + 1)
        self._clock = 0
        self._ids = 0
        self._versions: dict[int, int] = {}
        self._bad = 0

    def opened(self, numbers: Iterable[int]) -> tuple[Message, ...]:
        """New accounts, or closed ones opened again with a higher version."""
        return tuple(self._update(number, "active") for number in numbers)

    def changed(self, numbers: Iterable[int]) -> tuple[Message, ...]:
        """The next version of each account."""
        states = ("active", "active", "frozen", "review")
        return tuple(self._update(each, self._random.choice(states)) for each in numbers)

    def closed(self, numbers: Iterable[int]) -> tuple[Message, ...]:
        """Tombstones: a null value, and both headers."""
        return tuple(self._message(each, None) for each in numbers)

    def sent_again(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """The same versions under new message ids."""
        return tuple(
            replace(each, headers=(self._id(), *each.headers[1:]), ts=each.ts + 7_200_000) for each in messages
        )

    def broken(self, cases: Iterable[tuple[str, bytes | None]]) -> tuple[Message, ...]:
        """Records that cannot be used, each about an account of its own."""
        made: list[Message] = []
        for what, value in cases:
            self._bad += 1
            each = self._message(900 + self._bad, value)
            if what == "null key":
                each = replace(each, key=None)
            elif what == "key":
                each = replace(each, key=b"a-900")
            elif what == "version":
                each = replace(each, headers=each.headers[:1])
            elif what == "headers":
                each = replace(each, headers=())
            made.append(each)
        return tuple(made)

    def conflict(self, number: int) -> tuple[Message, ...]:
        """The newest version of an account once more, with other content."""
        self._versions[number] -= 1
        return (self._update(number, "seized"),)

    def _update(self, number: int, status: str) -> Message:
        ts = self._tick()
        fields = {
            "owner": json.dumps(OWNERS[number % len(OWNERS)], ensure_ascii=False),
            "status": json.dumps(status),
            "changed_at": json.dumps(_booked(ts, self._ids % 7)),
        }
        limit = self._random.choice(LIMITS)
        if limit is not None:
            fields["credit_limit"] = limit
        message = self._message(number, _object(fields), ts)
        if self._ids % 29 == 0:  # of duplicate headers the last counts
            message = replace(message, headers=(("version", b"0"), *message.headers))
        return message

    def _message(self, number: int, value: bytes | None, ts: int | None = None) -> Message:
        version = self._versions[number] = self._versions.get(number, 0) + 1
        key = json.dumps({"account_id": f"a-{number}"}).encode()
        headers = (self._id(), ("version", str(version).encode()))
        return Message(ACCOUNTS, partition_of(key), key, value, headers, ts or self._tick())

    def _id(self) -> tuple[str, bytes]:
        self._ids += 1
        return ("message-id", f"c-{self._ids:05}".encode())

    def _tick(self) -> int:
        self._clock += 1
        jitter = self._random.randrange(-900, 900)
        return _millis(self.day, 90 * self._clock % 70_000 + 1_000 + jitter, self._clock % 1000)


OWNERS = ("Ada", "Bo\u0161ko", "Chlo\u00e9", "Dmitri", "Eve \\ Co", "Fran\u00e7ois", "G\u00fcl")
LIMITS = (None, "null", "1000", "2500.50", '"750.25"', "0.1", "9007199254740993", '"0.30"')


def swapped(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Late versions: the messages about an account that has several, in reverse."""
    order: dict[bytes, list[int]] = {}
    for index, each in enumerate(messages):
        order.setdefault(each.key or b"", []).append(index)
    made = list(messages)
    for places in order.values():
        for place, source in zip(places, reversed(places), strict=True):
            made[place] = messages[source]
    return tuple(made)


def _object(fields: dict[str, str]) -> bytes:
    """A JSON object from names and JSON texts: numbers stay as they are written."""
    return ("{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}").encode()


def _millis(day: int, seconds: int, millis: int) -> int:
    at = datetime(2026, 3, day, tzinfo=UTC) + timedelta(seconds=seconds)
    return int(at.timestamp()) * 1000 + millis


def _booked(ts: int, form: int) -> str:
    """An instant in one of the forms that applications use: without zone, with one, with millis."""
    at = datetime.fromtimestamp(ts / 1000, UTC)
    if form == 1:
        return at.strftime("%Y-%m-%dT%H:%M:%S")
    if form == 2:
        return (at + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S+01:00")
    if form == 3:
        return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ts % 1000:03}Z"
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
