"""One proof, from the chain of commit records to the document that is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.masks import masked, masked_key_digest
from onefold.decisions.accepted_gaps import Link, links_of
from onefold.decisions.marks import marks_named
from onefold.errors import UsageError
from onefold.generation import check_generation
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake, new_attempt
from onefold.offsets import Position
from onefold.proof.claims import read_claims, write_claims
from onefold.proof.compare import WRONG, compared, drawn
from onefold.proof.documents import Difference, Proof
from onefold.proof.expected import expected_of
from onefold.proof.omitted import omitted_of
from onefold.spark.iceberg_tables import drop
from onefold.tables import staging as C
from onefold.tables.names import scratch_table
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.upsert.state import read_messages, read_state

SHOWN = 20
"""Differences that are kept, of those that are counted."""


def prove(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    share: float = 1.0,
    say: Callable[[str], None] = lambda _: None,
) -> Proof:
    """Compare what readers see now, or the `share` of its keys, with the landed bytes; recorded whatever it finds.

    Batches may be published meanwhile: the snapshot is pinned.

    Raises:
        UsageError: nothing is published.
        LandingClearedError: landed bytes are gone, by the landing's retention.
    """
    check_generation(lake, dataset)
    table = find_state(lake, dataset)
    head = table.main if table else None
    records = list(chain(lake, dataset, head.record)) if head else []
    if table is None or head is None or not records:
        raise UsageError(f"{dataset.name}: nothing is published, so there is nothing to prove")
    attempt = new_attempt()
    scratch = scratch_table(dataset.name, "claims", attempt)
    try:
        write_claims(session, lake, dataset, records, scratch, say)
        say("comparing")
        marks = marks_named(lake, dataset.name, records[0].forgotten) if dataset.apply.HOLDS else {}
        links = links_of(dataset, records[0].accepted, marks=marks.values())
        found = _compare(session, dataset, scratch, head.snapshot, records, share, attempt, links)
        omitted = omitted_of(session, lake, dataset, table, head.snapshot, records, scratch)
        found = found.model_copy(update={"omitted": omitted})
    finally:
        drop(session, scratch)
    lake.put(lake_keys.proof(dataset.name, found.name), found)
    return found


def _compare(
    session: SparkSession,
    dataset: Dataset,
    scratch: str,
    snapshot: int,
    records: list[CommitRecord],
    share: float,
    attempt: str,
    links: Sequence[Link],
) -> Proof:
    claims = read_claims(session, scratch)
    rows = compared(session, claims, dataset, snapshot, share, links)
    counted = {row[WRONG]: row["count"] for row in rows.groupBy(WRONG).count().collect()}
    differences = {kind: count for kind, count in sorted(counted.items(), key=str) if kind}
    shown = _shown(rows.where(F.col(WRONG).isNotNull()), dataset) if differences else []
    wrong = expected_of(dataset).wrong_groups(read_state(session, dataset, snapshot))
    if wrong is not None and (sums := wrong.count()):
        differences["other_sum"] = sums
        shown += _shown(wrong.withColumn(WRONG, F.lit("other_sum")), dataset)
    if dataset.versions_by_delivery:
        messages = read_messages(session, dataset, snapshot).where(drawn(share))
        missed = expected_of(dataset).wrong_messages(claims.where(drawn(share)), messages)
        if missed is not None and (count := missed.count()):
            differences["other_message"] = count
            shown += _shown(missed.withColumn(WRONG, F.lit("other_message")), dataset)
    now = datetime.now(UTC)
    return Proof(
        name=f"{now:%Y%m%dT%H%M%SZ}_{attempt}",
        dataset=dataset.name,
        generation=dataset.generation,
        snapshot=snapshot,
        batch=records[0].batch,
        batches=sum(1 for record in records if record.replays is None),
        share=share,
        records=claims.count(),
        rows=sum(count for kind, count in counted.items() if kind != "extra"),
        differences=differences,
        shown=shown[:SHOWN],
        at=now,
    )


def _shown(wrong: DataFrame, dataset: Dataset) -> list[Difference]:
    names = [name for name, _ in dataset.key_columns if name in wrong.columns]
    return [
        Difference(
            kind=row[WRONG],
            key=masked_key_digest(dataset, row[C.KEY]),
            columns=masked(dataset, {name: row[name] for name in names}),
            landed=_place(row, C.ORDER),
            stands=_place(row, f"table_{C.ORDER}"),
        )
        for row in (
            difference.asDict(recursive=True) for difference in wrong.orderBy(WRONG, C.KEY).limit(SHOWN).collect()
        )
    ]


def _place(row: dict[str, Any], name: str) -> str | None:
    at = Position.of(row.get(name))
    return str(at) if at else None
