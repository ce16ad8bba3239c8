"""What may tell messages apart, and how well it does in the sample."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from onefold.dataset.blank_text import is_blank
from onefold.dataset.expressions import Path, parse
from onefold.dataset.value_formats import with_parts
from onefold.draft.message import Message

_ATTRIBUTE = re.compile(r"[a-z0-9]+")
Cell = str | int | Decimal | tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Column:
    """An expression of a dataset file, and its value in each message; None: absent, null, or not comparable."""

    expression: str
    name: str
    cells: list[Cell]

    @property
    def mostly(self) -> bool:
        """Whether (almost) every message has it."""
        return bool(self.cells) and sum(cell is None for cell in self.cells) <= 0.05 * len(self.cells)


@dataclass(frozen=True, slots=True)
class Evidence:
    """How values relate to contents."""

    total: int
    present: int
    distinct: int
    clashing: int
    """Values that have more than one content."""

    @property
    def repeated(self) -> int:
        """Records whose value an earlier record has."""
        return self.present - self.distinct

    @property
    def always(self) -> bool:
        """Whether it is there in (almost) every record."""
        return self.present > 0 and self.present >= 0.95 * self.total

    @property
    def consistent(self) -> bool:
        """Whether a value has one content, but for a few conflicts."""
        return self.clashing <= 0.05 * self.distinct

    def __str__(self) -> str:
        there = "in all records" if self.present == self.total else f"in {self.present} of {self.total} records"
        if not self.repeated:
            return f"{there}, all distinct"
        clash = f"; {self.clashing} with several contents: a conflict, which the gate stops" if self.clashing else ""
        return f"{there}, {self.distinct} distinct; {self.repeated} repeated: what Onefold folds{clash}"


def weigh(cells: Sequence[Cell], contents: Sequence[str]) -> Evidence:
    """What the cells of a column (or of several as tuples) say of contents."""
    found: dict[Cell, set[str]] = {}
    present = 0
    for cell, content in zip(cells, contents, strict=True):
        if cell is not None:
            present += 1
            found.setdefault(cell, set()).add(content)
    return Evidence(len(cells), present, len(found), sum(len(different) > 1 for different in found.values()))


def together(columns: Sequence[Column]) -> list[Cell]:
    """The compound values of columns; None where a part is."""
    rows = zip(*(column.cells for column in columns), strict=True)
    return [None if any(cell is None for cell in row) else row for row in rows]


def header_columns(messages: Sequence[Message]) -> list[Column]:
    """The headers that an expression can name; a blank header is none, as a run takes it where it is an id."""
    names = _in_order(name for message in messages for name in message.headers)
    written = {name: _written("header", name) for name in names}
    return [
        Column(expression, name, [_unless_blank(message.headers.get(name)) for message in messages])
        for name, expression in written.items()
        if readable(expression, Path("header", name))
    ]


def attribute_columns(messages: Sequence[Message]) -> list[Column]:
    """The attributes of CloudEvents that an expression can name."""
    names = _in_order(name for message in messages for name in message.attributes)
    return [
        Column(f"envelope.{name}", name, [_unless_blank(_cell(message.attributes.get(name))) for message in messages])
        for name in names
        if _ATTRIBUTE.fullmatch(name) and name not in ("data", "deleted")
    ]


def value_columns(messages: Sequence[Message], fields: Mapping[str, str]) -> list[Column]:
    """The given fields (each with its name in the record) of the values; null in a tombstone."""
    return [
        Column(of_value(name), name, [_cell((message.value or {}).get(read_as)) for message in messages])
        for name, read_as in fields.items()
    ]


def _written(root: str, name: str) -> str:
    """The expression of a header or a part of the key; with other letters than those of names it is quoted."""
    plain = f"{root}.{name}"
    quoted = name.replace('"', '""')
    return plain if readable(plain, Path(root, name)) else f'{root}."{quoted}"'


def key_columns(messages: Sequence[Message], key_format: str) -> list[Column]:
    """The parts of keys that have some, or the one text that a key is."""
    if not _are_parts(messages, key_format):
        found = [Column("key", "key", [_cell(message.key) for message in messages])]
        return found if any(cell is not None for cell in found[0].cells) else []
    return [
        Column(expression, Path("key", name).column, [_cell((message.key or {}).get(name)) for message in messages])
        for name, expression in _key_parts(messages).items()
    ]


def _are_parts(messages: Sequence[Message], key_format: str) -> bool:
    """Whether keys are read by their parts: a key of any format with parts may be one text or number instead."""
    return key_format in with_parts() and not any(isinstance(message.key, str) for message in messages)


def key_part_values(messages: Sequence[Message]) -> dict[str, list[Any]]:
    """By expression, the values of a part of JSON keys, as they are; None where a key lacks it."""
    return {
        expression: [(message.key or {}).get(name) for message in messages]
        for name, expression in _key_parts(messages).items()
    }


def _key_parts(messages: Sequence[Message]) -> dict[str, str]:
    """The parts of JSON keys that an expression can name, with it; of those that would be one column, the first."""
    parts = _in_order(name for message in messages for name in message.key or {})
    firsts = {Path("key", name).column.lower(): name for name in reversed(parts)}
    written = {name: _written("key", name) for name in reversed(firsts.values())}
    return {name: text for name, text in written.items() if readable(text, Path("key", name))}


def unnamed_parts(messages: Sequence[Message], key_format: str) -> tuple[str, ...]:
    """The parts of keys that differ and that no column has (almost) everywhere: rows keyed by the others would be
    rows of several Kafka keys."""
    if not _are_parts(messages, key_format):
        return ()
    columns = zip(_key_parts(messages), key_columns(messages, key_format), strict=True)
    named = {name for name, column in columns if column.mostly}
    parts = _in_order(name for message in messages for name in message.key or {})
    keys = [message.key for message in messages if message.key]
    return tuple(name for name in parts if name not in named and len({repr(key.get(name)) for key in keys}) > 1)


def of_value(name: str) -> str:
    """The expression of a field: its bare name, unless that means something else."""
    return name if readable(name, Path("value", name)) and name.lower() not in _SPECIAL else f"value.{name}"


_SPECIAL = ("yes", "no", "on", "off", "y", "n", "null", "true", "false")
"""Words that some readers of YAML take for something else than text."""


def readable(text: str, path: Path) -> bool:
    """Whether a text is the expression of just that path."""
    try:
        return parse(text) == path
    except ValueError:
        return False


def _unless_blank(text: Any) -> Any:
    return None if isinstance(text, str) and is_blank(text) else text


def _cell(value: Any) -> Cell:
    return value if isinstance(value, str | int | Decimal) and not isinstance(value, bool) else None


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def snake(name: str) -> str:
    """A name in small letters with _ between its words."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
