"""Messages as producers with a schema registry write them."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro


def avro_message(schema: Any, value: Any, *references: Any) -> bytes:
    """A value in Avro; `references` are schemas that its own is built on."""
    named: dict[str, Any] = {}
    for reference in references:
        fastavro.parse_schema(reference, named_schemas=named)
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema, named_schemas=named), value)
    return data.getvalue()


def prefixed(id_: int, data: bytes) -> bytes:
    """Behind Confluent's prefix: a zero byte and the id of the schema."""
    return b"\x00" + id_.to_bytes(4, "big") + data
