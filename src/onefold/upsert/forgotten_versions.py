"""The highest version that a forget mark keeps of a key, and which versions are not greater.

Its parts are kept as texts, as Spark casts them. Offsets of two partitions do not compare, so where a version holds an
offset, the highest of each partition is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold.dataset import Dataset
from onefold.decisions import HighestVersion
from onefold.folding.positions import place_of
from onefold.tables import staging as C

Versions = list[tuple[bytes, list[str], str | None]]
"""(key, the version's parts as texts, partition)"""
HIGHEST = "array<struct<version:array<string>,place:string>>"
"""The type, in SQL, of the highest versions of a key."""


def highest_of(rows: DataFrame, dataset: Dataset) -> Versions:
    """The highest version of each key of rows with `_key`, `_order` and `_version`."""
    place = place_of(F.col(C.ORDER)) if dataset.before_offset is not None else F.lit(None).cast("string")
    known = rows.where(F.col(C.VERSION).isNotNull())
    of_key = known.groupBy(F.col(C.KEY).alias("key"), place.alias("place")).agg(F.max(C.VERSION).alias("version"))
    version, kind = F.col("version"), of_key.schema["version"].dataType
    parts = [version[name] for name in kind.names] if isinstance(kind, T.StructType) else [version]
    texts = F.array(*(part.cast("string") for part in parts))
    return [(bytes(row.key), row.texts, row.place) for row in of_key.withColumn("texts", texts).collect()]


def merge_versions(session: SparkSession, kind: T.DataType, versions: Versions) -> dict[str, list[HighestVersion]]:
    """The highest of some versions, by key digest in hex; `kind` is the type of a version."""
    rows = session.createDataFrame(versions, "key binary, texts array<string>, place string")
    parts = _typed(F.col("texts"), kind)
    version = F.struct(*(part.alias(f"v{number}") for number, part in enumerate(parts, 1)))
    highest = rows.groupBy("key", "place").agg(F.max_by("texts", version).alias("texts"))
    found: dict[str, list[HighestVersion]] = {}
    for row in highest.orderBy("key", "place").collect():
        found.setdefault(bytes(row.key).hex(), []).append(HighestVersion(version=row.texts, place=row.place))
    return found


def not_greater(dataset: Dataset, kind: T.DataType) -> Callable[[Column], Column]:
    """Whether a record's `_version`, of type `kind`, compares with a highest version (`HIGHEST`'s struct) and is not
    greater."""
    own, before = F.col(C.VERSION), dataset.before_offset

    def is_not_greater(highest: Column) -> Column:
        parts = _typed(highest["version"], kind)
        if not isinstance(kind, T.StructType):
            other, same = parts[0], []
        else:
            other = F.struct(*(part.alias(name) for name, part in zip(kind.names, parts, strict=True)))
            same = [own[name] == part for name, part in zip(kind.names[:before], parts, strict=False)]
        if before is None:
            return own <= other
        elsewhere = reduce(Column.__and__, same, highest["place"] != place_of(F.col(C.ORDER)))
        return (own <= other) & ~elsewhere

    return is_not_greater


def _typed(texts: Column, kind: T.DataType) -> list[Column]:
    """The parts of a version, from their texts."""
    types = [field.dataType for field in kind.fields] if isinstance(kind, T.StructType) else [kind]
    return [texts[number].cast(type_) for number, type_ in enumerate(types)]
