"""Canonical digests: of a key, and of a record's content. Equal values give equal digests, whatever wrote them.

Per value: name, type tag, length, text. Decimals without trailing zeros, timestamps as microseconds, doubles
in hexadecimal with -0.0 as 0, nulls left out. Name and tag are those that the field had when the generation began,
or when it was added: a renamed or widened field does not change what was digested before.
The text of a struct is that of its fields, by name; of a list, each element's length and text, `~` for a null; of a map
the same of each entry, the key before it, in the order of the keys' bytes; of binary its hexadecimal digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.evolution import Origin, mark_of
from onefold.dataset.types import FieldType

HASH_VERSION = 1


_DIGEST = 32
"""Bytes of a SHA-256."""


def content_hash(fields: Mapping[str, Origin], deleted: Column) -> Column:
    """The digest (binary) of the columns `fields`, by name; a delete is content of its own.

    SHA-256 of the fields that the generation began with. Where some were added since, four bytes follow that tell
    which, and the SHA-256 of those: what was folded without them can still be compared (`same_content`).
    """
    began = _rows_digest({name: field for name, field in fields.items() if not field.added}, deleted)
    mark = mark_of(fields)
    if not mark:
        return began
    return F.concat(
        began, F.lit(mark), _rows_digest({name: field for name, field in fields.items() if field.added}, deleted)
    )


def with_parts(content: Column, parts: Sequence[Column]) -> Column:
    """A content hash of some texts, too, each of which may be null; `same_content` compares it as any other."""
    if not parts:
        return content
    texts = [F.coalesce(_measured(part), F.lit("~")) for part in parts]
    began = _digest([F.lower(F.hex(_began(content))), *texts])
    return F.concat(began, F.substring(content, _DIGEST + 1, 1 << 20))


def same_content(left: Column, other: Column) -> Column:
    """Whether two content hashes say the same, as far as both know: of what was folded with other fields, only those
    that the generation began with are compared."""
    known_to_both = _mark(left) == _mark(other)
    return F.when(known_to_both, left == other).otherwise(_began(left) == _began(other))


def content_as_of(stood: Column, content: Column) -> Column:
    """A content hash as far as another, `stood`, knows of the fields."""
    return F.when(_mark(stood) == _mark(content), content).otherwise(_began(content))


def _began(content: Column) -> Column:
    return F.substring(content, 1, _DIGEST)


def _mark(content: Column) -> Column:
    return F.substring(content, _DIGEST + 1, 4)


def _rows_digest(fields: Mapping[str, Origin], deleted: Column) -> Column:
    state = F.when(deleted, F.lit("deleted")).otherwise(F.lit("row"))
    named = sorted(fields.items(), key=lambda pair: pair[1].name)
    parts = (_part(field.name, field.kind, F.col(column)) for column, field in named)
    return _digest([F.lit(f"v{HASH_VERSION}:"), state, *parts])


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
            short = F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))
            return F.when(text.contains("."), short).otherwise(text)
        case "double":
            # In hexadecimal, exactly: the decimal text of a double differs between releases of Java.
            text = F.format_string("%a", F.when(column == 0, F.lit(0.0)).otherwise(column))
            return F.when(column.isNotNull(), text)
        case "list":
            item = kind.item
            assert item is not None
            return F.array_join(
                F.transform(column, lambda element: F.coalesce(_measured(_text(item, element)), F.lit("~"))), ""
            )
        case "map":
            return _text_of_map(kind, column)
        case "binary":
            return F.hex(column)
        case "struct":
            return F.when(column.isNotNull(), F.concat(F.lit(""), *_parts(kind.fields, column.getField)))
        case _:
            return column.cast("string")


def _text_of_map(kind: FieldType, column: Column) -> Column:
    item = kind.item
    assert item is not None

    def entry(given: Column) -> Column:
        text = F.coalesce(_measured(_text(item, given["value"])), F.lit("~"))
        return F.struct(given["key"].alias("key"), text.alias("text"))

    entries = F.array_sort(F.transform(F.map_entries(column), entry))  # of texts, so that any value can be sorted
    return F.array_join(F.transform(entries, lambda given: F.concat(_measured(given["key"]), given["text"])), "")
