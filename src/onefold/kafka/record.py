"""A record as Kafka has it, for code that looks at a few of them without Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `timestamp` is in milliseconds since 1970; None: the layout has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str | None], ...] = ()
    """In their order; None: no value, or bytes that are no text."""
    binary_headers: tuple[tuple[str, bytes], ...] = ()
    """Those whose bytes are no text."""
