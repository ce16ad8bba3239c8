"""Canonical digests: of a key, and of a record's content. Equal values give equal digests, whatever wrote them.

Per value: name, type tag, length, text. Decimals without trailing zeros, timestamps as microseconds, doubles
in hexadecimal with -0.0 as 0, nulls left out; so an added nullable field does not change what was digested before.
The text of a struct is that of its fields, by name; of a list, each element's length and text, `~` for a null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.types import FieldType

HASH_VERSION = 1


def content_hash(fields: dict[str, FieldType], deleted: Column) -> Column:
    """SHA-256 (binary) of the declared fields, by name; a delete is content of its own."""
    state = F.when(deleted, F.lit("deleted")).otherwise(F.lit("row"))
    return _digest([F.lit(f"v{HASH_VERSION}:"), state, *_parts(fields.items(), F.col)])


def key_digest(parts: Iterable[Column]) -> Column:
    """SHA-256 (binary) of a compound key, by position; every part is text already (see `key_text`)."""
    texts = [F.concat(F.length(part).cast("string"), F.lit(":"), part) for part in parts]
    return _digest(texts)


def key_text(part: Column) -> Column:
    """A key part as text; null stays null."""
    return part.cast("string")


def _digest(texts: Iterable[Column]) -> Column:
    return F.unhex(F.sha2(F.concat(*texts), 256))


def _parts(fields: Iterable[tuple[str, FieldType]], column: Callable[[str], Column]) -> list[Column]:
    return [_part(name, kind, column(name)) for name, kind in sorted(fields)]


def _part(name: str, kind: FieldType, column: Column) -> Column:
    return F.coalesce(F.concat(F.lit(f"{name}:{kind.name}:"), _measured(_text(kind, column))), F.lit(""))


def _measured(text: Column) -> Column:
    return F.concat(F.octet_length(text).cast("string"), F.lit(":"), text)


def _text(kind: FieldType, column: Column) -> Column:
    match kind.name:
        case "timestamp":
            return F.unix_micros(column).cast("string")
        case "decimal":
            text = column.cast("string")
            return F.when(text.contains("."), F.regexp_replace(text, r"\.?0+$", "")).otherwise(text)
        case "double":
            # In hexadecimal, exactly: the decimal text of a double differs between releases of Java.
            text = F.format_string("%a", F.when(column == 0, F.lit(0.0)).otherwise(column))
            return F.when(column.isNotNull(), text)
        case "list":
            item = kind.item
            assert item is not None
            return F.array_join(
                F.transform(column, lambda one: F.coalesce(_measured(_text(item, one)), F.lit("~"))), ""
            )
        case "struct":
            return F.when(column.isNotNull(), F.concat(F.lit(""), *_parts(kind.fields, column.getField)))
        case _:
            return column.cast("string")
