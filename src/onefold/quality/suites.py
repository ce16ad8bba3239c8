"""The users' quality suites: YAML in Great Expectations' names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from pathlib import Path as FilePath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from onefold.dataset import Dataset
from onefold.dataset.expressions import Expression, Path, parse, shorten, with_paths
from onefold.dataset.tree import Place, line_of
from onefold.dataset.yaml_file import read_yaml, read_yaml_text
from onefold.errors import InvalidDatasetError, nearest

_TYPES = re.compile(r"expect_(column|compound_columns|multicolumn|select_column|table)_[a-z_]+")
"""Expectations about columns and tables; others are of queries."""
_OTHER_TABLES = "expect_table_row_count_to_equal_other_table"
_COLUMNS = ("column", "column_A", "column_B", "column_list")
"""Arguments that name columns. Great Expectations makes SQL of some."""
_REFUSED = re.compile(
    r"condition_parser|result_format|catch_exceptions|include_config|batch_id|.*(query|sql|table|engine).*"
)
"""Arguments that reach SQL text, another table, or what results hold."""
_COLUMN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_OVER_ROWS = ("expect_column_values_", "expect_column_pair_values_", "expect_multicolumn_")
_OVER_TABLE = ("_to_be_unique", "_to_be_unique_within_record")


class Meta(BaseModel):
    """What Onefold reads of an expectation's `meta`; other keys are the user's."""

    model_config = ConfigDict(frozen=True, extra="allow")

    severity: Literal["blocking", "warning"] = "blocking"
    over: Literal["changed", "table"] | None = Field(
        default=None,
        description="Rows that the batch wrote, or the whole table; default: row by row checks the whole table until "
        "all of it has passed, and then what a batch writes; anything else the table",
    )


class Expectation(BaseModel):
    """One expectation of a suite."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str = Field(pattern=r"^expect_[a-z_]+$")
    kwargs: dict[str, Any] = {}
    meta: Meta = Meta()

    @property
    def by_row(self) -> bool:
        """Whether rows that have passed once need not be looked at again before a batch writes them."""
        return self.meta.over is None and self.type.startswith(_OVER_ROWS) and not self.type.endswith(_OVER_TABLE)

    @property
    def digest(self) -> str:
        """What it asks of rows, whatever its severity: sixteen hex digits over type and arguments."""
        words = json.dumps([self.type, self.kwargs], sort_keys=True, default=str)
        return hashlib.sha256(words.encode()).hexdigest()[:16]

    @property
    def columns(self) -> list[Any]:
        """The columns that its arguments name."""
        given = [self.kwargs.get(name) for name in _COLUMNS if name in self.kwargs]
        return [name for value in given for name in (value if isinstance(value, list) else [value])]

    def over(self, passed: Collection[str]) -> Literal["changed", "table"]:
        """The rows that it looks at. `passed`: digests of the expectations that all rows of the base have passed."""
        if self.by_row:
            return "changed" if self.digest in passed else "table"
        return self.meta.over or "table"


class Suite(BaseModel):
    """A suite file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expectations: list[Expectation]


def load_suite(folder: FilePath, dataset: Dataset) -> Suite | None:
    """The dataset's suite, or None where it names none.

    Raises:
        InvalidDatasetError: the file is missing or is no suite.
    """
    if dataset.quality.suite is None:
        return None
    file = folder / dataset.quality.suite
    tree, lines = read_yaml(read_yaml_text(file, "quality.suite"), file)
    try:
        suite = Suite.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidDatasetError(str(file), line_of(lines, first["loc"]), key, first["msg"]) from None
    for number, expectation in enumerate(suite.expectations):
        if complaint := complaint_of(expectation, dataset):
            key, problem = complaint
            place: Place = ("expectations", number, *key.split("."))
            raise InvalidDatasetError(str(file), line_of(lines, place), f"expectations.{number}.{key}", problem)
    return suite


def complaint_of(expectation: Expectation, dataset: Dataset) -> tuple[str, str] | None:
    """The key of an expectation that is more than data about the published columns, and why; None: there is none."""
    if not _TYPES.fullmatch(expectation.type) or expectation.type == _OTHER_TABLES:
        return "type", f"{expectation.type}: a suite looks at the columns and rows of its own table, by no query"
    for name in expectation.kwargs:
        if _REFUSED.fullmatch(name):
            advice = "; row_condition is read as a filter of a dataset file is" if name == "condition_parser" else ""
            return f"kwargs.{name}", f"a suite cannot say {name}{advice}"
    if _refers(expectation.kwargs):
        return "kwargs", "a suite is data: no names that begin with $ lead to other values or documents"
    for column in expectation.columns:
        if not isinstance(column, str) or not _COLUMN.fullmatch(column):
            return "kwargs", f"{shorten(str(column))} is no name of a column"
    try:
        condition_of(expectation, dataset)
    except ValueError as error:
        return "kwargs.row_condition", str(error)
    return None


def condition_of(expectation: Expectation, dataset: Dataset) -> Expression | None:
    """Which rows an expectation looks at, in Onefold's own grammar over the published columns; None: all.

    Raises:
        ValueError: it cannot be read, or reads what is no published column.
    """
    text = expectation.kwargs.get("row_condition")
    if text is None:
        return None
    known = dataset.published_columns

    def column_of(path: Path) -> Path:
        name = path.name if path.root == "value" else path.column
        if name not in known:
            raise ValueError(f"{shorten(str(text))} reads {name}, which is no published column{nearest(name, known)}")
        return Path("value", name, path.inner if path.root == "value" else ())

    return with_paths(parse(str(text)), column_of)


def _refers(value: Any) -> bool:
    """Whether a value that Great Expectations or a JSON schema replaces by another is in it."""
    if isinstance(value, dict):
        return any(_is_reference(name, inner) or _refers(inner) for name, inner in value.items())
    return isinstance(value, list) and any(map(_refers, value))


def _is_reference(name: Any, inner: Any) -> bool:
    if name == "$ref":
        return not str(inner).startswith("#")
    return str(name).startswith("$") and name not in ("$schema", "$id", "$defs", "$comment")
