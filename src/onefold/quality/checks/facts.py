"""What the checks judge. `onefold.quality.branch_facts` counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from onefold.dataset import Dataset
from onefold.landing.manifest import SegmentDamage
from onefold.upsert.documents import Upserted


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows and keys of the branch, counted by Spark over the batch's keys and the buckets that they lie in."""

    rows_before: int
    rows_after: int
    added: int
    """Rows inserted, less those removed."""
    verdicts: int
    repeated_keys: int
    nulls: int
    regressions: int
    unapplied: int
    unknown_columns: int
    unequal_sums: int | None
    """Keys whose sum did not move as their entries; None: the mode has no sums."""
    quarantined: int
    rejected: int
    forgotten: int | None
    """Rows that are left of keys that the batch forgets; None: it forgets none."""
    failing_keys: list[dict[str, str]]
    """Some of the repeated keys, as readers see them."""


@dataclass(frozen=True, slots=True)
class BranchFacts:
    """One attempt at a batch, and what was counted of its branch."""

    dataset: Dataset
    upserted: Upserted
    counts: RowCounts
    landed: int
    """Records, counted in the landed bytes again."""
    bare: bool
    """Whether the batch only carries a decision out and has no records of its own."""
    interval_end: datetime | None
    """None: the batch is of no interval."""
    gone: Sequence[str]
    """Logs that are gone since the batch before, as TopicPartition.key."""
    held_back: Mapping[str, datetime]
    """Partitions with older records behind the interval's end, and when the oldest of them was written."""
    edge: datetime | None
    """Up to when the batch reads the dataset's source: the end of its interval, else when it was landed. None: it reads
    something else (a folder that was named, what was quarantined), or carries a decision out."""
    newest_before: int | None
    """Timestamp of the newest record of the base that is applied, superseded or held, milliseconds since 1970."""
    oldest_behind: datetime | None
    """When the oldest record was written that the cut at the interval's end holds back, and that the base lacks."""
    judged: datetime
    held: int | None
    """Records that wait in the table; None: the mode holds none."""
    oldest_held: int | None
    """Timestamp of the oldest of them, milliseconds since 1970."""
    first_held: Sequence[str]
    """The oldest of them, by key and version; known only where a limit is exceeded."""
    filtered_newer: int
    """Records that the filter left out and that are newer than the live row of their key."""
    first_filtered: Sequence[str]
    """Some of them, by key and position."""
    missed_deletes: int
    """Deletes that found no row in their period."""
    first_missed: Sequence[str]
    """Some of them, by key and position."""
    stale_rows: int
    """Rows that readers see, and of whose key the batch rejects a record that is not known to be older."""
    first_stale: Sequence[str]
    """Some of them, by key."""
    rejected_deletes: Sequence[str]
    """Some rejected deletes, by key and position."""
    backwards: Sequence[str]
    """Some records whose version is below an earlier one, by key and position; known only where the limit is
    exceeded."""
    first_late: Sequence[str]
    """Some late copies, by key and position, with the first delivery of their message."""
    first_earlier: Sequence[str]
    """Some earlier deliveries after which the row is not known, by key and position, with the later delivery."""
    ahead: Sequence[str]
    """Some records whose log timestamp is ahead of the clock, by position; known only where the limit is exceeded."""
    damage: Sequence[SegmentDamage]
    """What of the landed log segments is no record batch."""
    first_late_repeats: Sequence[str]
    """Some records that repeat an identity after more than a day of the log, by position."""
    conflicts: Sequence[dict[str, Any]]
    """Some conflicts with both sides, as the report shows them."""
    of_database: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By reason some records that say what happened to a database as a whole, by position with their detail."""
    keys_of_topics: int = 0
    """Keys that have records of two topics."""
    first_keys_of_topics: Sequence[str] = ()
    """Some of them, with their topics."""
