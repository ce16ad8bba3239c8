"""From a manifest to the envelope, by the dataset's layout."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import check_not_cleared
from onefold.landing.manifest import Manifest
from onefold.landing.transactions import Transactions
from onefold.landing.undecided import write_index
from onefold.records.connect import read_connect
from onefold.records.kcat import read_kcat
from onefold.records.landed import literal
from onefold.records.segments import PlacedSegment, read_segments
from onefold.records.topics import read_topics


def read_records(session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of every landed record of a batch, laid out as it was landed."""
    check_not_cleared(lake, manifest.source, manifest.batch)
    placed = [(one, lake.storage.uri_of(one.key)) for one in manifest.objects]
    named = [(one.name, uri) for one, uri in placed]
    layout, origin = manifest.layout or dataset.source.layout, manifest.origin
    if layout == "kafka":
        return read_topics(session, named)
    origin = origin or (dataset.source.exports.origin if dataset.source.exports else None)
    assert origin, "an export's landing has an origin"
    if layout == "segments":
        return read_segments(session, *_segments(lake, manifest), origin)
    return read_connect(session, placed, origin) if layout == "connect" else read_kcat(session, named, origin)


def count_landed(session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest) -> int:
    """The records in the landed bytes, counted without any decoding; of log segments as the batch headers say."""
    check_not_cleared(lake, manifest.source, manifest.batch)
    if (manifest.layout or dataset.source.layout) == "segments":
        return sum(placed.index.records for placed in _segments(lake, manifest)[0])
    uris = [lake.storage.uri_of(one.key) for one in manifest.of_role("values")]
    if not uris:
        return 0
    if (manifest.layout or dataset.source.layout) == "kafka":
        return session.read.parquet(*literal(uris)).count()
    return session.read.option("lineSep", "\n").text(literal(uris)).count()  # both layouts hold one a line


def _segments(lake: Lake, manifest: Manifest) -> tuple[list[PlacedSegment], list[Transactions]]:
    """The landed segments of a batch with their indexes, and the fates of their transactional records."""
    placed = []
    for one in manifest.of_role("values"):
        index = write_index(lake, manifest.source, one)  # made anew, should it be gone
        placed.append(PlacedSegment(one.name, lake.storage.uri_of(one.key), index))
    return placed, manifest.transactions
