"""What orders the versions of a key: a header or field whose value grows along the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from onefold.draft.entries import counted
from onefold.draft.evidence import Cell, Column, snake
from onefold.draft.types import is_date, is_timestamp

_NAMES = [
    re.compile(words)
    for words in (
        r"(.*_)?(version|ver|revision|rev)(_(no|nr|number|id))?",
        r"(.*_)?(lsn|scn|seq|seqno|sequence)(_(no|nr|number|id))?",
        r"(.*_)?(updated|modified|changed|update|change|modification)(_(at|on|ts|time|date|timestamp|ms))?",
        r"last_(updated|modified|changed|update|change)(_(at|on|ts|time|date|timestamp|ms))?",
        r"ts_ms",
    )
]
Instant = int | Decimal | datetime
_INTEGER = re.compile(r"-?\d{1,18}")


@dataclass(frozen=True, slots=True)
class Growth:
    """How a version moves where a key's content changes, in the order of the log."""

    expression: str
    changes: int
    grows: int
    clashing: int
    """Pairs of key and version with several contents."""

    @property
    def fits(self) -> bool:
        """Whether it tells contents apart, and grows; nearly always where some versions have several contents. Retries
        and late records lower how often it grows, but not what it tells apart."""
        some = self.changes > 0 and self.grows > 0
        nearly = self.grows >= 0.7 * self.changes and self.clashing <= 0.05 * self.changes + 1
        return some and (self.clashing == 0 or nearly)

    def __str__(self) -> str:
        growth = f"grows at {self.grows} of {self.changes} changes of a key in the order of the log"
        late = self.changes - self.grows
        clash = f"; {counted(self.clashing, 'version')} with several contents: a conflict, which the gate stops"
        return growth + (f"; {late} came late" if late else "") + (clash if self.clashing else "")


def find_version(
    candidates: Sequence[Column], keys: Sequence[Cell], partitions: Sequence[object], contents: Sequence[str]
) -> Growth | None:
    """The first that fits, by what its name promises."""
    named = [(rank, column) for column in candidates if (rank := _rank(column.name)) is not None]
    for _, column in sorted(named, key=lambda entry: entry[0]):
        expression, instants = _ordered(column)
        if expression and sum(instant is not None for instant in instants) >= 0.95 * len(instants):
            growth = _growth(expression, instants, keys, partitions, contents)
            if growth.fits:
                return growth
    return None


def _rank(name: str) -> int | None:
    return next((rank for rank, words in enumerate(_NAMES) if words.fullmatch(snake(name))), None)


def _ordered(column: Column) -> tuple[str, list[Instant | None]]:
    """A column as something that has an order, and the expression for it; '' where it has none."""
    cells = [cell for cell in column.cells if cell is not None]
    if cells and all(isinstance(cell, int | Decimal) for cell in cells):
        return column.expression, [cell if isinstance(cell, int | Decimal) else None for cell in column.cells]
    texts = [cell for cell in cells if isinstance(cell, str)]
    if not texts or len(texts) < len(cells):
        return "", []
    is_text = column.expression.startswith(("header.", "envelope."))
    if is_text and all(_INTEGER.fullmatch(text) for text in texts):
        return f"long({column.expression})", [int(cell) if isinstance(cell, str) else None for cell in column.cells]
    for cast, is_one in (("timestamp", is_timestamp), ("date", is_date)):
        if all(is_one(text) for text in texts):
            expression = f"{cast}({column.expression})" if is_text else column.expression
            return expression, [_instant(cell) if isinstance(cell, str) else None for cell in column.cells]
    return "", []


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _growth(
    expression: str,
    instants: Sequence[Instant | None],
    keys: Sequence[Cell],
    partitions: Sequence[object],
    contents: Sequence[str],
) -> Growth:
    before: dict[object, tuple[Instant, str]] = {}
    of_version: dict[object, set[str]] = {}
    changes = grows = 0
    for instant, key, partition, content in zip(instants, keys, partitions, contents, strict=True):
        if instant is None or key is None:
            continue
        of_version.setdefault((key, instant), set()).add(content)
        earlier = before.get((partition, key))
        if earlier and earlier[1] != content:
            changes += 1
            grows += earlier[0] < instant  # type: ignore[operator]  # one column, one type
        before[partition, key] = (instant, content)
    return Growth(expression, changes, grows, sum(len(found) > 1 for found in of_version.values()))
