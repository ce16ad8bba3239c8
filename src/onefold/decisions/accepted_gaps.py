"""Versions that are missing between those that are there (guard contiguous)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onefold.dataset import Dataset
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


def links_of(dataset: Dataset, before: Sequence[Accepted], own: Accepted | None = None) -> list[Link]:
    """The links of accepted gaps; of gaps that were accepted for another key than the dataset has now, none."""
    found = []
    for one in [*before, *([own] if own else [])] if dataset.apply.HOLDS else []:
        try:
            digest = digest_of_key(dataset, one.key)
        except UsageError:  # of the generation before
            continue
        found.append(Link(digest, one.version, period_of_key(dataset, one.key), one is own))
    return found
