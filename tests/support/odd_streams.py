"""Small streams with the oddities of real data, in exports: a dataset file, and the files of its batches.

A record has at most one fault, so the reason of its rejection is one; of harmless oddities it may have any number.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from sample import kcat
from tests.support.layouts import parquet

RECORDS = 60
"""Of a stream in a batch."""
OPTIONAL = 7
"""Fields of a dataset, of `FIELDS`."""
START = datetime(2026, 3, 1, 8, tzinfo=UTC)
QUALITY = {"max_rejected_rate": 1.0, "max_duplicate_rate": 1.0, "max_conflicts": 1000}
OF_DELETES = {"max_rejected_deletes": 1000}
"""For datasets that delete: some deletes have a fault."""
FIELDS: dict[str, Any] = {
    "name": "string",
    "n": "long?",
    "small": "int?",
    "amount": "decimal(18,2)?",
    "big": "decimal(38,0)?",
    "ratio": "double?",
    "ok": "boolean?",
    "day": "date?",
    "at": "timestamp?",
    "ms": "timestamp(millis)?",
    "ns": "timestamp(nanos)?",
    "days": "date(days)?",
    "tags": "list<long>?",
    "deep": "struct<d: decimal(9,3)?, s: string?>?",
    "raw": "binary?",
    "counts": "map<string, long>?",
    "document": "json?",
    "stamp": {"type": "timestamp?", "from": '"@timestamp"'},
    "event_id": {"type": "string?", "from": '"event.id"'},
    "city": {"type": "string?", "from": "address.city"},
}
PLACES = {"stamp": "@timestamp", "event_id": "event.id", "city": "address"}
"""The outermost name in a record, where it is not the field's."""


@dataclass(frozen=True, slots=True)
class Export:
    """A dataset file (`given`), and of each batch its files by name."""

    name: str
    given: dict[str, Any]
    batches: list[dict[str, bytes]]


@dataclass(slots=True)
class Sent:
    """A record under construction. `members`: of its value, as JSON text by name."""

    partition: int
    ts: int
    members: dict[str, str] = field(default_factory=dict)
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    value: bytes | None = b""
    """Written from the members at the end, unless `written`."""
    written: bool = False
    offset: int = -1
    error: str = ""
    """The export could not decode its `payload` or `key`."""
    junk: bool = False
    """It is followed by a line that is no record."""
    usable: bool = True


@dataclass(frozen=True, slots=True)
class Message:
    """What a producer sends, once or more often."""

    key: str
    version: int
    message_id: str
    content: dict[str, Any]
    partition: int
    deletes: bool = False


DOCUMENTS = {
    "7": ["7", "7.0", "70e-1"],
    '"7"': ['"7"', '"\\u0037"'],
    "[true,null]": ["[true, null]"],
    '{"a":1.5,"b":{"":"é/"}}': ['{"b": {"": "é\\/"}, "a": 1.50}', '{"a": 7, "a": 15E-1, "b": {"": "\\u00e9/"}}'],
}
"""Canonical JSON, and ways to write it."""

# How one value may be written.


def spell(draw: Random, kind: str, value: Any) -> str:
    """JSON text of a value of a declared type, in one of the ways that mean the same."""
    kind = kind.removesuffix("?")
    if value is None:
        return "null"
    if kind == "string":
        return json.dumps(value, ensure_ascii=draw.random() < 0.5)
    if kind == "boolean":
        return json.dumps(value)
    if kind in ("int", "long", "date(days)", "timestamp(millis)", "timestamp(nanos)"):
        ways = ["", "", "", ".0", "e0", "0E-1", ".00e+0", f".{'0' * 40}"]
        return f"{value}{draw.choice(ways)}"
    if kind.startswith("decimal") or kind == "double":
        plain = f"{value:f}"
        pointed = plain if "." in plain else f"{plain}.0"
        ways = [plain, f"{pointed}00", pointed.ljust(45, "0"), with_exponent(value)]
        ways += [json.dumps(way) for way in ways] if kind.startswith("decimal") else []
        return draw.choice(ways)
    if kind == "date":
        return f'"{value}"'
    if kind == "timestamp":
        return f'"{spell_instant(draw, value)}"'
    if kind == "binary":
        return json.dumps(b64encode(value).decode()).replace("/", draw.choice(["/", "\\/"]))
    if kind == "json":
        return draw.choice(DOCUMENTS[value])
    if kind.startswith("map"):
        return spell_map(draw, value)
    if kind.startswith("list"):
        return f"[{', '.join(spell(draw, 'long', item) for item in value)}]"
    d, s = spell(draw, "decimal", value["d"]), spell(draw, "string", value["s"])
    return draw.choice([f'{{"d": {d}, "s": {s}}}', f'{{"x": "\\udc00", "s": {s}, "d": 7, "d": {d}}}'])


def spell_map(draw: Random, value: dict[str, int]) -> str:
    """Its entries in any order, perhaps one of them twice, of which the last counts."""
    entries = [f"{json.dumps(name)}: {spell(draw, 'long', number)}" for name, number in value.items()]
    draw.shuffle(entries)
    twice = [f"{json.dumps(name)}: 99" for name in value if draw.random() < 0.2]
    return f"{{{', '.join(twice + entries)}}}"


def with_exponent(value: Decimal) -> str:
    """`1.5` as `15E-1`."""
    _, digits, exponent = value.as_tuple()
    return f"{'-' if value < 0 else ''}{int(''.join(map(str, digits)))}E{exponent}"


def spell_instant(draw: Random, at: datetime) -> str:
    """An instant in one of many zones and precisions."""
    zone = draw.choice(["", "Z", "+00:00", "+01:00", "-0330", "+1400"])
    shift = {"+01:00": 60, "-0330": -210, "+1400": 840}.get(zone, 0)
    local = at + timedelta(minutes=shift)
    text = f"{local:%Y-%m-%d}{draw.choice('T ')}{local:%H:%M}"
    digits = f"{local:%f}".rstrip("0")
    if local.second or digits or draw.random() < 0.5:
        text += f":{local:%S}"
        wider = digits.ljust(draw.choice([len(digits), 3, 6, 7, 8, 9]), "0")
        text += f".{wider}" if wider else ""
    return text + zone


def any_value(draw: Random, kind: str) -> Any:
    """A value of a declared type."""
    second = START + timedelta(seconds=draw.randrange(3600))
    minute = second.replace(second=0)
    of: dict[str, Callable[[], Any]] = {
        "string": lambda: draw.choice(["x", "é€", "😀 𝄞", "", 'say "1e5", 1e5', "a\\ud83d", "a\tb\u0001", " 5 "]),
        "long": lambda: draw.choice([0, 1, -7, 2**53 + 1, 2**63 - 1, -(2**63), draw.randrange(10**6)]),
        "int": lambda: draw.choice([0, 2**31 - 1, -(2**31), draw.randrange(1000)]),
        "decimal(18,2)": lambda: Decimal(draw.choice(["0.00", "-0.01", "1.50", "9999999999999999.99", "7", "1E+3"])),
        "decimal(38,0)": lambda: Decimal(draw.choice(["12345678901234567890123456789012345678", "-1", "0", "1E+20"])),
        "double": lambda: Decimal(draw.choice(["0.1", "-2.5", "1E+21", "3", "123456.789"])),
        "boolean": lambda: draw.random() < 0.5,
        "date": lambda: draw.choice(["2026-03-01", "1969-12-31", "2024-02-29", "9999-12-31"]),
        "timestamp": lambda: draw.choice([minute, second, second + timedelta(microseconds=draw.randrange(10**6))]),
        "timestamp(millis)": lambda: draw.choice([1_772_359_200_123, 0, -1, 253_402_300_799_999]),
        "timestamp(nanos)": lambda: draw.choice([1_772_359_200_123_456_000, 0, -1000]),
        "date(days)": lambda: draw.choice([0, -1, 20_000, 2_932_896]),
        "binary": lambda: draw.choice([b"", b"\xff\x00\x3f", b"a", draw.randbytes(30)]),
        "map<string, long>": lambda: {name: draw.randrange(9) for name in draw.sample(["b", "a", "é", "𐀀", ""], 3)},
        "json": lambda: draw.choice(list(DOCUMENTS)),
        "list<long>": lambda: [draw.randrange(9) for _ in range(draw.randrange(3))],
        "struct<d: decimal(9,3)?, s: string?>": lambda: {
            "d": draw.choice([None, Decimal("1.5"), Decimal("-0.001")]),
            "s": draw.choice([None, "😀", "y"]),
        },
    }
    return of[kind.removesuffix("?")]()


def any_content(draw: Random, fields: dict[str, Any]) -> dict[str, Any]:
    """Values of some fields; a required one is there, and may be null, too."""
    content = {}
    for name, given in fields.items():
        kind = given["type"] if isinstance(given, dict) else given
        if not kind.endswith("?"):
            content[name] = None if draw.random() < 0.1 else any_value(draw, kind)
        elif draw.random() < 0.35:
            content[name] = draw.choice([None, *[any_value(draw, kind) for _ in range(5)]])
    return content


# What may be wrong with one.

BAD_MEMBERS = [
    ("name", '"half \\ud83d"'), ("name", '"\\ude00\\ud83d"'), ("name", "5"), ("name", "{}"),
    ("n", '"5"'), ("n", "1.5"), ("n", "9223372036854775808"), ("n", "15e-1"), ("n", "true"),
    ("small", "2147483648"), ("small", "1e10"),
    ("amount", "0.1000000000000000055511151231257827021181583404541015625"), ("n", f"1.{'0' * 40}1"),
    ("amount", "1.005"), ("amount", '"x"'), ("amount", '" 1"'), ("amount", "12345678901234567.00"), ("amount", "1e-3"),
    ("big", "123456789012345678901234567890123456789"), ("big", "0.5"),
    ("ratio", "1e400"), ("ratio", '"0.1"'), ("ok", '"true"'), ("ok", "1"),
    ("day", '"2026-02-30"'), ("day", '"2026-3-1"'), ("day", "20000"),
    ("at", '"2026-03-01T10:00:00.1234567Z"'), ("at", '"2026-03-01T10:00:00.123456789"'), ("at", '"2026-02-30T10:00Z"'),
    ("at", '"2026-03-01T24:01Z"'), ("at", "1772359200"), ("stamp", '"yesterday"'),
    ("ms", "1.5"), ("ms", '"1772359200123"'), ("ms", "1e30"), ("ns", "1772359200123456789"), ("days", '"1"'),
    ("tags", '[1, "2"]'), ("tags", "{}"), ("deep", '{"d": 0.0001}'), ("deep", '{"s": "\\ud83d"}'), ("deep", "[]"),
    ("event_id", '"\\ud83d\\ud83d"'), ("city", "7"),
    ("raw", '"YQ"'), ("raw", '"YR=="'), ("raw", '"Y Q="'), ("raw", "[97]"), ("counts", "[]"), ("counts", '{"a": "1"}'),
    ("counts", '{"\\ud83d": 1}'), ("document", '{"a": ["\\ud83d"]}'), ("document", '{"\\ud83d": 1}'),
]  # fmt: skip
BAD_VALUES = [b"", b'{"name": ', b'{"name": "x"}}', b"\xff{}", b'{"name": "\xed\xa0\xbd"}', b'{"name": NaN}']


def fault_of_member(draw: Random, sent: Sent, fields: dict[str, Any]) -> None:
    """A member that does not fit, or a required one that is not there."""
    name, member = draw.choice(
        [bad_member for bad_member in BAD_MEMBERS if bad_member[0] in fields] + [("name", "")] * 10
    )
    if member:
        sent.members[name] = member
    else:
        del sent.members[name]


def fault_of_value(draw: Random, sent: Sent, fields: dict[str, Any]) -> None:
    """A value that is no JSON object."""
    sent.value, sent.written = draw.choice(BAD_VALUES), True


def fault_of_null(draw: Random, sent: Sent, fields: dict[str, Any]) -> None:
    """No value."""
    sent.value, sent.written = None, True


def fault_of_line(draw: Random, sent: Sent, fields: dict[str, Any]) -> None:
    """kcat could not decode the record."""
    sent.error = draw.choice(["payload", "key"])


def fault_of_header(name: str, *values: bytes | None) -> Callable[[Random, Sent, dict[str, Any]], None]:
    """A header that is not there (None) or has one of some values."""

    def fault(draw: Random, sent: Sent, fields: dict[str, Any]) -> None:
        bad = draw.choice(values)
        sent.headers = [header for header in sent.headers if header[0] != name] + ([] if bad is None else [(name, bad)])

    return fault


def fault_of_key(*keys: bytes | None) -> Callable[[Random, Sent, dict[str, Any]], None]:
    """One of some keys."""

    def fault(draw: Random, sent: Sent, fields: dict[str, Any]) -> None:
        sent.key = draw.choice(keys)

    return fault


def fault_of_extra(draw: Random, sent: Sent, fields: dict[str, Any]) -> None:
    """A member that the file does not name."""
    sent.members["more"] = "1"


def member(name: str, *values: str) -> Callable[[Random, Sent, dict[str, Any]], None]:
    """One of some values of a member."""

    def fault(draw: Random, sent: Sent, fields: dict[str, Any]) -> None:
        sent.members[name] = draw.choice(values)

    return fault


Fault = Callable[[Random, Sent, dict[str, Any]], None]
OF_VALUES: list[Fault] = [fault_of_member, fault_of_member, fault_of_member, fault_of_value]
NO_KEY = (b'{"id": ', b"\xff", None, b"{}", b'{"id": null}')
NO_TEXT_KEY, NO_LONG_KEY = (fault_of_key(*NO_KEY, value) for value in (b'{"id": "k\\ud83d"}', b'{"id": 1.5}'))


@dataclass(frozen=True, slots=True)
class Kind:
    """A dataset file, and how its records come about: several streams in one dataset, since each batch has a price."""

    given: dict[str, Any]
    faults: list[Fault]
    layout: str = "kcat"
    batches: int = 1
    streams: int = 2
    finish: Callable[[Random, Sent, Message], None] = lambda draw, sent, message: None
    """Adds to a record's members what is special about the dataset."""


def _of_header(draw: Random, sent: Sent, message: Message) -> None:
    sent.key = json.dumps({"id": message.key}).encode()
    sent.headers.append(("v", str(message.version).encode()))


def _of_key(draw: Random, sent: Sent, message: Message) -> None:
    number = int(message.key.removeprefix("k"))
    sent.key = f'{{"id": {number}, "id2": "\\ud83d"}}'.encode()
    if draw.random() < 0.7:
        sent.members["id"] = spell(draw, "long", number)


def _of_value(draw: Random, sent: Sent, message: Message) -> None:
    sent.members["id"] = f'"{message.key}"'
    sent.members["version"] = f'"{spell_instant(draw, START + timedelta(seconds=message.version))}"'
    sent.members["op"] = '"d"' if message.deletes else ("null", '"u"')[message.version // 2 % 2]
    if message.deletes:
        del sent.members["name"]


def _of_entry(draw: Random, sent: Sent, message: Message) -> None:
    sent.members["id"] = f'"{message.key}"'
    sent.key = draw.choice([None, b"\xff\x00", draw.randbytes(6), b"{"])
    sent.headers.append(("trace", draw.choice([None, b"\xff\xfe", b"x"])))


def _of_kind(draw: Random, sent: Sent, message: Message) -> None:
    _of_entry(draw, sent, message)
    sent.members["kind"] = ('"a"', '"a"', '"a"', '"b"', "null")[int(message.key.rpartition("-")[2]) % 5]
    sent.usable = sent.members["kind"] == '"a"'


def _of_stock(draw: Random, sent: Sent, message: Message) -> None:
    sent.key = json.dumps({"sku": f"s{sum(message.key.encode()) % 5}"}).encode()
    sent.members["delta"] = spell(draw, "decimal", Decimal(message.version * 75 - 100).scaleb(-2))


def _given(layout: str = "kcat", fields: dict[str, Any] = FIELDS, **more: Any) -> dict[str, Any]:
    source = {"exports": {"path": "exports", "layout": layout, "origin": {"cluster": "c"}, "holes": "none"}}
    source |= {"filter": more.pop("filter")} if "filter" in more else {}
    value = {"fields": fields} | ({"schema_changes": more.pop("schema_changes")} if "schema_changes" in more else {})
    made = {"source": source, "value": value, "quality": QUALITY, "apply": {"mode": "append"}} | more
    if made["apply"]["mode"] == "upsert":  # some deletes have a fault
        made["quality"] = QUALITY | {"max_rejected_deletes": 1000}
    return made


_BY_ID = {"id": "string"} | FIELDS
_BOTH = {"message_id": "header.m", "business_key": ["id"]}
_ENTRY_FAULTS = [*OF_VALUES, fault_of_null, fault_of_line, member("id", "null"), fault_of_header("m", b"\xff")]
_ACCOUNTS = {
    "key": {"format": "json"},
    "identity": {"message_id": "header.m"},
    "apply": {"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)"}, "delete_when": "tombstone"},
}
_ACCOUNT_FAULTS = [*OF_VALUES, fault_of_line, NO_TEXT_KEY, fault_of_header("v", None, b"x", b"1.5", b"\xff")]
KINDS = {
    "entries": Kind(_given(fields=_BY_ID, identity=_BOTH), _ENTRY_FAULTS, batches=2, streams=4, finish=_of_entry),
    "accounts": Kind(_given(**_ACCOUNTS), _ACCOUNT_FAULTS, batches=2, streams=4, finish=_of_header),
    "devices": Kind(
        _given(
            fields={"id": "long"} | FIELDS,
            key={"format": "json"},
            identity={"message_id": "header.m"},
            apply={"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}, "delete_when": "tombstone"},
        ),
        [*OF_VALUES, fault_of_line, NO_LONG_KEY, member("id", "999", "1.5")],
        finish=_of_key,
    ),
    "readings": Kind(
        _given(
            fields={"id": "string", "version": "timestamp", "op": "string?"} | FIELDS,
            identity={"message_id": "header.m"},
            apply={
                "mode": "upsert",
                "key": ["id"],
                "version": {"from": "version", "tie": "conflict"},
                "delete_when": "op = 'd'",
            },
        ),
        [
            *OF_VALUES,
            fault_of_line,
            member("id", "null"),
            member("version", "null", '"2026-03-01T1:00Z"', '"2031-03-01T01:00Z"'),
        ],
        finish=_of_value,
    ),
    "filtered": Kind(
        _given(
            fields=_BY_ID | {"kind": "string?"},
            identity=_BOTH,
            filter="kind = 'a'",
            schema_changes="quarantine",
        ),
        [fault_of_member, fault_of_value, fault_of_null, fault_of_line, fault_of_extra],
        finish=_of_kind,
    ),
    "stock": Kind(
        _given(
            fields=FIELDS | {"delta": "decimal(9,2)?"},
            key={"format": "json"},
            identity={"message_id": "header.m"},
            apply={"mode": "increment", "key": ["key.sku"], "add": {"stock": "delta"}},
        ),
        [*OF_VALUES, fault_of_line, fault_of_header("m", None, b"\xff"), member("delta", "null")],
        finish=_of_stock,
    ),
    "of connect": Kind(
        _given("connect", fields=_BY_ID, identity={"business_key": ["id"]}),
        [fault_of_member],
        layout="connect",
        finish=_of_entry,
    ),
    "of parquet": Kind(
        _given("parquet", **_ACCOUNTS),
        [*OF_VALUES, NO_TEXT_KEY, fault_of_header("v", None, b"x", b"1.5", b"\xff")],
        layout="parquet",
        finish=_of_header,
    ),
}


def generate(kind: Kind, name: str, draw: Random) -> Export:
    """Streams of the kind, in two partitions each: records with retries, copies, conflicts and faults.

    Of the optional fields the dataset has some.
    """
    some = {"name", *draw.sample(sorted(FIELDS), OPTIONAL)}
    value = kind.given["value"]
    fields = {name: of for name, of in value["fields"].items() if name not in FIELDS or name in some}
    given = {**kind.given, "value": {**value, "fields": fields}, "target": {"table": f"tests.{name}", "buckets": 2}}
    batches: list[list[Sent]] = [[] for _ in range(kind.batches)]
    for number in range(kind.streams):
        sent = _Log(kind, fields, draw, number).send(RECORDS * kind.batches)
        batches[0] += sent[:RECORDS]
        if kind.batches > 1:  # the next export begins before the end of the first
            batches[1] += [*(record for record in sent[RECORDS - 20 : RECORDS] if record.usable), *sent[RECORDS:]]
    return Export(name, given, [_files(kind.layout, draw, records) for records in batches])


class _Log:
    """A stream: two partitions, and what was sent to them."""

    def __init__(self, kind: Kind, fields: dict[str, Any], draw: Random, number: int) -> None:
        self.kind, self.fields, self.draw, self.number = kind, fields, draw, number
        self.apply = kind.given["apply"]
        self.ordinary = {name: of for name, of in self.fields.items() if name in FIELDS}
        self.messages: list[Message] = []
        self.versions: dict[tuple[str, int], int] = {}
        self.earlier = 0
        """How many messages the first batch has, in the second."""
        self.contested: set[tuple[str, int]] = set()
        self.partitions = (2 * number, 2 * number + 1)
        self.offsets = dict.fromkeys(self.partitions, 0)
        self.clock = round(START.timestamp() * 1000)
        self.tombstones = self.apply.get("delete_when") == "tombstone"

    def send(self, records: int) -> list[Sent]:
        """So many records, in the order in which they were sent."""
        sent: list[Sent] = []
        while len(sent) < records:
            if len(sent) >= RECORDS and not self.earlier:
                self.earlier = len(self.messages)
            message = self._message()
            copies = self.draw.choice([1, 1, 1, 1, 1, 1, 2, 3])  # a lost acknowledgement: the same once more
            self.clock += self.draw.choice([1_000, 1_000, 60_000])
            sent += [self._record(message) for _ in range(copies)]
            if self.draw.random() < 0.25:
                broken = self._record(replace(self._new(), deletes=False))
                broken.usable = False
                self.draw.choice(self.kind.faults)(self.draw, broken, self.fields)
                sent.append(broken)
        for record in sent:
            self._finish(record)
        return sent[:records]

    def _new(self) -> Message:
        draw, number = self.draw, len(self.messages)
        upsert = self.apply["mode"] == "upsert"
        key = f"k{draw.randrange(10) + 10 * self.number}" if upsert else f"e{self.number}-{number}"
        by_offset = self.apply.get("version", {}).get("from") == "offset"
        partition = self.partitions[int(key[1:]) % 2 if by_offset else draw.randrange(2)]
        version = self.versions.get((key, partition), partition) + 2 * draw.randrange(1, 4)  # no two messages have one
        self.versions[key, partition] = version
        deletes = upsert and draw.random() < 0.15
        message_id = f"m{self.number}-{number}-{draw.randrange(10**6)}"
        return Message(key, version, message_id, any_content(draw, self.ordinary), partition, deletes)

    def _message(self) -> Message:
        """A new one; or one of before under another id, with the same content or another."""
        kind = self.draw.random()
        by_offset = self.apply.get("version", {}).get("from") == "offset"
        if self.messages and kind < 0.25 and not by_offset and self.apply["mode"] != "increment":
            message = self._again(other_content=kind > 0.17)
        else:
            message = self._new()
        self.messages.append(message)
        return message

    def _again(self, other_content: bool) -> Message:
        """A message of before under another id. A second batch brings no other content for what the first has: its
        records would be judged by the content that wins in the end, of which the design says less than of rows."""
        old = self.draw.choice(self.messages[-30:])
        identity = (old.key, old.version)
        older = any((message.key, message.version) == identity for message in self.messages[: self.earlier])
        if older and (other_content or identity in self.contested):
            return self._new()
        if other_content:
            self.contested.add(identity)
            old = replace(old, content=any_content(self.draw, self.ordinary))
        return replace(old, message_id=f"{old.message_id}+{len(self.messages)}")

    def _record(self, message: Message) -> Sent:
        draw = self.draw
        self.clock += 1
        sent = Sent(message.partition, self.clock)
        for name, value in message.content.items():
            given = self.fields[name]
            sent.members[name] = spell(draw, given["type"] if isinstance(given, dict) else given, value)
        if "message_id" in self.kind.given.get("identity", {}):
            wrong = [("m", b"\xff")] if draw.random() < 0.2 else []  # of equal names the last counts
            sent.headers = [*wrong, ("m", message.message_id.encode())]
        self.kind.finish(draw, sent, message)
        if message.deletes and self.tombstones:
            sent.value, sent.written = None, True
        return sent

    def _finish(self, sent: Sent) -> None:
        """Write the value's members as one object, and give the record its offset."""
        sent.offset = self.offsets[sent.partition]
        self.offsets[sent.partition] += 1
        if not sent.written:
            sent.value = _object(self.draw, sent.members, strict="schema_changes" in self.kind.given["value"])
        sent.junk = self.kind.layout == "kcat" and self.draw.random() < 0.02


def _object(draw: Random, members: dict[str, str], strict: bool) -> bytes:
    pairs = []
    for name, text in members.items():
        place = PLACES.get(name, name)
        pairs.append((place, f'{{"city": {text}, "zip": 1e999}}' if name == "city" else text))
    draw.shuffle(pairs)
    for place, _ in pairs[:]:
        if draw.random() < 0.08:  # of equal names the last counts
            pairs.insert(0, (place, draw.choice(['"an earlier one"', "1e5", "null", '"\\ud83d"', "{}"])))
    if not strict and draw.random() < 0.3:
        pairs.insert(draw.randrange(len(pairs) + 1), draw.choice([("x", '"\\ud83d"'), ("y", "1e999"), ("NAME", "5")]))
    space = draw.choice(["", " ", "  \t"])
    text = "{" + ",".join(f"{space}{json.dumps(place)}:{space}{value}" for place, value in pairs) + "}"
    return (draw.choice(["", "", "", "\ufeff"]) + text).encode()


# How exports have them.


def _files(layout: str, draw: Random, records: list[Sent]) -> dict[str, bytes]:
    if layout == "connect":
        return {
            f"topics/t/partition={number}/t+{number}+{0:010}.json": b"".join(
                (record.value or b"") + b"\n" for record in records if record.partition == number
            )
            for number in sorted({record.partition for record in records})
        }
    half = len(records) // 2
    parts = [records[: half + 5], records[half - 5 :]]  # two exports overlap
    if layout == "parquet":
        return {f"{number}.parquet": _parquet(part) for number, part in enumerate(parts)}
    return {f"{number}.jsonl": b"".join(_line(draw, record) for record in part) for number, part in enumerate(parts)}


def _line(draw: Random, sent: Sent) -> bytes:
    record = kcat.Record("t", sent.partition, sent.offset, sent.ts, 1, tuple(sent.headers), sent.key, sent.value)
    if sent.error:
        record = kcat.Record("t", sent.partition, sent.offset, sent.ts, 1, (), None, None)
    line = kcat.line(record)
    if sent.error:
        line = line[:-2] + f',"{sent.error}_error":"no schema 7"}}\n'.encode()
    return line + (draw.choice([b"% Reached end of topic t\n", b'{"topic":"t",\n']) if sent.junk else b"")


def _parquet(records: list[Sent]) -> bytes:
    headers = [[{"key": name, "value": value} for name, value in record.headers] for record in records]
    columns: dict[str, pa.Array] = {
        "topic": pa.array(["t"] * len(records)),
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "timestamp": pa.array([record.ts for record in records], pa.int64()),
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    }
    return parquet(pa.table(columns))
