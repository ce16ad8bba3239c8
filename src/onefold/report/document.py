"""The account of one batch as a document: what became of each record, what was checked, what readers see now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.masks import masked
from onefold.decisions import AcceptGap, Decision, Discard, Undone
from onefold.dedup.documents import Producers, Staged, staged_key
from onefold.errors import decide_by, take_out_by, take_up_by
from onefold.generation import Generation
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.manifest import Accepted, Forgets, Manifest
from onefold.landing.plan import Interval, find_plan
from onefold.publish.publish import find_published
from onefold.quality.documents import AUDIT, Audited, GateResult
from onefold.report.causes import Explained, causes_of
from onefold.report.decisions import in_force
from onefold.report.held import seen_of_batch
from onefold.report.status import Status, status_of
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.documents import Outcome, Producing, Upserted, part_of

_Kept = TypeVar("_Kept", Accepted | None, Decision | None)


class LandedLine(BaseModel):
    """One landed object of values."""

    model_config = ConfigDict(frozen=True)

    name: str
    size: int = Field(description="Bytes")
    records: int | None = Field(description="Records, once staged")


class Report(Outcome, Producing, Audited):
    """Everything that the page shows. `status` is `unpublished` while steps are missing."""

    dataset: str
    description: str
    owner: str
    table: str
    mode: str
    deciding: str = Field(description="The identity level that decides")
    exact: bool = Field(description="Whether positions are exact, so that holes are known")
    batch: str
    interval: Interval | None
    attempt: str | None
    status: Status
    why: list[str] = Field(description="Sentences: why it is not published, or what to know")
    notes: list[str] = Field(
        default=[],
        description="What planning and landing saw: open transactions, unknown holes, damage, records woken; "
        "and that a rebuild has not ended",
    )
    decision: Decision | None = Field(default=None, description="Of a person, where there is one")
    snapshot: int | None
    landed: int | None
    replayed: int = Field(default=0, description="Quarantined records that it folds again; it has landed none then")
    replays: str | None = Field(default=None, description="The batch that landed and rejected them")
    accepts: Accepted | None = Field(default=None, description="The gap that it accepts; it has landed none then")
    forgets: Forgets | None = Field(default=None, description="The keys that it forgets; it has landed none then")
    held: int | None = Field(default=None, description="Records that the table holds then; None: its guard holds none")
    covered: int = Field(description="Records at positions that were known before")
    objects: list[LandedLine]
    ignored: list[str]
    counts: dict[str, dict[str, int]] = Field(description="Records by verdict and reason")
    causes: list[Explained] = Field(default=[], description="Why its duplicates exist")
    producers: Producers | None = Field(default=None, description="What the sequence rule says; None: none is known")
    committed: datetime | None = Field(
        default=None,
        description="When its commit record was written: of a published batch, when it was published; None: it has "
        "none, or the report is of an earlier version",
    )
    written: datetime = Field(description="When this report was")


def describe(lake: Lake, dataset: Dataset, batch: str) -> Report:
    """Gather the documents that the steps of a batch left, whichever there are."""
    plan = find_plan(lake, dataset, batch)
    manifest = lake.get(lake_keys.manifest(plan.source, batch), Manifest)
    staged = lake.get(staged_key(lake, dataset, batch), Staged)
    table = find_state(lake, dataset)
    published = find_published(lake, dataset, table, batch) if table else None
    latest = lake.get(lake_keys.latest(dataset, batch), Upserted)
    attempt = published.attempt if published else (latest.attempt if latest else None)
    upserted = lake.get(lake_keys.attempt(dataset, batch, attempt, "upsert"), Upserted) if attempt else None
    judged = [AUDIT, "gate"] if published else ["gate"]
    results = (lake.get(lake_keys.attempt(dataset, batch, attempt, step), GateResult) for step in judged if attempt)
    gate = next(filter(None, results), None)
    record = lake.get(lake_keys.record(dataset, attempt), CommitRecord) if attempt else None
    decision = published.decision if published else in_force(lake, dataset, batch, latest)
    records = staged.objects if staged else {}
    counted = staged.records if staged else None
    if plan.origin:
        landed, replayed = (0, upserted.replayed) if upserted else (0 if staged else None, counted)
    else:
        landed, replayed = upserted.landed if upserted else counted, 0
    waits = []
    if upserted and gate and gate.facts.get("held"):
        own, snapshot = (record, published.snapshot) if published and record else (upserted, upserted.head)
        waits = seen_of_batch(lake, dataset, own, upserted.base_record, snapshot)
    return Report(
        **part_of(upserted, Outcome),
        **part_of(record, Producing),
        **part_of(gate, Audited),
        dataset=dataset.name,
        description=dataset.description,
        owner=dataset.owner,
        table=dataset.target.table,
        mode=dataset.apply.title,
        deciding=dataset.deciding,
        exact=dataset.source.exact,
        batch=batch,
        interval=plan.interval,
        attempt=attempt,
        status=status_of(decision, gate, published=published is not None),
        why=[] if published else _why(dataset, batch, decision, gate, upserted, manifest),
        notes=[
            *_of_rebuild(lake, dataset),
            *plan.notes,
            *(manifest.notes if manifest else []),
            *(
                [f"Nothing of it is read nor covered: {upserted.unreadable}"]
                if upserted and upserted.unreadable
                else []
            ),
            *waits,
        ],
        decision=_shown(dataset, decision),
        snapshot=published.snapshot if published else None,
        landed=landed,
        replayed=replayed or 0,
        replays=plan.origin,
        accepts=_shown(dataset, manifest.accepts) if manifest else None,
        forgets=manifest.forgets if manifest else None,
        held=gate.facts.get("held") if gate else None,
        covered=sum(upserted.known.values()) if upserted else 0,
        objects=[
            LandedLine(name=object_.name, size=object_.size, records=records.get(object_.name, 0) if staged else None)
            for object_ in (manifest.of_role("values") if manifest else [])
        ],
        ignored=plan.ignored,
        counts=upserted.counts if upserted else {},
        causes=causes_of(upserted.duplicates) if upserted else [],
        producers=staged.producers if staged else None,
        committed=record.written if record else None,
        written=datetime.now(UTC),
    )


def _shown(dataset: Dataset, kept: _Kept) -> _Kept:
    """A decision as a report shows it: the key of an accepted gap may be masked."""
    return (
        kept.model_copy(update={"key": masked(dataset, kept.key)}) if isinstance(kept, Accepted | AcceptGap) else kept
    )


def _of_rebuild(lake: Lake, dataset: Dataset) -> list[str]:
    """That readers do not see what is reported."""
    published = lake.get(lake_keys.generation(dataset), Generation)
    if published is None or published.generation == dataset.generation:
        return []
    return [
        f"This is of a rebuild, into generation {dataset.generation}. Until that has ended, readers see generation "
        f"{published.generation} as it was"
    ]


def _why(
    dataset: Dataset,
    batch: str,
    decision: Decision | None,
    gate: GateResult | None,
    upserted: Upserted | None,
    manifest: Manifest | None,
) -> list[str]:
    if isinstance(decision, Discard) and decision.rebuilt:
        return [
            f"Readers see the table without this batch, since a rebuild into generation {decision.rebuilt}. It is "
            "landed and kept, and no run takes it up before an operator decides.",
            take_up_by(dataset.name, batch),
        ]
    if isinstance(decision, Undone):
        return [
            f"Readers see the table as it was after batch {decision.to}. This batch is landed and kept, and no run "
            "takes it up before an operator decides.",
            take_up_by(dataset.name, batch),
        ]
    if gate and not gate.green:
        return [
            *gate.failures(),
            "The batch is kept on its branch.",
            *([take_out_by(dataset.name, gate.contradicted)] if gate.contradicted else []),
            decide_by(dataset.name, batch, gate.decisions),
        ]
    steps = (("landed", manifest), ("upserted", upserted), ("gated", gate))
    missing = next((name for name, document in steps if document is None), "published")
    return [f"The batch has not been {missing} yet."]
