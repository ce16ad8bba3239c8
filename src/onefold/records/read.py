"""From a manifest to the envelope, by the dataset's layout."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from onefold.dataset import Dataset
from onefold.dataset.source import Columns, Encoding, Origin
from onefold.kafka.transactions import Transactions
from onefold.lake import Lake
from onefold.landing.land import check_not_cleared
from onefold.landing.log_segments import write_index
from onefold.landing.manifest import LandedObject, Manifest
from onefold.records import envelope as E
from onefold.records.covered import mark_lines, mark_positions
from onefold.records.landed_objects import literal, objects_named
from onefold.records.layouts.aiven import read_aiven
from onefold.records.layouts.connect import count_packed_avro, read_connect
from onefold.records.layouts.kafka import read_topics
from onefold.records.layouts.kcat import read_kcat
from onefold.records.layouts.parquet import read_footers, read_parquet_exports
from onefold.records.layouts.segments import PlacedSegment, read_segments

Landed = list[tuple[LandedObject, str]]
"""(landed object, URI)"""
_NAMED = "_named"


def read_records(session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of every landed record of a batch, laid out as it was landed; of a
    replay, of the records that it names; of a batch that is a person's word alone, of none.

    Spark reads when it is asked for rows: ask within `objects_named(manifest)`.

    Raises:
        UnreadableObjectError, ExportColumnError, ObjectTooLargeError: an object cannot be read.
    """
    if manifest.bare:
        return session.createDataFrame([], E.DDL)
    check_not_cleared(lake, manifest.source, manifest.landing)
    return _replayed(_landed(session, lake, dataset, manifest), manifest)


def _replayed(records: DataFrame, manifest: Manifest) -> DataFrame:
    """Of a replay only the records that it names; all of any other landing."""
    if manifest.replays is None:
        return records
    if manifest.replays.lines:
        marked = mark_lines(records, _NAMED, manifest.replays.lines)
    else:
        marked = mark_positions(
            records, _NAMED, ((one.topic_partition, (one.start, one.end)) for one in manifest.ranges)
        )
    return marked.where(_NAMED).drop(_NAMED)


def _landed(session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest) -> DataFrame:
    placed = _placed(lake, manifest)
    named = [(one.name, uri) for one, uri in placed]
    layout, exports = manifest.layout or dataset.source.layout, dataset.source.exports
    if layout == "kafka":
        return read_topics(session, named)
    origin = manifest.origin or (exports.origin if exports else None)
    assert origin, "an export's landing has an origin"
    columns, encoding = (exports.columns, exports.encoding) if exports else (Columns(), Encoding())

    def parquet(origin: Origin) -> DataFrame:
        footers = read_footers(lake.storage, manifest)
        return read_parquet_exports(session, lake.storage, footers, columns, origin, dataset.read_fields)

    readers: dict[str, Callable[[Origin], DataFrame]] = {
        "kcat": lambda origin: read_kcat(session, named, origin),
        "connect": lambda origin: read_connect(session, placed, origin, dataset.read_fields),
        "aiven": lambda origin: read_aiven(session, placed, origin, encoding),
        "parquet": parquet,
        "segments": lambda origin: read_segments(session, *_segments(lake, manifest), origin, lake.access),
    }
    return readers[layout](origin)


def count_landed(session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest) -> int:
    """The records in the landed bytes, counted without any decoding, and another way than they are read.

    Those of log segments are counted as the batch headers say, those of a replay as the quarantine had them; but at
    one exact position several may lie, of which the quarantine has some.
    """
    check_not_cleared(lake, manifest.source, manifest.landing)
    if manifest.replays and manifest.replays.lines:
        return manifest.replays.records
    if manifest.replays:
        with objects_named(manifest):
            return read_records(session, lake, dataset, manifest).count()
    layout = manifest.layout or dataset.source.layout
    if layout == "segments":
        return sum(placed.index.records for placed in _segments(lake, manifest)[0])
    if layout == "parquet":
        return sum(footer.rows for footer in read_footers(lake.storage, manifest))
    values = [(one, uri) for one, uri in _placed(lake, manifest) if one.role == "values"]
    kinds: dict[str, Landed] = {"parquet": [], "avro": [], "lines": []}
    for one, uri in values:
        ending = one.name.rsplit(".", 1)[-1] if layout == "connect" else layout
        kind = "parquet" if ending in ("kafka", "parquet") else "avro" if ending == "avro" else "lines"
        kinds[kind].append((one, uri))
    counts: dict[str, Callable[[list[str]], int]] = {
        "parquet": lambda uris: session.read.parquet(*literal(uris)).count(),
        "avro": lambda _: count_packed_avro(session, kinds["avro"]),
        "lines": lambda uris: session.read.option("lineSep", "\n").text(literal(uris)).count(),  # one a line
    }
    with objects_named(manifest):
        return sum(counts[kind]([uri for _, uri in some]) for kind, some in kinds.items() if some)


def _placed(lake: Lake, manifest: Manifest) -> Landed:
    return [(one, lake.storage.uri_of(one.key)) for one in manifest.objects]


def _segments(lake: Lake, manifest: Manifest) -> tuple[list[PlacedSegment], list[Transactions]]:
    """The landed segments of a batch with their indexes, and the fates of their transactional records."""
    placed = []
    for one in manifest.of_role("values"):
        index = write_index(lake, manifest.source, one)  # made anew, should it be gone
        placed.append(PlacedSegment(one.name, lake.storage.uri_of(one.key), index))
    return placed, manifest.transactions
