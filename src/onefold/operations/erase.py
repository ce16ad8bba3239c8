"""Erase keys: they are forgotten, and nothing of what they were made of is left in the lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onefold.dataset import Dataset
from onefold.decisions import Decider, Erasure
from onefold.decisions.who import NOT_YET
from onefold.errors import ErasureDisturbedError, UsageError
from onefold.faults import fault_point
from onefold.lake import Lake
from onefold.landing.erase import erase_landed, holding
from onefold.landing.landings import sources_of
from onefold.landing.plan import find_plan
from onefold.offsets import Position, Range, TopicPartition
from onefold.operations import erasure_scope as scope
from onefold.operations.forget import forget
from onefold.operations.launcher import Launcher, Say
from onefold.operations.run import run_batch
from onefold.proof.documents import remove_shown
from onefold.publish.lease import hold
from onefold.report.samples import remove_samples
from onefold.upsert.documents import LandedKeys
from onefold.vocabulary import Level

SHOWN = 20
"""Ranges of records without a readable key that are named, of those that are counted."""


@dataclass(frozen=True, slots=True)
class Meant:
    """What would go, before anything is decided."""

    rows: dict[str, int]
    """Rows of the table by state"""
    records: int
    """Landed records of the keys"""
    unseen: dict[str, int]
    """Of these, records that the table knows under no key, by what became of them"""
    objects: dict[str, int]
    """Landed objects that hold their payload, by key, and of how many"""
    unreadable: int
    """Landed records without a readable key: they may be of any key"""
    unreadable_at: list[str]
    """The first ranges of these"""
    unread: list[str]
    """Batches whose landing cannot be read"""
    comes_back: str | None
    """Why a copy that is sent again later is taken for a new record; None: it is recognised"""
    forgets: bool
    """Whether records or rows are left that no mark has"""

    def __bool__(self) -> bool:
        return bool(self.rows or self.records)


def meant(
    lake: Lake, dataset: Dataset, keys: Sequence[dict[str, Any]], spark: Launcher, places: Sequence[Position] = ()
) -> Meant:
    """What is there of keys, and of quarantined records: rows of the table, landed records and objects.

    Raises:
        UsageError: they cannot be erased, or not yet.
    """
    digests, quarantined = _asked(lake, dataset, keys, places)
    return _meant(lake, dataset, keys, digests, quarantined, _find_landed(spark, dataset, digests))


def _find_landed(spark: Launcher, dataset: Dataset, digests: Sequence[bytes]) -> LandedKeys:
    return spark.find_landed(dataset, digests) if digests else LandedKeys()


def _meant(
    lake: Lake,
    dataset: Dataset,
    keys: Sequence[dict[str, Any]],
    digests: Sequence[bytes],
    positions: dict[str, list[Range]],
    landed: LandedKeys,
) -> Meant:
    states: dict[str, int] = {}
    known = scope.covered_positions(lake, dataset, digests)
    forgotten = scope.forgotten_positions(lake, dataset, digests, landed.positions)
    if keys:
        states = forget(lake, dataset, keys, None, NOT_YET, "to be erased", dry_run=True)[1].states
        positions = scope.together(positions, scope.together(known, forgotten))
    unseen = {became: scope.count(scope.without(some, positions)) for became, some in landed.records.items()}
    positions = scope.together(positions, landed.positions)
    objects: dict[str, int] = {}
    for source in sources_of(lake, dataset) if positions else ():
        objects |= holding(lake, source, positions)
    unreadable = scope.without(landed.unreadable, positions)
    return Meant(
        rows=states,
        records=scope.count(positions),
        unseen={became: count for became, count in sorted(unseen.items()) if count},
        objects=objects,
        unreadable=scope.count(unreadable),
        unreadable_at=_named(unreadable),
        unread=landed.unread,
        comes_back=comes_back(dataset),
        forgets=bool(states or scope.without(landed.positions, forgotten)),
    )


def comes_back(dataset: Dataset) -> str | None:
    """Why a copy of an erased record that is sent again later would be taken for a new one; None: it is recognised.
    What the log shows of a producer is no help: an application that sends again has a new sequence."""
    if not dataset.version_of_delivery or {Level.MESSAGE_ID, Level.PRODUCER} & {*dataset.declared_levels}:
        return None
    version = dataset.apply.version
    read_from = version.named if version else ""
    return (
        f"its version is read from {read_from}, so a copy that is sent again has a newer version, and no identity is "
        "declared that tells it from a new record: the key comes back with it. Delete it where it is sent from, or "
        "declare identity.message_id or identity.producer and rebuild first"
    )


def _named(positions: dict[str, list[Range]]) -> list[str]:
    """The first ranges, as TOPIC-PARTITION@OFFSET, with the last offset of those that have several."""
    named = []
    for key, ranges in positions.items():
        where = TopicPartition.of(key)
        for start, end in ranges:
            first = f"{where.topic}-{where.partition}@{start}"
            named.append(first if end == start + 1 else f"{first} to {end - 1}")
    return named[:SHOWN]


def _asked(
    lake: Lake, dataset: Dataset, keys: Sequence[dict[str, Any]], places: Sequence[Position]
) -> tuple[list[bytes], dict[str, list[Range]]]:
    """The digests of keys and the positions of quarantined records, if they can be erased now."""

    if not (keys or places):
        raise UsageError("say which keys: --key; or which records in quarantine: --position. Nothing was erased.")
    return scope.check(lake, dataset, keys), scope.quarantined_positions(lake, dataset, places)


def erase_keys(
    lake: Lake,
    dataset: Dataset,
    keys: Sequence[dict[str, Any]],
    who: Decider,
    reason: str,
    spark: Launcher,
    say: Say = lambda _: None,
    places: Sequence[Position] = (),
) -> Erasure:
    """Forget keys by a batch of its own, then take what they were made of, and the quarantined records at `places`, out
    of the lake; the decision, ended.

    Batches that are landed and not published keep their place, and lose what they hold of the keys and what their
    attempts made: they are judged again.

    Raises:
        UsageError: it cannot be done, or not yet.
        GateRedError: the batch that forgets them is red. Nothing has left the landing.
        ErasureDisturbedError: another process is at work there.
    """
    digests, quarantined = _asked(lake, dataset, keys, places)
    waiting = scope.waiting(lake, dataset, digests)
    say("landing")
    landed = _find_landed(spark, dataset, digests)
    found = _meant(lake, dataset, keys, digests, quarantined, landed)
    erasure = scope.decide(lake, dataset, digests, quarantined, who, reason)
    fault_point("before_forgotten")
    if found.forgets:
        mark, _ = forget(lake, dataset, keys, None, erasure.who, erasure.reason, erases=True)
        say("forget")
        assert mark
        ended = run_batch(lake, dataset, find_plan(lake, dataset, mark.batch), spark, say, rebuilding=True)
        if ended.red:
            raise ended.red
    # A mark that holds other keys, too, is older than this command, so `landed` has its records.
    positions = scope.together(quarantined, scope.forgotten_positions(lake, dataset, digests, landed.positions))
    objects = 0
    for source in sources_of(lake, dataset):
        with hold(lake, f"landing-{source}", lambda: say("waiting for another erasure")) as got:
            if not got:
                raise ErasureDisturbedError(dataset.name, "another erasure is at work in its landing")
            objects += erase_landed(lake, source, dataset.name, erasure.name, positions, say)
    with hold(lake, dataset.target.table, lambda: say("waiting for another batch")) as got:
        if not got:
            raise ErasureDisturbedError(dataset.name, "another batch holds its table")
        if scope.is_rebuilt(lake, dataset):
            raise ErasureDisturbedError(dataset.name, "a rebuild has begun meanwhile")
        if moved := dict(scope.waiting(lake, dataset, digests).items() - waiting.items()):
            raise ErasureDisturbedError(dataset.name, f"batch {min(moved)} has begun meanwhile, and is not published")
        say("tables")
        spark.erase(dataset, positions)
    say("reports")
    scope.clear_attempts(lake, dataset)
    fault_point("before_samples")
    remove_shown(lake, dataset.name)
    remove_samples(lake, dataset)
    return scope.end(lake, erasure, scope.count(positions), objects, found.unseen, found.unreadable)
