"""Arrow's types of declared fields."""

from __future__ import annotations

import pyarrow as pa

from onefold.dataset.types import FieldType

_SCALARS = {
    "string": pa.string(),
    "json": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}


def arrow_type(kind: FieldType) -> pa.DataType:
    """The type of a column of a declared type."""
    match kind.name:
        case "list":
            assert kind.item
            return pa.list_(arrow_type(kind.item))
        case "map":
            assert kind.item
            return pa.map_(pa.string(), arrow_type(kind.item))
        case "struct":
            return pa.struct([(name, arrow_type(of)) for name, of in kind.fields])
        case "decimal":
            return pa.decimal128(kind.precision, kind.scale)
        case _:
            return _SCALARS[kind.name]
