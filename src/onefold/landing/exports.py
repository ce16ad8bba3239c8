"""Export files as a source: pinned by name, size and entity tag, and copied unchanged."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.layouts import LAYOUTS, Role
from onefold.errors import ExportChangedError, NothingToReadError
from onefold.instants import span_text
from onefold.lake import Lake
from onefold.landing.log_segments import land_segments
from onefold.landing.manifest import LandedObject
from onefold.landing.places import check_objects, check_place
from onefold.landing.plan import Interval, ObjectsPlan, PinnedObject, of_kind, taken_plans
from onefold.landing.source import AT_ONCE, Landed
from onefold.storage.objects import ObjectInfo, PreconditionFailedError, Storage

_NAMED = 5
"""Objects that cannot be read that are named, of those that are counted."""
_SMALLEST = 100
"""Bytes of a small record, with which a number of records becomes a number of bytes."""


class ExportSource:
    """Export files in a folder or bucket."""

    def __init__(self, lake: Lake, dataset: Dataset, folder: str | None = None) -> None:
        self.lake, self.dataset, self.folder = lake, dataset, folder
        check_place(lake.settings, folder or dataset.source.place)
        self.layout = LAYOUTS[dataset.source.layout]
        self.store: Storage = lake.export(dataset, folder)

    def plan(self, interval: Interval | None, *, dry_run: bool = False) -> ObjectsPlan:
        """Pin the objects that are stable, their companions too, and in no plan yet; with `folder`, all that it holds.

        Raises:
            NothingToReadError: the place does not exist or holds nothing of the layout.
            UsageError: an object is a link to a place that is not allowed.
        """
        del dry_run  # nothing is written either way
        return self._pinned(interval)

    def _pinned(self, interval: Interval | None, *, everything: bool = False) -> ObjectsPlan:
        layout, listed = self.layout, list(self.store.list())
        found = [info for info in listed if not info.unreachable]
        notes = self._left_out([info for info in listed if info.unreachable and layout.role_of(info.key)])
        wanted = [(info, role) for info in found if (role := layout.role_of(info.key))]
        whole = {layout.group_of(info.key) for info, role in wanted if role == "values"}
        alone = sorted(info.key for info, _ in wanted if layout.group_of(info.key) not in whole)
        wanted = [(info, role) for info, role in wanted if layout.group_of(info.key) in whole]
        notes += self._without_values(alone)
        others = self._not_of_the_layout(listed)
        if not wanted:
            problem = f"no objects of layout {layout.name}" if listed else "does not exist or is empty"
            problem = notes[0] if notes else ": ".join([problem, *others])
            raise NothingToReadError(self.dataset.name, self.store.uri, problem)
        notes += others
        if not self.folder and not everything:
            # What is read together is planned together: values that were landed without companions are landed again.
            planned, settled = self._planned(), self._settled()
            young = {layout.group_of(info.key) for info, _ in wanted if info.modified > settled}
            new = {layout.group_of(info.key) for info, role in wanted if self._pin(info, role) not in planned}
            waiting, ready = new & young, new - young
            notes += self._unsettled([info.key for info, _ in wanted if layout.group_of(info.key) in waiting])
            wanted = [(info, role) for info, role in wanted if layout.group_of(info.key) in ready]
        check_objects(self.lake.settings, self.store.folder, (info.key for info, _ in wanted))
        return ObjectsPlan(
            source=self.dataset.source_id,
            interval=interval,
            place=self.store.uri,
            objects=[self._pin(info, role) for info, role in wanted],
            ignored=[info.shown for info in listed if layout.is_ignored(info.key)],
            notes=notes,
        )

    @staticmethod
    def _left_out(unreachable: list[ObjectInfo]) -> list[str]:
        """That objects of the layout are not read, and what to do."""
        if not unreachable:
            return []
        named = ", ".join(f"{info.shown!r} ({info.unreachable})" for info in unreachable[:_NAMED])
        more = f" and {len(unreachable) - _NAMED} more" if len(unreachable) > _NAMED else ""
        advice = "Bring them under sound names: the next run reads them"
        return [f"objects that cannot be read are left out: {named}{more}. {advice}"]

    def _not_of_the_layout(self, listed: list[ObjectInfo]) -> list[str]:
        """That objects are not read because of their names. Names that begin with a dot or an underscore are those of
        other programs' own objects, such as _SUCCESS."""
        others = [info.shown for info in listed if self.layout.is_ignored(info.key)]
        others = sorted(name for name in others if not name.rsplit("/", 1)[-1].startswith((".", "_")))
        if not others:
            return []
        return [f"{_counted(others)} not named as layout {self.layout.name} has them and left out: {_first(others)}"]

    def _unsettled(self, young: list[str]) -> list[str]:
        """That objects wait until they have been unchanged for `settle`."""
        if not young:
            return []
        settle = self.dataset.schedule.settle if self.dataset.schedule else timedelta(0)
        since = f"changed less than {span_text(settle)} ago (schedule.settle)"
        return [f"{_counted(young)} left for a later run, {since}: {_first(sorted(young))}"]

    @staticmethod
    def _without_values(alone: list[str]) -> list[str]:
        """That companions wait for what they belong to."""
        if not alone:
            return []
        named = _first(alone)
        return [f"keys or headers whose values are not there are left out: {named}. A run reads them with their values"]

    def newest(self, count: int) -> ObjectsPlan:
        """The objects written last that hold about `count` records, with their companions.

        Raises:
            NothingToReadError: the place does not exist or holds nothing of the layout.
        """
        everything = self._pinned(None, everything=True)
        by_age = {info.key: (info.modified, info.key) for info in self.store.list()}
        values = sorted(
            (object_ for object_ in everything.objects if object_.role == "values"),
            key=lambda object_: by_age[object_.name],
        )
        taken: list[PinnedObject] = []
        while values and sum(object_.size for object_ in taken) < count * _SMALLEST:
            taken.append(values.pop())
        groups = {self.layout.group_of(object_.name) for object_ in taken}
        wanted = [object_ for object_ in everything.objects if self.layout.group_of(object_.name) in groups]
        return everything.model_copy(update={"objects": wanted})

    def land(self, plan: ObjectsPlan, batch: str, attempt: str) -> Landed:
        """Copy the pinned objects.

        Raises:
            ExportChangedError: an object is gone or is not the pinned object any more.
        """
        with ThreadPoolExecutor(AT_ONCE) as pool:  # the first that fails, in the plan's order, ends the rest
            copies = pool.map(
                lambda numbered: self._copy(numbered[1], batch, attempt, numbered[0]), enumerate(plan.objects)
            )
            objects = list(copies)
        if self.layout.shows_log:
            return land_segments(self.lake, self.dataset, batch, attempt, objects)
        return Landed(objects)

    def landed(self, landed: Landed) -> None:
        """Nothing waits for it."""

    def _copy(self, pinned: PinnedObject, batch: str, attempt: str, number: int) -> LandedObject:
        # Numbered and plain: an exporter's name may hold what a path or a glob cannot.
        plain = re.sub(r"[^A-Za-z0-9.-]+", "_", pinned.name.rsplit("/", 1)[-1]).lstrip(".")
        key = lake_keys.landed(self.dataset.source_id, batch, attempt, f"{number:06d}-{plain}")
        check_objects(self.lake.settings, self.store.folder, [pinned.name])
        info = self.store.stat(pinned.name)
        if info is None:
            raise ExportChangedError(batch, pinned.name, "is gone")
        if (info.size, info.etag) != (pinned.size, pinned.etag):
            raise ExportChangedError(batch, pinned.name, "has changed since it was planned")
        try:
            digest = self.lake.storage.copy_from(self.store, info, key)
        except PreconditionFailedError:
            raise ExportChangedError(batch, pinned.name, "changed while it was copied") from None
        return LandedObject(
            name=pinned.name, key=key, size=pinned.size, sha256=digest, role=pinned.role, **self._position(pinned)
        )

    def _position(self, pinned: PinnedObject) -> dict[str, str | int]:
        found = self.layout.position_of(pinned.name)
        return dict(zip(("topic", "partition", "start"), found, strict=True)) if found else {}

    @staticmethod
    def _pin(info: ObjectInfo, role: Role) -> PinnedObject:
        return PinnedObject(name=info.key, size=info.size, etag=info.etag, role=role)

    def _planned(self) -> set[PinnedObject]:
        plans = of_kind(taken_plans(self.lake, self.dataset.name), ObjectsPlan)
        return {pinned for plan in plans if self._here(plan) for pinned in plan.objects}

    def _here(self, plan: ObjectsPlan) -> bool:
        return plan.place == self.store.uri

    def _settled(self) -> datetime:
        settle = self.dataset.schedule.settle if self.dataset.schedule else timedelta(0)
        return datetime.now(UTC) - settle


def _counted(names: list[str]) -> str:
    return "1 object is" if len(names) == 1 else f"{len(names)} objects are"


def _first(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
