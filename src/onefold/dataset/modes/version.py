"""The key `apply.version`: what orders the versions of a key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from onefold.dataset.base import ExpressionText, Model
from onefold.dataset.envelopes import ORDER_PARTS, ORDERS
from onefold.instants import Duration

MAX_AHEAD = timedelta(days=1)
"""How far a time may be ahead of the clock that it is compared with, where the file does not say."""


class Version(Model):
    """What orders the versions of a key."""

    from_: ExpressionText | list[ExpressionText] | None = Field(
        default=None, alias="from", description="The version's expression; of several the first that differs decides"
    )
    expected: ExpressionText | None = Field(
        default=None,
        description="guard contiguous: the version that the record was made for; its own is the next, from or not",
    )
    guard: Literal["newer", "contiguous"] = Field(
        default="newer", description="contiguous: a version is applied only behind the version before it"
    )
    tie: Literal["conflict", "last", "first"] = "conflict"
    max_ahead: Duration | None = Field(
        default=None,
        description="Of a version that is a time: how far it may be after the record's own log timestamp; 1d",
    )
    first: int | None = Field(default=None, description="guard contiguous: the number of a key's first version; 1")

    @field_validator("from_", mode="before")
    @classmethod
    def _some(cls, given: Any) -> Any:
        if given is not None and not isinstance(given, str) and not (isinstance(given, list) and given):
            raise ValueError("it takes an expression, or a list of them, the weightiest first")
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.from_ is None and self.expected is None:
            raise ValueError("from is missing: the expression of a record's version")
        for name in ("first", "expected"):
            if self.guard == "newer" and getattr(self, name) is not None:
                raise ValueError(f"{name} belongs to guard contiguous")
        if self.guard == "contiguous" and len(self.parts) > 1:
            raise ValueError("guard contiguous counts one whole number: a version of several parts has no next version")
        return self

    @property
    def parts(self) -> list[str]:
        """The expressions that make the version, the weightiest first; without `from` there is none."""
        if self.by_connector:
            return [f"{part.root}.{part.name}" for part in ORDER_PARTS]
        given = self.from_ or []
        return given if isinstance(given, list) else [given]

    @property
    def by_connector(self) -> bool:
        """Whether the position of Debezium's connector is the version."""
        return self.from_ == ORDERS

    @property
    def named(self) -> str:
        """What the version is read from, as the file says it."""
        given = self.from_ if isinstance(self.from_, list) else [self.from_]
        return ", ".join(text for text in (*given, self.expected) if text)

    @property
    def expressions(self) -> list[tuple[str, str]]:
        """All that a record's version is read from: (place below `version`, text)."""
        return [*(("from", text) for text in self.parts), *([("expected", self.expected)] if self.expected else [])]

    @property
    def begins(self) -> int:
        """The number of a key's first version (guard contiguous)."""
        return 1 if self.first is None else self.first
