"""Versions that are missing between those that are there (guard contiguous)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onefold.dataset import Dataset
from onefold.decisions.documents import Mark
from onefold.errors import UsageError
from onefold.landing.manifest import Accepted
from onefold.tables.key_digest import digest_of_key, period_of_key


def gaps_between(head: int, held: Sequence[int]) -> list[tuple[int, int]]:
    """The versions, half-open, that are missing between a head and some held versions above it, in order."""
    found = []
    for version in held:
        if version > head + 1:
            found.append((head + 1, version))
        head = version
    return found


@dataclass(frozen=True, slots=True)
class Link:
    """A version of a key that counts as if all before it were there. `own`: the batch that is judged accepts it."""

    key: bytes
    version: int
    period: str | None = None
    own: bool = False


def links_of(
    dataset: Dataset, before: Sequence[Accepted], own: Accepted | None = None, marks: Iterable[Mark] = ()
) -> list[Link]:
    """The links of accepted gaps and of forget marks; of those that were made for another key than the dataset has now,
    none."""
    if not dataset.apply.HOLDS:
        return []
    found = []
    for accepted in [*before, *([own] if own else [])]:
        try:
            digest = digest_of_key(dataset, accepted.key)
        except UsageError:  # of the generation before
            continue
        found.append(Link(digest, accepted.version, period_of_key(dataset, accepted.key), accepted is own))
    comparable = (mark for mark in marks if mark.versioned_by == dataset.versioned_by)
    return [*found, *(link for mark in comparable for link in _links_after(mark))]


def highest_forgotten(dataset: Dataset, marks: Iterable[Mark]) -> dict[bytes, int]:
    """By key, the highest version that forget marks take out: its chain goes on after it."""
    found: dict[bytes, int] = {}
    for link in links_of(dataset, [], marks=marks):
        found[link.key] = max(found.get(link.key, link.version - 1), link.version - 1)
    return found


def _links_after(mark: Mark) -> Iterator[Link]:
    """The versions after those that a mark takes out: each needs none before it."""
    for key, versions in mark.highest.items():
        for highest in versions:
            if (version := int(highest.version[0])) < _LAST:
                yield Link(bytes.fromhex(key), version + 1)


_LAST = (1 << 63) - 1
"""The greatest version."""
