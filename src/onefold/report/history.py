"""A dataset's batches at a glance: one small document a dataset, gathered from the reports' JSON.

A history is a copy. What is true is `reports/<dataset>/`: an entry counts only while its report has the entity tag
that it was read at. So a history that is missing, old or torn costs reads and tells nothing wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import ForeignCommitError
from onefold.iceberg.commits import ROOT
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.plan import Interval, is_decided
from onefold.offsets import Coverage, Present, Range, TopicPartition, minus
from onefold.quality.documents import CheckResult, ReaderChanges
from onefold.report.complete import complete_through
from onefold.report.status import Status
from onefold.storage import ObjectInfo
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.coverage import PartitionAccount
from onefold.vocabulary import LOST, Level, Verdict

KEPT = 200
"""Batches of a history: the newest, and older red ones."""
CELLS = 60
"""Parts of a partition that a strip can tell apart."""
READERS = 8
"""Reports that are read at once."""
_TRIES = 5
_SHOWN = 20
NOT_HOLES = ("covered by another batch", "landed by another batch", "not replayed")
"""What an account explains without a hole."""


class Entry(BaseModel):
    """One batch, as far as a line or a bar of a chart tells of it."""

    model_config = ConfigDict(frozen=True)

    batch: str
    etag: str = Field(description="Of the report's JSON that it was read from; empty: there is none")
    written: AwareDatetime = Field(description="When its report was")
    committed: AwareDatetime | None = Field(default=None, description="As in the report")
    status: Status | Literal["damaged"]
    page: bool = Field(default=True, description="Whether there is a page to lead to")
    interval: Interval | None = None
    decision: str = Field(
        default="", description="Of a person, as the report knew it: release, skip, discard or replay"
    )
    red: list[str] = Field(default=[], description="Ids of the checks that stop it; earlier histories have titles")
    landed: int | None = None
    replayed: int = 0
    held: int | None = None
    counts: dict[str, int] = Field(default={}, description="Records by verdict")
    readers: ReaderChanges | None = Field(default=None, description="As in the report")
    duplicates: dict[str, int] = Field(default={}, description="By the level that says they are one message")
    holes: dict[str, int] = Field(default={}, description="Explained offsets by kind")
    unexplained: int = 0
    missing: list[tuple[str, int, int]] = Field(
        default=[], description="Some unexplained ranges: partition, start, end"
    )

    @property
    def at(self) -> datetime:
        """What batches are sorted by: the end of its interval, or when it was made."""
        return self.interval.end if self.interval else self.made

    @property
    def made(self) -> datetime:
        """When its commit record was written: a report can be written again at any time. Else when the report was."""
        return self.committed or self.written

    @property
    def decided(self) -> bool:
        """Whether it brings nothing new: a replay, an accepted gap or forgotten keys, as its name says."""
        return is_decided(self.batch)

    @property
    def records(self) -> int:
        """Records that it judged."""
        return sum(self.counts.values())

    @property
    def duplicate_rate(self) -> float | None:
        """Duplicates of the records judged; None: none was."""
        return self.counts.get(Verdict.DUPLICATE, 0) / self.records if self.records else None


class ReportSummary(BaseModel):
    """What an entry takes from a report's JSON. The rest may be of a newer version than this code."""

    model_config = ConfigDict(frozen=True)

    dataset: str
    batch: str
    status: Status
    written: AwareDatetime
    committed: AwareDatetime | None = None
    interval: Interval | None
    landed: int | None
    replayed: int = 0
    held: int | None = None
    counts: dict[str, dict[str, int]]
    readers: ReaderChanges | None = None
    accounts: list[PartitionAccount]
    checks: list[CheckResult]


class Strip(BaseModel):
    """What a table covers of one partition."""

    model_config = ConfigDict(frozen=True)

    partition: str = Field(description="TopicPartition.key")
    start: int
    end: int
    parts: list[tuple[int, int, str]] = Field(description="(start, end, kind): landed, a kind of hole, or open")
    holes: dict[str, int] = Field(description="Explained offsets by kind")
    open: int = Field(description="Offsets between start and end that are not covered")


class History(BaseModel):
    """A dataset and its newest batches."""

    model_config = ConfigDict(frozen=True)

    dataset: str
    description: str = ""
    owner: str = ""
    table: str = ""
    mode: str = ""
    identity: str = ""
    freshness: float | None = Field(default=None, description="`quality.freshness` in seconds")
    batches: int = Field(default=0, description="How many there are in all")
    entries: list[Entry] = Field(default=[], description="By `at`, newest first")
    coverage: list[Strip] | None = Field(default=None, description="None: not known, or positions are inferred")
    objects: int = Field(default=0, description="Objects covered, where positions are inferred")
    complete_through: AwareDatetime | None = Field(
        default=None, description="Before this instant the table has everything; None: not known"
    )
    written: AwareDatetime | None = Field(default=None, description="None: it was not kept, but gathered")


def keep_history(lake: Lake, dataset: Dataset) -> None:
    """Bring the dataset's history up to its reports.

    Two batches that end at once may both write it. The last writer looks once more at what it has written, and a
    report that is missing there was written before: so the last one to write has them all.
    """
    key = lake_keys.history(dataset.name)
    for _ in range(_TRIES):
        known = read_history(lake, dataset.name)
        entries, batches = gather(lake, dataset.name, known.entries if known else (), KEPT)
        lake.put(key, _history(lake, dataset, entries, batches))
        read = {entry.batch: entry.etag for entry in entries}
        now = _newest(listed(lake, dataset.name), KEPT)
        if all(read.get(batch) == (info.etag if info else "") for batch, (info, _) in now.items()):
            return


def read_history(lake: Lake, dataset: str) -> History | None:
    """A dataset's history; None where there is none, or none that can be read."""
    try:
        return lake.get(lake_keys.history(dataset), History)
    except ValidationError:
        return None


def gather(
    lake: Lake, dataset: str, known: Iterable[Entry], most: int, readers: int = READERS
) -> tuple[list[Entry], int]:
    """The newest batches of a dataset and the red ones that are known, newest first, and how many there are.

    Reports that `known` has at their entity tag are not read again; at most `most` are read.
    """
    found = listed(lake, dataset)
    fresh: Mapping[str, Entry] = {
        entry.batch: entry.model_copy(update={"page": found[entry.batch][1] is not None})
        for entry in known
        if _tag(found.get(entry.batch)) == entry.etag
    }
    wanted = _newest(found, most)
    wanted |= {entry.batch: found[entry.batch] for entry in fresh.values() if entry.status == "red"}
    new = {batch: pair for batch, pair in wanted.items() if batch not in fresh}
    with ThreadPoolExecutor(readers) as pool:
        read = pool.map(lambda item: _entry(lake, dataset, item[0], *item[1]), new.items())
        entries = [*(entry for entry in read if entry), *(fresh[batch] for batch in wanted if batch in fresh)]
    return sorted(entries, key=lambda entry: (entry.at, entry.batch), reverse=True), len(found)


Listed = dict[str, tuple[ObjectInfo | None, ObjectInfo | None]]
"""Batch to its report's JSON and page."""


def listed(lake: Lake, dataset: str) -> Listed:
    """The reports that lie there, by batch: the JSON and the page, of which one may be missing."""
    found: Listed = {}
    for info in lake.storage.list(lake_keys.reports(dataset)):
        batch, _, ending = info.key.rsplit("/", 1)[-1].rpartition(".")
        document, page = found.get(batch, (None, None))
        if ending == "json":
            found[batch] = (info, page)
        elif ending == "html":
            found[batch] = (document, info)
    return found


def strip_of(partition: str, offsets: Present) -> Strip:
    """What is covered of a partition, in at most CELLS parts: what a person must see is drawn however small it is,
    what is harmless where it is most of a part.
    """
    covered = offsets.covered
    start, end = covered[0][0], covered[-1][1]
    holes: dict[str, int] = {}
    for low, high, kind in offsets.holes:
        holes[kind] = holes.get(kind, 0) + high - low
    left = minus([(start, end)], covered)
    width = max(1, -(-(end - start) // CELLS))
    layers = [
        ("open", left),
        *((kind, _of(offsets, kind)) for kind in sorted(holes, key=lambda kind: kind not in LOST)),
    ]
    parts: list[tuple[int, int, str]] = []
    places = [0] * len(layers)
    for low in range(start, end, width):
        high, drawn = min(low + width, end), "landed"
        for number, (kind, ranges) in enumerate(layers):
            inside, places[number] = _inside(ranges, places[number], low, high)
            loud = kind == "open" or kind in LOST
            if drawn == "landed" and (inside if loud else 2 * inside >= high - low):
                drawn = kind
        if parts and parts[-1][2] == drawn:
            parts[-1] = (parts[-1][0], high, drawn)
        else:
            parts.append((low, high, drawn))
    unread = sum(high - low for low, high in left)
    return Strip(partition=partition, start=start, end=end, parts=parts, holes=holes, open=unread)


def _of(offsets: Present, kind: str) -> list[Range]:
    return [(low, high) for low, high, named in offsets.holes if named == kind]


def _inside(ranges: list[Range], place: int, low: int, high: int) -> tuple[int, int]:
    """How many offsets of sorted ranges lie in [low, high), and the first range that reaches behind it."""
    total = 0
    while place < len(ranges) and ranges[place][0] < high:
        total += max(0, min(ranges[place][1], high) - max(ranges[place][0], low))
        if ranges[place][1] > high:
            break
        place += 1
    return total, place


def _newest(found: Listed, most: int) -> Listed:
    def when(pair: tuple[ObjectInfo | None, ObjectInfo | None]) -> datetime:
        return max(info.modified for info in pair if info)

    ordered = sorted(found, key=lambda batch: (when(found[batch]), batch), reverse=True)
    return {batch: found[batch] for batch in ordered[:most]}


def _tag(pair: tuple[ObjectInfo | None, ObjectInfo | None] | None) -> str | None:
    return None if pair is None else (pair[0].etag if pair[0] else "")


def _entry(lake: Lake, dataset: str, batch: str, document: ObjectInfo | None, page: ObjectInfo | None) -> Entry | None:
    last = document or page
    assert last is not None
    bare = Entry(
        batch=batch,
        etag=document.etag if document else "",
        written=last.modified.astimezone(UTC),
        status="damaged",
        page=page is not None,
        interval=_interval_in(batch),
    )
    if document is None:
        return bare
    data = lake.storage.read(document.key)
    if data is None:
        return None  # it was removed since it was listed
    try:
        report = ReportSummary.model_validate_json(data)
    except ValidationError:
        return bare
    return bare if (report.dataset, report.batch) != (dataset, batch) else _summary(bare, report)


def _interval_in(batch: str) -> Interval | None:
    """The interval that a batch's name begins with, for a report that does not tell it any more."""
    start, _, end = batch.partition("_")[0].partition("-")
    try:
        return Interval(start=_instant(start), end=_instant(end))
    except ValueError:
        return None


def _instant(text: str) -> datetime:
    form = "%Y%m%dT%H%M%S.%fZ" if "." in text else "%Y%m%dT%H%M%SZ"
    return datetime.strptime(text, form).replace(tzinfo=UTC)


def _summary(bare: Entry, report: ReportSummary) -> Entry:
    holes: dict[str, int] = {}
    for account in report.accounts:
        for kind, count in account.explained.items():
            if kind not in NOT_HOLES:
                holes[kind] = holes.get(kind, 0) + count
    missing = [(account.partition, start, end) for account in report.accounts for start, end in account.unexplained]
    return Entry(
        batch=report.batch,
        etag=bare.etag,
        written=report.written,
        committed=report.committed,
        status=report.status,
        page=bare.page,
        interval=report.interval,
        red=[check.id for check in report.checks if check.red][:_SHOWN],
        landed=report.landed,
        replayed=report.replayed,
        held=report.held,
        counts={verdict: sum(reasons.values()) for verdict, reasons in report.counts.items()},
        readers=report.readers,
        duplicates=report.counts.get(Verdict.DUPLICATE, {}),
        holes=holes,
        unexplained=sum(end - start for _, start, end in missing),
        missing=missing[:_SHOWN],
    )


def _history(lake: Lake, dataset: Dataset, entries: list[Entry], batches: int) -> History:
    levels = [level for level in (Level.POSITION, *dataset.narrow) if level != dataset.deciding]
    limit = dataset.quality.freshness
    coverage = _coverage(lake, dataset)
    strips = _strips(coverage)
    return History(
        dataset=dataset.name,
        description=dataset.description,
        owner=dataset.owner,
        table=dataset.target.table,
        mode=dataset.apply.title,
        identity=", ".join([dataset.deciding, *levels]),
        freshness=limit.total_seconds() if limit else None,
        batches=batches,
        entries=entries,
        coverage=strips,
        objects=len(coverage.objects),
        complete_through=complete_through(lake, dataset, coverage),
        written=datetime.now(UTC),
    )


def _coverage(lake: Lake, dataset: Dataset) -> Coverage:
    """What the table covers; nothing where that is not known."""
    table = find_state(lake, dataset)
    try:
        name = table.main.record if table else ROOT
    except ForeignCommitError:  # the gate says so; what the table covers is not known
        return Coverage()
    record = None if name == ROOT else lake.get(lake_keys.record(dataset, name), CommitRecord)
    return record.coverage if record else Coverage()


def _strips(coverage: Coverage) -> list[Strip] | None:
    strips = [strip_of(key, offsets) for key, offsets in coverage.partitions.items() if offsets.covered]
    by_partition = {strip.partition: TopicPartition.of(strip.partition) for strip in strips}
    strips.sort(key=lambda strip: _order(by_partition[strip.partition]))
    return strips or None


def _order(at: TopicPartition) -> tuple[str, str, int, int]:
    return at.cluster, at.topic, at.incarnation, at.partition
