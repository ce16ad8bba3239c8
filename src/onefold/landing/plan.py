"""A plan is one batch's input, exact and written once: offset ranges, or a pinned list of export objects."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import StepMissingError, UsageError
from onefold.lake import Lake, as_json
from onefold.landing.cuts import OffsetRange
from onefold.offsets import Range


class Interval(BaseModel):
    """`[start, end)` in UTC."""

    model_config = ConfigDict(frozen=True)

    start: AwareDatetime
    end: AwareDatetime

    @property
    def name(self) -> str:
        """As a part of file names; no two intervals share one."""
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
    role: Literal["values", "keys", "headers"] = "values"


class _Plan(BaseModel):
    model_config = ConfigDict(frozen=True)

    source: str
    interval: Interval | None = None

    @property
    def batch(self) -> str:
        """The batch id: the interval (or `export`, `new`) and a digest of what is planned, nothing else."""
        name = self.interval.name if self.interval else self.undated
        return f"{name}_{self.digest}"

    @property
    def undated(self) -> str:
        """What stands in a batch id for an interval."""
        return "export"

    @property
    def landing(self) -> str:
        """The batch whose landing holds the bytes."""
        return self.batch

    @property
    def digest(self) -> str:
        """Twelve hex digits over what the plan reads."""
        words = as_json(self)
        return _digest(words.get("objects") or words.get("ranges") or [])


def _digest(words: object) -> str:
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:12]


class RangesPlan(_Plan):
    """Exact half-open offset ranges of a live source."""

    kind: Literal["ranges"] = "ranges"
    ranges: list[OffsetRange]
    notes: list[str] = Field(default_factory=list, description="What to know: open transactions, topics that are gone")

    @property
    def undated(self) -> str:
        """What stands in a batch id for an interval."""
        return "new"

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read."""
        return all(one.start >= one.end for one in self.ranges)


class ObjectsPlan(_Plan):
    """Pinned export objects."""

    kind: Literal["objects"] = "objects"
    place: str = Field(description="The export's place, where the objects' names start")
    objects: list[PinnedObject]
    ignored: list[str] = Field(default_factory=list, description="Objects that are not of the layout")
    notes: list[str] = Field(default_factory=list, description="What to know: objects that cannot be read")

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read."""
        return not self.objects


class ReplayPlan(_Plan):
    """Records that another batch has landed and rejected: where positions are exact their offsets, else their lines."""

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
    def undated(self) -> str:
        """What stands in a batch id for an interval."""
        return "replay"

    @property
    def landing(self) -> str:
        """The batch whose landing holds the bytes."""
        return self.origin

    @property
    def digest(self) -> str:
        """Twelve hex digits over what is replayed, and by which code."""
        return _digest(as_json(self))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to replay."""
        return not self.records


class GapPlan(_Plan):
    """No record at all: a person's word that the versions of a key before one will never come (guard contiguous)."""

    kind: Literal["gap"] = "gap"
    dataset: str
    key: dict[str, Any] = Field(description="By the names of its parts")
    version: int

    @property
    def undated(self) -> str:
        """What stands in a batch id for an interval."""
        return "gap"

    @property
    def digest(self) -> str:
        """Twelve hex digits over what is accepted."""
        return _digest(as_json(self))

    @property
    def empty(self) -> bool:
        """It reads nothing, and has something to do."""
        return False


class ForgetPlan(_Plan):
    """No record at all: a person's word that what the table has of some keys counts for nothing."""

    kind: Literal["forget"] = "forget"
    dataset: str
    keys: list[str] = Field(description="Key digests, in hex: never the keys")
    deleted_before: datetime | None = Field(description="Also the keys that were deleted before this instant")
    behind: str = Field(description="The commit record that was the newest: a key may be forgotten again later")

    @property
    def undated(self) -> str:
        """What stands in a batch id for an interval."""
        return "forget"

    @property
    def digest(self) -> str:
        """Twelve hex digits over what is forgotten, and since when."""
        return _digest(as_json(self))

    @property
    def told(self) -> dict[str, Any]:
        """What is forgotten, as it is listed."""
        before = self.deleted_before.isoformat() if self.deleted_before else None
        return {"keys": self.keys, "deleted_before": before}

    @property
    def empty(self) -> bool:
        """It reads nothing, and has something to do."""
        return False


Plan = Annotated[RangesPlan | ObjectsPlan | ReplayPlan | GapPlan | ForgetPlan, Field(discriminator="kind")]
DECIDED = ("replay", "gap", "forget")
"""Kinds of plans that land nothing: a person decided them."""
_PLAN: TypeAdapter[Plan] = TypeAdapter(Plan)
_UNDATED = ("export", "new", *DECIDED)


def plan_key(source: str, name: str) -> str:
    """Where a plan lies: under its interval, or under the digest of its listing."""
    return f"{lake_keys.plans(source)}{name}.json"


def read_plan(lake: Lake, key: str) -> Plan | None:
    """A stored plan of either form."""
    data = lake.storage.read(key)
    return None if data is None else _PLAN.validate_json(data)


def put_plan(lake: Lake, plan: Plan) -> Plan:
    """Write a plan once; the one that stands, which another driver may have written."""
    key = plan_key(plan.source, plan_name(plan))
    if lake.storage.put_if_absent(key, plan.model_dump_json(indent=1).encode()):
        return plan
    standing = read_plan(lake, key)
    assert standing is not None
    return standing


def replace_plan(lake: Lake, plan: Plan) -> Plan:
    """Write a plan over one that names the same, elsewhere, and is not landed yet."""
    lake.storage.write(plan_key(plan.source, plan_name(plan)), plan.model_dump_json(indent=1).encode())
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
