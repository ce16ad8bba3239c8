"""Avro decoded a second time: fastavro's own logical types, in place of those of a run."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro

from onefold.formats.text import Number


def decoder(schema: str) -> Callable[[bytes], Any]:
    """What turns one message into the value that the same message in JSON is parsed to (`parse_exactly`).

    It raises ValueError where the bytes are no message of the schema.
    """
    parsed = fastavro.parse_schema(json.loads(schema))

    def decode(data: bytes) -> Any:
        content = BytesIO(data)
        try:
            value = _as_json(fastavro.schemaless_reader(content, parsed))
        except Exception as error:  # what broken bytes raise is not settled
            raise ValueError(str(error)) from error
        if content.read():
            raise ValueError("bytes behind the message")
        return value

    return decode


def _as_json(value: Any) -> Any:
    match value:
        case bool() | None | str():
            return value
        case float():
            return Number(repr(value)) if abs(value) < float("inf") else str(value)
        case int() | Decimal():
            return Number(format(value, "f") if isinstance(value, Decimal) else value)
        case bytes():
            return b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat().replace("+00:00", "Z")
        case dict():
            return {name: _as_json(part) for name, part in value.items()}
        case list():
            return [_as_json(part) for part in value]
        case _:
            return str(value)
