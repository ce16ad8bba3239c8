"""Decided conflicts: which content of an identity won, and which lost, by the batch whose release accepted it.

`datasets/<dataset>/conflicts/<batch>/<attempt>.json`, named by the commit records of the attempt that was released and
of every later one; and pinned as `datasets/<dataset>/conflicts/<batch>-<attempt>.json` before the chain that names them
is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile

from onefold import lake_keys
from onefold.decisions.documents import DecidedConflicts, LostContent, Mark, Release
from onefold.decisions.log import log_of
from onefold.errors import LandedBytesMissingError
from onefold.lake import Lake


def put_conflicts(lake: Lake, dataset: str, made: DecidedConflicts) -> None:
    """Keep what an attempt found; it counts once a published commit record names it."""
    lake.put_first(lake_keys.decided_conflicts(dataset, made.batch, made.attempt), made)


def conflicts_named(lake: Lake, dataset: str, named: Mapping[str, str]) -> list[DecidedConflicts]:
    """The conflicts that a commit record names: batches by attempt.

    Raises:
        LandedBytesMissingError: a document is gone from the lake.
    """
    return [_read(lake, lake_keys.decided_conflicts(dataset, batch, name)) for name, batch in sorted(named.items())]


def pin_conflicts(lake: Lake, dataset: str, named: Mapping[str, str]) -> None:
    """Keep decided conflicts in force for a rebuild; called before the chain that names them is left."""
    for made in conflicts_named(lake, dataset, named):
        lake.put_first(f"{lake_keys.conflicts(dataset)}{made.batch}-{made.attempt}.json", made)


def conflicts_in_force(
    lake: Lake, dataset: str, named: Mapping[str, str], left_out: Collection[str] = ()
) -> list[DecidedConflicts]:
    """The conflicts that a commit record names, and those that were pinned and whose release still counts.

    Args:
        lake: where they are kept.
        dataset: its name.
        named: of the commit record, batches by attempt.
        left_out: batches that a rebuild leaves out; what was decided of them does not count in it.
    """
    found = conflicts_named(lake, dataset, named)
    prefix = lake_keys.conflicts(dataset)
    for info in lake.storage.list(prefix):
        if "/" in info.key.removeprefix(prefix):
            continue
        pinned = _read(lake, info.key)
        if pinned.attempt not in named and pinned.batch not in left_out and _still_counts(lake, dataset, pinned):
            found.append(pinned)
    return found


def _still_counts(lake: Lake, dataset: str, made: DecidedConflicts) -> bool:
    """Whether nothing but releases was decided of the batch since the release. One that was overruled by a rollback
    that moved nothing is recorded again, with its time."""
    last = takewhile(lambda decision: isinstance(decision, Release), reversed(log_of(lake, dataset, made.batch)))
    return any(decision.at == made.released for decision in last)


def lost_contents(decided: Iterable[DecidedConflicts], forgotten: Mapping[str, Mark]) -> list[LostContent]:
    """Every content that lost, but of keys that were forgotten since: these are as if they had never been."""
    found: set[LostContent] = set()
    for made in decided:
        since = {key for batch, mark in forgotten.items() if batch not in made.marks for key in mark.keys}
        for conflict in made.conflicts:
            if conflict.key not in since:
                found |= {LostContent(conflict.key, conflict.version, loser) for loser in conflict.losers}
    return sorted(found, key=str)


def _read(lake: Lake, key: str) -> DecidedConflicts:
    made = lake.get(key, DecidedConflicts)
    if made is None:
        raise LandedBytesMissingError(key.rsplit("/", 2)[1], key, "what was decided of conflicts is gone")
    return made
