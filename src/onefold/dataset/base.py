"""What the parts of a dataset file are made of: names, expressions, durations."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
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


DELETES_WITHOUT_VALUE = ("tombstone", "never")
"""What `apply.delete_when` may be next to an expression: what a null value means."""


LONGEST = timedelta(days=365_000)
"""The longest duration: what is so long before today, or behind it, is an instant that Python can still say."""


def duration(text: Any) -> timedelta:
    """A duration of a dataset file or a command, such as 30s, 10m, 2h or 1d.

    Raises:
        ValueError: it is none, or longer than `LONGEST`.
    """
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,20}[smhd]", text):
        raise ValueError(f"{text!r} is no duration such as 30s, 10m, 2h or 1d")
    given = int(text[:-1]) * seconds[text[-1]]
    if given > LONGEST.total_seconds():
        raise ValueError(f"{text} is too long a duration (at most {LONGEST.days}d)")
    return timedelta(seconds=given)


def in_utc(at: datetime) -> datetime:
    """An instant in UTC; without a zone it is one of UTC already.

    Raises:
        ValueError: it lies in the first year that Python has, or in the last hundred: a schedule looks for instants
            before it, and for decades behind it.
    """
    if not 1 < at.year < 9900:
        raise ValueError(f"{at.isoformat()} is no instant of the years 2 to 9899")
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


Duration = Annotated[timedelta, BeforeValidator(duration)]


class Model(BaseModel):
    """A part of the file: frozen, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))
