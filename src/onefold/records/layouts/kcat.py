"""JSON lines as `kcat -J` prints them: one object a record, with its own offset."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset.source import Origin
from onefold.records import envelope as E
from onefold.records.landed_objects import check_packed, count_lines, literal, object_name
from onefold.records.layouts import LandedBatch, LayoutReader
from onefold.spark.strict_json import LARGEST, has_escaped_surrogates, one_object, without_half_pairs, without_mark

_RECORD = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "ts": "bigint",
    **dict.fromkeys(("headers", "key", "payload", "key_error", "payload_error"), "variant"),
}

_ERRORS = {"payload": "payload_error", "key": "key_error"}
_LONGEST = 300
"""Characters of kcat's own error that are kept; the line has them all."""


def read_kcat(session: SparkSession, objects: list[tuple[str, str]], origin: Origin) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of kcat's JSON lines; `objects` are (name, URI).

    A line that is not exactly one JSON object with topic, partition and offset is a row with `_unreadable`
    and the line's bytes. So is a line with `payload_error` or `key_error`, which kcat prints next to a null where it
    could not decode a payload or key (kcat's json.c): such a null is no tombstone. Objects of any size are split.

    kcat prints bytes as they are, in a line of JSON. Keys, payloads and headers that are no UTF-8 keep their bytes.
    """
    lines = session.read.option("lineSep", "\n").text(literal(uri for _, uri in objects))
    return parse_lines(lines.select("value", F.col("_metadata.file_path").alias("path")), objects, origin)


def parse_lines(lines: DataFrame, objects: list[tuple[str, str]], origin: Origin) -> DataFrame:
    """The envelope of lines (`value` string, `path` string)."""
    record = {name: F.col(f"record.f{number}") for number, name in enumerate(_RECORD)}
    fits = F.octet_length("value") <= LARGEST
    good = record["topic"].isNotNull() & record["partition"].isNotNull() & record["offset"].isNotNull()
    kinds = {name: F.schema_of_variant(record[name]) for name in ("key", "payload", "headers")}
    texts = kinds["payload"].isin("STRING", "VOID") & F.coalesce(kinds["key"].isin("STRING", "VOID"), F.lit(True))
    pairs = _pairs(record["headers"], kinds["headers"])
    failed = F.coalesce(_failure(record, "payload"), _failure(record, "key"))
    readable = good & F.coalesce(texts, F.lit(False)) & failed.isNull() & ~F.col("mixed")
    why = (
        F.when(~fits, f"the line has more than {LARGEST:,} bytes")
        .when(F.col("mixed"), "the line has bytes that are no UTF-8, and letters that only Onefold uses for such bytes")
        .when(good & failed.isNotNull(), failed)
        .when(good, "payload and key of a line of kcat -J are strings or null")
        .otherwise("not a line of kcat -J with topic, partition and offset")
    )
    text = {name: F.try_variant_get(record[name], "$", "string") for name in ("key", "payload")}
    opened = one_object(_as_parsed(lines), F.when(fits, F.col("line")), _RECORD, "record")
    return opened.select(
        F.when(good, record["ts"]).alias(E.TIMESTAMP),
        F.lit(origin.cluster).alias(E.CLUSTER),
        F.when(good, record["topic"]).alias(E.TOPIC),
        F.lit(origin.incarnation).alias(E.INCARNATION),
        F.when(good, record["partition"]).alias(E.PARTITION),
        F.when(good, record["offset"]).alias(E.OFFSET),
        F.when(readable, _bytes(text["key"])).alias(E.KEY_BYTES),
        F.when(readable, _bytes(text["payload"])).otherwise(F.col("value").cast("binary")).alias(E.VALUE_BYTES),
        F.when(readable, pairs).alias(E.HEADERS),
        object_name(F.col("path"), objects).alias(E.OBJECT),
        F.lit(None).cast("int").alias(E.LINE),
        F.when(~F.coalesce(readable, F.lit(False)), why).alias(E.UNREADABLE),
        *E.not_shown(),
    )


# A line with bytes that are no UTF-8, or with half of a surrogate pair: Spark's parser would put other letters in their
# place. So each of its bytes from 0x80 on is parsed as a letter of Unicode's private use area, and is a byte again
# behind the parser. Few lines are so; the others are parsed as they are.

_SHIFT = 0xE000
"""What is added to a byte, and gives such a letter: U+E080 to U+E0FF."""
_HIGH = "".join(map(chr, range(0x80, 0x100)))
_SHIFTED = "".join(chr(_SHIFT + ord(letter)) for letter in _HIGH)
_HALF = chr(_SHIFT + 0xED)
"""Comes before the four digits of half a surrogate pair: no UTF-8 goes on so behind the byte 0xED."""
_USED = r"(?i)\\ue0[89a-f]"
"""Such a letter in the line itself."""


def _as_parsed(lines: DataFrame) -> DataFrame:
    """Add `line`, the text that is parsed; `odd`: whether its bytes were shifted; and `mixed`: one of the letters that
    represent bytes was there before."""
    text = F.col("value")
    marked = lines.withColumn("odd", ~F.is_valid_utf8(text) | has_escaped_surrogates(text))
    shifted = F.translate(F.decode(text.cast("binary"), "ISO-8859-1"), _HIGH, _SHIFTED)
    line = F.when(F.col("odd"), without_half_pairs(shifted, _HALF)).otherwise(without_mark(text))
    return marked.withColumns({"line": line, "mixed": F.col("odd") & text.rlike(_USED)})


def _bytes(text: Column) -> Column:
    """The bytes that a parsed text represents."""
    shifted = F.hex(text.cast("binary"))
    low = F.regexp_replace(shifted, "EE82([89AB][0-9A-F])", "$1")
    # U+E0C0 to U+E0FF; in small letters, so that nothing that is a byte already is taken for a letter again.
    for digit, byte in zip("89AB", "cdef", strict=True):
        low = F.regexp_replace(low, f"EE83{digit}([0-9A-F])", f"{byte}$1")
    return F.when(F.col("odd"), F.unhex(low)).otherwise(text.cast("binary"))


def _pairs(headers: Column, kind: Column) -> Column:
    """kcat's flat list [name, value, name, value, …], or its map of names and values, as pairs; null: it is neither."""
    flat = F.try_variant_get(headers, "$", "array<string>")
    index = F.sequence(F.lit(0), F.floor(F.size(flat) / 2).cast("int") - 1)
    listed = F.transform(index, lambda i: _pair(flat[i * 2], flat[i * 2 + 1]))
    named = F.map_entries(F.try_variant_get(headers, "$", "map<string,string>"))
    none = F.array().cast(E.HEADERS_TYPE)
    return (
        F.when(headers.isNull() | (kind == "VOID"), none)
        .when(kind.startswith("ARRAY"), F.when(F.size(flat) > 1, listed).when(F.size(flat) >= 0, none))
        .when(kind.startswith("OBJECT"), F.transform(named, lambda entry: _pair(entry["key"], entry["value"])))
    )


def _pair(name: Column, value: Column) -> Column:
    return F.struct(_bytes(name).cast("string").alias("key"), _bytes(value).alias("value"))


def _failure(record: dict[str, Column], part: str) -> Column:
    """What kcat says of a payload or key that it could not decode; null where it says nothing."""
    error = record[_ERRORS[part]]
    text = F.coalesce(F.try_variant_get(error, "$", "string"), F.to_json(error))
    said = F.concat(F.lit(f"kcat could not decode the {part}: "), F.substring(text, 1, _LONGEST))
    return F.when(F.schema_of_variant(error) != "VOID", said)


def _read(batch: LandedBatch) -> DataFrame:
    check_packed(batch)
    return read_kcat(batch.session, batch.uris, batch.origin)


def _count(batch: LandedBatch) -> int:
    return count_lines(batch.session, [uri for _, uri in batch.values])


READER = LayoutReader(_read, _count)
