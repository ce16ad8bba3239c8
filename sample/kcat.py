"""Lines as `kcat -C -J` prints them, byte for byte.

kcat (json.c, `fmt_msg_output_json`) lets yajl write without spaces; yajl escapes the quote, the
backslash and control characters only, and does not check for UTF-8: bytes that are not UTF-8 are
in the line unchanged. `headers` are left out if there are none; null is no key or no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Headers = tuple[tuple[str, bytes | None], ...]

_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')
_SHORT = {
    b'"': b'\\"',
    b"\\": b"\\\\",
    b"\b": b"\\b",
    b"\f": b"\\f",
    b"\n": b"\\n",
    b"\r": b"\\r",
    b"\t": b"\\t",
}


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a consumer sees it; `ts` in milliseconds, as the producer set it."""

    topic: str
    partition: int
    offset: int
    ts: int
    broker: int
    headers: Headers
    key: bytes | None
    value: bytes | None


def line(record: Record) -> bytes:
    """The record as a line, with its end."""
    headers = b",".join(_string(name.encode()) + b"," + _string(of) for name, of in record.headers)
    return b"".join(
        (
            b'{"topic":%s,"partition":%d' % (_string(record.topic.encode()), record.partition),
            b',"offset":%d,"tstype":"create","ts":%d' % (record.offset, record.ts),
            b',"broker":%d' % record.broker,
            b',"headers":[%s]' % headers if record.headers else b"",
            b',"key":%s,"payload":%s}\n' % (_string(record.key), _string(record.value)),
        )
    )


def write(path: Path, records: Iterable[Record]) -> None:
    """Write records as one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line(record) for record in records))


def read(path: Path) -> list[Record]:
    """The records of a file, with the bytes of the lines."""
    return [_record(each) for each in path.read_bytes().split(b"\n") if each]


def _record(text: bytes) -> Record:
    found: dict[str, Any] = json.loads(text.decode("utf-8", "surrogateescape"))
    headers: list[str] = found.get("headers", [])
    pairs = zip(headers[::2], headers[1::2], strict=True)
    return Record(
        topic=found["topic"],
        partition=found["partition"],
        offset=found["offset"],
        ts=found["ts"],
        broker=found["broker"],
        headers=tuple((name, _bytes(value)) for name, value in pairs),
        key=_bytes(found["key"]),
        value=_bytes(found["payload"]),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _string(value: bytes | None) -> bytes:
    return b"null" if value is None else b'"%s"' % _ESCAPED.sub(_escape, value)


def _escape(match: re.Match[bytes]) -> bytes:
    found = match.group()
    return _SHORT.get(found) or b"\\u%04X" % found[0]
