"""What a Spark step leaves for its driver: its document, or the error that it ended with. Knows no pyspark."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict

from onefold import errors, lake_keys
from onefold.lake import Lake

APPLICATION = "Spark application "
"""How the line begins that a step says first: behind it the application's id."""


def application_in(line: str) -> str | None:
    """The application that a line of a step's output names, if the line names it."""
    found = re.match(rf"{APPLICATION}([\w-]+)", line)
    return found[1] if found else None


class StepResult(BaseModel):
    """One step's end."""

    model_config = ConfigDict(frozen=True)

    step: str
    document: dict[str, Any] | None = None
    error: str | None = None
    fields: dict[str, Any] = {}

    def unwrap(self) -> dict[str, Any]:
        """The document, or the step's own error raised again."""
        if self.error is None:
            assert self.document is not None
            return self.document
        kind = getattr(errors, self.error)
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in self.fields.items()}
        raise kind(**values)


def result_key(dataset: str, batch: str, attempt: str, step: str) -> str:
    """Where a step leaves its result."""
    return f"{lake_keys.results(dataset)}{batch}/{attempt}-{step}.json"


def result_of(lake: Lake, dataset: str, batch: str, attempt: str, step: str) -> dict[str, Any]:
    """The document of a step that ran in another process.

    Raises:
        SparkLostError: it left none.
        OnefoldError: the error that it ended with.
    """
    result = lake.get(result_key(dataset, batch, attempt, step), StepResult)
    if result is None:
        raise errors.SparkLostError(step, batch)
    return result.unwrap()
