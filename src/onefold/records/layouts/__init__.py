"""From landed objects to the envelope, and a count of their records: one file a layout, found by the layout's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from onefold.dataset.layouts import LayoutOptions

if TYPE_CHECKING:  # Spark's Python workers import readers, and need none of these
    from pyspark.sql import DataFrame, SparkSession

    from onefold.dataset import Dataset
    from onefold.dataset.source import Origin
    from onefold.lake import Lake
    from onefold.landing.manifest import LandedObject, Manifest


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """What a reader is given: the landed objects of a batch, and what says how they are read."""

    session: SparkSession
    lake: Lake
    dataset: Dataset
    manifest: Manifest

    @property
    def layout(self) -> str:
        """How the objects were laid out when they were landed."""
        return self.manifest.layout or self.dataset.source.layout

    @property
    def objects(self) -> list[tuple[LandedObject, str]]:
        """(landed object, URI)"""
        return [(object_, self.lake.storage.uri_of(object_.key)) for object_ in self.manifest.objects]

    @property
    def values(self) -> list[tuple[LandedObject, str]]:
        """(landed object, URI) of the objects that hold values: companions hold no further records."""
        return [(object_, uri) for object_, uri in self.objects if object_.role == "values"]

    @property
    def uris(self) -> list[tuple[str, str]]:
        """(name in the export, URI)"""
        return [(object_.name, uri) for object_, uri in self.objects]

    @property
    def origin(self) -> Origin:
        """The cluster and incarnation of an export's records."""
        exports = self.dataset.source.exports
        origin = self.manifest.origin or (exports.origin if exports else None)
        assert origin, "an export's landing has an origin"
        return origin

    @property
    def options(self) -> LayoutOptions:
        """The layouts' own keys, as the dataset file has them now."""
        return self.dataset.source.exports or LayoutOptions()


@dataclass(frozen=True, slots=True)
class LayoutReader:
    """How landed objects of a layout are read."""

    read: Callable[[LandedBatch], DataFrame]
    """The envelope (`onefold.records.envelope`) of every record, one row a record. Spark reads when rows are asked
    for."""
    count: Callable[[LandedBatch], int]
    """The records, counted without any decoding, and in another way than they are read."""


def reader_of(layout: str) -> LayoutReader:
    """The reader of a layout: the constant `READER` of the module here that has the layout's name."""
    reader: LayoutReader = import_module(f"{__name__}.{layout}").READER
    return reader
