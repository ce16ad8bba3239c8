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
from onefold.landing.plan import find_plan
from onefold.offsets import Position, Range
from onefold.operations import erasure_scope as scope
from onefold.operations.forget import forget
from onefold.operations.launcher import Launcher, Say
from onefold.operations.run import run_batch
from onefold.proof.documents import remove_shown
from onefold.publish.lease import hold
from onefold.report.samples import remove_samples


@dataclass(frozen=True, slots=True)
class Meant:
    """What would go, before anything is decided."""

    rows: dict[str, int]
    """Rows of the table by state"""
    records: int
    """Landed records that the table has covered of the keys"""
    objects: dict[str, int]
    """Landed objects that hold their payload, by key, and of how many"""

    def __bool__(self) -> bool:
        return bool(self.rows or self.records)


def meant(lake: Lake, dataset: Dataset, keys: Sequence[dict[str, Any]], places: Sequence[Position] = ()) -> Meant:
    """What is there of keys, and of quarantined records: rows of the table, landed records and objects.

    Raises:
        UsageError: they cannot be erased, or not yet.
    """
    digests, positions = _asked(lake, dataset, keys, places)
    states: dict[str, int] = {}
    if keys:
        states = forget(lake, dataset, keys, None, NOT_YET, "to be erased", dry_run=True)[1].states
        for some in (scope.covered_positions, scope.forgotten_positions):
            positions = scope.together(positions, some(lake, dataset, digests))
    objects: dict[str, int] = {}
    for source in scope.sources(lake, dataset) if positions else ():
        objects |= holding(lake, source, positions)
    return Meant(states, scope.count(positions), objects)


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

    Raises:
        UsageError: it cannot be done, or not yet.
        GateRedError: the batch that forgets them is red. Nothing has left the landing.
        ErasureDisturbedError: another process is at work there.
    """
    digests, quarantined = _asked(lake, dataset, keys, places)
    erasure = scope.decide(lake, dataset, digests, quarantined, who, reason)
    fault_point("before_forgotten")
    mark, _ = forget(lake, dataset, keys, None, erasure.who, erasure.reason) if keys else (None, None)
    if mark:
        say("forget")
        ended = run_batch(lake, dataset, find_plan(lake, dataset, mark.batch), spark, say, rebuilding=True)
        if ended.red:
            raise ended.red
    positions = scope.together(quarantined, scope.forgotten_positions(lake, dataset, digests))
    sources = scope.sources(lake, dataset)
    objects = 0
    for source in sources:
        with hold(lake, f"landing-{source}", lambda: say("waiting for another erasure")) as got:
            if not got:
                raise ErasureDisturbedError(dataset.name, "another erasure is at work in its landing")
            objects += erase_landed(lake, source, dataset.name, erasure.name, positions, say)
    with hold(lake, dataset.target.table, lambda: say("waiting for another batch")) as got:
        if not got:
            raise ErasureDisturbedError(dataset.name, "another batch holds its table")
        if scope.is_rebuilt(lake, dataset):
            raise ErasureDisturbedError(dataset.name, "a rebuild has begun meanwhile")
        if batch := scope.waiting(lake, dataset, digests):
            raise ErasureDisturbedError(dataset.name, f"batch {batch} has begun meanwhile, and is not published")
        say("tables")
        spark.erase(dataset, positions)
    say("reports")
    scope.clear_attempts(lake, dataset)
    fault_point("before_samples")
    remove_shown(lake, dataset.name)
    remove_samples(lake, dataset)
    return scope.end(lake, erasure, scope.count(positions), objects)
