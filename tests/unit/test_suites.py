"""The users' quality suites: read whole, or refused with the file and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onefold.dataset import Dataset, dataset_files, load_dataset
from onefold.dataset.expressions import Compare, Literal
from onefold.dataset.expressions import Path as Name
from onefold.errors import InvalidDatasetError
from onefold.quality.suites import Expectation, complaint_of, condition_of, load_suite

PROJECT = Path(__file__).parents[2]
GOOD = """\
expectations:
  - type: expect_column_values_to_be_between
    kwargs: {column: amount, min_value: 0}
  - type: expect_column_values_to_be_unique
    kwargs: {column: id}
    meta: {severity: warning, owner: us}
  - type: expect_table_row_count_to_be_between
    kwargs: {min_value: 1}
  - type: expect_table_row_count_to_be_between
    kwargs: {min_value: 1}
    meta: {over: changed}
"""
MakeDataset = Callable[..., Dataset]


def with_suite(dataset: MakeDataset, name: str | None = "s.yaml") -> Dataset:
    return dataset(quality={"suite": name})


def test_a_suite_is_read_with_severity_and_rows(dataset: MakeDataset, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(GOOD)
    suite = load_suite(tmp_path, with_suite(dataset))
    assert suite is not None
    assert [expectation.over(()) for expectation in suite.expectations] == ["table", "table", "table", "changed"]
    passed = [expectation.digest for expectation in suite.expectations]
    assert [expectation.over(passed) for expectation in suite.expectations] == ["changed", "table", "table", "changed"]
    assert [expectation.meta.severity for expectation in suite.expectations] == [
        "blocking",
        "warning",
        "blocking",
        "blocking",
    ]


def test_an_expectation_is_another_with_other_arguments_and_the_same_with_another_severity() -> None:
    def of(type_: str, **more: Any) -> str:
        return Expectation.model_validate({"type": type_, **more}).digest

    between = "expect_column_values_to_be_between"
    first = of(between, kwargs={"column": "n", "max_value": 1})
    assert first == of(between, kwargs={"max_value": 1, "column": "n"}, meta={"severity": "warning"})
    assert len({first, of(between, kwargs={"column": "n", "max_value": 2}), of("expect_column_values_to_be_null")}) == 3


def test_a_dataset_without_a_suite_has_none(dataset: MakeDataset, tmp_path: Path) -> None:
    assert load_suite(tmp_path, with_suite(dataset, None)) is None


@pytest.mark.parametrize("file", dataset_files(PROJECT / "datasets"), ids=lambda file: file.stem)
def test_the_shipped_suites_load(file: Path) -> None:
    suite = load_suite(PROJECT / "expectations", load_dataset(file))
    assert suite is not None
    assert suite.expectations


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("expectations: [\n", "", "not YAML"),
        ("expectations: []\nmore: 1\n", "more", "Extra inputs"),
        ("- type: expect_x\n", "", "dictionary"),
        ("", "", "dictionary"),
        ("expectations:\n  - kwargs: {}\n", "expectations.0.type", "required"),
        ("expectations:\n  - type: column_is_fine\n", "expectations.0.type", "pattern"),
        ("expectations:\n  - type: expect_x\n    kwarg: {}\n", "expectations.0.kwarg", "Extra inputs"),
        (
            "expectations:\n  - type: expect_x\n    meta: {severity: fatal}\n",
            "expectations.0.meta.severity",
            "'blocking' or 'warning'",
        ),
        ("expectations:\n  - type: expect_x\n    meta: {over: all}\n", "expectations.0.meta.over", "'changed'"),
        ("expectations: []\nexpectations: []\n", "", "not YAML"),
        ("expectations: [] # \x07\n", "", "not YAML"),
    ],
)
def test_a_wrong_suite_is_refused_at_its_key(
    dataset: MakeDataset, tmp_path: Path, text: str, key: str, said: str
) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(InvalidDatasetError) as raised:
        load_suite(tmp_path, with_suite(dataset))
    assert raised.value.file == str(tmp_path / "s.yaml")
    assert (raised.value.key, said in raised.value.problem) == (key, True), str(raised.value)


def test_a_suite_that_is_not_there_or_not_utf8_is_refused(dataset: MakeDataset, tmp_path: Path) -> None:
    with pytest.raises(InvalidDatasetError, match="cannot be read"):
        load_suite(tmp_path, with_suite(dataset))
    (tmp_path / "s.yaml").write_bytes(b"\xff")
    with pytest.raises(InvalidDatasetError, match="cannot be read"):
        load_suite(tmp_path, with_suite(dataset))


# S7: a suite is data.


NULL, ROW = "column_values_to_be_null", "kwargs.row_condition"
EXIT = "reflect('java.lang.System','exit','1')"
ETC = "{$ref: 'file:///etc/passwd'}"


@pytest.mark.parametrize(
    ("type_", "kwargs", "key", "said"),
    [
        ("query_results_to_match_comparison", "", "type", "by no query"),
        ("table_row_count_to_equal_other_table", "other_table_name: b", "type", "by no query"),
        ("table_row_count_to_equal", "condition_parser: spark", "kwargs.condition_parser", "row_condition is read as"),
        ("column_to_exist", "unexpected_rows_query: 'select 1'", "kwargs.unexpected_rows_query", "cannot say"),
        ("column_to_exist", "result_format: COMPLETE", "kwargs.result_format", "cannot say"),
        ("column_to_exist", "batch_id: b", "kwargs.batch_id", "cannot say"),
        ("multicolumn_sum_to_equal", f'column_list: ["{EXIT}", id]', "kwargs", "no name of a column"),
        (NULL, "column: 'id) or (1=1'", "kwargs", "no name of a column"),
        ("column_values_to_be_between", "column: id, min_value: {$PARAMETER: 'urn:x'}", "kwargs", "begin with $"),
        ("column_values_to_match_json_schema", f"column: id, json_schema: {ETC}", "kwargs", "begin with $"),
        (NULL, f'column: id, row_condition: "raise_error({EXIT}) is null"', ROW, "no function"),
        (NULL, "column: id, row_condition: 'col(\"id\").notnull()'", ROW, "cannot be read"),
        (NULL, "column: id, row_condition: \"ID like 'zoe%'\"", ROW, "cannot be read"),
        (NULL, "column: id, row_condition: \"ID = 'zoe'\"", ROW, "reads ID, which is no published column"),
        (NULL, "column: id, row_condition: \"header.x = 'a'\"", ROW, "no published column"),
    ],
)
def test_s7_what_is_more_than_data_is_refused_at_its_key_and_line(
    dataset: MakeDataset, tmp_path: Path, type_: str, kwargs: str, key: str, said: str
) -> None:
    expectation = f"{{type: expect_{type_}, kwargs: {{{kwargs}}}}}"
    (tmp_path / "s.yaml").write_text(f"# a suite\nexpectations:\n  - {expectation}\n")
    with pytest.raises(InvalidDatasetError) as raised:
        load_suite(tmp_path, with_suite(dataset))
    assert raised.value.key == f"expectations.0.{key}"
    assert raised.value.line == 3
    assert said in raised.value.problem, raised.value.problem


def test_s7_a_condition_is_read_in_the_grammar_of_filters_over_published_columns(dataset: MakeDataset) -> None:
    made = dataset(value={"fields": {"id": "string", "offset": "long", "n": "long?"}})

    def read(text: str) -> object:
        kwargs = {"column": "id", "row_condition": text}
        return condition_of(Expectation(type="expect_column_values_to_be_null", kwargs=kwargs), made)

    assert read("n > 3") == read("value.n > 3") == Compare(">", Name("value", "n"), Literal("3", number=True))
    assert read("offset = 1") == Compare("=", Name("value", "offset"), Literal("1", number=True))
    assert read("id in ('a', 'b') or not n is null")
    assert condition_of(Expectation(type="expect_column_values_to_be_null", kwargs={"column": "id"}), made) is None
    local = {"column": "id", "json_schema": {"$schema": "x", "$ref": "#/$defs/a", "$defs": {"a": {}}}}
    assert complaint_of(Expectation(type="expect_column_values_to_match_json_schema", kwargs=local), made) is None
