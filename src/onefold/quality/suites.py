"""The users' quality suites: YAML in Great Expectations' names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from onefold.dataset import Dataset
from onefold.dataset.tree import line_of
from onefold.dataset.yaml_file import read_yaml, read_yaml_text
from onefold.errors import InvalidDatasetError

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

    def over(self, passed: Collection[str]) -> Literal["changed", "table"]:
        """The rows that it looks at. `passed`: digests of the expectations that all rows of the base have passed."""
        if self.by_row:
            return "changed" if self.digest in passed else "table"
        return self.meta.over or "table"


class Suite(BaseModel):
    """A suite file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expectations: list[Expectation]


def load_suite(folder: Path, dataset: Dataset) -> Suite | None:
    """The dataset's suite, or None where it names none.

    Raises:
        InvalidDatasetError: the file is missing or is no suite.
    """
    if dataset.quality.suite is None:
        return None
    file = folder / dataset.quality.suite
    tree, lines = read_yaml(read_yaml_text(file, "quality.suite"), file)
    try:
        return Suite.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidDatasetError(str(file), line_of(lines, first["loc"]), key, first["msg"]) from None
