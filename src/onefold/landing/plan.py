"""A plan is one batch's input, exact and written once: offset ranges, pinned export objects, or a decision."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.layouts import Role
from onefold.errors import StepMissingError, UsageError
from onefold.lake import Lake, as_json
from onefold.landing.cuts import OffsetRange
from onefold.landing.manifest import Accepted, Forgets, Manifest, Replays
from onefold.offsets import Range, TopicPartition

_RECORD = 1 << 10
"""Bytes that a record of a log is taken for, before anything was read of it."""


class Interval(BaseModel):
    """`[start, end)` in UTC."""

    model_config = ConfigDict(frozen=True)

    start: AwareDatetime
    end: AwareDatetime

    @property
    def name(self) -> str:
        """As a part of file names; no two intervals share it."""
        return f"{_compact(self.start)}-{_compact(self.end)}"


def _compact(instant: datetime) -> str:
    at = instant.astimezone(UTC)
    return f"{at:%Y%m%dT%H%M%S.%fZ}" if at.microsecond else f"{at:%Y%m%dT%H%M%SZ}"


class PinnedObject(BaseModel):
    """An export object as it was when it was planned."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="Key below the export's place")
    size: int = Field(description="Bytes")
    etag: str
    role: Role = "values"


LandingOf = Callable[[str], Manifest | None]
"""Finds the manifest of a batch of a source."""


class _Plan(BaseModel):
    """What every plan answers. A kind of plan is a class below and its place in `Plan`."""

    model_config = ConfigDict(frozen=True)

    undated: ClassVar[str]
    """What a batch id begins with where the plan has no interval"""
    source: str
    interval: Interval | None = None
    gone: list[str] = Field(
        default=[], description="TopicPartition.key of logs that are gone, and that no plan before has named"
    )
    held_back: dict[str, AwareDatetime] = Field(
        default={}, description="Partitions with older records behind the interval's end, as `Cut.held_back` has them"
    )

    @property
    def batch(self) -> str:
        """The batch id: the interval (or `undated`) and a digest of what is planned, nothing else."""
        return f"{self.interval.name if self.interval else self.undated}_{self.digest}"

    @property
    def landing(self) -> str:
        """The batch whose landing holds the bytes."""
        return self.batch

    @property
    def digest(self) -> str:
        """Twelve hex digits over what the plan reads or decides."""
        raise NotImplementedError

    @property
    def estimated_bytes(self) -> int:
        """How many landed bytes a driver has to read: a guess, before anything was read."""
        return 0

    @property
    def topics(self) -> list[str]:
        """The live topics that it lands."""
        return []

    @property
    def folder(self) -> str | None:
        """The folder whose objects it reads; None: it reads no folder."""
        return None

    @property
    def of_topics(self) -> list[str]:
        """The live topics whose records it is about."""
        return self.topics

    @property
    def decides(self) -> dict[str, Any]:
        """What it does in place of landing records, as an entry of `onefold batches`."""
        return {}

    @property
    def reads(self) -> dict[str, Any]:
        """What it would read, as entries of a row."""
        return {}

    @property
    def preview(self) -> dict[str, Any]:
        """What it would do, as a row, before anything is written."""
        interval = self.interval.model_dump(mode="json") if self.interval else None
        return {"batch": self.batch, "interval": interval} | self.decides | self.reads

    @property
    def counts(self) -> dict[str, int]:
        """What it holds of what a setting `max_plan_…` limits."""
        return {}

    def forgets_only(self, keys: list[str]) -> bool:
        """Whether it forgets just these keys, by their digests in hex."""
        del keys
        return False


class _SourcePlan(_Plan):
    """A plan that lands records of its own."""

    decided: ClassVar[Literal[False]] = False
    origin: ClassVar[str | None] = None


class _DecidedPlan(_Plan):
    """A plan that a recorded decision makes: it lands no record of its own."""

    decided: ClassVar[Literal[True]] = True
    place: ClassVar[str | None] = None
    notes: ClassVar[list[str]] = []
    ignored: ClassVar[list[str]] = []

    @property
    def digest(self) -> str:
        """Twelve hex digits over all that the plan says."""
        return _digest(as_json(self))

    @property
    def empty(self) -> bool:
        """It reads nothing, and has something to do."""
        return False

    def manifest(self, attempt: str, landing_of: LandingOf) -> Manifest:
        """Its manifest, without objects.

        Args:
            attempt: the id of this try.
            landing_of: finds the manifest of a batch of the same source.

        Raises:
            StepMissingError: the landing that it reads is missing.
        """
        del landing_of
        return Manifest(batch=self.batch, source=self.source, attempt=attempt, objects=[])


def _digest(words: object) -> str:
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:12]


class RangesPlan(_SourcePlan):
    """Exact half-open offset ranges of a live source."""

    undated: ClassVar[str] = "new"
    place: ClassVar[str | None] = None
    ignored: ClassVar[list[str]] = []

    kind: Literal["ranges"] = "ranges"
    ranges: list[OffsetRange]
    notes: list[str] = Field(default_factory=list, description="What to know: open transactions, topics that are gone")

    @property
    def digest(self) -> str:
        """Twelve hex digits over the ranges, and the logs that are gone."""
        words = as_json(self)
        return _digest([words["ranges"], self.gone] if self.gone else words["ranges"])

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read, and nothing to say of what is gone."""
        return not self.gone and all(range_.start >= range_.end for range_ in self.ranges)

    @property
    def offsets(self) -> int:
        """How many offsets the ranges hold."""
        return sum(range_.end - range_.start for range_ in self.ranges)

    @property
    def estimated_bytes(self) -> int:
        """Bytes of as many records as there are offsets."""
        return self.offsets * _RECORD

    @property
    def topics(self) -> list[str]:
        """The topics of the ranges, and of logs that are gone."""
        gone = {TopicPartition.of(key).topic for key in self.gone}
        return sorted({range_.topic_partition.topic for range_ in self.ranges} | gone)

    @property
    def counts(self) -> dict[str, int]:
        """Its partitions."""
        return {"partitions": len({range_.topic_partition.key for range_ in self.ranges})}

    @property
    def reads(self) -> dict[str, Any]:
        """Partitions and offsets."""
        return {**self.counts, "offsets": self.offsets, "notes": self.notes}


class ObjectsPlan(_SourcePlan):
    """Pinned export objects."""

    undated: ClassVar[str] = "export"

    kind: Literal["objects"] = "objects"
    place: str = Field(description="The export's place, where the objects' names start")
    objects: list[PinnedObject]
    ignored: list[str] = Field(default_factory=list, description="Objects that are not of the layout")
    notes: list[str] = Field(default_factory=list, description="What to know: objects that cannot be read")

    @property
    def folder(self) -> str:
        """Where its objects lie."""
        return self.place

    @property
    def digest(self) -> str:
        """Twelve hex digits over the objects."""
        return _digest(as_json(self)["objects"])

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read."""
        return not self.objects

    @property
    def estimated_bytes(self) -> int:
        """Bytes of the objects."""
        return sum(pinned.size for pinned in self.objects)

    @property
    def counts(self) -> dict[str, int]:
        """Its objects."""
        return {"objects": len(self.objects)}

    @property
    def reads(self) -> dict[str, Any]:
        """Objects and their bytes."""
        return {
            **self.counts,
            "bytes": self.estimated_bytes,
            "ignored": len(self.ignored),
            "notes": self.notes,
        }


class ReplayPlan(_DecidedPlan):
    """Records that another batch has landed and rejected: where positions are exact their offsets, else their lines."""

    undated: ClassVar[str] = "replay"

    kind: Literal["replay"] = "replay"
    origin: str = Field(description="The batch that landed and rejected them")
    objects: list[str] = Field(description="Names of the landed objects that hold them")
    ranges: list[OffsetRange] = []
    lines: dict[str, list[Range]] = Field(
        default={}, description="By landed object's name, where positions are inferred"
    )
    records: int = Field(description="How many lie there, as the quarantine has them")
    code: str = Field(description="Digest of the code and fields that shall judge them: the same say the same again")

    @property
    def landing(self) -> str:
        """The batch whose landing holds the bytes."""
        return self.origin

    @property
    def empty(self) -> bool:
        """Whether there is nothing to replay."""
        return not self.records

    @property
    def estimated_bytes(self) -> int:
        """Bytes of its records."""
        return self.records * _RECORD

    @property
    def of_topics(self) -> list[str]:
        """The topics of its ranges."""
        return sorted({range_.topic_partition.topic for range_ in self.ranges})

    @property
    def decides(self) -> dict[str, Any]:
        """The batch that rejected the records."""
        return {"replays": self.origin}

    @property
    def reads(self) -> dict[str, Any]:
        """Its records."""
        return {"records": self.records}

    def manifest(self, attempt: str, landing_of: LandingOf) -> Manifest:
        """A manifest over objects that another batch has landed: nothing is copied, and no record is named twice.

        Raises:
            StepMissingError: the batch that rejected the records has no landing.
        """
        del attempt
        origin = landing_of(self.origin)
        if origin is None:
            raise StepMissingError(self.batch, "a replay", f"the landing of {self.origin}")
        names = {*self.objects}
        groups = {origin.group_of(name) for name in names}
        return Manifest(
            batch=self.batch,
            source=self.source,
            attempt=origin.attempt,
            objects=[
                landed
                for landed in origin.objects
                if landed.name in names or (landed.role != "values" and origin.group_of(landed.name) in groups)
            ],
            layout=origin.layout,
            origin=origin.origin,
            ranges=self.ranges,
            examined=bool(self.ranges),
            transactions=origin.transactions,
            replays=Replays(batch=self.origin, records=self.records, lines=self.lines),
        )


class GapPlan(_DecidedPlan):
    """No record at all: a recorded decision that the versions of a key before one never come (guard contiguous)."""

    undated: ClassVar[str] = "gap"
    origin: ClassVar[str | None] = None

    kind: Literal["gap"] = "gap"
    dataset: str
    key: dict[str, Any] = Field(description="By the names of its parts")
    version: int

    @property
    def decides(self) -> dict[str, Any]:
        """The version whose predecessors are not waited for."""
        return {"accepts": {"key": self.key, "version": self.version}}

    def manifest(self, attempt: str, landing_of: LandingOf) -> Manifest:
        """A manifest that accepts the gap."""
        accepts = Accepted(key=self.key, version=self.version)
        return super().manifest(attempt, landing_of).model_copy(update={"accepts": accepts})


class ForgetPlan(_DecidedPlan):
    """No record at all: a recorded decision that what the table has of some keys counts for nothing."""

    undated: ClassVar[str] = "forget"
    origin: ClassVar[str | None] = None

    kind: Literal["forget"] = "forget"
    dataset: str
    keys: list[str] = Field(description="Key digests, in hex: never the keys")
    deleted_before: datetime | None = Field(description="Also the keys that were deleted before this instant")
    behind: str = Field(description="The commit record that was the newest: a key may be forgotten again later")
    erases: bool = Field(default=False, description="Every landed record of the keys is meant, and its bytes go")

    @property
    def decides(self) -> dict[str, Any]:
        """The keys, and the instant before which keys were deleted."""
        before = self.deleted_before.isoformat() if self.deleted_before else None
        erases = {"erases": True} if self.erases else {}
        return {"forgets": {"keys": self.keys, "deleted_before": before} | erases}

    def manifest(self, attempt: str, landing_of: LandingOf) -> Manifest:
        """A manifest that forgets the keys."""
        forgets = Forgets(keys=self.keys, deleted_before=self.deleted_before, erases=self.erases)
        return super().manifest(attempt, landing_of).model_copy(update={"forgets": forgets})

    def forgets_only(self, keys: list[str]) -> bool:
        """Whether it forgets just these keys, by their digests in hex."""
        return self.keys == keys


_KINDS: tuple[type[_Plan], ...] = (RangesPlan, ObjectsPlan, ReplayPlan, GapPlan, ForgetPlan)
Plan = Annotated[RangesPlan | ObjectsPlan | ReplayPlan | GapPlan | ForgetPlan, Field(discriminator="kind")]
_PLAN: TypeAdapter[Plan] = TypeAdapter(Plan)
_UNDATED = {kind.undated for kind in _KINDS}
OfKind = TypeVar("OfKind", bound=_Plan)


def of_kind(plans: Iterable[Plan], kind: type[OfKind]) -> list[OfKind]:
    """The plans of one kind, for a caller that knows what this kind reads."""
    return [plan for plan in plans if isinstance(plan, kind)]


def is_decided(batch: str) -> bool:
    """Whether a batch lands no record of its own, as its id says."""
    return batch.partition("_")[0] in {kind.undated for kind in _KINDS if issubclass(kind, _DecidedPlan)}


def plan_key(source: str, name: str) -> str:
    """Where a plan lies: under its interval, or under the digest of its listing."""
    return f"{lake_keys.plans(source)}{name}.json"


def read_plan(lake: Lake, key: str) -> Plan | None:
    """A stored plan of either form."""
    data = lake.storage.read(key)
    return None if data is None else _PLAN.validate_json(data)


def put_plan(lake: Lake, plan: Plan) -> Plan:
    """Write a plan once; the stored plan, which another driver may have written."""
    key = plan_key(plan.source, plan_name(plan))
    if lake.storage.put_if_absent(key, _written(plan)):
        return plan
    stored = read_plan(lake, key)
    assert stored is not None
    return stored


def check_limits(lake: Lake, dataset: str, plan: Plan) -> None:
    """Refuse a plan of more objects, partitions or bytes than the settings allow.

    Raises:
        UsageError: it names the setting.
    """
    limits = {"objects": lake.settings.max_plan_objects, "partitions": lake.settings.max_plan_partitions}
    found = {**plan.counts, "bytes": len(_written(plan))}
    for what, most in {**limits, "bytes": lake.settings.max_plan_bytes}.items():
        if found.get(what, 0) > most:
            raise UsageError(
                f"{dataset}: the plan would hold {found[what]:,} {what}, and the setting max_plan_{what} allows "
                f"{most:,}. Nothing was planned. Read it in parts (onefold run {dataset} --export PLACE, or shorter "
                "intervals), or raise the setting."
            )


def _written(plan: Plan) -> bytes:
    return plan.model_dump_json(indent=1).encode()


def replace_plan(lake: Lake, plan: Plan) -> Plan:
    """Write a plan over a plan that names the same objects elsewhere and is not landed yet."""
    lake.storage.write(plan_key(plan.source, plan_name(plan)), _written(plan))
    return plan


def plan_name(plan: Plan) -> str:
    """The name under which a plan is stored: its interval's, or its batch's."""
    return plan.interval.name if plan.interval else plan.batch


class Taken(BaseModel):
    """A mark: the dataset has taken up this plan of the source."""

    model_config = ConfigDict(frozen=True)

    source: str
    plan: str


class OfRun(BaseModel):
    """What a run without an interval has planned: asked again, it is this."""

    source: str
    batch: str


def take_plan(lake: Lake, dataset: str, plan: Plan) -> None:
    """Mark a plan as the dataset's. Datasets share a source and its landing, but each folds all of it."""
    name = plan_name(plan)
    lake.put_first(f"{lake_keys.taken(dataset)}{plan.source}/{name}.json", Taken(source=plan.source, plan=name))


def taken_plans(lake: Lake, dataset: str) -> list[Plan]:
    """The plans that a dataset has taken up, in that order; also those of a source that it does not read any more."""
    return [plan for _, plan in taken_since(lake, dataset)]


def own_plans(lake: Lake, dataset: Dataset) -> list[Plan]:
    """The plans that a dataset has taken up and that its file still asks for: of topics, those that it names."""
    return [plan for plan in taken_plans(lake, dataset.name) if dataset.source.has_topics(plan.of_topics)]


def plans_of_other_topics(lake: Lake, dataset: Dataset) -> list[Plan]:
    """The plans that a dataset has taken up, and of whose topics its file does not name all."""
    return [plan for plan in taken_plans(lake, dataset.name) if not dataset.source.has_topics(plan.of_topics)]


def taken_since(lake: Lake, dataset: str) -> list[tuple[datetime, Plan]]:
    """The plans that a dataset has taken up, and when."""
    marks = sorted(lake.storage.list(lake_keys.taken(dataset)), key=lambda info: (info.modified, info.key))
    plans = ((info.modified, read_plan(lake, plan_key(*_of_mark(info.key)))) for info in marks)
    return [(since, plan) for since, plan in plans if plan is not None]


def _of_mark(key: str) -> tuple[str, str]:
    source, name = key.rsplit("/", 2)[-2:]
    return source, name.removesuffix(".json")


def find_plan(lake: Lake, dataset: Dataset, batch: str) -> Plan:
    """The plan of a batch of a dataset, whichever of its sources it is of.

    Raises:
        UsageError: this is no batch id.
        StepMissingError: there is no such plan.
    """
    try:
        return plan_of(lake, dataset.source_id, batch)
    except StepMissingError:
        found = next((plan for plan in taken_plans(lake, dataset.name) if plan.batch == batch), None)
        if found is None:
            raise
        return found


def plan_of(lake: Lake, source: str, batch: str) -> Plan:
    """The plan of a batch.

    Raises:
        UsageError: this is no batch id.
        StepMissingError: there is no such plan.
    """
    name, _, digest = batch.rpartition("_")
    if not name or "/" in batch:
        raise UsageError(f"{batch!r} is no batch id (see `onefold batches`)")
    plan = read_plan(lake, plan_key(source, batch if name in _UNDATED else name))
    if plan is None or plan.digest != digest:
        raise StepMissingError(batch, "this step", "a plan")
    return plan
