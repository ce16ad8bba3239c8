"""Forget marks: which records count for nothing, by the batch that forgot them.

`datasets/<dataset>/forgotten/<batch>/<attempt>.json`, named by the commit record of the attempt that found them; and
pinned as `datasets/<dataset>/forgotten/<batch>.json` before the chain that names them is left. The identities of a mark
(`onefold.folding.message_digest`) are next to it: digests of 16 bytes, one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onefold import lake_keys
from onefold.decisions.documents import Mark
from onefold.errors import LandedBytesMissingError
from onefold.lake import Lake

DIGEST = 16
"""Bytes of an identity's digest."""


def put_mark(lake: Lake, dataset: str, mark: Mark, identities: Iterable[bytes] = ()) -> Mark:
    """Keep what an attempt found, and the digests of identities; it counts once a published commit record names it."""
    known = sorted(set(identities))
    if known:
        lake.storage.write(lake_keys.mark_identities(dataset, mark.batch, mark.attempt), b"".join(known))
    counted = mark.model_copy(update={"identities": len(known)})
    return lake.put_first(lake_keys.mark(dataset, mark.batch, mark.attempt), counted)


def identities_of(lake: Lake, dataset: str, mark: Mark) -> list[bytes]:
    """The digests of the identities that a mark knows.

    Raises:
        LandedBytesMissingError: they are gone from the lake.
    """
    if not mark.identities:
        return []
    key = lake_keys.mark_identities(dataset, mark.batch, mark.attempt)
    known = lake.storage.read(key)
    if known is None or len(known) != DIGEST * mark.identities:
        raise LandedBytesMissingError(mark.batch, key, "the identities of the forget mark are gone")
    return [known[start : start + DIGEST] for start in range(0, len(known), DIGEST)]


def marks_named(lake: Lake, dataset: str, named: Mapping[str, str]) -> dict[str, Mark]:
    """The marks that a document names (attempts by batch), by batch.

    Raises:
        LandedBytesMissingError: one is gone from the lake.
    """
    return {batch: _mark(lake, lake_keys.mark(dataset, batch, attempt)) for batch, attempt in sorted(named.items())}


def marks_in_force(lake: Lake, dataset: str, named: Mapping[str, str]) -> dict[str, Mark]:
    """The marks that a commit record names, and those that were pinned, by batch."""
    found = marks_named(lake, dataset, named)
    prefix = lake_keys.marks(dataset)
    for info in lake.storage.list(prefix):
        if "/" not in info.key.removeprefix(prefix):
            pinned = _mark(lake, info.key)
            found.setdefault(pinned.batch, pinned)
    return dict(sorted(found.items()))


def pin_marks(lake: Lake, dataset: str, named: Mapping[str, str]) -> None:
    """Keep marks, once, in force whatever becomes of the chain; called before it is left."""
    for mark in marks_named(lake, dataset, named).values():
        lake.put_first(f"{lake_keys.marks(dataset)}{mark.batch}.json", mark)


def _mark(lake: Lake, key: str) -> Mark:
    mark = lake.get(key, Mark)
    if mark is None:
        raise LandedBytesMissingError(key.rsplit("/", 2)[1], key, "the forget mark is gone")
    return mark
