"""Lists and structs are read as strictly as scalars, part by part; a rejection names the part."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dataset.types import FieldType, parse_type
from onefold.dedup.identity import identify
from onefold.tables import staging as C
from onefold.values.decode import REJECTED, decode
from tests.support.envelopes import envelope, record

MakeDataset = Callable[..., Dataset]
LINES = "list<struct<sku: string, price: decimal(9,2)?, tags: list<string>?>>"
FIELDS = {"lines": f"{LINES}?", "buyer": "struct<id: long, name: string?>?", "grid": "list<list<int>>?"}
FIELDS |= {"raw": "binary?", "counts": "map<string, decimal(3,1)>?", "nested": "map<string, map<string, json>>?"}
FIELDS |= {"payload": "json?"}

TAKEN: dict[str, dict[str, Any]] = {
    "{}": {},
    '{"lines": null, "buyer": null, "grid": null}': {},
    '{"lines": []}': {"lines": []},
    '{"lines": [{"sku": "a", "price": "1.50", "tags": ["x", null, ""]}, {"sku": "b"}]}': {
        "lines": [
            {"sku": "a", "price": Decimal("1.50"), "tags": ["x", None, ""]},
            {"sku": "b", "price": None, "tags": None},
        ]
    },
    '{"lines": [null, {"sku": null, "unknown": 1}]}': {"lines": [None, {"sku": None, "price": None, "tags": None}]},
    '{"buyer": {"id": 9007199254740993}}': {"buyer": {"id": 9007199254740993, "name": None}},
    '{"buyer": {"id": 1, "id": 2, "name": "n"}}': {"buyer": {"id": 2, "name": "n"}},
    '{"grid": [[1, 2], [], null, [null]]}': {"grid": [[1, 2], [], None, [None]]},
    '{"raw": "/+8A"}': {"raw": b"\xff\xef\x00"},
    '{"raw": ""}': {"raw": b""},
    '{"counts": {}}': {"counts": {}},
    '{"counts": {"b": 1, "a": "2.5", "": null, "b": 3e0}}': {
        "counts": {"": None, "a": Decimal("2.5"), "b": Decimal(3)}
    },
    '{"nested": {"x": {"y": [1], "z": null}, "w": null}}': {"nested": {"w": None, "x": {"y": "[1]", "z": None}}},
    '{"payload": {"b" : [1.10, 1e2, -0.0], "a":"\\u00e9\\/", "b":{}}}': {"payload": '{"a":"é/","b":{}}'},
    '{"payload": [1.10, 1e2, -0.0, 1E-7, "1e2", 12e9999]}': {"payload": '[1.1,100,0,0.0000001,"1e2",12e9999]'},
    '{"payload": "text"}': {"payload": '"text"'},
    '{"payload": false}': {"payload": "false"},
    '{"payload": "\ufdd47"}': {"payload": '"\ufdd47"'},
}
"""Values that are taken, and the fields that are not NULL then."""

REFUSED = {
    '{"lines": {"sku": "a"}}': ("wrong_type", f'lines: wanted {LINES}?, found object {{"sku": "a"}}'),
    '{"lines": "a"}': ("wrong_type", f"lines: wanted {LINES}?, found string a"),
    '{"lines": [{"sku": "a"}, {"price": 1}]}': ("missing_field", "lines[1].sku is absent"),
    '{"lines": [{"sku": 5}]}': ("wrong_type", "lines[0].sku: wanted string, found number 5"),
    '{"lines": [{"sku": "a", "price": 1.005}]}': (
        "wrong_type",
        "lines[0].price: wanted decimal(9,2)?, found number 1.005",
    ),
    '{"lines": [{"sku": "a", "tags": ["x", true]}]}': (
        "wrong_type",
        "lines[0].tags[1]: wanted string, found boolean true",
    ),
    '{"lines": [{"sku": "a"}, []]}': (
        "wrong_type",
        f"lines[1]: wanted {LINES.removeprefix('list<').removesuffix('>')}, found array []",
    ),
    '{"buyer": {}}': ("missing_field", "buyer.id is absent"),
    '{"buyer": [1]}': ("wrong_type", "buyer: wanted struct<id: long, name: string?>?, found array [1]"),
    '{"buyer": {"ID": 1}}': ("missing_field", "buyer.id is absent"),
    '{"grid": [[1], [2147483648]]}': ("wrong_type", "grid[1][0]: wanted int, found number 2147483648"),
    '{"grid": [1]}': ("wrong_type", "grid[0]: wanted list<int>, found number 1"),
    '{"raw": "YQ"}': ("wrong_type", "raw: wanted binary?, found string YQ"),
    '{"raw": "YR=="}': ("wrong_type", "raw: wanted binary?, found string YR=="),
    '{"raw": "_-8="}': ("wrong_type", "raw: wanted binary?, found string _-8="),
    '{"raw": [97]}': ("wrong_type", "raw: wanted binary?, found array [97]"),
    '{"counts": []}': ("wrong_type", "counts: wanted map<string, decimal(3,1)>?, found array []"),
    '{"counts": {"a": 1, "é": 0.25}}': ("wrong_type", 'counts["é"]: wanted decimal(3,1), found number 0.25'),
    '{"nested": {"x": {"a": 1, "\\ud83d": 2}}}': (
        "undecodable",
        'nested["x"]: half of a surrogate pair, which no text holds, in \\ud83d',
    ),
    '{"payload": {"a": ["\\ud83d"]}}': (
        "undecodable",
        'payload: half of a surrogate pair, which no text holds, in {"a":["\\ud83d"]}',
    ),
}
"""Values that are refused, with the reason and the detail: the first part that cannot be used."""


@pytest.fixture(scope="module")
def rows(spark: SparkSession, dataset: MakeDataset) -> dict[str, dict[str, Any]]:
    """Every literal of this file, decoded in one job."""
    return decoded(spark, dataset(value={"fields": FIELDS}), [*TAKEN, *REFUSED])


@pytest.mark.parametrize("value", TAKEN)
def test_parts_of_their_declared_types_are_taken_exactly(rows: dict[str, dict[str, Any]], value: str) -> None:
    row = rows[value]
    found = {name: row[name] for name in FIELDS if row[name] is not None}
    assert (row[REJECTED], found) == (None, TAKEN[value])


@pytest.mark.parametrize("value", REFUSED)
def test_a_rejection_names_the_part(rows: dict[str, dict[str, Any]], value: str) -> None:
    row = rows[value]
    assert (row[REJECTED]["reason"], row[REJECTED]["detail"]) == REFUSED[value]
    assert [name for name in FIELDS if row[name] is not None] == []


def test_a_required_list_may_be_empty_but_not_absent(spark: SparkSession, dataset: MakeDataset) -> None:
    found = decoded(spark, dataset(value={"fields": {"l": "list<int>"}}), ["{}", '{"l": []}', '{"l": null}'])
    assert {value: row[REJECTED] and row[REJECTED]["detail"] for value, row in found.items()} == {
        "{}": "l is absent",
        '{"l": []}': None,
        '{"l": null}': None,
    }


SAME = [
    ('{"s": {"a": 1, "b": "x"}}', '{"s": {"b": "x", "a": 1}}'),
    ('{"s": {"a": 1, "b": null}}', '{"s": {"a": 1}}'),
    ('{"l": ["1.50", 2]}', '{"l": [1.5, "2.00"]}'),
    ('{"m": {"a": 1, "𐀀": null, "\\uffff": 2}}', '{"m": {"\\uffff": 2.0, "a": 7, "a": 1e0, "𐀀": null}}'),
    ('{"j": {"a": 1.0, "b": ["x"]}}', '{"j": {"b": ["\\u0078"], "a": 10e-1}}'),
]
OTHER = [
    ('{"l": [1, 2]}', '{"l": [2, 1]}'),
    ('{"l": [12]}', '{"l": [1, 2]}'),
    ('{"l": []}', '{"l": null}'),
    ('{"l": [null]}', '{"l": []}'),
    ('{"s": {}}', '{"s": null}'),
    ('{"s": {"a": 1}}', '{"s": {"b": "1"}}'),
    ('{"t": ["a", null]}', '{"t": ["a", "~"]}'),
    ('{"t": ["a", "b"]}', '{"t": ["a1:b"]}'),
    ('{"m": {"a": 1}}', '{"m": {"a": null}}'),
    ('{"m": {}}', '{"m": null}'),
    ('{"m": {"a": 1, "b": 2}}', '{"m": {"a": 2, "b": 1}}'),
    ('{"r": "YQ=="}', '{"r": "Yg=="}'),
    ('{"r": ""}', '{"r": null}'),
    ('{"j": "1"}', '{"j": 1}'),
    ('{"j": [1, 2]}', '{"j": [2, 1]}'),
]


def test_equal_parts_are_equal_content_whatever_wrote_them(spark: SparkSession, dataset: MakeDataset) -> None:
    fields = {"s": "struct<a: int?, b: string?>?", "l": "list<decimal(9,2)>?", "t": "list<string>?"}
    fields |= {"m": "map<string, int>?", "r": "binary?", "j": "json?"}
    made = dataset(value={"fields": fields})
    found = decoded(spark, made, sorted({value for pair in (*SAME, *OTHER) for value in pair}))
    hashes = {value: row[C.HASH] for value, row in found.items()}
    assert all(row[REJECTED] is None for row in found.values())
    assert [pair for pair in SAME if hashes[pair[0]] != hashes[pair[1]]] == []
    assert [pair for pair in OTHER if hashes[pair[0]] == hashes[pair[1]]] == []


def test_an_expression_leads_into_a_struct(spark: SparkSession, dataset: MakeDataset) -> None:
    made = dataset(
        value={"fields": {"meta": "struct<id: string, at: struct<lsn: long>?>", "v": "int?"}},
        apply={"mode": "upsert", "key": ["meta.id"], "version": {"from": "value.meta.at.lsn"}},
    )
    values = ['{"meta": {"id": "a", "at": {"lsn": 7}}}', '{"meta": {"id": "a"}}', '{"meta": null}']
    found = decoded(spark, made, values)
    rows = [(row["meta_id"], row[C.VERSION], row[REJECTED] and row[REJECTED]["detail"]) for row in found.values()]
    assert rows == [("a", 7, None), ("a", None, "value.meta.at.lsn is null"), (None, None, "meta_id is null")]


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
    "long": st.integers(-(2**63), 2**63 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "boolean": st.booleans(),
    "binary": st.binary(max_size=5).map(lambda data: b64encode(data).decode()),
    "json": st.sampled_from([[1, "x"], {"b": {}, "a": None}, "x", 7, True]),
}
NAMES = ("a", "b", "c_1")


def kinds() -> st.SearchStrategy[FieldType]:
    """Types that nest up to three levels."""

    def around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        field = st.tuples(inner, st.sampled_from(["", "?"])).map("".join)
        structs = st.dictionaries(st.sampled_from(NAMES), field, min_size=1).map(
            lambda fields: f"struct<{', '.join(f'{name}: {kind}' for name, kind in fields.items())}>"
        )
        return st.one_of(
            inner.map(lambda kind: f"list<{kind}>"), inner.map(lambda kind: f"map<string, {kind}>"), structs
        )

    return st.recursive(st.sampled_from([*SCALARS]), around, max_leaves=6).map(parse_type)


def values(kind: FieldType) -> st.SearchStrategy[Any]:
    """JSON values, mostly of the type; now and then null, or of another type at any depth."""
    if kind.name == "map":
        fitting: st.SearchStrategy[Any] = st.dictionaries(st.sampled_from(NAMES), values(kind.item), max_size=3)
    elif kind.item:
        fitting = st.lists(values(kind.item), max_size=3)
    elif kind.fields:
        optional = {name: values(of) for name, of in kind.fields}
        some = st.fixed_dictionaries({}, optional=optional)
        fitting = st.one_of(st.fixed_dictionaries(optional), st.fixed_dictionaries(optional), some)
    else:
        fitting = SCALARS[kind.name]
    odd = st.sampled_from([None, 7, "x", True, 1.5, [], {}, 2**40])
    return st.integers(0, 9).flatmap(lambda number: odd if number == 0 else fitting)


def problem(value: Any, kind: FieldType, place: str) -> str | None:
    """The oracle: the first part that is not of its type, depth first; None: all are."""
    if value is None:
        return None
    fits = {
        "string": lambda: isinstance(value, str),
        "boolean": lambda: isinstance(value, bool),
        "int": lambda: type(value) is int and -(2**31) <= value < 2**31,
        "long": lambda: type(value) is int,
        "list": lambda: isinstance(value, list),
        "struct": lambda: isinstance(value, dict),
        "map": lambda: isinstance(value, dict),
        "binary": lambda: isinstance(value, str) and value != "x",
        "json": lambda: True,
    }[kind.name]()
    if not fits:
        return f"{place}: wanted"
    parts: list[str | None] = []
    if kind.name == "map":
        parts = [problem(value[name], kind.item, f'{place}["{name}"]') for name in sorted(value)]
    elif kind.item:
        parts = [problem(item, kind.item, f"{place}[{index}]") for index, item in enumerate(value)]
    for name, of in kind.fields:
        absent = name not in value and not of.nullable
        parts.append(f"{place}.{name} is absent" if absent else problem(value.get(name), of, f"{place}.{name}"))
    return next((part for part in parts if part), None)


def plain(value: Any, kind: FieldType) -> Any:
    """What a field holds of a JSON value that fits."""
    if value is None:
        return None
    if kind.name == "binary":
        return b64decode(value)
    if kind.name == "json":
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    if kind.name == "map":
        return {name: plain(item, kind.item) for name, item in value.items()}
    if kind.item:
        return [plain(item, kind.item) for item in value]
    return {name: plain(value.get(name), of) for name, of in kind.fields} if kind.fields else value


@settings(max_examples=4)
@given(drawn=st.data())
def test_any_type_is_read_as_the_oracle_reads_it(
    spark: SparkSession, dataset: MakeDataset, drawn: st.DataObject
) -> None:
    types = {f"f{number}": drawn.draw(kinds()) for number in range(5)}
    given_values = [{name: drawn.draw(values(kind)) for name, kind in types.items()} for _ in range(40)]
    texts = [json.dumps({"n": number} | value) for number, value in enumerate(given_values)]
    made = dataset(value={"fields": {"n": "int"} | {name: str(kind) for name, kind in types.items()}})
    found = decoded(spark, made, texts)
    for text, value in zip(texts, given_values, strict=True):
        row = found[text]
        wanted = next((said for name, kind in types.items() if (said := problem(value[name], kind, name))), None)
        detail = row[REJECTED] and row[REJECTED]["detail"]
        assert (detail or "").startswith(wanted or ""), (text, types)
        assert (detail is None) == (wanted is None), (text, types)
        if wanted is None:
            assert {name: row[name] for name in types} == {name: plain(value[name], of) for name, of in types.items()}


def decoded(spark: SparkSession, made: Dataset, texts: list[str]) -> dict[str, dict[str, Any]]:
    """Each text as a decoded and identified record."""
    records = [record(text, text.encode(), offset) for offset, text in enumerate(texts)]
    frame = identify(decode(envelope(spark, records), made), made).drop("_headers")
    return {row["case"]: row for row in frame.toArrow().to_pylist(maps_as_pydicts="strict")}
