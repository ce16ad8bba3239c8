"""A look before anything is scheduled: the newest records of a source, decoded and judged among themselves."""

from __future__ import annotations

import tempfile
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.identity import identify
from onefold.dedup.schemas import with_schemas
from onefold.dedup.staging import needed
from onefold.dedup.survivors import choose_survivors
from onefold.lake import Lake, new_attempt
from onefold.landing.land import manifest_for, source_of
from onefold.landing.manifest import Manifest
from onefold.records import envelope as E
from onefold.records.landed_objects import objects_named
from onefold.records.layouts.kafka import write_topics
from onefold.records.read import read_records
from onefold.tables import staging as C
from onefold.values.decode import decode
from onefold.vocabulary import Verdict


def sample(session: SparkSession, lake: Lake, dataset: Dataset, count: int) -> list[dict[str, Any]]:
    """What would become of about the newest `count` records: verdict, reason, records, an example of each.

    They are landed in a temporary folder; the lake stays as it is, and so do the group's offsets.

    Raises:
        NothingToReadError, UnknownTopicError, ClusterUnavailableError: there is nothing to look at.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Lake(lake.settings.model_copy(update={"lake": folder, "catalog": None}))
        source = source_of(scratch, dataset, read=partial(write_topics, session))
        plan, attempt = source.newest(count), new_attempt()
        manifest = manifest_for(dataset, plan, attempt, source.land(plan, plan.batch, attempt))
        with objects_named(manifest):
            return _judged(session, scratch, dataset, manifest, count)


def _judged(
    session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest, count: int
) -> list[dict[str, Any]]:
    # What was written last, and of lines that are no record as many as there are.
    newest = (F.col(name).desc_nulls_first() for name in (E.TIMESTAMP, E.OFFSET))
    records = read_records(session, lake, dataset, manifest).orderBy(*newest).limit(count)
    dataset, _ = with_schemas(lake, dataset, records)
    judged = choose_survivors(needed(identify(decode(records, dataset), dataset), dataset), dataset)
    at = F.concat_ws(" ", *(F.col(f"{C.ORDER}.{name}").cast("string") for name in ("topic", "partition", "offset")))
    said = F.concat_ws(": ", at, F.col(C.DETAIL))
    verdict = F.coalesce(F.col(C.VERDICT), F.lit(Verdict.APPLIED)).alias("verdict")
    reason = F.coalesce(F.col(C.REASON), F.lit("first of its key")).alias("reason")
    counted = judged.groupBy(verdict, reason).agg(F.count("*").alias("records"), F.min(said).alias("example"))
    return [row.asDict() for row in counted.orderBy(F.desc("records"), "verdict", "reason").collect()]
