"""What upsert leaves: one attempt at a batch. Knows no pyspark."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dedup.documents import Restart, Reused, Session
from onefold.errors import StepMissingError
from onefold.iceberg.commits import ROOT
from onefold.lake import Lake
from onefold.landing.manifest import Accepted
from onefold.offsets import Range, merged
from onefold.upsert.completeness import Gap
from onefold.upsert.coverage import PartitionAccount
from onefold.vocabulary import DECIDABLE, Verdict


class Duplicates(BaseModel):
    """Duplicates of a batch that came about in one way, as far as their survivors tell."""

    model_config = ConfigDict(frozen=True)

    reason: str = Field(description="The narrowest identity level that they repeat")
    scope: str = Field(description="in_batch or stored")
    place: str = Field(description="same_position, same_partition, other_partition, other_topic, …")
    session: str = Field(description="same_session, same_name, same_name_again (below what was seen), …, unknown")
    object: str = Field(description="same_object, other_object or earlier_batch")
    records: int
    seconds: tuple[float, float, float] | None = Field(description="Least, median and most between the two timestamps")
    record: str = Field(description="One of them, as topic-partition@offset")
    survivor: str = Field(description="Its survivor")


class Counted(BaseModel):
    """From where to where a named producer has counted on a partition, as far as the table has seen it."""

    model_config = ConfigDict(frozen=True)

    start: int = Field(description="Its first offset")
    first: int = Field(description="Its sequence there")
    end: int = Field(description="Behind its last offset")
    last: int = Field(description="Its sequence at the last offset")


class Highest(BaseModel):
    """The highest sequence that a table has seen of a producer on a partition."""

    model_config = ConfigDict(frozen=True)

    partition: str = Field(description="TopicPartition.key")
    producer: str
    epoch: int
    sequence: int
    offset: int = Field(description="Where it is")
    counted: Counted | None = Field(default=None, description="Of a named producer: where it began, and got to")


class CameAgain(BaseModel):
    """A producer's session that begins, behind all that the table has seen of it, at or below its highest sequence."""

    model_config = ConfigDict(frozen=True)

    session: Session
    highest: Highest


def part_of(document: BaseModel | None, shared: type[BaseModel]) -> dict[str, Any]:
    """The fields of a document that it shares with another; none without a document, so that their defaults hold."""
    return {name: getattr(document, name) for name in shared.model_fields} if document else {}


class Attempted(BaseModel):
    """What an attempt's document and its commit record both say of it."""

    model_config = ConfigDict(frozen=True)

    batch: str
    attempt: str
    staging: str = ""
    verdicts: str = Field(default="", description="The table that holds this attempt's verdicts")
    landed: int = 0
    replayed: int = Field(default=0, description="Quarantined records that it folds again; it has landed none then")
    replays: str | None = Field(default=None, description="The batch that landed and rejected them")
    counts: dict[str, dict[str, int]] = Field(default={}, description="Records by verdict and reason")
    unreadable: str = Field(default="", description="Why nothing of it is read nor covered: it was skipped unread")
    accepted: list[Accepted] = Field(default=[], description="Gaps that it obeys, its own included; guard contiguous")
    forgotten: dict[str, str] = Field(
        default={},
        description="Forget marks that it obeys, its own included: by batch, the attempt that found what is forgotten",
    )
    newest_used: int | None = Field(
        default=None,
        description="Timestamp of the newest record that is applied, superseded or held, milliseconds since 1970; of a "
        "commit record: of all batches so far",
    )
    conflicts: dict[str, str] = Field(
        default={},
        description="Decided conflicts that it obeys, and its own: by the attempt that found them, the batch",
    )
    within: list[str] | None = Field(
        default=None, description="Where the periods of its keys begin; None: they have none, or it was not noted"
    )


class Outcome(BaseModel):
    """What an attempt's document and the report of its batch both say: what became of the records."""

    model_config = ConfigDict(frozen=True)

    partitions: dict[str, dict[str, dict[str, int]]] = Field(
        default={},
        description="Records by verdict and reason of each partition (TopicPartition.key); `unreadable`: of lines "
        "that say none",
    )
    changes: dict[str, int] = Field(
        default={},
        description="Rows of the state table inserted and updated; guard contiguous: inserted, removed, woken",
    )
    woken: int = Field(default=0, description="Records of earlier batches that were held and are applied with this one")
    come_again: list[CameAgain] = Field(default=[], description="Sessions that begin below what was seen of them")
    findings: int = Field(default=0, description="Identities of two messages or in two periods; no verdicts")
    moved: int = Field(default=0, description="Those of them that are in two periods")
    accounts: list[PartitionAccount] = []


class Producing(BaseModel):
    """What a commit record and the report of its batch both say of producers."""

    model_config = ConfigDict(frozen=True)

    highest: list[Highest] = Field(default=[], description="Of each producer the table has seen, the latest first")
    left_out: int = Field(
        default=0, description="Sessions so far that are not in `highest`, for more came than are kept"
    )


class Upserted(Attempted, Outcome):
    """One attempt at a batch: what it would do to the table, and the branch on which it did."""

    published: bool = Field(default=False, description="The batch is in main already; nothing was done")
    base: int = 0
    base_record: str = ROOT
    record_digest: str = Field(default="", description="SHA-256 of its commit record, as its snapshot names it")
    branch: str = ""
    head: int = 0
    code: str = ""
    actions: str = ""
    known: dict[str, int] = Field(
        default={}, description="Records at positions that the table knew before, by verdict; they are in no rate"
    )
    not_compared: int = Field(default=0, description="Of these positions, those of which no content is kept")
    freed: dict[str, list[Range]] = Field(
        default={}, description="Offsets that it covers and that an earlier batch did not: they leave the quarantine"
    )
    delivered: dict[str, int] = Field(default={}, description="Rows of the ledger of messages that are new, by action")
    buckets: list[int] = Field(default=[], description="Buckets that hold keys of the actions")
    narrow: bool = Field(default=False, description="The table is large next to the batch (`onefold.spark.key_filter`)")
    duplicates: list[Duplicates] = []
    restarts: list[Restart] = Field(default=[], description="Named producers whose sequence begins again")
    late_repeats: int = Field(
        default=0, description="Records that repeat an identity more than a day of the log after, or before, its record"
    )
    refused_deletes: int = Field(default=0, description="Rejected records that delete, or whose value is null; upsert")
    reused: list[Reused] = Field(default=[], description="Some of them, of the batch itself")
    newest: int | None = Field(default=None, description="Timestamp of the newest record, milliseconds since 1970")
    newest_of: dict[str, int] = Field(default={}, description="The same by TopicPartition.key")
    gaps: list[Gap] = Field(default=[], description="Of the coverage with this batch")
    silent: list[str] = Field(
        default=[], description="Partitions (TopicPartition.key) that had records before, and none now while others do"
    )
    added_topics: list[str] = Field(default=[], description="Topics of which it brings the first records")
    known_topics: list[str] = Field(default=[], description="Topics of which earlier batches brought records")
    decided: int = Field(default=0, description="Decisions on the batch that were on record")
    carried_out: dict[str, str] = Field(default={}, description="Of these, those whose keys' rows go with it")

    @property
    def waivable_conflicts(self) -> int:
        """What the check `conflicts` counts: records in conflict, but for those that a law forbids, and findings."""
        of_reasons = self.counts.get(Verdict.CONFLICT, {})
        return self.findings + sum(count for reason, count in of_reasons.items() if reason in DECIDABLE)


def upserted_of(lake: Lake, dataset: Dataset, batch: str, attempt: str | None = None) -> Upserted:
    """What an attempt at a batch did (default: the newest attempt).

    Raises:
        StepMissingError: there is no such attempt.
    """
    key = lake_keys.attempt(dataset, batch, attempt, "upsert") if attempt else lake_keys.latest(dataset, batch)
    upserted = lake.get(key, Upserted)
    if upserted is None:
        raise StepMissingError(batch, "this step", "upsert")
    return upserted


class LandedKeys(BaseModel):
    """Where landings hold records of some keys, whatever a run made of them. Offsets are by TopicPartition.key."""

    model_config = ConfigDict(frozen=True)

    records: dict[str, dict[str, list[Range]]] = Field(
        default={}, description="By what became of them, as far as landing and chain tell"
    )
    unreadable: dict[str, list[Range]] = Field(
        default={}, description="Records whose key cannot be read: they may be of any key"
    )
    unread: list[str] = Field(default=[], description="Batches whose landing cannot be read at all")

    @property
    def positions(self) -> dict[str, list[Range]]:
        """Of all records of the keys."""
        found: dict[str, list[Range]] = {}
        for places in self.records.values():
            for key, ranges in places.items():
                found[key] = merged([*found.get(key, []), *ranges])
        return dict(sorted(found.items()))
