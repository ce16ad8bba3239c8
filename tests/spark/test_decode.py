"""Decoding is strict: what a value says is what a field gets, or the record is rejected with a reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dataset.expressions import parse
from onefold.dedup.identity import identify
from onefold.tables import staging as C
from onefold.values.decode import DELETED, FILTERED, REJECTED, TOMBSTONE, decode
from onefold.values.expressions import compile_expression
from tests.support.envelopes import envelope, record

FIELDS = {
    "s": "string?",
    "i": "int?",
    "l": "long?",
    "x": "double?",
    "d": "decimal(18,2)?",
    "big": "decimal(38,0)?",
    "b": "boolean?",
    "day": "date?",
    "at": "timestamp?",
    "sec": "timestamp(seconds)?",
    "ms": "timestamp(millis)?",
    "us": "timestamp(micros)?",
    "ns": "timestamp(nanos)?",
    "days": "date(days)?",
    "n": "struct<d: decimal(18,2)?, list: list<long>?>?",
}
HALF = "half of a surrogate pair, which no text holds, in"
NINES = "9" * 38


def at(hour: int, *rest: int) -> datetime:
    """An instant of 1 March 2026."""
    return datetime(2026, 3, 1, hour, *rest, tzinfo=UTC)


TYPED: dict[str, dict[str, Any]] = {
    '{"s": "x"}': {"s": "x"},
    '{"s": ""}': {"s": ""},
    '{"s": "}]"}': {"s": "}]"},
    '{"s": "\\u00e9\\n\\"\\ud834\\udd1e"}': {"s": 'é\n"𝄞'},
    ' {"s": "x"} \n': {"s": "x"},
    '{"i": 2147483647}': {"i": 2147483647},
    '{"i": -2147483648}': {"i": -2147483648},
    '{"l": 9007199254740993}': {"l": 9007199254740993},
    '{"l": 9223372036854775807}': {"l": 9223372036854775807},
    '{"l": -9223372036854775808}': {"l": -9223372036854775808},
    '{"x": 0.5}': {"x": 0.5},
    '{"x": 5}': {"x": 5.0},
    '{"x": -9223372036854775808}': {"x": -(2.0**63)},
    '{"x": 1152921504606846976}': {"x": 2.0**60},
    '{"x": 1e-3}': {"x": 0.001},
    '{"d": 9007199254740993.01}': {"d": Decimal("9007199254740993.01")},
    '{"d": "9007199254740993.01"}': {"d": Decimal("9007199254740993.01")},
    '{"d": 5}': {"d": Decimal("5.00")},
    '{"d": -0.5}': {"d": Decimal("-0.50")},
    '{"d": 1.100}': {"d": Decimal("1.10")},
    '{"d": "1.100"}': {"d": Decimal("1.10")},
    f'{{"big": {NINES}}}': {"big": Decimal(NINES)},
    f'{{"big": -{NINES}}}': {"big": Decimal(f"-{NINES}")},
    '{"b": true}': {"b": True},
    '{"b": false}': {"b": False},
    '{"day": "2026-02-28"}': {"day": date(2026, 2, 28)},
    '{"at": "2026-03-01T10:00:00"}': {"at": at(10)},
    '{"at": "2026-03-01 10:00"}': {"at": at(10)},
    '{"at": "2026-03-01T10:00:00Z"}': {"at": at(10)},
    '{"at": "2026-03-01T10:00:00+01:00"}': {"at": at(9)},
    '{"at": "2026-03-01T10:00:00-0130"}': {"at": at(11, 30)},
    '{"at": "2026-03-01T10:00:00.123456Z"}': {"at": at(10, 0, 0, 123456)},
    '{"at": "2026-03-01T10:00Z"}': {"at": at(10)},
    '{"at": "2026-03-01T10:00+01:00"}': {"at": at(9)},
    '{"at": "2026-03-01T10:00:00.123456000Z"}': {"at": at(10, 0, 0, 123456)},
    '{"at": "2026-03-01T10:00:00.1234560+01:00"}': {"at": at(9, 0, 0, 123456)},
    '{"i": 1.0}': {"i": 1},
    '{"l": 1.0}': {"l": 1},
    '{"l": 1e3}': {"l": 1000},
    '{"l": -1.50E+1}': {"l": -15},
    '{"l": 9.223372036854775807e18}': {"l": 9223372036854775807},
    '{"d": 0E-8}': {"d": Decimal("0.00")},
    '{"d": 1E+3}': {"d": Decimal("1000.00")},
    '{"d": 1.5e2}': {"d": Decimal("150.00")},
    '{"d": -12345e-2}': {"d": Decimal("-123.45")},
    '{"d": 9007199254740993.00000000000000000000000}': {"d": Decimal("9007199254740993.00")},
    '{"l": 9007199254740993.00000000000000000000000}': {"l": 9007199254740993},
    '{"d": 0.10000000000000000000000000000000000000000}': {"d": Decimal("0.10")},
    '{"d": "0E-8"}': {"d": Decimal("0.00")},
    '{"d": "1E+3"}': {"d": Decimal("1000.00")},
    '{"big": 12345678901234567890123456789.0e9}': {"big": Decimal("12345678901234567890123456789000000000")},
    '{"s": ", 1e5, \\\\\\", 1e5", "d": 1e1}': {"s": ', 1e5, \\", 1e5', "d": Decimal("10.00")},
    '{"s": "a: 1e5, b", "d": 1e1}': {"s": "a: 1e5, b", "d": Decimal("10.00")},
    '{"sec": 1772359200, "ms": 1772359200123, "us": 1772359200123456}': {
        "sec": at(10),
        "ms": at(10, 0, 0, 123000),
        "us": at(10, 0, 0, 123456),
    },
    '{"ns": 1772359200123456000, "days": 20512}': {"ns": at(10, 0, 0, 123456), "days": date(2026, 2, 28)},
    '{"ms": -1, "days": -1}': {"ms": datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), "days": date(1969, 12, 31)},
    '{"ms": 1.7723592e12}': {"ms": at(10)},
    '{"n": {"d": 1e1, "list": [1e0, 2, 3.0]}}': {"n": {"d": Decimal("10.00"), "list": [1, 2, 3]}},
    '{"n": {"d": "1e1"}, "x": 1e0}': {"n": {"d": Decimal("10.00"), "list": None}, "x": 1.0},
    '\ufeff{"l": 1}': {"l": 1},
    '{"s": "\\\\ud83d"}': {"s": "\\ud83d"},
    '{"s": "\\ud83d\\ude00"}': {"s": "😀"},
    '{"unknown": "\\ud83d", "l": 1}': {"l": 1},
    '{"l": null, "s": null, "d": null}': {},
    '{"l": 1, "l": 2}': {"l": 2},
    '{"l": "one", "l": 2}': {"l": 2},
    '{"unknown": [{"l": 1}], "L": 1, "s": "known"}': {"s": "known"},
    "{}": {},
}
"""Values that are taken, and the fields that are not NULL then."""

REFUSED: dict[bytes | str, tuple[str, str]] = {
    "nope": ("undecodable", "the value is not one JSON value"),
    "{} junk": ("undecodable", "the value is not one JSON value"),
    "{}{}": ("undecodable", "the value is not one JSON value"),
    "{} {}": ("undecodable", "the value is not one JSON value"),
    "{},{}": ("undecodable", "the value is not one JSON value"),
    "{}, null": ("undecodable", "the value is not one JSON value"),
    "{} ]": ("undecodable", "the value is not one JSON value"),
    "{}]": ("undecodable", "the value is not one JSON value"),
    "{}],[{}": ("undecodable", "the value is not one JSON value"),
    '{"s": "]"} ]': ("undecodable", "the value is not one JSON value"),
    '{"s": "]"}, {"s": "]"}': ("undecodable", "the value is not one JSON value"),
    "{}}": ("undecodable", "the value is not one JSON value"),
    '{"l": 1': ("undecodable", "the value is not one JSON value"),
    "{'l': 1}": ("undecodable", "the value is not one JSON value"),
    '{"x": NaN}': ("undecodable", "the value is not one JSON value"),
    '{"l": 01}': ("undecodable", "the value is not one JSON value"),
    '{"l": +1}': ("undecodable", "the value is not one JSON value"),
    '{"x": .5}': ("undecodable", "the value is not one JSON value"),
    '{"s": "a\nb"}': ("undecodable", "the value is not one JSON value"),
    '{"l": 1} // why': ("undecodable", "the value is not one JSON value"),
    "\n": ("undecodable", "the value is not one JSON value"),
    "": ("undecodable", "the value is empty"),
    "  ": ("undecodable", "the value is empty"),
    b"\xff": ("undecodable", "the value is not UTF-8 at character 1"),
    b'{"s": "\xc3"}': ("undecodable", "the value is not UTF-8 at character 8"),
    b'{"s": "\xed\xa0\x80"}': ("undecodable", "the value is not UTF-8 at character 8"),
    '{"s": "msg-\\ud83d"}': ("undecodable", f"s: {HALF} msg-\\ud83d"),
    '{"s": "\\ude00\\ud83d"}': ("undecodable", f"s: {HALF} \\ude00\\ud83d"),
    '{"s": "\\uD83D\\uD83D\\uDE00"}': ("undecodable", f"s: {HALF} \\ud83d😀"),
    '{"d": "\\ud83d"}': ("undecodable", f"d: {HALF} \\ud83d"),
    '{"s": "\\ud83d", "x": "\ufdd0"}': ("undecodable", f"s: {HALF} \\ud83d"),
    '{"l": 1e19}': ("wrong_type", "l: wanted long?, found number 1e19"),
    '{"l": 01e5}': ("undecodable", "the value is not one JSON value"),
    '{"l": 1e5x}': ("undecodable", "the value is not one JSON value"),
    '{"l": +1e5}': ("undecodable", "the value is not one JSON value"),
    '{"s": 1e5}': ("wrong_type", "s: wanted string?, found number 1e5"),
    '{"i": 3e9}': ("wrong_type", "i: wanted int?, found number 3e9"),
    '{"l": "7"}': ("wrong_type", "l: wanted long?, found string 7"),
    '{"l": true}': ("wrong_type", "l: wanted long?, found boolean true"),
    '{"l": 9223372036854775808}': ("wrong_type", "l: wanted long?, found number 9223372036854775808"),
    '{"l": 1, "l": "one"}': ("wrong_type", "l: wanted long?, found string one"),
    '{"x": "0.5"}': ("wrong_type", "x: wanted double?, found string 0.5"),
    '{"x": 9007199254740993}': ("wrong_type", "x: wanted double?, found number 9007199254740993"),
    '{"x": 9223372036854775807}': ("wrong_type", "x: wanted double?, found number 9223372036854775807"),
    '{"x": 1e400}': ("wrong_type", "x: wanted double?, found number 1e400"),
    '{"d": 1.005}': ("wrong_type", "d: wanted decimal(18,2)?, found number 1.005"),
    '{"d": "1.005"}': ("wrong_type", "d: wanted decimal(18,2)?, found string 1.005"),
    '{"d": "1.5\\n"}': ("wrong_type", "d: wanted decimal(18,2)?, found string 1.5\n"),
    '{"d": " 1.5"}': ("wrong_type", "d: wanted decimal(18,2)?, found string  1.5"),
    '{"d": "+1.5"}': ("wrong_type", "d: wanted decimal(18,2)?, found string +1.5"),
    '{"d": ".5"}': ("wrong_type", "d: wanted decimal(18,2)?, found string .5"),
    '{"d": ""}': ("wrong_type", "d: wanted decimal(18,2)?, found string "),
    '{"d": 1e-3}': ("wrong_type", "d: wanted decimal(18,2)?, found number 1e-3"),
    '{"d": "1e-3"}': ("wrong_type", "d: wanted decimal(18,2)?, found string 1e-3"),
    '{"d": 1e16}': ("wrong_type", "d: wanted decimal(18,2)?, found number 1e16"),
    '{"d": 1.2345678901234567e0}': ("wrong_type", "d: wanted decimal(18,2)?, found number 1.2345678901234567e0"),
    '{"d": "1e"}': ("wrong_type", "d: wanted decimal(18,2)?, found string 1e"),
    '{"d": "1e1000"}': ("wrong_type", "d: wanted decimal(18,2)?, found string 1e1000"),
    '{"d": 10000000000000000.00}': ("wrong_type", "d: wanted decimal(18,2)?, found number 10000000000000000.00"),
    '{"d": true}': ("wrong_type", "d: wanted decimal(18,2)?, found boolean true"),
    f'{{"big": 1{NINES}}}': (
        "wrong_type",
        "big: wanted decimal(38,0)?, found number 199999999999999999999999999999999999999",
    ),
    f'{{"big": "1{NINES}"}}': ("wrong_type", f"big: wanted decimal(38,0)?, found string 1{NINES}"),
    '{"b": "true"}': ("wrong_type", "b: wanted boolean?, found string true"),
    '{"b": 1}': ("wrong_type", "b: wanted boolean?, found number 1"),
    '{"day": "2026-02-30"}': ("wrong_type", "day: wanted date?, found string 2026-02-30"),
    '{"day": "2026-2-3"}': ("wrong_type", "day: wanted date?, found string 2026-2-3"),
    '{"day": "2026-02-28\\n"}': ("wrong_type", "day: wanted date?, found string 2026-02-28\n"),
    '{"day": "2026-02-28T00:00:00"}': ("wrong_type", "day: wanted date?, found string 2026-02-28T00:00:00"),
    '{"day": 20260228}': ("wrong_type", "day: wanted date?, found number 20260228"),
    '{"at": "2026-03-01T10:00:00.123456789Z"}': (
        "wrong_type",
        "at: wanted timestamp?, found string 2026-03-01T10:00:00.123456789Z; "
        "it has digits behind the microseconds: 789",
    ),
    '{"at": "2026-03-01T10:00:00.1234560000Z"}': (
        "wrong_type",
        "at: wanted timestamp?, found string 2026-03-01T10:00:00.1234560000Z",
    ),
    '{"at": "2026-03-01T10Z"}': ("wrong_type", "at: wanted timestamp?, found string 2026-03-01T10Z"),
    '{"ms": "1772359200123"}': ("wrong_type", "ms: wanted timestamp(millis)?, found string 1772359200123"),
    '{"ms": 1.5}': ("wrong_type", "ms: wanted timestamp(millis)?, found number 1.5"),
    '{"ms": 253402300800000}': ("wrong_type", "ms: wanted timestamp(millis)?, found number 253402300800000"),
    '{"ns": 1772359200123456789}': (
        "wrong_type",
        "ns: wanted timestamp(nanos)?, found number 1772359200123456789; "
        "it has nanoseconds behind the microseconds: 789",
    ),
    '{"days": 2932897}': ("wrong_type", "days: wanted date(days)?, found number 2932897"),
    '{"n": {"d": 1e-3}}': ("wrong_type", "n.d: wanted decimal(18,2)?, found number 1e-3"),
    '{"at": "2026-03-01"}': ("wrong_type", "at: wanted timestamp?, found string 2026-03-01"),
    '{"at": "2026-03-01T24:00:00Z"}': ("wrong_type", "at: wanted timestamp?, found string 2026-03-01T24:00:00Z"),
    '{"at": "2026-03-01T10:00:60Z"}': ("wrong_type", "at: wanted timestamp?, found string 2026-03-01T10:00:60Z"),
    '{"at": "2026-03-01T10:00:00Z\\n"}': ("wrong_type", "at: wanted timestamp?, found string 2026-03-01T10:00:00Z\n"),
    '{"at": 1772323434001}': ("wrong_type", "at: wanted timestamp?, found number 1772323434001"),
}
"""Values that are refused, with the reason and the detail."""

MakeDataset = Callable[..., Dataset]
Rows = dict[str, dict[str, Any]]


def bytes_of(value: bytes | str | None) -> bytes | None:
    """A value as Kafka has it."""
    return value.encode() if isinstance(value, str) else value


@pytest.fixture(scope="module")
def nullable(spark: SparkSession, dataset: MakeDataset) -> Rows:
    """Every literal of this file, decoded in one job into fields that may be absent."""
    made = dataset(value={"fields": FIELDS}, identity={})
    records = [record(repr(value), bytes_of(value)) for value in (*TYPED, *REFUSED)]
    return _by_case(decode(envelope(spark, records), made).drop("_headers"))


@pytest.mark.parametrize("value", TYPED)
def test_a_value_of_its_declared_type_is_taken_exactly(nullable: Rows, value: str) -> None:
    row = nullable[repr(value)]
    found = {name: row[name] for name in FIELDS if row[name] is not None}
    assert (row[REJECTED], found) == (None, TYPED[value])


@pytest.mark.parametrize("value", REFUSED)
def test_what_is_not_of_its_declared_type_is_refused_with_a_reason(nullable: Rows, value: bytes | str) -> None:
    row = nullable[repr(value)]
    reason, detail = REFUSED[value]
    assert row[REJECTED] == {"reason": reason, "detail": detail}


def test_a_value_of_more_than_16_million_bytes_is_too_large(spark: SparkSession, dataset: MakeDataset) -> None:
    """It costs memory of a task, whatever the others of its batch are."""
    made = dataset(value={"fields": FIELDS}, identity={})
    values = {name: b'{"s": "' + b"x" * size + b'"}' for name, size in (("large", 15_999_991), ("larger", 15_999_992))}
    records = [record(name, value) for name, value in values.items()]
    rows = _by_case(decode(envelope(spark, records), made))
    detail = "the value has 16,000,001 bytes, at most 16,000,000 can be read"
    assert (rows["large"][REJECTED], len(rows["large"]["s"])) == (None, 15_999_991)
    assert rows["larger"][REJECTED] == {"reason": "too_large", "detail": detail}


def test_no_literal_is_filtered_deletes_or_is_a_tombstone(nullable: Rows) -> None:
    assert {(row[FILTERED], row[DELETED], row[TOMBSTONE]) for row in nullable.values()} == {(False, False, False)}


REQUIRED = {
    b'{"id": "a", "amount": 1}': None,
    b'{"id": "a", "amount": 1, "note": "n"}': None,
    b'{"id": null, "amount": null}': None,
    b'{"amount": 1}': ("missing_field", "id is absent"),
    b'{"id": "a", "note": "n"}': ("missing_field", "amount is absent"),
    b"{}": ("missing_field", "id is absent"),
    b'{"id": 5}': ("wrong_type", "id: wanted string, found number 5"),
    None: ("null_value", "the value is null"),
    b"": ("undecodable", "the value is empty"),
}


def test_an_absent_field_is_missing_and_an_explicit_null_is_null(spark: SparkSession, dataset: MakeDataset) -> None:
    made = dataset(value={"fields": {"id": "string", "amount": "long", "note": "string?"}})
    found = _rejections(spark, made, list(REQUIRED))
    assert found == REQUIRED


FILTER = {
    b'{"type": "entry", "amount": 1}': (False, None),
    b'{"type": "entry"}': (False, ("missing_field", "amount is absent")),
    b'{"type": "entry", "amount": "1"}': (False, ("wrong_type", "amount: wanted long, found string 1")),
    b'{"type": "other"}': (True, None),
    b'{"type": "other", "amount": "1"}': (True, None),
    b'{"type": null}': (True, None),
    b"{}": (True, ("missing_field", "type is absent")),
    b'{"type": 5}': (True, ("wrong_type", "type: wanted string, found number 5")),
    b"nope": (True, ("undecodable", "the value is not one JSON value")),
}


def test_the_filter_is_asked_before_required_fields_but_not_before_its_own(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    source = dataset().source.model_dump() | {"filter": "value.type = 'entry'"}
    made = dataset(source=source, value={"fields": {"amount": "long", "type": "string"}})
    rows = _by_case(decode(envelope(spark, [record(repr(value), value) for value in FILTER]), made))
    assert {value: (rows[repr(value)][FILTERED], _rejection(rows[repr(value)])) for value in FILTER} == FILTER


FILTER_OF_DELETES: dict[bytes, tuple[bool, tuple[str, str] | None]] = {
    b'{"op": "u", "region": "eu", "amount": 1}': (False, None),
    b'{"op": "u", "amount": 1}': (True, ("missing_field", "region is absent")),
    b'{"op": "u", "region": "eu"}': (False, ("missing_field", "amount is absent")),
    b'{"op": "d", "region": "eu"}': (False, None),
    b'{"op": "d"}': (False, None),
    b'{"op": "d", "region": null}': (False, None),
    b'{"op": "d", "region": "us"}': (True, None),
    b'{"op": "d", "region": 5}': (False, ("wrong_type", "region: wanted string, found number 5")),
}
"""Each value: whether the filter `region = 'eu'` leaves it out, and why it is rejected."""


def test_a_delete_needs_no_other_field_and_is_left_out_only_where_the_filter_says_no(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    apply = {"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}, "delete_when": "op = 'd'"}
    made = dataset(
        source=dataset().source.model_dump() | {"filter": "value.region = 'eu'"},
        key={"format": "json"},
        value={"fields": {"op": "string", "region": "string", "amount": "long"}},
        identity={},
        apply=apply,
    )
    records = [record(repr(value), value, key_bytes=KEY) for value in FILTER_OF_DELETES]
    rows = _by_case(decode(envelope(spark, records), made))
    found = {value: (rows[repr(value)][FILTERED], _rejection(rows[repr(value)])) for value in FILTER_OF_DELETES}
    assert found == FILTER_OF_DELETES


def test_a_filter_of_headers_leaves_no_delete_out_that_has_none(spark: SparkSession, dataset: MakeDataset) -> None:
    """A tombstone that a client sends without headers deletes its key; one of another kind does not."""
    made = dataset(
        source=dataset().source.model_dump() | {"filter": "header.kind = 'a'"},
        key={"format": "json"},
        value={"fields": {"note": "string"}},
        identity={},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}, "delete_when": "tombstone"},
    )
    cases = {
        (value, kind): value is not None or kind == "b" for value in (None, b'{"note": "x"}') for kind in (None, "b")
    }
    records = [
        record(repr(case), case[0], key_bytes=KEY, headers=[("kind", case[1])] if case[1] else []) for case in cases
    ]
    rows = _by_case(decode(envelope(spark, records), made).drop("_headers"))
    assert {case: rows[repr(case)][FILTERED] for case in cases} == cases


CASTS: dict[tuple[str | None, str | None], tuple[Any, ...]] = {
    # (header kind, header v): by each filter (filtered, rejected); by each delete_when (deletes, rejected)
    ("x", "4"): (*((False, None),) * 2, *((True, None),) * 2),
    ("x", "3"): (*((True, None),) * 2, *((False, None),) * 2),
    ("x", None): (*((True, None),) * 2, *((False, None),) * 2),
    ("x", "abc"): (*((True, "source.filter"),) * 2, *((False, "apply.delete_when"),) * 2),
    ("y", "4"): ((False, None), (True, None), (True, None), (True, None)),
    ("y", "abc"): ((True, "source.filter"), (True, None), (False, "apply.delete_when"), (True, None)),
    (None, "abc"): (*((True, "source.filter"),) * 2, *((False, "apply.delete_when"),) * 2),
}


def test_a_failed_cast_is_no_answer_of_a_filter_or_a_delete_unless_nothing_hangs_on_it(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    plain = "long(header.v) > 3"
    filters = [plain, f"header.kind = 'x' and {plain}"]
    deletes = [plain, f"header.kind = 'y' or {plain}"]
    upsert = {"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}}
    found: dict[Any, tuple[Any, ...]] = dict.fromkeys(CASTS, ())
    records = [
        record(repr(case), b'{"note": "1"}', key_bytes=KEY, headers=[("kind", case[0]), ("v", case[1])])
        for case in CASTS
    ]
    for column, text in [*((FILTERED, text) for text in filters), *((DELETED, text) for text in deletes)]:
        place = "source.filter" if column == FILTERED else "apply.delete_when"
        source = dataset().source.model_dump() | ({"filter": text} if column == FILTERED else {})
        apply = upsert | ({"delete_when": text} if column == DELETED else {})
        made = dataset(
            source=source, key={"format": "json"}, value={"fields": {"note": "string"}}, identity={}, apply=apply
        )
        rows = _by_case(decode(envelope(spark, records), made).drop("_headers"))
        for case in CASTS:
            rejection = _rejection(rows[repr(case)])
            assert rejection in (None, ("wrong_type", f"{place}: a cast fails in {text}"))
            found[case] += ((rows[repr(case)][column], place if rejection else None),)
    assert found == CASTS


OF_TEXT: dict[str, dict[str, Any]] = {
    "timestamp": {
        " 2026-03-01T10:15:00Z ": at(10, 15),
        "2026-03-01 10:15:00.5+01:00": at(9, 15, 0, 500_000),
        **dict.fromkeys(["10:15", "T10:15", "2026", "2026-03", "2026-03-01", "2026-3-1 10:15:00", "2026-02-30T10:15"]),
    },
    "date": {
        "2026-03-01": date(2026, 3, 1),
        **dict.fromkeys(["10:15", "2026", "2026-3-1", "2026-03-01T10:15", "2026-03-01 junk", "2026-02-30"]),
    },
    "double": {
        "-1": -1.0,
        "+.5": 0.5,
        "1.e-2": 0.01,
        **dict.fromkeys(["NaN", "Infinity", "-inf", "1d", "1f", "1e400", "", ".", "1,5"]),
    },
}
"""Text under each cast, and what it is; None: none of these."""


def test_text_is_cast_where_a_field_would_take_it_and_never_depends_on_the_day(spark: SparkSession) -> None:
    given = [(cast, text) for cast, texts in OF_TEXT.items() for text in texts]
    casts = {cast: compile_expression(parse(f"{cast}(header.v)")) for cast in OF_TEXT}
    records = [record(repr(case), None, headers=[("v", case[1])]) for case in given]
    columns = [
        column.alias(cast + end) for cast, c in casts.items() for column, end in ((c.value, ""), (c.failed, "?"))
    ]
    rows = _by_case(envelope(spark, records).select("case", *columns))
    found = {case: (rows[repr(case)][case[0]], rows[repr(case)][case[0] + "?"]) for case in given}
    assert found == {(cast, text): (OF_TEXT[cast][text], OF_TEXT[cast][text] is None) for cast, text in given}


def test_what_is_a_date_or_a_timestamp_already_is_cast_as_it_is(spark: SparkSession) -> None:
    casts = ["timestamp(timestamp)", "date(timestamp)", "date(date(timestamp))", "timestamp(date(timestamp))"]
    instant = datetime(2026, 3, 1, 10, 15, 0, 7000, tzinfo=UTC)
    frame = envelope(spark, [record("one", None, timestamp=int(instant.timestamp() * 1000))])
    row = frame.select(*(compile_expression(parse(text)).value.alias(text) for text in casts)).toArrow().to_pylist()[0]
    assert list(row.values()) == [instant, instant.date(), instant.date(), datetime(2026, 3, 1, tzinfo=UTC)]


def test_what_a_filter_or_a_delete_asks_in_vain_is_neither_filtered_nor_applied(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    """A filter is asked before a delete; of a tombstone neither asks the value."""
    source = dataset().source.model_dump() | {"filter": "long(header.v) > 3 or note = 'z'"}
    apply = {"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}, "delete_when": "long(header.op) = 3"}
    made = dataset(
        source=source, key={"format": "json"}, value={"fields": {"note": "string"}}, identity={}, apply=apply
    )
    by_filter = ("wrong_type", f"source.filter: a cast fails in {source['filter']}")
    by_delete = ("wrong_type", "apply.delete_when: a cast fails in long(header.op) = 3")
    cases: dict[tuple[bytes | None, str, str], tuple[str, str] | None] = {
        (b'{"note": "a"}', "abc", "abc"): by_filter,
        (b'{"note": "z"}', "abc", "3"): None,
        (b'{"note": "a"}', "1", "abc"): None,  # filtered
        (b'{"note": "a"}', "4", "abc"): by_delete,
        (b'{"note": 5}', "4", "abc"): ("wrong_type", "note: wanted string, found number 5"),
        (b"nope", "4", "3"): ("undecodable", "the value is not one JSON value"),
        (None, "abc", "abc"): ("null_value", "the value is null"),
    }
    records = [record(repr(case), case[0], key_bytes=KEY, headers=[("v", case[1]), ("op", case[2])]) for case in cases]
    rows = _by_case(identify(decode(envelope(spark, records), made), made).drop("_headers"))
    assert {case: _rejection(rows[repr(case)]) for case in cases} == cases
    assert [case for case in cases if rows[repr(case)][C.KEY] is not None] == [(b'{"note": "z"}', "abc", "3")]


def test_a_tombstone_is_filtered_where_the_rest_of_a_filter_says_no_whatever_its_fields_were(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    cases = {
        # filter: whether a tombstone is filtered whose header `kind` is a
        "header.kind = 'b' and note != 'x'": True,
        "header.kind = 'a' and note != 'x'": False,
        "header.kind = 'b' or note != 'x'": False,
        "not (header.kind = 'a' or note is null)": True,
        "header.kind = 'b' and not note is null": True,
        "note is not null": False,
        "note in ('x')": False,
        "header.kind = note": False,
        "header.kind = 'b'": True,
    }
    found = {}
    for text in cases:
        made = dataset(
            source=dataset().source.model_dump() | {"filter": text},
            value={"fields": {"note": "string"}},
            identity={"business_key": ["header.kind"]},
        )
        row = decode(envelope(spark, [record("one", None, headers=[("kind", "a")])]), made).head()
        found[text] = row["_filtered"]  # type: ignore[index]
    assert found == cases


def test_a_key_that_cannot_be_read_is_not_filtered_by_what_it_says_and_hinders_only_who_asks_for_it(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    by_key = {"filter": "key.kind = 'a'"}
    cases = {
        # (key's format, what else the source has, what identifies, key): (filtered, rejected)
        ("json", (), "key.id", b"a"): (False, ("undecodable", "the key is not one JSON value")),
        ("json", tuple(by_key.items()), "id", b"a"): (True, ("undecodable", "the key is not one JSON value")),
        ("json", tuple(by_key.items()), "id", None): (True, None),
        ("json", (), "id", b"a"): (False, None),
        ("json", (("filter", "id = 'none'"),), "key.id", b"a"): (True, None),
        ("string", (), "key", b"\xff"): (False, ("undecodable", "the key is not UTF-8 at character 1")),
        ("string", (), "key", b"\xc3\xa4"): (False, None),
        ("bytes", (), "id", b"\xff"): (False, None),
    }
    found = {}
    for kind, more, identity, key in cases:
        source = dataset().source.model_dump() | dict(more)
        made = dataset(
            source=source,
            key={"format": kind},
            value={"fields": {"id": "string"}},
            identity={"message_id": identity},
        )
        row = decode(envelope(spark, [record("one", b'{"id": "1"}', key_bytes=key)]), made).collect()[0]
        found[(kind, more, identity, key)] = (row[FILTERED], _rejection(row))
    assert found == cases


UPSERT = {
    "value": {"fields": {"owner": "string"}},
    "key": {"format": "json"},
    "identity": {"message_id": "header.m", "business_key": ["header.b", "owner"]},
    "apply": {
        "mode": "upsert",
        "key": ["key.id"],
        "version": {"from": "long(header.v)"},
        "delete_when": "tombstone",
    },
}
VALUE, KEY, HEADERS = b'{"owner": "o"}', b'{"id": "a"}', [("v", "3"), ("m", "m1"), ("b", "b1")]
IDENTITIES: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    # name: (what differs from VALUE, KEY and HEADERS, (rejected, id, version, message id, deletes))
    "a row": ({}, (None, "a", 3, "m1", False)),
    "a tombstone": ({"value_bytes": None}, (None, "a", 3, "m1", True)),
    "an empty value is no tombstone": (
        {"value_bytes": b""},
        (("undecodable", "the value is empty"), "a", 3, "m1", False),
    ),
    "a numeric key part is text": ({"key_bytes": b'{"id": 7}'}, (None, "7", 3, "m1", False)),
    "no key": ({"key_bytes": None}, (("null_key", "id is null"), None, 3, "m1", False)),
    "an empty key": ({"key_bytes": b""}, (("undecodable", "the key is not one JSON value"), None, 3, "m1", False)),
    "a null key part": ({"key_bytes": b'{"id": null}'}, (("null_key", "id is null"), None, 3, "m1", False)),
    "an absent key part": ({"key_bytes": b"{}"}, (("null_key", "id is null"), None, 3, "m1", False)),
    "a key that is JSON's null": ({"key_bytes": b"null"}, (("null_key", "id is null"), None, 3, "m1", False)),
    "a key with junk behind it": (
        {"key_bytes": KEY + b" ]"},
        (("undecodable", "the key is not one JSON value"), None, 3, "m1", False),
    ),
    "a key that is not UTF-8": (
        {"key_bytes": b"\xff"},
        (("undecodable", "the key is not UTF-8 at character 1"), None, 3, "m1", False),
    ),
    "a tombstone whose key cannot be read": (
        {"key_bytes": b"a", "value_bytes": None},
        (("undecodable", "the key is not one JSON value"), None, 3, "m1", True),
    ),
    "a key part that is an object": ({"key_bytes": b'{"id": {}}'}, (("null_key", "id is null"), None, 3, "m1", False)),
    "no version": ({"headers": [("m", "m1")]}, (("null_version", "long(header.v) is null"), "a", None, "m1", False)),
    "a null version": (
        {"headers": [("v", None), ("m", "m1")]},
        (("null_version", "long(header.v) is null"), "a", None, "m1", False),
    ),
    "a version that is no number": (
        {"headers": [("v", "three"), ("m", "m1")]},
        (("wrong_type", "long(header.v) cannot be cast"), "a", None, "m1", False),
    ),
    "a version with a fraction": (
        {"headers": [("v", "1.9"), ("m", "m1")]},
        (("wrong_type", "long(header.v) cannot be cast"), "a", None, "m1", False),
    ),
    "a version with a line's end": (
        {"headers": [("v", "3\n"), ("m", "m1")]},
        (("wrong_type", "long(header.v) cannot be cast"), "a", None, "m1", False),
    ),
    "a version above 2^63": (
        {"headers": [("v", "9223372036854775808"), ("m", "m1")]},
        (("wrong_type", "long(header.v) cannot be cast"), "a", None, "m1", False),
    ),
    "a version above 2^53": (
        {"headers": [("v", "9007199254740993"), ("m", "m1")]},
        (None, "a", 9007199254740993, "m1", False),
    ),
    "of equal header names the last counts": (
        {"headers": [("v", "1"), ("m", "m1"), ("v", "2"), ("m", "m2")]},
        (None, "a", 2, "m2", False),
    ),
    "a narrower level may be null": ({"headers": [("v", "3")]}, (None, "a", 3, None, False)),
    "an unreadable line": (
        {"unreadable": "why", "value_bytes": b"x"},
        (("undecodable", "why"), "a", 3, "m1", False),
    ),
}


@pytest.fixture(scope="module")
def identities(spark: SparkSession, dataset: MakeDataset) -> Rows:
    """Every case of `IDENTITIES`, decoded and identified in one job."""
    records = [
        record(
            case, **({"value": VALUE, "key_bytes": KEY, "headers": HEADERS} | {_name(n): v for n, v in differs.items()})
        )
        for case, (differs, _) in IDENTITIES.items()
    ]
    made = dataset(**UPSERT)
    return _by_case(identify(decode(envelope(spark, records), made), made).drop("_headers"))


@pytest.mark.parametrize("case", IDENTITIES)
def test_identity_of(identities: Rows, case: str) -> None:
    row = identities[case]
    found = (_rejection(row), row["id"], row[C.VERSION], row[C.MESSAGE_ID], row[DELETED])
    assert found == IDENTITIES[case][1]
    assert (row[C.KEY] is None) is (row[REJECTED] is not None)


LARGEST = 2**63 - 1
STEPS: dict[tuple[str | None, str | None], tuple[Any, ...]] = {
    # (header v, header e): (rejected and version where both are declared; where only what it expects is)
    ("4", "3"): (None, 4, None, 4),
    ("1", "0"): (None, 1, None, 1),
    ("5", "3"): (("wrong_step", "it expects version 3 and makes 5"), 5, None, 4),
    ("3", "3"): (("wrong_step", "it expects version 3 and makes 3"), 3, None, 4),
    ("2", "3"): (("wrong_step", "it expects version 3 and makes 2"), 2, None, 4),
    ("0", "-1"): (*(("before_first", "the first version of a key is 1"), 0) * 2,),
    ("1", None): (*(("null_version", "long(header.e) is null"), 1, ("null_version", "long(header.e) is null"), None),),
    (None, "0"): (("null_version", "long(header.v) is null"), None, None, 1),
    ("1", "none"): (
        *(("wrong_type", "long(header.e) cannot be cast"), 1, ("wrong_type", "long(header.e) cannot be cast"), None),
    ),
    (str(LARGEST), str(LARGEST - 1)): (None, LARGEST, None, LARGEST),
    (str(LARGEST), str(LARGEST)): (
        *(("wrong_step", f"it expects version {LARGEST} and makes {LARGEST}"), LARGEST),
        *(("wrong_step", f"it expects version {LARGEST}"), None),
    ),
}


def test_only_the_next_version_follows_the_one_that_a_record_expects(spark: SparkSession, dataset: MakeDataset) -> None:
    found: dict[Any, tuple[Any, ...]] = dict.fromkeys(STEPS, ())
    for own in ({"from": "long(header.v)"}, {}):
        version = {"guard": "contiguous", "expected": "long(header.e)", **own}
        made = dataset(**UPSERT | {"apply": {**UPSERT["apply"], "version": version}})
        records = [
            record(repr(step), VALUE, key_bytes=KEY, headers=[("v", step[0]), ("e", step[1]), ("m", "m1")])
            for step in STEPS
        ]
        rows = _by_case(identify(decode(envelope(spark, records), made), made).drop("_headers"))
        for step in STEPS:
            found[step] += (_rejection(rows[repr(step)]), rows[repr(step)][C.VERSION])
    assert found == STEPS


STAMPS: dict[int | None, tuple[str, str] | None] = {
    253_402_300_799_999: None,
    253_402_300_800_000: ("wrong_type", "timestamp cannot be cast"),
    1_767_225_600_000_000: ("wrong_type", "timestamp cannot be cast"),
    2**63 - 1: ("wrong_type", "timestamp cannot be cast"),
    -(2**63): ("wrong_type", "timestamp cannot be cast"),
    None: ("null_version", "timestamp is null"),
}


def test_a_stamp_that_no_timestamp_holds_is_no_version(spark: SparkSession, dataset: MakeDataset) -> None:
    made = dataset(**UPSERT | {"apply": {**UPSERT["apply"], "version": {"from": "timestamp"}}})
    records = [record(repr(at), VALUE, key_bytes=KEY, headers=[("m", "m1")], timestamp=at) for at in STAMPS]
    rows = _by_case(identify(decode(envelope(spark, records), made), made).drop("_headers"))
    assert {at: _rejection(rows[repr(at)]) for at in STAMPS} == STAMPS


DAY = 86_400_000
SENT_AT = 1_767_225_600_000
"""2026-01-01T00:00Z, in milliseconds."""
AHEAD: dict[str, tuple[dict[str, Any], str, int | None, str | None]] = {
    "a day ahead": ({"from": "at"}, "2026-01-02T00:00:00Z", SENT_AT, None),
    "a microsecond more": (
        *({"from": "at"}, "2026-01-02T00:00:00.000001Z", SENT_AT),
        "at is 2026-01-02 00:00:00.000001, more than 1d after the record's log timestamp, 2026-01-01 00:00:00",
    ),
    "behind": ({"from": "at"}, "1970-01-01T00:00:00Z", SENT_AT, None),
    "no log timestamp": ({"from": "at"}, "2099-01-01T00:00:00Z", None, None),
    "Kafka's word for none": ({"from": "at"}, "2099-01-01T00:00:00Z", -1, None),
    "a log timestamp beyond all": ({"from": "at"}, "2099-01-01T00:00:00Z", 2**63 - 1, None),
    "its own limit": (
        *({"from": "at", "max_ahead": "2h"}, "2026-01-01T03:00:00Z", SENT_AT),
        "at is 2026-01-01 03:00:00, more than 2h after the record's log timestamp, 2026-01-01 00:00:00",
    ),
    "a wider limit": ({"from": "at", "max_ahead": "3d"}, "2026-01-03T00:00:00Z", SENT_AT, None),
    "a date": (
        *({"from": "date(header.day)"}, "2026-01-01T00:00:00Z", SENT_AT),
        "date(header.day) is 2026-01-05, more than 1d after the record's log timestamp, 2026-01-01 00:00:00",
    ),
    "times only": (
        *({"from": ["at", "timestamp"]}, "2026-01-03T00:00:00Z", SENT_AT),
        "at is 2026-01-03 00:00:00, more than 1d after the record's log timestamp, 2026-01-01 00:00:00",
    ),
    "more than times": ({"from": ["at", "offset"]}, "2099-01-01T00:00:00Z", SENT_AT, None),
    "more than times, by declaration": (
        *({"from": ["offset", "at"], "max_ahead": "1d"}, "2026-01-03T00:00:00Z", SENT_AT),
        "at is 2026-01-03 00:00:00, more than 1d after the record's log timestamp, 2026-01-01 00:00:00",
    ),
    "the log timestamp itself": ({"from": "timestamp"}, "2099-01-01T00:00:00Z", SENT_AT, None),
}


def test_a_version_that_is_a_time_is_not_far_after_its_log_timestamp(spark: SparkSession, dataset: MakeDataset) -> None:
    found = {}
    for name, (version, at, stamp, _) in AHEAD.items():
        apply = {"mode": "upsert", "key": ["key.id"], "version": version}
        made = dataset(key={"format": "json"}, value={"fields": {"at": "timestamp"}}, apply=apply)
        value = f'{{"at": "{at}"}}'.encode()
        given = record(name, value, key_bytes=KEY, headers=[("day", "2026-01-05")], timestamp=stamp)
        [row] = identify(decode(envelope(spark, [given]), made), made).select(REJECTED, C.KEY).collect()
        reason = row[REJECTED] and tuple(row[REJECTED])
        assert (row[C.KEY] is None) is (reason is not None), name
        found[name] = reason
    assert found == {name: said and ("version_ahead", said) for name, (*_, said) in AHEAD.items()}


def test_a_null_deciding_identity_is_rejected_and_never_matches(spark: SparkSession, dataset: MakeDataset) -> None:
    made = dataset(value={"fields": {"a": "string?", "b": "string?"}}, identity={"business_key": ["a", "b"]})
    values = {
        b'{"a": "1", "b": "2"}': None,
        b'{"a": "1", "b": null}': ("null_identity", "b is null or blank"),
        b"{}": ("null_identity", "a is null or blank"),
    }
    records = [record(repr(value), value) for value in values]
    rows = _by_case(identify(decode(envelope(spark, records), made), made).drop("_headers"))
    assert {value: _rejection(rows[repr(value)]) for value in values} == values


def test_a_blank_id_is_none_and_a_blank_part_of_a_business_key_is_a_value(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    spaces = [
        "\0\0",
        "\x0b\x0c",
        "\x1f",
        "\x7f",
        "\x85",
        "\xa0",
        "\u2002\u2003",
        "\u2028",
        "\u3000",
        "\u200b",
        "\ufeff",
    ]
    blanks = ["", " ", " \t\r\n", *spaces, "".join(spaces)]
    names = [*blanks, "x", "\u200bx"]
    records = [record(repr(name), b'{"a": " "}', headers=[("m", name), ("s", "7")]) for name in names]
    fields, producer = {"a": "string"}, {"name": "header.m", "sequence": "header.s"}
    deciding = dataset(value={"fields": fields}, identity={"message_id": "header.m"})
    rows = _by_case(identify(decode(envelope(spark, records), deciding), deciding).drop("_headers"))
    refused = ("null_identity", "m is null or blank")
    assert [_rejection(rows[repr(name)]) for name in blanks] == [refused] * len(blanks)
    assert [_rejection(rows[repr(name)]) for name in ("x", "\u200bx")] == [None, None], "a part that is unseen counts"
    assert rows[repr("x")]["_key"] != rows[repr("\u200bx")]["_key"]
    narrow = {"producer": producer, "message_id": "header.m", "business_key": ["a"]}
    named = dataset(value={"fields": fields}, identity=narrow)
    found = identify(decode(envelope(spark, records), named), named)
    levels = {row.case: row[1:] for row in found.select("case", REJECTED, "_message_id", "_producer").collect()}
    assert [levels[repr(name)] for name in blanks] == [(None, None, None)] * len(blanks)
    assert None not in levels[repr("x")][1:]
    by_name = dataset(value={"fields": fields}, identity={"producer": producer})
    rows = _by_case(identify(decode(envelope(spark, records), by_name), by_name).select("case", REJECTED))
    assert {_rejection(rows[repr(name)]) for name in blanks} == {refused}, "a name that decides, too"
    upsert = {"mode": "upsert", "key": ["a"], "version": {"from": "long(header.s)"}}
    keyed = dataset(value={"fields": fields}, identity={"message_id": "header.m"}, apply=upsert)
    found = identify(decode(envelope(spark, records), keyed), keyed).select("case", REJECTED, "_message_id").collect()
    assert [row[1:] for row in found if row.case in map(repr, blanks)] == [(None, None)] * len(blanks)


def _name(name: str) -> str:
    return "value" if name == "value_bytes" else name


def _by_case(frame: Any) -> Rows:
    variants = [name for name, kind in frame.dtypes if kind == "variant"]
    return {row["case"]: row for row in frame.drop(*variants).toArrow().to_pylist()}


def _rejection(row: dict[str, Any]) -> tuple[str, str] | None:
    return None if row[REJECTED] is None else (row[REJECTED]["reason"], row[REJECTED]["detail"])


def _rejections(spark: SparkSession, made: Dataset, values: list[bytes | None]) -> dict[bytes | None, Any]:
    rows = _by_case(decode(envelope(spark, [record(repr(value), value) for value in values]), made))
    return {value: _rejection(rows[repr(value)]) for value in values}
