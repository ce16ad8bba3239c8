"""`onefold rebuild`: fold everything landed into a new generation, and then move readers to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.layouts import LAYOUTS
from onefold.decisions import AcceptGap, Decider, Discard, Forget, Skip, checked_reason, log_of
from onefold.decisions.conflicts import pin_conflicts
from onefold.decisions.log import pin_skips
from onefold.decisions.marks import pin_marks
from onefold.decisions.who import NOT_YET
from onefold.errors import UsageError
from onefold.faults import fault_point
from onefold.generation import Generation, Rebuild, begin_rebuild, end_rebuild, is_given_up, to_rebuild
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.land import check_not_cleared
from onefold.landing.manifest import Manifest
from onefold.landing.plan import Plan, own_plans
from onefold.operations.launcher import Launcher, Say
from onefold.operations.run import BatchRun, try_batch
from onefold.publish.rolled_back import restore_decisions, rolled_back, take_out
from onefold.upsert.commit_record import chain, published_chain
from onefold.upsert.documents import Upserted


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How a rebuild ended: its batches, the keys that had changed, and whether readers see the new generation."""

    batches: list[BatchRun]
    changed: tuple[str, ...]
    swapped: bool


def landed_plans(lake: Lake, dataset: Dataset, without: Collection[str] = ()) -> list[Plan]:
    """Every plan of the dataset's topics whose bytes are landed, in the order in which they were taken up; those of
    batches that were rolled back or taken out, and of those to be left out, are not among them.

    Raises:
        UsageError: some were landed with exact positions and some with inferred ones.
        LandingClearedError: the bytes of some are gone, by the landing's retention.
    """
    found, waiting = [], rolled_back(lake, dataset)
    for plan in own_plans(lake, dataset):
        if plan.batch in waiting or plan.batch in without:
            continue
        manifest = lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest)
        if manifest is None or plan.empty:
            continue
        check_not_cleared(lake, plan.source, plan.landing)
        if manifest.layout and LAYOUTS[manifest.layout].exact != dataset.source.exact:
            raise UsageError(
                f"{dataset.name}: batch {plan.batch} was landed in layout {manifest.layout}, and the dataset now reads "
                f"{dataset.source.layout}: exact and inferred positions cannot be folded into one table. Nothing was "
                "changed. Give the dataset a new name."
            )
        found.append(plan)
    return found


def check_without(lake: Lake, dataset: Dataset, without: Collection[str], reason: str) -> list[str]:
    """The batches that a rebuild without some leaves out: these, and the replays of what they rejected. None: readers
    see the table without all of them already.

    Raises:
        UsageError: one is not published, was skipped, or carries a decision out; no other batch is landed; or there is
            no reason.
    """
    if not without:
        return []
    checked_reason(reason)
    records = {record.batch: record for record in published_chain(lake, dataset)}
    if all(is_taken_out(lake, dataset, batch) for batch in without):
        return []
    for batch in without:
        record = records.get(batch)
        if record is None:
            raise UsageError(
                f"{dataset.name}: batch {batch} is not published: there is nothing to take out. Nothing was changed. "
                f"`onefold batches {dataset.name}` lists the batches; one that is not published is decided by onefold "
                "skip or onefold discard."
            )
        if isinstance(record.decision, Skip | AcceptGap | Forget):
            raise UsageError(
                f"{dataset.name}: batch {batch} carries a decision out ({record.decision.sentence}) and no record of "
                "it is in the table: there is nothing to take out. Nothing was changed."
            )
    replays = (record.batch for record in records.values() if record.replays in without)
    found = sorted({*without, *replays})
    if not landed_plans(lake, dataset, found):
        raise UsageError(
            f"{dataset.name}: no other batch is landed, so without {', '.join(found)} there is nothing to fold. "
            f"Nothing was changed. Run first what is to be there instead: onefold run {dataset.name}. It may be red, "
            "for it is landed all the same."
        )
    return found


def is_taken_out(lake: Lake, dataset: Dataset, batch: str) -> bool:
    """Whether readers see the table without a batch that was published, by a rebuild."""
    return isinstance(rolled_back(lake, dataset).get(batch), Discard)


def is_begun_without(lake: Lake, dataset: Dataset, batch: str) -> bool:
    """Whether a rebuild without a batch was begun and not given up, or has ended."""
    begun = lake.get(lake_keys.rebuild(dataset), Rebuild)
    return is_taken_out(lake, dataset, batch) or bool(begun and batch in begun.without)


def foresee_without(lake: Lake, dataset: Dataset, batch: str, who: Decider, reason: str) -> Discard | None:
    """The decision that a rebuild without a batch records; nothing is written. None: the batch is taken out already.

    Raises:
        UsageError: what `check_without` refuses.
    """
    if not check_without(lake, dataset, [batch], reason):
        return None
    number, generation = len(log_of(lake, dataset.name, batch)) + 1, generation_without(lake, dataset, [batch])
    given = {"who": who, "reason": reason.strip(), "at": datetime.now(UTC), "rebuilt": generation.generation}
    return Discard(dataset=dataset.name, batch=batch, number=number, **given)


def taken_out(lake: Lake, dataset: Dataset, without: Collection[str]) -> list[dict[str, Any]]:
    """What a rebuild without some batches takes out: each with its records by verdict, as it was published."""
    records = [record for record in published_chain(lake, dataset) if record.batch in without]
    return [
        {
            "batch": record.batch,
            "landed": record.landed,
            "verdicts": record.by_verdict(),
            "replays": record.replays,
            "decision": record.decision.kind if record.decision else None,
        }
        for record in reversed(records)
    ]


def rebuild(
    lake: Lake,
    dataset: Dataset,
    spark: Launcher,
    say: Say = lambda _: None,
    *,
    without: Collection[str] = (),
    who: Decider = NOT_YET,
    reason: str = "",
    again: bool = False,
) -> Rebuilt:
    """Fold every landed batch into the dataset's generation, then swap; interrupted, it goes on where it was.

    Batches that were rolled back or taken out are left out; so are those of `without`, which are published, and wait
    for an operator once readers see the table without them.
    A batch that readers see today must be green again, or nothing is swapped; one that was red, or could not
    be read, may stay so.

    Args:
        lake: where everything is.
        dataset: the file as it is to be folded; with `without` it may be the file of the published table.
        spark: runs the steps.
        say: takes what the rebuild is at.
        without: published batches to take out (`check_without`).
        who: who decides that.
        reason: why; it is recorded.
        again: fold an unchanged file, too, batches in the order of the log.

    Raises:
        UsageError: nothing is published yet, it cannot be folded together, or a batch was rolled back meanwhile.
    """
    asked_without, without = bool(without), check_without(lake, dataset, without, reason)
    if asked_without and not without:
        return Rebuilt([], (), False)
    others = (record for record in published_chain(lake, dataset) if record.batch not in without)
    restore_decisions(lake, dataset, others)
    landed_plans(lake, dataset, without)
    place = _places_in_log(lake, dataset, landed_plans(lake, dataset, without)) if again else {}
    dataset = generation_without(lake, dataset, without) if without or again else to_rebuild(lake, dataset)
    if is_given_up(lake, dataset):
        spark.swap_views(dataset)  # readers may have been led on by it
    changed = begin_rebuild(lake, dataset, without)
    if not changed:
        return Rebuilt([], (), False)
    seen_today = _published(lake, dataset)
    ends = []
    for plan in _as_they_come(lake, dataset, without, place):
        _pin(lake, dataset)  # each time: the schedule goes on meanwhile, and so do people
        end = try_batch(lake, dataset, plan, spark, say, rebuilding=True)
        ends.append(end)
        if end.error and plan.batch in seen_today:
            return Rebuilt(ends, changed, False)
    folded = _folded(lake, dataset)
    if undone := folded & rolled_back(lake, dataset).keys():
        raise UsageError(
            f"{dataset.name}: batches were rolled back after they were folded ({', '.join(sorted(undone))}). Readers "
            f"stay where they are. Take them up (onefold run {dataset.name} --again BATCH, with the dataset file as it "
            f"was before the change) and run it again: onefold rebuild {dataset.name}. Or give the change up."
        )
    if gone := {end.batch for end in ends if end.published} - folded:
        raise UsageError(
            f"{dataset.name}: another process has taken away what was folded ({', '.join(sorted(gone))}). Readers stay "
            f"where they are; run it again: onefold rebuild {dataset.name}"
        )
    say("swap")
    take_out(lake, dataset, without, who, reason.strip())
    fault_point("before_swap")
    spark.swap_views(dataset)
    fault_point("after_swap")
    end_rebuild(lake, dataset)
    return Rebuilt(ends, changed, True)


def generation_without(lake: Lake, dataset: Dataset, without: Collection[str]) -> Dataset:
    """A dataset file as a generation of its own that no other batches were folded into: not the published generation,
    and of those that a rebuild began only the one that was begun without the same batches."""
    published = lake.get(lake_keys.generation(dataset), Generation)

    def taken(generation: str) -> bool:
        begun = lake.get(lake_keys.rebuild(dataset), Rebuild)
        if begun and begun.generation == generation and begun.without == list(without):
            return bool(published and published.generation == generation)
        is_published = published is not None and published.generation == generation
        return is_published or find_state(lake, dataset, generation) is not None

    return to_rebuild(lake, dataset, taken)


def _places_in_log(lake: Lake, dataset: Dataset, plans: Sequence[Plan]) -> dict[str, int]:
    """The places of batches in the order of the log: on each partition by the first offset that was folded of them;
    else as they were taken up. Where partitions contradict each other, there is no such order, and none has a place."""
    starts: dict[str, list[tuple[int, int]]] = {}
    for number, plan in enumerate(plans):
        tried = lake.get(lake_keys.latest(dataset, plan.batch), Upserted)
        first: dict[str, int] = {}
        for account in tried.accounts if tried else ():
            first[account.partition] = min(account.start, first.get(account.partition, account.start))
        for partition, start in first.items():
            starts.setdefault(partition, []).append((start, number))
    order: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(plans)), ()))
    for batches in starts.values():
        for (_, before), (_, after) in pairwise(sorted(batches)):
            order.add(after, before)
    try:
        order.prepare()
    except CycleError:
        return {}
    places: dict[str, int] = {}
    while order.is_active():
        for number in sorted(order.get_ready()):
            places[plans[number].batch] = len(places)
            order.done(number)
    return places


def _as_they_come(lake: Lake, dataset: Dataset, without: Collection[str], place: Mapping[str, int]) -> Iterator[Plan]:
    """Every landed plan, those with a place first, by it; those too that are landed meanwhile."""
    done: set[str] = set()
    while new := [plan for plan in landed_plans(lake, dataset, without) if plan.batch not in done]:
        for plan in sorted(new, key=lambda plan: place.get(plan.batch, len(place))):
            done.add(plan.batch)
            yield plan


def _folded(lake: Lake, dataset: Dataset) -> set[str]:
    table = find_state(lake, dataset)
    return {record.batch for record in chain(lake, dataset, table.main.record)} if table else set()


def _published(lake: Lake, dataset: Dataset) -> set[str]:
    return {record.batch for record in published_chain(lake, dataset)}


def _pin(lake: Lake, dataset: Dataset) -> None:
    """Keep what was decided of the table that readers see, by skips, forget marks and releases: the rebuild goes in
    another order."""
    if newest := next(published_chain(lake, dataset), None):
        pin_skips(lake, dataset.name, newest.skipped)
        pin_marks(lake, dataset.name, newest.forgotten)
        pin_conflicts(lake, dataset.name, newest.conflicts)
