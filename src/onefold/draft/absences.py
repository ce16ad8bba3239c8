"""Fields that only later records of a key leave out: perhaps partial updates, which Onefold takes for whole rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onefold.draft.entries import counted
from onefold.draft.evidence import Cell
from onefold.draft.fields import Field
from onefold.draft.message import Message

_MOST_NAMED = 3
_MOSTLY = 20
"""How many times as many keys must lose a field as have no such field in their first record."""


def describe_absences(keys: Sequence[Cell], messages: Sequence[Message], fields: Sequence[Field]) -> str:
    """A sentence on the fields that first records of keys have and later ones lack; or nothing.

    `keys` has the key of each message, the messages are in the order of their logs. A tombstone begins its key again.
    """
    lost: dict[str, set[Cell]] = {}
    never: Counter[str] = Counter()
    first: dict[Cell, Message] = {}
    for key, message in zip(keys, messages, strict=True):
        if key is None:
            continue
        if message.value is None:
            first.pop(key, None)
            continue
        begins = key not in first
        before = first.setdefault(key, message).value or {}
        for field in fields:
            if begins:
                never[field.name] += field.read_as not in before
            elif field.read_as in before and field.read_as not in message.value:
                lost.setdefault(field.name, set()).add(key)
    named = {name: losing for name, losing in lost.items() if len(losing) >= _MOSTLY * never[name]}
    if not named:
        return ""
    names = sorted(named, key=lambda name: -len(named[name]))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    count = counted(len(set.union(*named.values())), "key")
    return (
        f"a record is the whole row, and what it leaves out is NULL: of {count} the first record has "
        f"{', '.join(names[:_MOST_NAMED])}{more}, and later records do not. If these are partial updates, let the "
        "producer send whole rows"
    )
