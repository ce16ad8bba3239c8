"""In which fields the contents of one message, or of one key and version, differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onefold.draft.entries import listed
from onefold.draft.evidence import Cell
from onefold.draft.fields import Field, canonical_row
from onefold.draft.message import Message

_KEY = "the Kafka key"
_MOST_NAMED = 3
_FEW = 2
"""Up to so many fields may be what says nothing of the row."""


@dataclass(frozen=True, slots=True)
class Differences:
    """By field, the most frequent difference first: for how many identities."""

    counts: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        if not self.counts:
            return ""
        named = ", ".join(f"{name} ({count})" for name, count in self.counts[:_MOST_NAMED])
        more = f" and {len(self.counts) - _MOST_NAMED} more fields" if len(self.counts) > _MOST_NAMED else ""
        return f"differing in {named}{more}"

    def proposal(self, taken: Iterable[str]) -> str:
        """What makes these contents equal, as a hint; nothing where many fields differ, or one of `taken`, which key,
        order or identify the rows."""
        names = [name for name, _ in self.counts]
        if not 0 < len(names) <= _FEW or {_KEY, *taken} & {*names}:
            return ""
        what = "it says" if len(names) == 1 else "they say"
        return f"compare: {{except: {listed(names)}}} (if {what} nothing of the row)"


def find_differences(cells: Sequence[Cell], messages: Sequence[Message], fields: Sequence[Field]) -> Differences:
    """What differs between messages that have the same cell. Tombstones are left out."""
    groups: dict[Cell, dict[str, set[str]]] = {}
    for cell, message in zip(cells, messages, strict=True):
        row = canonical_row(message, fields)
        if cell is None or row is None:
            continue
        seen = groups.setdefault(cell, {})
        seen.setdefault(_KEY, set()).add(repr(message.record.key))
        for field, value in zip(fields, row, strict=True):
            seen.setdefault(field.name, set()).add(json.dumps(value, sort_keys=True, default=str))
    counts = Counter(name for seen in groups.values() for name, contents in seen.items() if len(contents) > 1)
    return Differences(tuple(counts.most_common()))
