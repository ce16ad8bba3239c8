"""Time spans as people say them."""

from __future__ import annotations

from datetime import timedelta


def text(span: timedelta) -> str:
    """A span for people, by its two largest units that count."""
    left, parts = span // timedelta(milliseconds=1), []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"
