"""The first two steps: plan a batch, land it. Both may be called again at any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import LandedBytesMissingError, LandingClearedError, StepMissingError, UsageError
from onefold.faults import fault_point
from onefold.lake import Lake, new_attempt
from onefold.landing.exports import ExportSource
from onefold.landing.live import LiveSource, Read
from onefold.landing.manifest import Cleared, LandedObject, Manifest
from onefold.landing.plan import (
    Interval,
    OfRun,
    Plan,
    check_limits,
    find_plan,
    plan_key,
    plan_of,
    put_plan,
    read_plan,
    replace_plan,
    take_plan,
)
from onefold.landing.source import AT_ONCE, AnySource, Landed


def plan_batch(
    lake: Lake,
    dataset: Dataset,
    interval: Interval | None = None,
    export: str | None = None,
    *,
    run: str | None = None,
    dry_run: bool = False,
) -> Plan:
    """Decide what a batch reads, once: an interval that was planned before keeps its plan, and without an interval a
    `run` keeps its own, where the caller names one and may call again.

    An interval's plan is the dataset's at once; any other one when it is landed, for if this process is killed
    before, planning again must find the same objects. With `dry_run` nothing is written.

    Raises:
        UsageError: the plan is larger than the settings allow.
    """
    if interval:
        stored = read_plan(lake, plan_key(dataset.source_id, interval.name))
    else:
        before = lake.get(lake_keys.run(dataset.name, run), OfRun) if run else None
        stored = plan_of(lake, before.source, before.batch) if before else None
    plan = stored or source_of(lake, dataset, export).plan(interval, dry_run=dry_run)
    if not stored:
        check_limits(lake, dataset.name, plan)
    if dry_run or (plan.empty and not interval):
        return plan
    kept = stored or put_plan(lake, plan)
    if export and kept != plan and not lake.storage.stat(lake_keys.manifest(plan.source, plan.batch)):
        kept = replace_plan(lake, plan)  # the same objects, brought to another place: the first may be gone
    if interval:
        take_plan(lake, dataset.name, kept)
    elif run and not stored:
        first = lake.put_first(lake_keys.run(dataset.name, run), OfRun(source=kept.source, batch=kept.batch))
        kept = plan_of(lake, first.source, first.batch)
    fault_point("after_plan")
    return kept


def land_batch(
    lake: Lake, dataset: Dataset, batch: str, attempt: str | None = None, read: Read | None = None
) -> Manifest:
    """Bring what the plan names into the landing and commit it by a manifest.

    Export files are copied; `read` reads live topics (`spark_jobs.land` gives it). A replay's bytes lie in the landing
    of the batch that rejected them; another decision has none. A landing that exists is checked (every object there,
    with its size) and returned.

    Raises:
        LandedBytesMissingError: the manifest exists, but an object is gone.
        ExportChangedError: the export does not hold what was planned.
        LandingInterruptedError: a live topic could not be read to the end of the plan.
    """
    plan = find_plan(lake, dataset, batch)
    key = lake_keys.manifest(plan.source, batch)
    if landed_before := lake.get(key, Manifest):
        _check(lake, landed_before)
        take_plan(lake, dataset.name, plan)
        return landed_before
    done: Callable[[], None] | None = None
    attempt = attempt or new_attempt()
    if plan.decided:
        made = plan.manifest(attempt, lambda origin: lake.get(lake_keys.manifest(plan.source, origin), Manifest))
    else:
        source = source_of(lake, dataset, plan.place, read)
        landed = source.land(plan, batch, attempt)
        made, done = manifest_for(dataset, plan, attempt, landed), partial(source.landed, landed)
    fault_point("before_manifest")
    manifest = lake.put_first(key, made)
    if done:
        done()
    take_plan(lake, dataset.name, plan)
    fault_point("after_land")
    return manifest


def manifest_for(dataset: Dataset, plan: Plan, attempt: str, landed: Landed) -> Manifest:
    """The manifest of what an attempt landed."""
    return Manifest(
        batch=plan.batch,
        source=plan.source,
        attempt=attempt,
        objects=landed.objects,
        layout=dataset.source.layout,
        origin=dataset.source.exports.origin if dataset.source.exports else None,
        ranges=landed.ranges,
        holes=landed.holes,
        examined=bool(landed.ranges),
        transactions=landed.transactions,
        damaged=landed.damaged,
        damage=landed.damage,
        replaced=landed.replaced,
        topics=landed.topics,
        aged=landed.aged,
        notes=landed.notes,
    )


def manifest_of(lake: Lake, dataset: Dataset, batch: str) -> Manifest:
    """The manifest of a landed batch.

    Raises:
        StepMissingError: it has not been landed.
    """
    manifest = lake.get(lake_keys.manifest(find_plan(lake, dataset, batch).source, batch), Manifest)
    if manifest is None:
        raise StepMissingError(batch, "this step", "a landing")
    return manifest


def source_of(lake: Lake, dataset: Dataset, place: str | None = None, read: Read | None = None) -> AnySource:
    """The source that a dataset names; `place` overrides where its export files lie.

    Raises:
        UsageError: a place, for a dataset of live topics.
    """
    if dataset.source.kafka:
        if place:
            raise UsageError(f"{dataset.name} reads live topics: there is no export folder to read in their place")
        return LiveSource(lake, dataset, read)
    return ExportSource(lake, dataset, place)


def check_not_cleared(lake: Lake, source: str, batch: str) -> None:
    """Refuse what needs landed bytes that the landing's retention has cleared.

    Raises:
        LandingClearedError: they are gone.
    """
    if cleared := lake.get(lake_keys.cleared(source, batch), Cleared):
        raise LandingClearedError(batch, f"{cleared.at:%Y-%m-%d}")


def check_bytes(lake: Lake, manifest: Manifest) -> None:
    """Hold every landed byte of a batch against the manifest's digests.

    Raises:
        LandedBytesMissingError: an object is gone, or holds other bytes.
        LandingClearedError: the landing was cleared.
    """
    check_not_cleared(lake, manifest.source, manifest.landing)

    def check(object_: LandedObject) -> None:
        _check_object(lake, manifest, object_)
        if (found := lake.storage.digest(object_.key)) != object_.sha256:
            problem = f"holds other bytes than were landed: their SHA-256 is {found}, not {object_.sha256}"
            raise LandedBytesMissingError(manifest.batch, object_.key, problem)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        deque(pool.map(check, manifest.objects), maxlen=0)


def _check(lake: Lake, manifest: Manifest) -> None:
    if lake.storage.stat(lake_keys.cleared(manifest.source, manifest.landing)):
        return  # who needs the bytes says so
    for object_ in manifest.objects:
        _check_object(lake, manifest, object_)


def _check_object(lake: Lake, manifest: Manifest, object_: LandedObject) -> None:
    info = lake.storage.stat(object_.key)
    if info is None:
        raise LandedBytesMissingError(manifest.batch, object_.key, "is gone")
    if info.size != object_.size:
        raise LandedBytesMissingError(manifest.batch, object_.key, f"has {info.size} bytes, not {object_.size}")
