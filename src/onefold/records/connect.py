"""The JSON layout of Kafka Connect's S3 sink: a value a line; keys and headers in companion objects.

An object's name holds topic, partition and the first offset: `<topic>+<partition>+<start>.json`, with
companions `….keys.json` and `….headers.json`. A record's offset is inferred as start + line - 1, which is
wrong behind a hole: positions of this layout are inexact.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset.model import Origin
from onefold.errors import ObjectTooLargeError
from onefold.landing.manifest import LandedObject
from onefold.records import envelope as E
from onefold.records.landed import literal

_HEADERS = f"headers {E.HEADERS_TYPE}"
"""The sink wraps a record's headers for JSON: `{"headers": [{"key": …, "value": …}, …]}`."""
LARGEST = 512 << 20
"""Bytes of an object that a task reads whole."""


def read_connect(session: SparkSession, objects: list[tuple[LandedObject, str]], origin: Origin) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of a Connect export; `objects` are (landed object, URI).

    Where a companion has not one line a value, every record of that object is `_unreadable`.

    Raises:
        ObjectTooLargeError: an object is larger than `LARGEST`.
    """
    for one, _ in objects:
        if one.size > LARGEST:
            raise ObjectTooLargeError(one.name, one.size, LARGEST)
    texts = _texts(session, objects, "values")
    for role in ("keys", "headers"):
        if any(one.role == role for one, _ in objects):
            companion = _texts(session, objects, role).select("base", F.col("lines").alias(role))
            texts = texts.join(companion, "base", "left")
        else:
            texts = texts.withColumn(role, F.lit(None).cast("array<string>"))
    names = F.broadcast(
        session.createDataFrame(_names(objects), "base string, name string, topic string, part int, start long")
    )
    return parse_texts(texts.join(names, "base"), origin)


def parse_texts(texts: DataFrame, origin: Origin) -> DataFrame:
    """The envelope of whole objects (`lines`, `keys`, `headers` array<string>; `name`, `topic`, `part`, `start`)."""
    fits = F.lit(True)
    for role in ("keys", "headers"):
        fits = fits & (F.col(role).isNull() | (F.size(role) == F.size("lines")))
    rows = texts.select("*", fits.alias("fits"), F.posexplode("lines").alias("index", "line"))
    key, headers = F.get("keys", F.col("index")), F.get("headers", F.col("index"))
    value = F.when(F.trim("line") != "null", F.col("line"))
    return rows.select(
        F.lit(None).cast("long").alias(E.TIMESTAMP),
        F.lit(origin.cluster).alias(E.CLUSTER),
        F.col("topic").alias(E.TOPIC),
        F.lit(origin.incarnation).alias(E.INCARNATION),
        F.col("part").alias(E.PARTITION),
        (F.col("start") + F.col("index")).alias(E.OFFSET),
        _key(key).cast("binary").alias(E.KEY_BYTES),
        value.cast("binary").alias(E.VALUE_BYTES),
        F.coalesce(F.from_json(headers, _HEADERS)["headers"], F.array().cast(E.HEADERS_TYPE)).alias(E.HEADERS),
        F.col("name").alias(E.OBJECT),
        (F.col("index") + 1).cast("int").alias(E.LINE),
        F.when(~F.col("fits"), F.lit("keys or headers do not have one line a value")).alias(E.UNREADABLE),
        *E.not_shown(),
    )


def _texts(session: SparkSession, objects: list[tuple[LandedObject, str]], role: str) -> DataFrame:
    uris = [(_base(one), uri) for one, uri in objects if one.role == role]
    whole = session.read.text(literal(uri for _, uri in uris), wholetext=True)
    # As Latin-1 every byte is one character and back: splitting must not mend what is not UTF-8.
    text = F.decode(F.col("value").cast("binary"), "ISO-8859-1")
    by_file = F.create_map(*(F.lit(word) for base, uri in uris for word in (uri.rsplit("/", 1)[-1], base)))
    lines = F.split(text, "\n", -1)
    ended = F.when(F.element_at(lines, -1) == "", F.slice(lines, 1, F.size(lines) - 1)).otherwise(lines)
    file = F.substring_index(F.col("_metadata.file_path"), "/", -1)
    return whole.select(by_file[file].alias("base"), F.transform(ended, _bytes).alias("lines"))


def _bytes(line: Column) -> Column:
    return F.encode(line, "ISO-8859-1").cast("string")


def _base(one: LandedObject) -> str:
    """What an object shares with its companions."""
    return one.name.replace(".keys.json", ".json").replace(".headers.json", ".json")


def _names(objects: list[tuple[LandedObject, str]]) -> list[tuple[str, str, str | None, int | None, int | None]]:
    return [(_base(one), one.name, one.topic, one.partition, one.start) for one, _ in objects if one.role == "values"]


def _key(line: Column) -> Column:
    """A string key is written as a JSON string; any other key stands as its JSON text."""
    parsed = F.try_parse_json(line)
    text = F.when(F.schema_of_variant(parsed) == "STRING", F.try_variant_get(parsed, "$", "string"))
    return F.when(F.trim(line) != "null", F.coalesce(text, line))
