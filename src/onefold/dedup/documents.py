"""What dedup leaves: the staging document, committed under batch, generation and code. Knows no pyspark."""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.masks import masked_text, masks_of
from onefold.decisions import LostContent
from onefold.dedup.code_digest import judged_by
from onefold.errors import StepMissingError
from onefold.lake import Lake
from onefold.offsets import Range
from onefold.vocabulary import Finding


class StagedPartition(BaseModel):
    """One partition's offsets in a batch; `quarantined` and `undecided` ones are not covered."""

    model_config = ConfigDict(frozen=True)

    present: list[Range]
    quarantined: list[Range] = Field(description="Rejected")
    undecided: list[Range] = Field(default=[], description="Of transactions that were open")
    damaged: list[Range] = Field(default=[], description="Of `present`, those that have a rejected copy, too")


class Reused(BaseModel):
    """A narrow identity that is of two messages of a batch; or a deciding one that is in two periods."""

    model_config = ConfigDict(frozen=True)

    level: str = Field(description="The narrow level, or period_moved")
    identity: str = Field(description="Its text; of period_moved the parts without the period, a JSON array")
    periods: list[str] = Field(default=[], description="Of period_moved: where the first and the last period begin")
    records: int
    first: str = Field(
        description="The first record in the order, by periods where it has some; topic-partition@offset"
    )
    last: str

    def shown(self, dataset: Dataset) -> Reused:
        """As people may see it: what is masked by its mask, of long texts the beginnings, and the parts of a deciding
        identity by their names."""
        if self.level != Finding.PERIOD_MOVED:
            shown = masked_text(dataset, self.identity, *dataset.level_expressions(self.level))
            return self.model_copy(update={"identity": shown})
        texts = json.loads(self.identity)
        parts = [
            (name, masked_text(dataset, text, tree))
            for name, tree, text in zip(dataset.key_names, dataset.key_expressions, texts, strict=False)
        ]
        named = dict(parts)
        identity = json.dumps(named if len(named) == len(parts) else [text for _, text in parts], ensure_ascii=False)
        masks = masks_of(dataset)
        periods = [str(masks.show(period, masks.columns.get("_within"))) for period in self.periods]
        return self.model_copy(update={"identity": identity, "periods": periods})


WRAP = 1 << 31
"""Sequences of a record batch are 0 … 2³¹-1."""
LEFT = 10
"""Where a sequence begins again, at most one of so many parts is left of what was counted."""


class Anomaly(BaseModel):
    """Where the sequence rule was broken first."""

    model_config = ConfigDict(frozen=True)

    offset: int
    outcome: str = Field(description="repeat, gap or fenced")
    sequence: int
    missing: int = Field(description="Sequences that a gap leaves out")


class Session(BaseModel):
    """One epoch of a producer on a partition, as far as the batch holds it."""

    model_config = ConfigDict(frozen=True)

    partition: str = Field(description="TopicPartition.key")
    producer: str = Field(description="The producer's id in the log, or its declared name")
    epoch: int = Field(description="-1: a named producer has none")
    records: int
    start: int = Field(description="Its first offset")
    end: int
    first: int | None = Field(default=None, description="Its sequence at `start`; None: of an earlier release")
    last: int | None = Field(default=None, description="Its sequence before `end`")
    lowest: int = Field(description="Its lowest sequence; a wrap at 2³¹ is seen through")
    highest: int
    highest_at: int = Field(description="Offset of the highest sequence")
    outcomes: dict[str, int]
    missing: int
    first_anomaly: Anomaly | None


class Restart(BaseModel):
    """A named producer whose sequence begins again on a partition."""

    model_config = ConfigDict(frozen=True)

    partition: str = Field(description="TopicPartition.key")
    producer: str
    offset: int = Field(description="Where it begins again; of several times the last")
    sequence: int = Field(description="With which it begins")
    highest: int = Field(description="The highest sequence before")


class Producers(BaseModel):
    """What the sequence rule says of a batch: records by outcome, and the sessions that matter most."""

    model_config = ConfigDict(frozen=True)

    sessions: int
    outcomes: dict[str, int]
    missing: int
    listed: list[Session]


class Staged(BaseModel):
    """What dedup made of a batch."""

    model_config = ConfigDict(frozen=True)

    batch: str
    generation: str
    code: str = Field(description="Digest of the code that judged it")
    attempt: str
    table: str
    records: int = Field(description="Rows of the staging table: one a record")
    partitions: dict[str, StagedPartition] = Field(description="By TopicPartition.key; exact layouts only")
    objects: dict[str, int] = Field(description="Records by landed object's name")
    refused: dict[str, list[Range]] = Field(
        default={}, description="Lines rejected, by landed object's name; inexact layouts only"
    )
    keeps_bytes: bool = Field(default=True, description="Whether a record may: rejected, or beaten at its position")
    nulls: int = Field(default=0, description="Null values whose key can be read and that no delete_when covers")
    reused: list[Reused] = Field(default=[], description="Narrow identities of two messages, identities in two periods")
    producers: Producers | None = Field(default=None, description="None: no producer is known")
    restarts: list[Restart] = Field(default=[], description="Named producers whose sequence begins again")
    within: list[str] | None = Field(default=None, description="Where the periods of its keys begin; None: no bound")
    without: str = Field(default="", description="Digest of what recorded decisions take out of it; usually nothing")
    unknown_schemas: dict[str, list[str]] = Field(
        default={}, description="By section of the dataset file: ids of records that the registry did not know"
    )
    unreadable: str = Field(default="", description="Why nothing of it is read nor covered: it was skipped unread")


class TakenOut(BaseModel):
    """Records of a batch that are taken out, or put last, before survivors are chosen: by recorded decisions, or for
    their position is covered."""

    model_config = ConfigDict(frozen=True)

    everything: bool = False
    partitions: dict[str, list[Range]] = Field(default={}, description="By TopicPartition.key")
    objects: list[str] = Field(default=[], description="Names of landed objects, where positions are inferred")
    forgotten: dict[str, list[Range]] = Field(default={}, description="By TopicPartition.key; they are covered")
    forgotten_lines: dict[str, list[Range]] = Field(default={}, description="By landed object's name")
    covered: dict[str, list[Range]] = Field(
        default={}, description="By TopicPartition.key; covered, by what may have been another record"
    )
    lost: list[LostContent] = Field(
        default=[], description="Contents that come last in the order (`onefold.dedup.lost_contents`)"
    )

    def __bool__(self) -> bool:
        some = self.partitions, self.objects, self.forgotten, self.forgotten_lines, self.covered, self.lost
        return self.everything or any(some)

    @property
    def digest(self) -> str:
        """Twelve hex digits, or nothing where nothing is taken out."""
        absent = {name for name in ("covered", "lost") if not getattr(self, name)}  # stagings of earlier releases hold
        said = self.model_dump_json(exclude=absent)
        return hashlib.sha256(said.encode()).hexdigest()[:12] if self else ""


NOTHING, EVERYTHING = TakenOut(), TakenOut(everything=True)


def staged_key(lake: Lake, dataset: Dataset, batch: str, without: str = "", by: str | None = None) -> str:
    """Where the staging of a batch is committed: for `by` (default: the code that runs now and the fields that are
    declared), and without what is taken out."""
    less = f"-without-{without}" if without else ""
    return f"{lake_keys.of_batch(dataset, batch)}/staged-{by or judged_by(dataset)}{less}.json"


def staged_of(lake: Lake, dataset: Dataset, batch: str, *, skips: bool = False) -> Staged:
    """The staging of a batch; where it is skipped and cannot be read, the one without anything.

    Raises:
        StepMissingError: dedup has not run, or not with this code.
    """
    staged = lake.get(staged_key(lake, dataset, batch), Staged)
    if staged is None and skips:
        staged = lake.get(staged_key(lake, dataset, batch, EVERYTHING.digest), Staged)
    if staged is None:
        raise StepMissingError(batch, "this step", "dedup (with the code and the fields of now)")
    return staged
