"""A sampled record with its key and value as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onefold.kafka.record import Record


@dataclass(frozen=True, slots=True)
class Message:
    """A record whose value is one JSON object, or null (a tombstone)."""

    record: Record
    value: dict[str, Any] | None
    key: Any
    """The parts of a JSON key as a dictionary, the text of another key; None: no key, or bytes that are no text."""
    headers: dict[str, str | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Those of a CloudEvent, and what else is next to its data."""
