"""Two dataset files: which changes of fields are made in place, and how the others are refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import DecimalType, IntegerType, LongType, StringType

from onefold.dataset import Dataset, load_dataset
from onefold.dataset.evolution import FieldHistory, Shape, field_changes, mark_of, origins_of
from onefold.dataset.types import parse_type
from onefold.errors import ChangedDatasetError, InvalidDatasetError
from onefold.generation import (
    begin_rebuild,
    check_generation,
    end_rebuild,
    fix_generation,
    record_shape,
    settle,
    to_rebuild,
)
from onefold.iceberg.commits import RECORD_PROPERTY, ROOT, MainMovedError
from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.tables.names import state_name
from onefold.upsert.state import change_fields

MakeDataset = Callable[..., Dataset]
BEGAN = {"id": "string", "n": "int", "price": "decimal(4,2)?", "note": "string", "parts": "list<int>?"}

IN_PLACE = {
    "added": ({"more": "long?"}, {}, "more was none, and is long?"),
    "widened": ({"n": "long"}, {}, "n was int, and is long"),
    "more digits": ({"price": "decimal(9,2)?"}, {}, "price was decimal(4,2)?, and is decimal(9,2)?"),
    "made optional": ({"id": "string?"}, {}, "id was string, and is string?"),
    "widened and made optional": ({"n": "long?"}, {}, "n was int, and is long?"),
    "renamed": ({"note": None, "text": "string"}, {"text": ["note"]}, "text was note: string, and is string"),
    "all of a nested type but its ?": ({"parts": "list<int>?", "b": "list<int>?"}, {}, "b was none, and is list<int>?"),
}
REFUSED = {
    "removed": ({"note": None}, {}, "note was string, and is none: a field does not go"),
    "narrowed": ({"n": "string"}, {}, "n was int, and is string: a type widens from int to long, or a decimal"),
    "fewer digits": ({"price": "decimal(3,2)?"}, {}, r"price was decimal\(4,2\)\?, and is decimal\(3,2\)\?: a type"),
    "in Base64": ({"price": "decimal(9,2,base64)?"}, {}, "a type widens"),
    "other scale": ({"price": "decimal(9,3)?"}, {}, "a type widens"),
    "nested": ({"parts": "list<long>?"}, {}, "parts was list<int>., and is list<long>.: a type widens"),
    "required": ({"price": "decimal(4,2)"}, {}, "what is folded may have none"),
    "added and required": ({"more": "long"}, {}, r"what is folded already has none; declare it as long\?"),
    "renamed to nothing": ({"note": None, "text": "string?"}, {"text": ["nte"]}, "note was string, and is none"),
    "renamed and narrowed": ({"note": None, "text": "int"}, {"text": ["note"]}, "text was note: string, and is int: a"),
    "read by one more name": ({}, {"note": ["memo"]}, "value.renamed says that records have it as memo, too"),
}


def shape(changed: dict[str, str | None], renamed: dict[str, list[str]] | None = None) -> Shape:
    fields = {name: text for name, text in (BEGAN | changed).items() if text}
    return Shape(fields=fields, renamed=renamed or {})


@pytest.mark.parametrize("case", IN_PLACE)
def test_compatible_changes_are_made_in_place(case: str) -> None:
    changed, renamed, expected = IN_PLACE[case]
    assert [change.sentence for change in field_changes(shape({}), shape(changed, renamed), {})] == [expected]


@pytest.mark.parametrize("case", REFUSED)
def test_other_changes_are_refused_with_the_reason(lake: Lake, dataset: MakeDataset, tmp_path: Path, case: str) -> None:
    changed, renamed, expected = REFUSED[case]
    fix_generation(lake, dataset(value={"fields": BEGAN}))
    now = dataset(value={"fields": shape(changed).fields, "renamed": renamed})
    lines = {"": 7, **{name: 8 + number for number, name in enumerate(now.fields)}}
    now = settle(lake, now.read_from("datasets/things.yaml", lines))
    with pytest.raises(ChangedDatasetError, match=expected) as raised:
        check_generation(lake, now)
    sentence = str(raised.value)
    field = raised.value.fields[0].split(": ")[1].split(" ")[0]
    assert f"(datasets/things.yaml:{lines.get(field, 7)}: {field} was" in sentence
    assert "Nothing was run and the table is as it was" in sentence
    assert "onefold rebuild things" in sentence


def test_a_field_that_an_expression_uses_keeps_its_type(lake: Lake, dataset: MakeDataset) -> None:
    def of(kind: str, key: str = "n") -> Dataset:
        return dataset(value={"fields": {"id": "string", "n": kind}}, identity={"message_id": key})

    fix_generation(lake, of("int"))
    with pytest.raises(ChangedDatasetError, match=r"n was int, and is long: identity\.message_id uses it"):
        check_generation(lake, settle(lake, of("long")))
    with pytest.raises(ChangedDatasetError, match="changed in identity:"):
        check_generation(lake, settle(lake, of("int", "id")))
    check_generation(lake, settle(lake, of("int?")))


def test_the_order_of_the_fields_is_no_change() -> None:
    assert field_changes(shape({}), shape(dict(reversed(BEGAN.items()))), {}) == []
    renamed = {"note": ["memo"]}
    assert field_changes(shape({}, renamed), shape({}, renamed), {}) == []


def test_a_field_is_what_it_was_first_through_all_its_names_and_types() -> None:
    shapes = [
        Shape(fields={"n": "int"}),
        Shape(fields={"number": "int", "note": "string?"}, renamed={"number": ["n"]}),
        Shape(fields={"count": "long?", "text": "string?"}, renamed={"count": ["n", "number"], "text": ["note"]}),
    ]
    assert all(not change.problem for a, b in pairwise(shapes) for change in field_changes(a, b, {}))
    found = origins_of(shapes)
    assert {name: (origin.name, str(origin.kind), origin.added) for name, origin in found.items()} == {
        "count": ("n", "int", False),
        "text": ("note", "string?", True),
    }
    assert mark_of(found) == mark_of(origins_of(shapes[:2])), "a renamed field is the same one"
    assert mark_of(origins_of(shapes[:1])) == b""
    less = Shape(fields=shapes[2].fields, renamed={"count": ["number"], "text": ["note"]})
    problems = [change.problem for change in field_changes(shapes[1], less, {})]
    assert problems == ["landed records have it as n; keep that in value.renamed", ""]


KINDS = ("int", "string", "decimal(4,2)?", "list<int>?")
STEPS = st.lists(st.tuples(st.sampled_from(["add", "widen", "loosen", "rename"]), st.integers(0, 9)), max_size=12)


@given(STEPS)
def test_whatever_is_changed_in_place_a_field_is_known_by_its_first_name_and_type(steps: list[tuple[str, int]]) -> None:
    fields, renamed = {f"f{number}": kind for number, kind in enumerate(KINDS)}, dict[str, list[str]]()
    first = {name: (name, kind, False) for name, kind in fields.items()}  # the oracle: it moves with the field
    shapes = [Shape(fields=fields)]
    for number, (step, pick) in enumerate(steps):
        name = list(fields)[pick % len(fields)]
        kind, optional = fields[name].removesuffix("?"), "?" * fields[name].endswith("?")
        if step == "add":
            name, fields = f"a{number}", {**fields, f"a{number}": "int?"}
            first[name] = (name, "int?", True)
        elif step == "widen" and kind in ("int", "decimal(4,2)"):
            fields = {**fields, name: {"int": "long", "decimal(4,2)": "decimal(8,2)"}[kind] + optional}
        elif step == "loosen":
            fields = {**fields, name: f"{kind}?"}
        elif step == "rename":
            new = f"r{number}"
            fields = {new if field == name else field: text for field, text in fields.items()}
            renamed = {field: some for field, some in renamed.items() if field != name} | {
                new: [name, *renamed.get(name, [])]
            }
            first[new] = first.pop(name)
        shapes.append(Shape(fields=fields, renamed=renamed))
    assert [change for two in pairwise(shapes) for change in field_changes(*two, {}) if change.problem] == []
    assert [change for change in field_changes(shapes[0], shapes[-1], {}) if change.problem] == [], "all of it at once"
    found = origins_of(shapes)
    assert {name: (origin.name, str(origin.kind), origin.added) for name, origin in found.items()} == first


def of_fields(make: MakeDataset, **fields: str) -> Dataset:
    return make(value={"fields": {"id": "string", **fields}})


def changed_to(lake: Lake, made: Dataset) -> Dataset:
    """As an upsert with this file begins."""
    now = settle(lake, made)
    check_generation(lake, now)
    record_shape(lake, now)
    return now


def test_the_generation_stays_and_remembers_each_shape(lake: Lake, dataset: MakeDataset) -> None:
    began = of_fields(dataset)
    fix_generation(lake, began)
    first = changed_to(lake, of_fields(dataset, note="string?"))
    two = changed_to(lake, of_fields(dataset, note="string?", more="long?"))
    assert began.generation == first.generation == two.generation
    assert ["", first.shape, two.shape] == sorted({"", first.shape, two.shape}, key=["", first.shape, two.shape].index)
    assert two.added == {"note", "more"}
    assert settle(lake, of_fields(dataset, note="string?", more="long?")) == two
    for older in (began, first, settle(lake, of_fields(dataset)), settle(lake, of_fields(dataset, note="string?"))):
        with pytest.raises(ChangedDatasetError, match="newer file: use that one"):
            check_generation(lake, older)


def test_one_of_two_files_that_change_the_fields_at_once_wins(lake: Lake, dataset: MakeDataset) -> None:
    fix_generation(lake, of_fields(dataset))
    mine, theirs = (settle(lake, of_fields(dataset, **{name: "long?"})) for name in ("mine", "theirs"))
    record_shape(lake, mine)
    with pytest.raises(ChangedDatasetError, match="mine was long\\?, and is none"):
        record_shape(lake, theirs)
    record_shape(lake, mine)
    check_generation(lake, mine)
    other_order = dataset(value={"fields": {"mine": "long?", "id": "string"}})
    assert mine.declared.digest == other_order.declared.digest


def test_freeze_refuses_every_change_until_a_rebuild(lake: Lake, dataset: MakeDataset) -> None:
    fix_generation(lake, of_fields(dataset))
    frozen = dataset(value={"fields": {"id": "string", "note": "string?"}, "schema_changes": "freeze"})
    with pytest.raises(ChangedDatasetError, match=r"note was none, and is string\?: schema_changes is freeze"):
        check_generation(lake, settle(lake, frozen))
    assert begin_rebuild(lake, to_rebuild(lake, frozen)) == ("value.fields",)
    end_rebuild(lake, to_rebuild(lake, frozen))
    check_generation(lake, settle(lake, frozen))


def test_a_policy_that_rejects_other_records_is_meaning(dataset: MakeDataset) -> None:
    policies = ("evolve", "freeze", "quarantine")
    evolve, freeze, quarantine = (
        dataset(value={"fields": {"id": "string"}, "schema_changes": policy}).generation for policy in policies
    )
    assert dataset().generation == evolve == freeze != quarantine


def test_a_rebuild_that_has_begun_has_its_file_for_itself(lake: Lake, dataset: MakeDataset) -> None:
    fix_generation(lake, of_fields(dataset))
    file = of_fields(dataset, note="string?")
    rebuilt = to_rebuild(lake, file)
    assert begin_rebuild(lake, rebuilt) == ("value.fields",)
    assert settle(lake, file) == rebuilt
    with pytest.raises(ChangedDatasetError):
        check_generation(lake, settle(lake, file))
    check_generation(lake, settle(lake, file), rebuilding=True)
    end_rebuild(lake, rebuilt)
    check_generation(lake, settle(lake, file))
    assert begin_rebuild(lake, to_rebuild(lake, file)) == ()


def test_a_generation_whose_fields_changed_is_never_begun_again(lake: Lake, dataset: MakeDataset) -> None:
    began = of_fields(dataset)
    fix_generation(lake, began)
    changed_to(lake, of_fields(dataset, note="string?"))
    back = to_rebuild(lake, began)
    assert back.generation != began.generation
    assert begin_rebuild(lake, back) == ("value.fields",)
    end_rebuild(lake, back)
    assert settle(lake, began).generation == back.generation
    check_generation(lake, settle(lake, began))
    assert begin_rebuild(lake, to_rebuild(lake, began)) == ()
    again = changed_to(lake, of_fields(dataset, other="long?"))
    assert again.generation == back.generation


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{fields: {id: string}, renamed: {note: id}}", "renamed: note is no field of value.fields"),
        ("{fields: {id: string, n: int}, renamed: {id: n}}", "renamed: n, the former name of id, is another field's"),
        ("{fields: {id: string, n: int}, renamed: {id: x, n: [y, x]}}", "renamed: x, the former name of n, is another"),
        ("{fields: {id: string}, renamed: {id: ID}}", "ID would be one column"),
        ("{fields: {id: string}, schema_changes: never}", "'evolve', 'freeze' or 'quarantine'"),
    ],
)
def test_what_a_file_cannot_say_of_its_fields_has_its_line(tmp_path: Path, value: str, said: str) -> None:
    file = tmp_path / "things.yaml"
    exports = "{path: exports/, layout: kcat, origin: {cluster: c}}"
    file.write_text(
        f"name: things\nsource: {{exports: {exports}}}\nvalue: {value}\n"
        "apply: {mode: append}\ntarget: {table: tests.things}\n"
    )
    with pytest.raises(InvalidDatasetError, match=said) as raised:
        load_dataset(file)
    assert raised.value.line == 3


@pytest.fixture
def existing(lake: Lake, dataset: MakeDataset) -> Dataset:
    """A dataset whose state table has an empty first snapshot and some fields."""
    made = dataset()
    catalog = open_catalog(lake)
    catalog.create_namespace(made.target.namespace)
    rows = pa.table({"id": ["a"], "n": pa.array([1], pa.int32()), "price": pa.array([None], pa.decimal128(4, 2))})
    table = catalog.create_table((made.target.namespace, state_name(made)), rows.schema)
    table.append(rows, snapshot_properties={RECORD_PROPERTY: ROOT})
    return made


def test_columns_keep_their_ids_and_a_second_driver_finds_them_changed(lake: Lake, existing: Dataset) -> None:
    wanted = {
        "id": "string",
        "number": "long?",
        "price": "decimal(9,2)",
        "note": "struct<a: list<int>>?",
        "at": "date?",
    }
    fields = {name: parse_type(text) for name, text in wanted.items()}
    table, other = StateTable(lake, existing), StateTable(lake, existing)
    before = {field.name: field.field_id for field in table.table.schema().fields}
    assert table.change_fields(fields, {"number": ["n"]})
    assert not other.change_fields(fields, {"number": ["n"]})
    after = {field.name: field for field in StateTable(lake, existing).table.schema().fields}
    assert list(after) == ["id", "number", "price", "note", "at"]
    assert [after[name].field_id for name in ("id", "number", "price")] == [
        before[name] for name in ("id", "n", "price")
    ]
    assert (after["number"].field_type, after["price"].field_type) == (LongType(), DecimalType(9, 2))
    assert not any(field.required for field in after.values())
    # As of the snapshot before, a row is read with the fields of now.
    assert not other.current
    [row] = other.scan("id = 'a'", ["id", "number", "at"], other.main.snapshot).to_arrow().to_pylist()
    assert row == {"id": "a", "number": 1, "at": None}
    other.carry_record()
    assert other.current
    assert other.main.record == ROOT


def test_where_a_batch_is_published_before_the_fields_are_carried_they_are_carried_behind_it(
    lake: Lake, existing: Dataset, dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its snapshot has the fields as they were."""
    carry, tries = StateTable.carry_record, list[StateTable]()

    def beaten(table: StateTable) -> None:
        tries.append(table)
        if len(tries) == 1:
            raise MainMovedError("a batch was published")
        carry(table)

    monkeypatch.setattr(StateTable, "carry_record", beaten)
    wider = dataset(value={"fields": {"id": "string", "n": "long", "price": "decimal(9,2)?"}})
    wider = wider.with_field_history(FieldHistory(existing.generation, wider.origins, "", 0))
    change_fields(lake, wider)
    assert (len(tries), StateTable(lake, wider).current) == (2, True)
    change_fields(lake, wider)
    assert len(tries) == 2


def test_a_column_that_is_as_it_should_be_is_left_alone(lake: Lake, existing: Dataset) -> None:
    table = StateTable(lake, existing)
    kinds = {name: parse_type(text) for name, text in (("id", "string"), ("n", "int"), ("price", "decimal(4,2)"))}
    assert not table.change_fields(kinds, {})
    found = [field.field_type for field in table.table.schema().fields]
    assert found == [StringType(), IntegerType(), DecimalType(4, 2)]
