"""The status of a dataset and of its batches: reports, and the decisions that were recorded after them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from onefold.report.history import Entry, History
from onefold.ui.histories import Decided
from onefold.vocabulary import LOST, Verdict

TREND = 30
"""Batches that the overview's chart shows, and over which it counts."""
STATES = {
    "waiting": "red: waits for a decision",
    "damaged": "report cannot be read",
    "unfinished": "not finished",
    "decided": "red: decided, not run yet",
    "discarded": "discarded, not run again yet",
    "rolled_back": "rolled back: waits for an operator",
    "published": "green: published",
}
"""The states of a batch in words, those first that need an operator."""
OPEN = ("unfinished", "decided", "discarded", "rolled_back")
"""States in which records are landed that readers do not see, and that are no news: a step is still to be run, or an
operator has rolled the batch back."""
_SETTLING = ("release", "skip", "discard", "rolled_back", "again")
"""The kinds of decisions that settle a batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch and its state now."""

    entry: Entry
    state: str
    decision: Decided | None

    @property
    def words(self) -> str:
        """Its state in words."""
        return STATES[self.state]


@dataclass(frozen=True)
class DatasetStatus:
    """A dataset's status at an instant; `batches` are the newest first."""

    history: History
    batches: list[Batch]
    decided: list[Decided]
    unreadable: int
    now: datetime
    broken: bool = False
    """Whether its documents cannot be read, so that nothing is known."""

    @property
    def name(self) -> str:
        """The dataset."""
        return self.history.dataset

    @property
    def last(self) -> Batch | None:
        """The newest batch."""
        return self.batches[0] if self.batches else None

    @cached_property
    def recent(self) -> list[Batch]:
        """The batches of charts and sums, newest first."""
        return self.batches[:TREND]

    @cached_property
    def waiting(self) -> list[Batch]:
        """Batches that wait for a decision."""
        return [batch for batch in self.batches if batch.state == "waiting"]

    @cached_property
    def damaged(self) -> list[Batch]:
        """Batches whose report cannot be read."""
        return [batch for batch in self.batches if batch.state == "damaged"]

    @cached_property
    def open(self) -> list[Batch]:
        """Batches that were begun and have to be run again."""
        return [batch for batch in self.batches if batch.state in OPEN]

    @cached_property
    def _published(self) -> list[Batch]:
        return [batch for batch in self.batches if batch.state == "published"]

    @cached_property
    def newest(self) -> Entry | None:
        """The newest published batch of new records: a decision about earlier ones makes no table fresh."""
        return next((batch.entry for batch in self._published if not batch.entry.decided), None)

    @property
    def age(self) -> float | None:
        """Seconds since the end of the newest published batch's interval, or since that batch was published."""
        return max(0.0, (self.now - self.newest.at).total_seconds()) if self.newest else None

    @property
    def late(self) -> bool:
        """Whether that is longer than `quality.freshness` allows."""
        limit = self.history.freshness
        return limit is not None and self.age is not None and self.age > limit

    @property
    def complete_through(self) -> datetime | None:
        """Before this instant the table has everything; None: not known, as of export files."""
        return self.history.complete_through

    @cached_property
    def holes(self) -> dict[str, int]:
        """Explained offsets by kind: of the table where that is known, else of the recent batches; losses first."""
        sources = [partition.holes for partition in self.history.coverage or ()] or [
            batch.entry.holes for batch in self.recent
        ]
        total = summed(sources)
        return dict(sorted(total.items(), key=lambda item: (item[0] not in LOST, -item[1], item[0])))

    @property
    def lost(self) -> int:
        """Of these, offsets whose records nothing has read."""
        return sum(count for kind, count in self.holes.items() if kind in LOST)

    @cached_property
    def unexplained(self) -> int:
        """Offsets without an explanation, of batches that are not settled."""
        return sum(batch.entry.unexplained for batch in self.batches if batch.state in ("waiting", "decided"))

    @property
    def held(self) -> int | None:
        """Records that the table held after the batch that was published last; None: its mode holds none."""
        return (
            max((batch.entry for batch in self._published), key=lambda entry: entry.made).held
            if self._published
            else None
        )

    @cached_property
    def rejected(self) -> int:
        """Records that the recent batches rejected."""
        return sum(batch.entry.counts.get(Verdict.REJECTED, 0) for batch in self.recent)

    @property
    def rank(self) -> int:
        """0 first: it needs an operator most."""
        if self.waiting or self.unexplained:
            return 0
        if self.damaged or self.broken:
            return 1
        if self.late:
            return 2
        if self.last is None:
            return 5
        return 3 if self.open else 4

    @property
    def rolled_back(self) -> Decided | None:
        """A rollback after which no history was written: the history's coverage is that of before."""
        written = self.history.written
        last = next((decision for decision in reversed(self.decided) if decision.undone), None)
        return last if last and written and last.at > written else None


def status_of(history: History, decided: list[Decided], unreadable: int, now: datetime) -> DatasetStatus:
    """The status of a dataset's batches, with the decisions about them."""
    batches = [_batch(entry, decided) for entry in history.entries]
    return DatasetStatus(history, batches, decided, unreadable, now)


def summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sums of counts, by name."""
    total: dict[str, int] = {}
    for counted in counts:
        for name, count in counted.items():
            total[name] = total.get(name, 0) + count
    return total


def _batch(entry: Entry, decided: list[Decided]) -> Batch:
    own = [decision for decision in decided if decision.kind in _SETTLING and decision.batch == entry.batch]
    # What was decided before the report was written is in it; a gate that is red under it needs another decision.
    last = own[-1] if own else None
    since = last is not None and last.at > entry.written
    undone = next(
        (decision for decision in decided if entry.batch in decision.undone and decision.at > entry.written), None
    )
    if entry.status == "damaged":
        return Batch(entry, "damaged", last)
    if undone or entry.status == "rolled_back":
        if last and last.kind != "rolled_back" and last.at > (undone.at if undone else entry.written):
            return Batch(entry, "discarded" if last.kind == "discard" else "unfinished", last)
        return Batch(entry, "rolled_back", undone or last)
    if entry.status == "discarded" and not since:
        return Batch(entry, "discarded", last)
    if entry.status == "published":
        return Batch(entry, "published", last)
    if entry.status == "red":
        return Batch(entry, "decided" if since else "waiting", last)
    return Batch(entry, "discarded" if last and last.kind == "discard" else "unfinished", last)
