"""CloudEvents in a sample: the rows in their data, and their attributes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onefold.draft.message import Message
from onefold.formats.cloudevents import (
    CONTENT_TYPE,
    PREFIX,
    Headers,
    attributes_in,
    check_structured,
    data_of,
    headers_of,
)
from onefold.formats.envelopes import NoRowError


@dataclass(frozen=True, slots=True)
class Events:
    """What the CloudEvents of a sample are."""

    structured: int
    binary: int
    types: Counter[str]
    """Events by type."""
    problems: Counter[str]
    """Values that are no row, by what they are."""


def open_events(
    messages: Sequence[Message], parse: Callable[[bytes], dict[str, Any] | None]
) -> tuple[list[Message], Events] | None:
    """The messages with their data in place of their events, without those that have no row; None: most values are no
    event.

    Args:
        messages: those of a sample.
        parse: bytes to the JSON object that they are.
    """
    rows, types, problems, structured, binary, others = [], Counter[str](), Counter[str](), 0, 0, 0
    for message in messages:
        try:
            attributes = attributes_in(_headers(message))
            event: Mapping[str, Any] = message.value or {} if attributes is None else attributes
            check_structured(event)
        except NoRowError:
            others += message.value is not None
            rows += [message] if message.value is None else []
            continue
        types[str(event["type"])] += 1
        binary += attributes is not None
        structured += attributes is None
        value = message.value if attributes is not None else _data(event, parse)
        if attributes is None and value is None:
            problems["a CloudEvent without an object as its data"] += 1
        else:
            rows.append(replace(message, value=value, headers=_others(message), attributes=event))
    if structured + binary <= others:
        return None
    if others:
        problems["no CloudEvent"] = others
    return rows, Events(structured, binary, types, problems)


def _headers(message: Message) -> Headers:
    return headers_of((name, None if text is None else text.encode()) for name, text in message.headers.items())


def _data(event: Mapping[str, Any], parse: Callable[[bytes], dict[str, Any] | None]) -> dict[str, Any] | None:
    try:
        data = data_of(event)
    except NoRowError:
        return None
    return parse(data) if isinstance(data, bytes) else data


def _others(message: Message) -> dict[str, str | None]:
    """The headers that are no attributes."""
    return {
        name: text
        for name, text in message.headers.items()
        if not name.startswith(PREFIX) and name.lower() != CONTENT_TYPE
    }
