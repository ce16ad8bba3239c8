"""From a manifest to the envelope, in the layout in which it was landed."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import check_not_cleared
from onefold.landing.manifest import Manifest
from onefold.records import envelope as E
from onefold.records.covered import mark_lines, mark_positions
from onefold.records.landed_objects import objects_named
from onefold.records.layouts import LandedBatch, reader_of

_NAMED = "_named"


def read_records(session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of every landed record of a batch, laid out as it was landed; of a
    replay, of the records that it names; of a batch that is a decision alone, of none.

    Spark reads when it is asked for rows: ask within `objects_named(manifest)`.

    Raises:
        UnreadableObjectError, ExportColumnError, ObjectTooLargeError: an object cannot be read.
    """
    if manifest.bare:
        return session.createDataFrame([], E.DDL)
    check_not_cleared(lake, manifest.source, manifest.landing)
    batch = LandedBatch(session, lake, dataset, manifest)
    return _replayed(reader_of(batch.layout).read(batch), manifest)


def _replayed(records: DataFrame, manifest: Manifest) -> DataFrame:
    """Of a replay only the records that it names; all of any other landing."""
    if manifest.replays is None:
        return records
    if manifest.replays.lines:
        marked = mark_lines(records, _NAMED, manifest.replays.lines)
    else:
        marked = mark_positions(
            records, _NAMED, ((range_.topic_partition, (range_.start, range_.end)) for range_ in manifest.ranges)
        )
    return marked.where(_NAMED).drop(_NAMED)


def count_landed(session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest) -> int:
    """The records in the landed bytes, counted without any decoding, and another way than they are read.

    Those of log segments are counted as the batch headers say, those of a replay as the quarantine had them; but at
    one exact position several may lie, of which the quarantine has some.
    """
    check_not_cleared(lake, manifest.source, manifest.landing)
    if manifest.replays and manifest.replays.lines:
        return manifest.replays.records
    with objects_named(manifest):
        if manifest.replays:
            return read_records(session, lake, dataset, manifest).count()
        batch = LandedBatch(session, lake, dataset, manifest)
        return reader_of(batch.layout).count(batch)
