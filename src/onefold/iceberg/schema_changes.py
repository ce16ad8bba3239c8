"""Which columns a table has to get, widen or rename, so that it has the fields of a dataset file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from onefold.dataset.types import FieldType

_SCALARS: dict[str, IcebergType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "binary": BinaryType(),
    "json": StringType(),
}


def field_changes(
    schema: Schema, fields: Mapping[str, FieldType], former: Mapping[str, Iterable[str]]
) -> list[tuple[str, str, Any]]:
    """The calls of pyiceberg's schema update that give a table these columns: method, column, argument.

    Args:
        schema: the table's schema.
        fields: the columns of the value's fields, as they are to be.
        former: the earlier names that the table may have for some of them.
    """
    changes: list[tuple[str, str, Any]] = []
    for name, type_ in fields.items():
        column = next(
            (candidate for candidate in (name, *former.get(name, ())) if candidate in schema.column_names), None
        )
        if column is None:
            changes.append(("add_column", name, _iceberg_type(type_)))
            continue
        if not type_.nested and schema.find_type(column) != _iceberg_type(type_):
            changes.append(("update_column", column, _iceberg_type(type_)))
        if column != name:
            changes.append(("rename_column", column, name))
    return changes


def _iceberg_type(type_: FieldType) -> IcebergType:
    """A field's type in Iceberg; the ids of parts are placeholders, which the table's own replace."""
    match type_.name:
        case "decimal":
            return DecimalType(type_.precision, type_.scale)
        case "list":
            assert type_.item
            return ListType(element_id=1, element_type=_iceberg_type(type_.item), element_required=False)
        case "map":
            assert type_.item
            return MapType(1, StringType(), 2, _iceberg_type(type_.item), value_required=False)
        case "struct":
            parts = enumerate(type_.fields, 1)
            return StructType(
                *(NestedField(number, name, _iceberg_type(part), False) for number, (name, part) in parts)
            )
        case _:
            return _SCALARS[type_.name]
