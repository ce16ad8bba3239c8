"""From a manifest to the envelope, by the dataset's layout."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.records.connect import read_connect
from onefold.records.kcat import read_kcat
from onefold.records.landed import literal
from onefold.records.topics import read_topics


def read_records(session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of every landed record of a batch."""
    placed = [(one, lake.storage.uri_of(one.key)) for one in manifest.objects]
    if dataset.source.exports is None:
        return read_topics(session, [(one.name, uri) for one, uri in placed])
    origin = dataset.source.exports.origin
    if dataset.source.layout == "connect":
        return read_connect(session, placed, origin)
    return read_kcat(session, [(one.name, uri) for one, uri in placed], origin)


def count_landed(session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest) -> int:
    """The records in the landed bytes, counted without any decoding."""
    uris = [lake.storage.uri_of(one.key) for one in manifest.of_role("values")]
    if not uris:
        return 0
    if dataset.source.kafka:
        return session.read.parquet(*literal(uris)).count()
    return session.read.option("lineSep", "\n").text(literal(uris)).count()  # both layouts hold one a line
