"""What the parts of a dataset file are made of: names, expressions, durations."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from onefold.dataset.expressions import parse

SAFE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
Name = Annotated[str, Field(pattern=SAFE_NAME, max_length=64)]


class NotBuiltError(ValueError):
    """A part of the language that is not built yet."""


def not_built(what: str) -> NotBuiltError:
    """The error for a key or value that a later version will know."""
    return NotBuiltError(f"not_supported_yet: {what}")


def _readable(text: Any) -> Any:
    if isinstance(text, str):
        parse(text)
    return text


ExpressionText = Annotated[str, BeforeValidator(_readable)]


DELETES_WITHOUT_VALUE = ("tombstone", "never")
"""What `apply.delete_when` may be next to an expression: what a null value means."""


class Model(BaseModel):
    """A part of the file: frozen, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))
