"""Versions that are missing between those that are there (guard contiguous)."""

from __future__ import annotations

from collections.abc import Sequence


def gaps_between(head: int, held: Sequence[int]) -> list[tuple[int, int]]:
    """The versions, half-open, that are missing between a head and some held versions above it, in order."""
    found = []
    for version in held:
        if version > head + 1:
            found.append((head + 1, version))
        head = version
    return found
