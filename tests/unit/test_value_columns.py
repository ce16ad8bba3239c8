"""The fast way takes a value only where the exact way takes it, and reads the same; a proof's own decoder agrees."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from onefold.dataset.types import FieldType, parse_type
from onefold.proof.decode import fields_of
from onefold.values import columns
from onefold.values.columns import Fields, reader
from tests.support.odd_values import FIELDS, FITTING, NUMBERS, OTHERS, TEXTS, value_of

PLAIN = {name: kind for name, kind in FIELDS.items() if isinstance(kind, str)}
"""The fields that no other field is a part of: these can be read the fast way."""
FLAT = {name: kind for name, kind in PLAIN.items() if not parse_type(kind).nested and kind != "json?"}
EDGES = {
    "s": ('"x"', '"\\ud83d\\ude00"', '"\\u0000"', "null", '"\\ud83d"'),
    "l": ("-5", "9007199254740993", "-9223372036854775808", "9223372036854775807", "9223372036854775808", "1.0"),
    "i": ("2147483647", "-2147483648", "2147483648", "-2147483649"),
    "x": ("9007199254740991", "9007199254740992", "9007199254740993", "-0.0", "1e308", "4.9e-324", "1e309", "-1e400"),
    "d": (
        '"007.5"', "9999999999999999.99", "-9999999999999999.99", "99999999999999999", "-0", "-0.00", '""', '"1_0"',
        '" 1"', '"\\u0031"', '"null"', '"\uff11"', "1.005", '"NaN"', '"1e-2"',
    ),
    "at": (
        '"2026-03-01T10:00:00Z"', '"2026-03-01 10:00:00.5"', '"2026-02-30T10:00:00Z"', '"2026-03-01T10:00:00+17:59"',
        '"2026-03-01T10:00:00-18:00"', '"2026-03-01T10:00:00+18:01"', '"0001-01-01T00:00:00Z"',
        '"2026-03-01T24:00:00Z"', '"1000-01-01T00:00:00+05:30"', '"2999-12-31T23:59:59.999999"',
        '"1582-10-10T00:00:00"', '"2026-03-01T10:00:60Z"', '"9999-12-31T23:59:59-00:01"', '"0001-01-01T00:00:00+00:01"',
    ),
    "day": ('"2024-02-29"', '"2023-02-29"', '"0001-01-01"', '"9999-12-31"', '"1582-10-10"', '"0000-01-01"'),
    "ms": ("0", "-1", "-62135596800000", "-62135596800001", "253402300799999", "253402300800000"),
    "ns": ("-1000", "-999", "1", "9223372036854775807", "9223372036854775000", "-9223372036854775808"),
    "days": ("0", "2932896", "2932897", "-719162", "-719163", "1.0"),
}  # fmt: skip
"""Values at the edges of what the fast way takes."""


def fields(given: dict[str, Any], known: bool = False) -> Fields:
    kinds = {name: parse_type(kind if isinstance(kind, str) else kind["type"]) for name, kind in given.items()}
    places = {name: [(name,)] if isinstance(kind, str) else [("o", "a.b")] for name, kind in given.items()}
    return Fields(kinds, places, {}, frozenset(given) if known else None)


def fitting(draw: Random, names: dict[str, Any], edges: float) -> bytes:
    """A value with most of the fields, each of its type but for what lies at an edge."""
    parts = []
    for name in names:
        if name == "id" or draw.random() < 0.9:
            pool = EDGES[name] if name in EDGES and draw.random() < edges else FITTING.get(name, ("5",))
            parts.append((name, draw.choice(pool)))
    if draw.random() < 0.2:
        parts.append(("unknown", draw.choice((*OTHERS, *NUMBERS, *TEXTS))))
    draw.shuffle(parts)
    return ("{" + ",".join(f"{json.dumps(name)}: {text}" for name, text in parts) + "}").encode()


def read_by_a_proof(value: bytes, given: Fields) -> tuple[Any, ...]:
    """Whether it is no object, the fields that cannot be used, whether it has unknown names, and what was read."""
    row, faults, _ = fields_of(value, dict(given.kinds), dict(given.places), given.known)  # type: ignore[arg-type]
    wrong = {fault.removeprefix("(").removesuffix(" is absent)") for fault in faults} - {"unknown)"}
    if "value)" in wrong:
        return True, set(), False, {}
    return False, wrong, "(unknown)" in faults, {name: row.get(name) for name in given.kinds}


@pytest.mark.parametrize("edges", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("given", [FLAT, PLAIN, FIELDS], ids=["flat", "nested", "one within another"])
@pytest.mark.parametrize("known", [False, True], ids=["any names", "known names"])
def test_a_batch_is_read_as_a_proof_reads_it(given: dict[str, Any], edges: float, known: bool, draw: Random) -> None:
    asked = fields(given, known)
    values = [fitting(draw, given, edges) if draw.random() < 0.8 else value_of(draw) for _ in range(800)]
    for value, found in zip(values, reader(asked)(list(values)).to_pylist(), strict=True):
        if value is None:
            assert found is None
            continue
        row = dict(zip(given, found["fields"].values(), strict=True))
        wrong = {name for name, _ in found["problems"] or ()}
        unusable = found["unusable"] is not None
        seen = (True, set(), False, {}) if unusable else (False, wrong, bool(found["unknown"]), row)
        assert seen == read_by_a_proof(value, asked), value


def test_at_each_edge_a_value_is_read_as_a_proof_reads_it() -> None:
    """One field a record: next to a value of another that has to go the exact way, nothing shows what the fast way
    takes."""
    for name, texts in EDGES.items():
        asked = fields({name: FLAT[name]})
        values: list[Any] = [f'{{"{name}": {text}}}'.encode() for text in (*texts, *FITTING[name])]
        for value, found in zip(values, reader(asked)(values).to_pylist(), strict=True):
            wrong = {problem for problem, _ in found["problems"] or ()}
            assert (False, wrong, False, {name: found["fields"]["f0"]}) == read_by_a_proof(value, asked), value


def test_what_fits_goes_the_fast_way() -> None:
    """A batch of which most goes the exact way would be right, and slow: nothing else would show it."""
    value = (
        b'{"s": "x", "l": -5, "i": 0, "d": 1.50, "x": 0.1, "b": true, "day": "2026-03-01", "id": 7, '
        b'"unknown": [1, {}], '
        b'"at": "2026-03-01T10:00:00.25+01:00", "ms": 1772359200123, "ns": 1772359200123456000, "days": 2932896, '
        b'"n": {"d": 1.5, "list": [null, 3], "s": ""}, "bytes": "YWI=", "m": {"b": 1}, "j": {"a": [1.10]}}'
    )
    columns_, odd = columns._Fast(fields(PLAIN), columns.PLAIN).columns([value, b"{}", None, value])
    assert odd == [1]
    assert dict(zip(PLAIN, (column[3].as_py() for column in columns_), strict=True))["at"] == datetime(
        2026, 3, 1, 9, 0, 0, 250_000, UTC
    )


@pytest.mark.parametrize(("levels", "taken"), [(499, True), (500, False), (5_000, False), (100_000, False)])
@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
def test_s6_a_value_nests_at_most_500_levels(levels: int, taken: bool, brackets: tuple[bytes, bytes]) -> None:
    """What reads deeper ones depends on the stack of a process, and a proof would see another value than a run."""
    asked = Fields({"a": FieldType("long")}, {"a": [("a",)]}, {}, None)
    inner = (b"[" if brackets[0] == b"[" else b'{"a":') * levels + b"1" + brackets[1] * levels
    for text in (b'{"u": %b, "a": 1}' % inner, b'{"u": "%b", "a": 1}' % (b"[" * levels)):
        [found] = reader(asked)([text]).to_pylist()
        right = taken or text.endswith(b'[", "a": 1}')
        assert found["fields"]["f0"] == (1 if right else None)
        assert (found["unusable"] is None) == right
        assert fields_of(text, {"a": FieldType("long")}, {"a": [("a",)]}, None)[1] == ([] if right else ["(value)"])


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "", "é", "a.b", " "])
def test_any_name_is_read(name: str) -> None:
    asked = Fields({"x": parse_type("long")}, {"x": [(name,)]}, {}, None)
    [found] = reader(asked)([json.dumps({name: 5}).encode()]).to_pylist()
    assert (found["fields"], found["problems"]) == ({"f0": 5}, None)


DIGITS = 2_000_000
LONG = {
    "whole": b"1" * DIGITS,
    "behind the point": b"0." + b"1" * DIGITS,
    "zeros": b"1." + b"0" * DIGITS,
    "small": b"0." + b"0" * DIGITS + b"1",
    "text": b'"' + b"1" * DIGITS + b'"',
    "half way between doubles": b"9007199254740993." + b"0" * DIGITS + b"1",
}


@pytest.mark.parametrize(
    "kind", ["int", "long", "double", "decimal(18,2)", "decimal(38,38)", "timestamp(nanos)", "json"]
)
def test_s6_numbers_of_millions_of_digits_end_no_batch(kind: str) -> None:
    """Python's decimals raise an error at a million digits, unless their context has room for more."""
    asked = Fields({"x": parse_type(kind)}, {"x": [("x",)]}, {}, None)
    values = [b'{"x": %b}' % text for text in LONG.values()]
    for value, found in zip(values, reader(asked)(list(values)).to_pylist(), strict=True):
        wrong = {name for name, _ in found["problems"] or ()}
        seen = (False, wrong, False, {"x": found["fields"]["f0"]})
        assert seen == read_by_a_proof(value, asked), value[:40]


def test_one_bad_date_of_a_batch_costs_no_other_its_fast_way() -> None:
    asked = Fields(
        {"day": FieldType("date"), "at": FieldType("timestamp")}, {"day": [("day",)], "at": [("at",)]}, {}, None
    )
    good = b'{"day": "2026-03-01", "at": "2026-03-01T10:00:00Z"}'
    values: list[Any] = [good] * 1_000
    values[617] = good.replace(b"03-01", b"02-30")
    columns_, odd = columns._Fast(asked, columns.PLAIN).columns(values)
    assert odd == [617]
    assert {len(column) for column in columns_} == {1_000}


def test_a_default_and_places_one_after_the_other() -> None:
    asked = Fields(
        {"a": parse_type("long?"), "b": parse_type("string"), "c": parse_type("list<long>")},
        {"a": [("x", "a"), ("old",)], "b": [("b",)], "c": [("c",)]},
        {"b": '"none"', "c": "[1.0]"},
        None,
    )
    cases = {
        b'{"x": {"a": 1}, "old": 2, "b": "y", "c": []}': [1, "y", []],
        b'{"x": {}, "old": 2, "b": null}': [2, None, [1]],
        b'{"x": null, "old": null}': [None, "none", [1]],
        b'{"x": {"a": null}, "old": 2}': [None, "none", [1]],
        b'{"x": 5}': [None, "none", [1]],
    }
    found = reader(asked)(list(cases)).to_pylist()
    assert [list(row["fields"].values()) for row in found] == list(cases.values())
    assert [row["problems"] for row in found] == [None] * len(cases)


def test_a_required_field_is_missed_below_a_name_and_at_each_of_its_places() -> None:
    asked = Fields(
        {"a": FieldType("long"), "b": FieldType("decimal", precision=4, scale=1)},
        {"a": [("x", "a"), ("old",)], "b": [("y", "b")]},
        {},
        None,
    )
    cases: dict[bytes, list[str]] = {
        b'{"x": {"a": 1}, "y": {"b": 1.5}}': [],
        b'{"old": null, "y": {"b": null}}': [],
        b'{"x": {}, "y": {"b": 1.5}}': ["a is absent"],
        b'{"x": {"a": 1}, "y": null}': ["b is absent"],
        b"{}": ["a is absent", "b is absent"],
    }
    found = reader(asked)(list(cases)).to_pylist()
    assert [[problem["detail"] for _, problem in row["problems"] or ()] for row in found] == list(cases.values())
