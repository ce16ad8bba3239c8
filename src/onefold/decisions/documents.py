"""A decision of a person on one batch: immutable, numbered within its batch; the last one counts."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from onefold.decisions.who import Attributed
from onefold.errors import UsageError
from onefold.offsets import Coverage, Range


def checked_reason(reason: str) -> str:
    """The reason of a decision, without blanks around it.

    Raises:
        UsageError: it is blank.
    """
    if not reason.strip():
        raise UsageError("a decision needs a reason (--reason), which is kept with it")
    return reason.strip()


class Waiver(BaseModel):
    """A red check that may be red, but only with this value, made of the same records."""

    model_config = ConfigDict(frozen=True)

    check: str = Field(description="Its id; earlier decisions have its title of then")
    value: str = Field(description="What the check found when it was waived")
    digest: str | None = Field(
        default=None,
        description="Of the identities and contents behind the value (`CheckResult.digest`); None: an earlier "
        "decision, which holds by id and value alone",
    )

    @property
    def words(self) -> str:
        """As `--waive` takes it."""
        return f"{self.check}={self.value}"


class _Decision(Attributed):
    dataset: str
    batch: str
    number: int = Field(description="1 is the batch's first decision; the last one counts")


class Release(_Decision):
    """Publish the batch although these checks are red, as long as they are red with these values."""

    kind: Literal["release"] = "release"
    waivers: list[Waiver] = Field(description="Named by who released it")
    carried: list[Waiver] = Field(default=[], description="Of the release before, whose checks were red as then")
    attempt: str = Field(description="Whose gate was looked at")

    @property
    def in_force(self) -> list[Waiver]:
        """All that may be red."""
        return [*self.waivers, *self.carried]

    @property
    def accepts_conflicts(self) -> bool:
        """Whether it waives the check `conflicts`, by its id or one of its titles."""
        return any(waiver.check.partition(",")[0] == "conflicts" for waiver in self.in_force)

    @property
    def sentence(self) -> str:
        """Who released what."""
        waived, carried = (
            ", ".join(f"{waiver.check} = {waiver.value}" for waiver in waivers)
            for waivers in (self.waivers, self.carried)
        )
        before = f"; of the release before: {carried}" if carried else ""
        return f"released by {self.who.words}: {self.reason} (waived: {waived}{before})"


class Discard(_Decision):
    """Return the batch to landed: what was decided before, and every attempt, counts for nothing."""

    kind: Literal["discard"] = "discard"
    failures: list[str] = Field(default=[], description="Ids of the red checks; what they found may be a row's")
    rebuilt: str = Field(
        default="",
        description="The generation that a rebuild made without the batch, which was published: it waits for an "
        "operator. Recorded before readers see that generation; while the batch is published it means nothing",
    )

    @property
    def sentence(self) -> str:
        """Who discarded it."""
        taken_out = "taken out by a rebuild and " if self.rebuilt else ""
        return f"{taken_out}discarded by {self.who.words}: {self.reason}"


class Skip(_Decision):
    """Cover the batch without using a record of it."""

    kind: Literal["skip"] = "skip"

    @property
    def sentence(self) -> str:
        """Who skipped it."""
        return f"skipped by {self.who.words}: {self.reason}"


class Replay(_Decision):
    """Fold quarantined records again; the batch is the one that does it."""

    kind: Literal["replay"] = "replay"
    origin: str = Field(description="The batch that rejected them")
    records: int

    @property
    def sentence(self) -> str:
        """Who replayed what."""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.records} quarantined records of {self.origin} replayed by {self.who.words}{why}"


class AcceptGap(_Decision):
    """Go on at a version of a key without those before it; the batch is the one that does it."""

    kind: Literal["accept-gap"] = "accept-gap"
    key: dict[str, Any] = Field(description="By the names of its parts")
    version: int = Field(description="Needs no version before it any more")
    missing: list[tuple[int, int]] = Field(description="Versions that had not come then, half-open")

    @property
    def sentence(self) -> str:
        """Who accepted what."""
        of = json.dumps(self.key, ensure_ascii=False, default=str)
        return f"gap before version {self.version} of {of} accepted by {self.who.words}: {self.reason}"


class Forget(_Decision):
    """Let what the table has of some keys count for nothing; the batch is the one that does it."""

    kind: Literal["forget"] = "forget"
    keys: list[str] = Field(description="Key digests, in hex: never the keys")
    deleted_before: datetime | None = Field(description="Also the keys whose row was deleted before this instant")
    found: int = Field(description="Keys that the table had then")
    rows: int = Field(description="Rows of them, of every state")

    @property
    def sentence(self) -> str:
        """Who forgot what."""
        before = f" (deleted before {self.deleted_before:%Y-%m-%d %H:%M} UTC)" if self.deleted_before else ""
        return (
            f"{self.found} {'key' if self.found == 1 else 'keys'}{before} forgotten by {self.who.words}: {self.reason}"
        )


class Undone(_Decision):
    """A rollback has undone the batch: what was decided before counts for nothing, and the batch waits for an operator.

    It is recorded before `main` moves. A batch that is published all the same is not rolled back.
    """

    kind: Literal["rolled_back"] = "rolled_back"
    to: str = Field(description="The batch that readers see again as the last one")

    @property
    def sentence(self) -> str:
        """Who rolled it back."""
        why = f": {self.reason}" if self.reason else ""
        return f"rolled back to {self.to} by {self.who.words}{why}"


class Again(_Decision):
    """Judge a batch that was rolled back as if it were new; nothing that was decided before counts."""

    kind: Literal["again"] = "again"

    @property
    def sentence(self) -> str:
        """Who took it up again."""
        why = f": {self.reason}" if self.reason else ""
        return f"taken up again by {self.who.words}{why}"


Decision = Annotated[
    Release | Discard | Skip | Replay | AcceptGap | Forget | Undone | Again, Field(discriminator="kind")
]
Standing = Release | Skip | Replay | AcceptGap | Forget
"""What steps obey; after a discard, a rollback and `again` there is none."""
OWN_BATCH = (Replay, AcceptGap, Forget)
"""Decisions that are carried out by a batch of their own, whichever process publishes it. They waive nothing."""
DECISION: TypeAdapter[Decision] = TypeAdapter(Decision)


class Pinned(BaseModel):
    """What a published skip took out of the table: a rebuild takes out the same, whatever comes before it."""

    model_config = ConfigDict(frozen=True)

    batch: str
    number: int = Field(description="The decision's")
    covered: Coverage


class HighestVersion(BaseModel):
    """The highest version of a key's records, as a forget mark keeps it."""

    model_config = ConfigDict(frozen=True)

    version: list[str] = Field(description="Its parts, each as Spark casts it to a string")
    place: str | None = Field(
        default=None, description="Cluster, topic and partition, where offsets of one partition are compared only"
    )


class Mark(BaseModel):
    """What a forget mark takes out, found once: the records of its keys that had been landed when it was published, by
    position and by key; and what is sent again of them later, by the key's highest version and by identities.

    What is known by position holds through a rebuild with another key. Identities are kept as digests, in an object
    of their own (`onefold.decisions.marks`), for there may be one a record.
    """

    model_config = ConfigDict(frozen=True)

    batch: str
    attempt: str = Field(description="The one that found them")
    keys: list[str] = Field(description="Digests of the keys that are forgotten, in hex")
    partitions: dict[str, list[Range]] = Field(description="Offsets by TopicPartition.key, where positions are exact")
    lines: dict[str, list[Range]] = Field(description="Lines by object digest, where they are inferred")
    asked: list[str] = Field(default=[], description="Of these, and of sums, the digests that were asked for, in hex")
    landed: dict[str, list[Range]] = Field(default={}, description="All that was landed before, by TopicPartition.key")
    landed_objects: list[str] = Field(default=[], description="Digests of objects that were landed before")
    versioned_by: str = Field(
        default="", description="`Declaration.versioned_by`: versions of another declaration do not compare"
    )
    highest: dict[str, list[HighestVersion]] = Field(default={}, description="By key digest, in hex")
    identities: int = Field(default=0, description="How many identities of the keys' records are known")


class LostContent(NamedTuple):
    """A content that lost a conflict by a release: digests in hex; the version as JSON, None where a mode has none."""

    key: str
    version: str | None
    content: str


class DecidedConflict(BaseModel):
    """The contents of one identity (in upsert: and version), of which a release accepted the winner."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(description="The key's digest, in hex")
    version: str | None = Field(description="As JSON; None: the mode has none")
    winner: str = Field(description="The digest of its content, in hex")
    losers: list[str] = Field(description="Those of the other contents")


class DecidedConflicts(BaseModel):
    """The conflicts that a release accepted, as the attempt that was published under it found them."""

    model_config = ConfigDict(frozen=True)

    batch: str
    attempt: str = Field(description="The one that found them")
    released: datetime = Field(description="When the release was recorded: one of its batch")
    marks: list[str] = Field(description="Batches whose forget marks were in force; a later mark ends what was decided")
    conflicts: list[DecidedConflict]


class RolledBack(Attributed):
    """A rollback, as it is recorded."""

    kind: Literal["rollback"] = "rollback"
    dataset: str
    to: str = Field(description="The batch that readers see again as the last one")
    undone: list[str] = Field(
        description="Batches that are landed and not published any more, newest first; none: another writer was faster"
    )
    snapshot: int = Field(description="The one that the batch made: `main` has its rows again, in a new snapshot")


class Clearable(BaseModel):
    """Landed bytes of a source that may be cleared."""

    model_config = ConfigDict(frozen=True)

    source: str
    landings: list[str] = Field(description="Batches, oldest first")
    objects: int
    bytes: int
    oldest: datetime = Field(description="When the first of them was landed")
    newest: datetime


class Clearing(Attributed, Clearable):
    """Landed bytes of a source are cleared: recorded before the first of them goes."""

    kind: Literal["clear"] = "clear"
    dataset: str = Field(description="Whose maintenance it is; other datasets of the source have published them, too")
    older_than: timedelta = Field(description="The age that was asked for")


TABLE_DECISION: TypeAdapter[RolledBack | Clearing] = TypeAdapter(RolledBack | Clearing)
"""What lies at the top of a dataset's decisions: it is of no single batch."""


class Erasure(Attributed):
    """A decision that keys shall be erased; `ended` once nothing of them is left."""

    dataset: str
    name: str
    keys: list[str] = Field(description="Key digests, in hex: never the keys")
    positions: dict[str, list[Range]] = Field(default={}, description="Quarantined records, by TopicPartition.key")
    ended: datetime | None = None
    records: int | None = Field(default=None, description="Landed records whose payload is gone, at the end")
    objects: int | None = Field(default=None, description="Landed objects that were written again, by what ended it")
    unseen: dict[str, int] = Field(
        default={},
        description="Of these, records that the table knew under no key, by what had become of them",
    )
    unreadable: int = Field(default=0, description="Landed records without a readable key: they may be of any key")
