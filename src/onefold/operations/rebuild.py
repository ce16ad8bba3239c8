"""`onefold rebuild`: fold everything landed into a new generation, and then move readers to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.layouts import LAYOUTS
from onefold.decisions.log import pin_skips
from onefold.decisions.marks import pin_marks
from onefold.errors import UsageError
from onefold.faults import fault_point
from onefold.generation import begin_rebuild, end_rebuild, is_given_up, to_rebuild
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.land import check_not_cleared
from onefold.landing.manifest import Manifest
from onefold.landing.plan import Plan, own_plans
from onefold.operations.launcher import Launcher, Say
from onefold.operations.run import BatchRun, try_batch
from onefold.publish.rolled_back import restore_decisions, rolled_back
from onefold.upsert.commit_record import chain, published_chain


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How a rebuild ended: its batches, the keys that had changed, and whether readers see the new generation."""

    batches: list[BatchRun]
    changed: tuple[str, ...]
    swapped: bool


def landed_plans(lake: Lake, dataset: Dataset) -> list[Plan]:
    """Every plan of the dataset's topics whose bytes are landed, in the order in which they were taken up; those of
    batches that were rolled back are left out.

    Raises:
        UsageError: some were landed with exact positions and some with inferred ones.
        LandingClearedError: the bytes of some are gone, by the landing's retention.
    """
    found, waiting = [], rolled_back(lake, dataset)
    for plan in own_plans(lake, dataset):
        if plan.batch in waiting:
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


def rebuild(lake: Lake, dataset: Dataset, spark: Launcher, say: Say = lambda _: None) -> Rebuilt:
    """Fold every landed batch into the dataset's generation, then swap; interrupted, it goes on where it was.

    Batches that were rolled back are left out.
    A batch that readers see today must be green again, or nothing is swapped; one that was red, or could not
    be read, may stay so.

    Raises:
        UsageError: nothing is published yet, it cannot be folded together, or a batch was rolled back meanwhile.
    """
    restore_decisions(lake, dataset, published_chain(lake, dataset))
    landed_plans(lake, dataset)
    dataset = to_rebuild(lake, dataset)
    if is_given_up(lake, dataset):
        spark.swap_views(dataset)  # readers may have been led on by it
    changed = begin_rebuild(lake, dataset)
    if not changed:
        return Rebuilt([], (), False)
    seen_today = _published(lake, dataset)
    ends = []
    for plan in _as_they_come(lake, dataset):
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
    fault_point("before_swap")
    spark.swap_views(dataset)
    fault_point("after_swap")
    end_rebuild(lake, dataset)
    return Rebuilt(ends, changed, True)


def _as_they_come(lake: Lake, dataset: Dataset) -> Iterator[Plan]:
    """Every landed plan, those too that are landed meanwhile."""
    done: set[str] = set()
    while new := [plan for plan in landed_plans(lake, dataset) if plan.batch not in done]:
        for plan in new:
            done.add(plan.batch)
            yield plan


def _folded(lake: Lake, dataset: Dataset) -> set[str]:
    table = find_state(lake, dataset)
    return {one.batch for one in chain(lake, dataset, table.main.record)} if table else set()


def _published(lake: Lake, dataset: Dataset) -> set[str]:
    return {record.batch for record in published_chain(lake, dataset)}


def _pin(lake: Lake, dataset: Dataset) -> None:
    """Keep what skips and forget marks took out of the table that readers see: the rebuild goes in another order."""
    if newest := next(published_chain(lake, dataset), None):
        pin_skips(lake, dataset.name, newest.skipped)
        pin_marks(lake, dataset.name, newest.forgotten)
