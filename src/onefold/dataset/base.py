"""What the parts of a dataset file are made of: names, expressions, durations."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from onefold.dataset.expressions import parse

SAFE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
Name = Annotated[str, Field(pattern=SAFE_NAME, max_length=64)]


class NotBuiltError(ValueError):
    """What is asked for stands in the language but is not built yet."""


def not_built(what: str) -> NotBuiltError:
    """The error for a key or value that a later version will know."""
    return NotBuiltError(f"not_supported_yet: {what}")


def _readable(text: Any) -> Any:
    if isinstance(text, str):
        parse(text)
    return text


ExpressionText = Annotated[str, BeforeValidator(_readable)]


def duration(text: Any) -> timedelta:
    """A duration of a dataset file or a command, such as 30s, 10m, 2h or 1d."""
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    if isinstance(text, str) and text[:-1].isdigit() and text[-1:] in units:
        return timedelta(**{units[text[-1]]: int(text[:-1])})
    if isinstance(text, timedelta):
        return text
    raise ValueError(f"{text!r} is no duration such as 30s, 10m, 2h or 1d")


Duration = Annotated[timedelta, BeforeValidator(duration)]


class Model(BaseModel):
    """A part of the file: frozen, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))
