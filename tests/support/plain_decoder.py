"""Landed bytes to records once more, in plain Python: what DESIGN says of dataset files, deciding and values.

It shares no code with the decoders of runs and proofs. What it does not read (other types and expressions) is a
KeyError.
"""

from __future__ import annotations

import io
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow.parquet as pq

from tests.support.oracle import Decoded

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
INSTANT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?:(Z)|([+-])(\d{2}):?(\d{2}))?"
)
EXACT = Context(prec=1000)
"""No number of a record has more digits."""
ABSENT: Any = object()
"""What a record does not have, as opposed to null."""


class RefusedError(Exception):
    """A record cannot be used; its only argument is the reason."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A record as its line or row has it. `damaged`: the export says that it could not decode it, or it is no line."""

    topic: str = ""
    partition: int = -1
    offset: int = -1
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    damaged: bool = False


def read_kcat(data: bytes) -> Iterator[Raw]:
    """The records of `kcat -J` lines: strings hold a record's bytes as they are."""
    for line in data.split(b"\n")[:-1]:
        try:
            said = json.loads(line.decode("latin-1"))
        except ValueError:
            yield Raw(damaged=True)
            continue
        words = said.get("headers") or []
        pairs = list(words.items()) if isinstance(words, dict) else list(zip(words[::2], words[1::2], strict=True))
        yield Raw(
            topic=said["topic"],
            partition=said["partition"],
            offset=said["offset"],
            timestamp=said["ts"],
            key=_bytes(said["key"]),
            value=_bytes(said["payload"]),
            headers=tuple((name, _bytes(value)) for name, value in pairs),
            damaged=bool(said.get("payload_error") or said.get("key_error")),
        )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def read_connect(name: str, data: bytes) -> Iterator[Raw]:
    """The records of an object of Connect's S3 sink: a value a line, from the offset in its name on."""
    topic, partition, first = name.removesuffix(".json").rsplit("/", 1)[-1].split("+")
    for number, line in enumerate(data.split(b"\n")[:-1]):
        yield Raw(topic, int(partition), int(first) + number, value=line)


def read_parquet(data: bytes) -> Iterator[Raw]:
    """The records of Parquet with Kafka's own columns; timestamps in milliseconds."""
    for row in pq.read_table(io.BytesIO(data)).to_pylist():
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        place = (row["topic"], row["partition"], row["offset"], row["timestamp"])
        yield Raw(*place, key=row["key"], value=row["value"], headers=headers)


class Decoder:
    """Decodes the records of one dataset, whose file is `given`."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.fields: dict[str, Any] = given["value"]["fields"]
        self.strict = given["value"].get("schema_changes") == "quarantine"
        self.apply: dict[str, Any] = given["apply"]
        self.identity: dict[str, Any] = given.get("identity", {})
        self.filter: str | None = given["source"].get("filter")
        self.exact = given["source"]["exports"]["layout"] != "connect"
        version = self.apply.get("version", {}).get("from", [])
        self.version: list[str] = [version] if isinstance(version, str) else version

    def decode(self, raw: Raw) -> Decoded:
        """The record as the oracle takes it; its content is the row that it would be, as JSON."""
        position = ("c", raw.topic, 1, raw.partition, raw.offset)
        try:
            return self._read(raw, position)
        except RefusedError as refused:
            return Decoded(position, raw.timestamp, rejected=str(refused))

    def _read(self, raw: Raw, position: tuple[str, str, int, int, int]) -> Decoded:
        if raw.damaged:
            raise RefusedError("undecodable")
        value = None if raw.value is None else self._object(raw.value)
        deletes = self.apply.get("delete_when")
        if value is None and deletes != "tombstone":
            raise RefusedError("null_value")
        deleted = value is None or (deletes not in (None, "tombstone") and self._is_true(deletes, value))
        if value is not None and self.filter and not self._lets_in(value, deleted):
            return Decoded(position, raw.timestamp, filtered=True)
        row = {} if value is None else self._row(raw, value, deleted)
        for part in self.apply.get("key", ()):
            if part.startswith("key."):
                name = part.removeprefix("key.")
                row[name] = self._key_part(raw, name, row)
        if self.strict and value is not None and set(value) - {self._place(name)[0] for name in self.fields}:
            raise RefusedError("unknown_schema")
        version = [self._ask(part, raw, row) for part in self.version]
        if None in version:
            raise RefusedError("null_version")
        if any(self._is_ahead(part, said, raw) for part, said in zip(self.version, version, strict=True)):
            raise RefusedError("version_ahead")
        message = self.identity.get("message_id")
        message_id = self._ask(message, raw, row) if message else None
        business = [row.get(name) for name in self.identity.get("business_key", ())]
        upsert = self.apply["mode"] == "upsert"
        key = [row.get(part.removeprefix("key.")) for part in self.apply["key"]] if upsert else business or [message_id]
        if None in key:
            raise RefusedError("null_key" if upsert else "null_identity")
        if self.apply["mode"] == "increment" and any(row[field] is None for field in self.apply["add"].values()):
            raise RefusedError("null_value")
        content = {"deleted": deleted} | ({} if value is None else row)
        return Decoded(
            position,
            raw.timestamp,
            key=json.dumps(key),
            content=json.dumps(content, sort_keys=True),
            version=tuple(version) if upsert else None,
            message_id=message_id,
            deleted=deleted,
        )

    def _object(self, data: bytes) -> dict[str, Any]:
        value = parse(data.removeprefix(b"\xef\xbb\xbf"))
        if value is None:
            raise RefusedError("null_value")
        if not isinstance(value, dict):
            raise RefusedError("wrong_type")
        return value

    def _place(self, name: str) -> list[str]:
        """Where a field lies in a value: its own name, or its `from`."""
        given = self.fields[name]
        text = given["from"] if isinstance(given, dict) else f'"{name}"'
        return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|([^."]+)', text)]

    def _row(self, raw: Raw, value: dict[str, Any], deleted: bool) -> dict[str, Any]:
        """The declared fields. A delete is not asked for its required ones, nor is a field that the key gives."""
        row = {}
        for name, given in self.fields.items():
            kind = given["type"] if isinstance(given, dict) else given
            found: Any = value
            for part in self._place(name):
                found = found.get(part, ABSENT) if isinstance(found, dict) else ABSENT
            if (
                found is ABSENT
                and not kind.endswith("?")
                and not deleted
                and f"key.{name}" not in self.apply.get("key", ())
            ):
                raise RefusedError("missing_field")
            row[name] = None if found is ABSENT else typed(kind.removesuffix("?"), found)
        return row

    def _key_part(self, raw: Raw, name: str, row: dict[str, Any]) -> Any:
        """A part of a JSON key; text, or of the type of the field that has its name and says the same."""
        key = {} if raw.key is None else parse(raw.key)
        found = key.get(name) if isinstance(key, dict) else None
        if found is None:
            return None
        if name not in self.fields:
            return text(found)
        value = typed(self.fields[name], found)
        if row.get(name) not in (None, value):
            raise RefusedError("key_mismatch")
        return value

    def _ask(self, expression: str, raw: Raw, row: dict[str, Any]) -> Any:
        """A field, a header (`header.x`), one read as a number (`long(header.x)`), or a word of the log."""
        if expression in ("offset", "timestamp"):
            return getattr(raw, expression)
        if cast := re.fullmatch(r"long\((.*)\)", expression):
            said = self._ask(cast[1], raw, row)
            if said is not None and not re.fullmatch(r"-?\d+", said):
                raise RefusedError("wrong_type")
            return None if said is None else int(said)
        if not expression.startswith("header."):
            return row[expression]
        said = dict(raw.headers).get(expression.removeprefix("header."))
        try:
            return None if said is None else said.decode()
        except UnicodeDecodeError:
            raise RefusedError("undecodable") from None

    def _is_ahead(self, part: str, said: Any, raw: Raw) -> bool:
        """Whether a version of one field, a time, is more than a day after the record was sent."""
        if self.version != [part] or self.fields.get(part) != "timestamp" or raw.timestamp is None:
            return False
        return datetime.fromisoformat(said) - EPOCH > timedelta(days=1, milliseconds=raw.timestamp)

    def _lets_in(self, value: dict[str, Any], deleted: bool) -> bool:
        """Whether the filter does; a delete may lack the field that it asks for."""
        assert self.filter
        asked = self.filter.partition(" ")[0]
        return self._is_true(self.filter, value) or (deleted and value.get(asked) is None)

    @staticmethod
    def _is_true(condition: str, value: dict[str, Any]) -> bool:
        """`field = 'text'`, which is not true where there is no such field."""
        name, wanted = re.fullmatch(r"(\w+) = '(\w*)'", condition).groups()  # type: ignore[union-attr]
        return bool(value.get(name) == wanted)


def parse(data: bytes) -> Any:
    """One JSON value with exact numbers; of equal names the last counts."""
    try:
        return json.loads(data.decode(), parse_int=Decimal, parse_float=Decimal, parse_constant=_no_number)
    except ValueError:
        raise RefusedError("undecodable") from None


def _no_number(word: str) -> Any:
    raise ValueError(word)


def text(value: Any) -> str:
    """A text that is one."""
    if not isinstance(value, str):
        raise RefusedError("wrong_type")
    if any(0xD800 <= ord(letter) < 0xE000 for letter in value):
        raise RefusedError("undecodable")
    return value


def typed(kind: str, value: Any) -> Any:
    """A JSON value as a declared type, strictly; as `onefold show --json` prints it."""
    if value is None:
        return None
    if of_list := re.fullmatch(r"list<(.*)>", kind):
        if not isinstance(value, list):
            raise RefusedError("wrong_type")
        return [typed(of_list[1], item) for item in value]
    if of_map := re.fullmatch(r"map<string, (.*)>", kind):
        if not isinstance(value, dict):
            raise RefusedError("wrong_type")
        return {text(name): typed(of_map[1], value[name]) for name in sorted(value, key=_units)}
    if of_struct := re.fullmatch(r"struct<(.*)>", kind):
        if not isinstance(value, dict):
            raise RefusedError("wrong_type")
        parts = (part.split(": ") for part in re.split(r", (?=\w+:)", of_struct[1]))
        return {name: typed(of.removesuffix("?"), value.get(name)) for name, of in parts}
    if exact := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        return _decimal(value, int(exact[1]), int(exact[2]))
    return PLAIN[kind](value)


def _units(name: str) -> bytes:
    """What names are sorted by: UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")


def canonical(value: Any) -> str:
    """A JSON value as text: names in order, no space, of numbers the digits that count."""
    if isinstance(value, Decimal):
        digits = f"{value:f}"
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
        return "0" if digits == "-0" else digits
    if isinstance(value, dict):
        return f"{{{','.join(f'{canonical(name)}:{canonical(value[name])}' for name in sorted(value, key=_units))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(canonical, value))}]"
    return json.dumps(text(value) if isinstance(value, str) else value, ensure_ascii=False)


def _base64(said: str) -> str:
    try:
        return said if b64encode(b64decode(said, validate=True)).decode() == said else _wrong()
    except ValueError:
        return _wrong()


def _wrong() -> Any:
    raise RefusedError("wrong_type")


def _of(value: Any, kind: type) -> Any:
    return value if isinstance(value, kind) else _wrong()


def _finite(number: float) -> float:
    return number if abs(number) < float("inf") else _wrong()


def _whole(value: Any) -> int:
    number = _of(value, Decimal)
    return int(number) if number == number.to_integral_value() else _wrong()


def _decimal(value: Any, precision: int, scale: int) -> str:
    if isinstance(value, str):
        value = Decimal(value) if NUMBER.fullmatch(value) else _wrong()
    units = EXACT.scaleb(_of(value, Decimal), scale)
    if abs(units) >= 10**precision:
        return _wrong()
    return f"{EXACT.scaleb(Decimal(_whole(units)), -scale):f}"


def _day(said: str) -> str:
    try:
        return date.fromisoformat(said).isoformat() if len(said) == 10 else _wrong()
    except ValueError:
        return _wrong()


def _instant(said: str) -> str:
    found = INSTANT.fullmatch(said)
    if not found:
        return _wrong()
    day, hour, minute, second, fraction, _, sign, hours, minutes = found.groups()
    digits = (fraction or "").ljust(9, "0")
    if digits[6:] != "000":
        return _wrong()
    try:
        local = datetime.fromisoformat(f"{day}T{hour}:{minute}:{second or '00'}.{digits[:6]}+00:00")
    except ValueError:
        return _wrong()
    ahead = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    return (local + ahead if sign == "-" else local - ahead).isoformat()


def _since(number: int, micros: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=number * micros)
    except OverflowError:
        return _wrong()


def _integer(bits: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = _whole(value)
        return number if -(2**bits) <= number < 2**bits else _wrong()

    return read


PLAIN: dict[str, Callable[[Any], Any]] = {
    "string": text,
    "boolean": lambda value: _of(value, bool),
    "int": _integer(31),
    "long": _integer(63),
    "double": lambda value: _finite(float(_of(value, Decimal))),
    "binary": lambda value: _base64(text(value)),
    "json": canonical,
    "date": lambda value: _day(text(value)),
    "date(days)": lambda value: _since(_whole(value), 86_400 * 10**6).date().isoformat(),
    "timestamp": lambda value: _instant(text(value)),
    "timestamp(millis)": lambda value: _since(_whole(value), 1000).isoformat(),
    "timestamp(nanos)": lambda value: _since(_whole(EXACT.scaleb(_of(value, Decimal), -3)), 1).isoformat(),
}
"""Types without parts."""
