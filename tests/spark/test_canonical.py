"""Content hashes and key digests: equal values give equal digests, whatever wrote them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.evolution import Origin
from onefold.dataset.types import parse_type
from onefold.dedup.identity import identify
from onefold.errors import UsageError
from onefold.tables import staging as C
from onefold.tables.key_digest import digest_of_key
from onefold.values.canonical import content_hash
from onefold.values.decode import decode
from tests.support.envelopes import envelope, record

MakeDataset = Callable[..., Dataset]
FIELDS = {
    "s": "string",
    "d": "decimal(18,2)",
    "x": "double?",
    "b": "boolean",
    "day": "date",
    "at": "timestamp",
    "n": "long?",
}
ROW = {
    "s": "'é'",
    "d": "cast('10.50' as decimal(18,2))",
    "x": "cast(null as double)",
    "b": "true",
    "day": "date'2026-03-01'",
    "at": "timestamp'2026-03-01 10:00:00.000001Z'",
    "n": "-7L",
}


def hashed(spark: SparkSession, fields: dict[str, str], row: dict[str, str], *, deleted: bool = False) -> bytes:
    """The content hash of one literal row of SQL values."""
    frame = spark.range(1).select(*(F.expr(text).alias(name) for name, text in row.items()))
    kinds = {name: Origin(name, parse_type(text), added=False) for name, text in fields.items()}
    return bytes(frame.select(content_hash(kinds, F.lit(deleted))).head()[0])  # type: ignore[index]


def test_the_hash_is_of_each_field_by_name_with_type_length_and_text(spark: SparkSession) -> None:
    text = (
        "v1:row"
        "at:timestamp:16:1772359200000001"
        "b:boolean:4:true"
        "d:decimal:4:10.5"
        "day:date:10:2026-03-01"
        "n:long:2:-7"
        "s:string:2:é"
    )
    assert hashed(spark, FIELDS, ROW) == hashlib.sha256(text.encode()).digest()


def test_a_double_is_hashed_in_hexadecimal(spark: SparkSession) -> None:
    """Its decimal text is not the same in Java 17 and 21."""
    text = "v1:rowx:double:17:0x1.1c37937e08p53"
    assert hashed(spark, {"x": "double"}, {"x": "1.0e16D"}) == hashlib.sha256(text.encode()).digest()


D2, D4, NULL = "decimal(18,2)", "decimal(18,4)", "cast(null as string)"
EQUAL: dict[str, tuple[tuple[dict[str, str], dict[str, str]], tuple[dict[str, str], dict[str, str]]]] = {
    "1.10 and 1.1000": (
        ({"d": D2}, {"d": "cast('1.10' as decimal(18,2))"}),
        ({"d": D4}, {"d": "cast('1.1000' as decimal(18,4))"}),
    ),
    "100 and 100.00": (
        ({"d": "decimal(18,0)"}, {"d": "cast('100' as decimal(18,0))"}),
        ({"d": D2}, {"d": "cast('100.00' as decimal(18,2))"}),
    ),
    "0 and 0.00": (
        ({"d": "decimal(18,0)"}, {"d": "cast('0' as decimal(18,0))"}),
        ({"d": D2}, {"d": "cast('0.00' as decimal(18,2))"}),
    ),
    "-0.0 and 0.0": (({"x": "double"}, {"x": "-0.0D"}), ({"x": "double"}, {"x": "0.0D"})),
    "an added nullable field and none": (
        ({"s": "string"}, {"s": "'a'"}),
        ({"s": "string", "added": "string?"}, {"s": "'a'", "added": NULL}),
    ),
    "fields in another order": (
        ({"s": "string", "t": "string"}, {"s": "'a'", "t": "'b'"}),
        ({"t": "string", "s": "string"}, {"t": "'b'", "s": "'a'"}),
    ),
    "one instant in two zones": (
        ({"at": "timestamp"}, {"at": "timestamp'2026-03-01 10:00:00Z'"}),
        ({"at": "timestamp"}, {"at": "timestamp'2026-03-01 11:00:00+01:00'"}),
    ),
}
DIFFERENT: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    # name: (fields, one row, another row)
    "100 and 1": (
        {"d": D2},
        {"d": "cast('100.00' as decimal(18,2))"},
        {"d": "cast('1.00' as decimal(18,2))"},
    ),
    "null and an empty string": ({"s": "string?"}, {"s": NULL}, {"s": "''"}),
    "a value in another field": (
        {"s": "string?", "t": "string?"},
        {"s": "'a'", "t": NULL},
        {"s": NULL, "t": "'a'"},
    ),
    "a moved border": (
        {"s": "string", "t": "string"},
        {"s": "'ab'", "t": "'c'"},
        {"s": "'a'", "t": "'bc'"},
    ),
    "microseconds": (
        {"at": "timestamp"},
        {"at": "timestamp'2026-03-01 10:00:00.000001Z'"},
        {"at": "timestamp'2026-03-01 10:00:00.000002Z'"},
    ),
}


@pytest.mark.parametrize("case", EQUAL)
def test_equal_content_hashes_equal(spark: SparkSession, case: str) -> None:
    (fields, row), (other, other_row) = EQUAL[case]
    assert hashed(spark, fields, row) == hashed(spark, other, other_row)


@pytest.mark.parametrize("case", DIFFERENT)
def test_different_content_hashes_differently(spark: SparkSession, case: str) -> None:
    fields, row, other = DIFFERENT[case]
    assert hashed(spark, fields, row) != hashed(spark, fields, other)


def test_a_delete_is_content_of_its_own(spark: SparkSession) -> None:
    fields, row = {"s": "string?"}, {"s": NULL}
    assert hashed(spark, fields, row, deleted=True) != hashed(spark, fields, row)


KEYS: dict[str, tuple[str, str, Any]] = {
    # name: (type, the value in JSON, as a person types it in `explain --key`)
    "string": ("string", '"é𝄞:3"', "é𝄞:3"),
    "empty string": ("string", '""', ""),
    "int": ("int", "-7", -7),
    "long": ("long", "9007199254740993", 9007199254740993),
    "boolean": ("boolean", "true", True),
    "negative zero decimal": ("decimal(18,2)", "-0.0", "-0.0"),
    "timestamp at midnight": ("timestamp", '"2026-03-01T00:00:00Z"', "2026-03-01 00:00:00"),
    "boolean as text": ("boolean", "false", "false"),
    "decimal": ("decimal(18,2)", "1.5", "1.5"),
    "decimal as a number": ("decimal(18,2)", "10", 10),
    "large decimal": (
        "decimal(38,2)",
        "123456789012345678901234567890123456.78",
        "123456789012345678901234567890123456.78",
    ),
    "small decimal": ("decimal(38,10)", "0.0000000001", "0.0000000001"),
    "zero decimal": ("decimal(38,10)", "0", "0"),
    "date": ("date", '"2026-03-01"', "2026-03-01"),
    "timestamp": ("timestamp", '"2026-03-01T10:00:00Z"', "2026-03-01T10:00:00Z"),
    "timestamp with a fraction": ("timestamp", '"2026-03-01T10:00:00.120Z"', "2026-03-01T10:00:00.120+00:00"),
    "timestamp in another zone": ("timestamp", '"2026-03-01T10:00:00+01:00"', "2026-03-01T09:00:00"),
}


def spark_digest(spark: SparkSession, made: Dataset, value: str) -> bytes:
    """The key digest that the product gives a record with this value."""
    row = identify(decode(envelope(spark, [record("", value.encode())]), made), made).select(C.KEY).head()
    assert row is not None
    return bytes(row[0])


@pytest.mark.parametrize("case", KEYS)
def test_a_typed_key_has_the_digest_that_spark_gives_its_record(
    spark: SparkSession, dataset: MakeDataset, case: str
) -> None:
    kind, json, typed = KEYS[case]
    made = dataset(value={"fields": {"f": kind, "other": "string"}}, identity={"business_key": ["other", "f"]})
    found = spark_digest(spark, made, f'{{"other": "o:1", "f": {json}}}')
    assert digest_of_key(made, {"f": typed, "other": "o:1"}) == found


def test_a_key_part_is_of_its_expressions_type(spark: SparkSession, dataset: MakeDataset) -> None:
    made = dataset(
        value={"fields": {"at": "timestamp", "n": "string"}}, identity={"business_key": ["date(at)", "long(n)"]}
    )
    found = spark_digest(spark, made, '{"at": "2026-03-01T23:00:00-02:00", "n": "07"}')
    assert digest_of_key(made, {"at": "2026-03-02", "n": 7}) == found


@pytest.mark.parametrize("text", [" A@B.c ", "ΟΔΟΣ", "Straße", "İx", "ǅ"])
def test_a_key_that_functions_make_may_be_typed_as_a_record_has_it(
    spark: SparkSession, dataset: MakeDataset, text: str
) -> None:
    parts = ["lower(trim(mail))", "upper(name)", "string(lower(header.h))"]
    made = dataset(value={"fields": {"mail": "string", "name": "string"}}, identity={"business_key": parts})
    value = json.dumps({"mail": text, "name": text}).encode()
    rows = identify(decode(envelope(spark, [record("", value, headers=[("h", text)])]), made), made)
    found = bytes(rows.head()[C.KEY])  # type: ignore[index]
    for typed in (text, text.lower()):
        assert digest_of_key(made, {"mail": typed, "name": text, "h": typed}) == found


def test_a_key_two_parts_of_which_have_one_name_cannot_be_said(dataset: MakeDataset) -> None:
    made = dataset(value={"fields": {"id": "string"}}, identity={"business_key": ["header.id", "id"]})
    with pytest.raises(UsageError, match=r"two parts of its key are called id.*Ask by a position"):
        digest_of_key(made, {"id": "x"})


@pytest.mark.parametrize(
    ("kind", "typed"),
    [
        ("decimal(18,2)", "1.005"),
        ("decimal(18,2)", "x"),
        ("timestamp", "yesterday"),
        ("date", "2026-02-30"),
        ("long", "1.5"),
    ],
)
def test_a_typed_key_that_is_no_value_of_its_type_is_refused(dataset: MakeDataset, kind: str, typed: str) -> None:
    made = dataset(value={"fields": {"f": kind}}, identity={"business_key": ["f"]})
    with pytest.raises(UsageError):
        digest_of_key(made, {"f": typed})
