"""JSON lines as `kcat -J` prints them: one object a record, with its own offset."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold.dataset.source import Origin
from onefold.records import envelope as E
from onefold.records.json import LARGEST, one_object
from onefold.records.landed import literal

_RECORD = (
    "topic string, partition int, offset bigint, ts bigint, headers array<string>, key variant, payload variant, "
    "key_error variant, payload_error variant"
)

_ERRORS = {"payload": "payload_error", "key": "key_error"}
_LONGEST = 300
"""Characters of kcat's own error that are kept; the line has them all."""


def read_kcat(session: SparkSession, objects: list[tuple[str, str]], origin: Origin) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of kcat's JSON lines; `objects` are (name, URI).

    A line that is not exactly one JSON object with topic, partition and offset is a row with `_unreadable`
    and the line's bytes. So is one with `payload_error` or `key_error`, which kcat prints next to a null where it could
    not decode a payload or key (kcat's json.c): such a null is no tombstone. Objects of any size are split.
    """
    lines = session.read.option("lineSep", "\n").text(literal(uri for _, uri in objects))
    return parse_lines(lines.select("value", F.col("_metadata.file_path").alias("path")), objects, origin)


def parse_lines(lines: DataFrame, objects: list[tuple[str, str]], origin: Origin) -> DataFrame:
    """The envelope of lines (`value` string, `path` string)."""
    record = F.col("record")
    good = record.topic.isNotNull() & record.partition.isNotNull() & record.offset.isNotNull()
    valid = F.is_valid_utf8("value")  # kcat prints other bytes raw; the position can still be told
    kinds = {name: F.schema_of_variant(record[name]) for name in ("key", "payload")}
    bytes_ = kinds["payload"].isin("STRING", "VOID") & F.coalesce(kinds["key"].isin("STRING", "VOID"), F.lit(True))
    failed = F.coalesce(_failure(record, "payload"), _failure(record, "key"))
    readable = good & valid & F.coalesce(bytes_, F.lit(False)) & failed.isNull()
    fits = F.octet_length("value") <= LARGEST
    why = (
        F.when(~fits, f"the line has more than {LARGEST:,} bytes")
        .when(~valid, "the line is not UTF-8")
        .when(good & failed.isNotNull(), failed)
        .when(good, "payload and key of a line of kcat -J are strings or null")
        .otherwise("not a line of kcat -J with topic, partition and offset")
    )
    text = {name: F.try_variant_get(record[name], "$", "string") for name in kinds}
    return one_object(lines, F.when(fits, F.make_valid_utf8("value")), _RECORD, "record").select(
        F.when(good, record.ts).alias(E.TIMESTAMP),
        F.lit(origin.cluster).alias(E.CLUSTER),
        F.when(good, record.topic).alias(E.TOPIC),
        F.lit(origin.incarnation).alias(E.INCARNATION),
        F.when(good, record.partition).alias(E.PARTITION),
        F.when(good, record.offset).alias(E.OFFSET),
        F.when(readable, text["key"].cast("binary")).alias(E.KEY_BYTES),
        F.when(readable, text["payload"]).otherwise(F.col("value")).cast("binary").alias(E.VALUE_BYTES),
        F.when(readable, _pairs(record.headers)).alias(E.HEADERS),
        object_name(F.col("path"), objects).alias(E.OBJECT),
        F.lit(None).cast("int").alias(E.LINE),
        F.when(~F.coalesce(readable, F.lit(False)), why).alias(E.UNREADABLE),
        *E.not_shown(),
    )


def object_name(path: Column, objects: list[tuple[str, str]]) -> Column:
    """The object's name for the path that Spark read it from."""
    names = F.create_map(*(F.lit(word) for name, uri in objects for word in (uri.rsplit("/", 1)[-1], name)))
    return names[F.substring_index(path, "/", -1)]


def _failure(record: Column, part: str) -> Column:
    """What kcat says of a payload or key that it could not decode; null where it says nothing."""
    error = record[_ERRORS[part]]
    text = F.coalesce(F.try_variant_get(error, "$", "string"), F.to_json(error))
    said = F.concat(F.lit(f"kcat could not decode the {part}: "), F.substring(text, 1, _LONGEST))
    return F.when(F.schema_of_variant(error) != "VOID", said)


def _pairs(headers: Column) -> Column:
    """kcat's flat list [name, value, name, value, …] as pairs."""
    flat = F.coalesce(headers, F.array().cast(T.ArrayType(T.StringType())))
    index = F.sequence(F.lit(0), F.floor(F.size(flat) / 2).cast("int") - 1)
    pairs = F.transform(index, lambda i: F.struct(flat[i * 2].alias("key"), flat[i * 2 + 1].alias("value")))
    return F.when(F.size(flat) > 1, pairs).otherwise(F.array().cast(E.HEADERS_TYPE))
