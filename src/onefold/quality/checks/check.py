"""What a check of the gate is: its id, its titles, and what it measures. Imports no engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from onefold.dataset import Dataset
from onefold.quality.checks.facts import BranchFacts

BLOCKING, WARNING = "blocking", "warning"
_COLUMNS = re.compile(r"(\w+)|\((\w+(?:, \w+)+)\)")
"""How a title names its columns: `id`, or `(id, part)`."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a check found of a branch, next to what it allows."""

    observed: float
    expected: float
    exact: bool = False
    """Whether `observed` must equal `expected`; else it may be smaller."""
    severity: str | None = None
    """Where it is not the check's own."""
    title: str = ""
    """One of the check's variants, where its title would not be true of this batch."""
    first: Sequence[str] = ()
    """The first keys, or ranges of offsets, that it counts; shown where it fails."""
    way_out: str = ""
    """What the dataset file can say so that it is not red again."""

    @property
    def passed(self) -> bool:
        """Whether it found what it allows."""
        return self.observed == self.expected if self.exact else self.observed <= self.expected

    @property
    def limit(self) -> str:
        """What it allows, as a text."""
        return figure(self.expected) if self.exact else f"at most {figure(self.expected)}"


@dataclass(frozen=True, slots=True)
class RowExpectation:
    """An expectation of Great Expectations over the rows of the batch's keys: the columns of the row's key, and
    `key_digest`, the key's digest in hex."""

    type: str
    kwargs: dict[str, Any]
    columns: tuple[str, ...] = ()
    """The columns that the check's title and id name."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the gate. It has either `measure` or `expect`."""

    id: str
    """Never changes: waivers, lineage and histories name the check by it."""
    title: str
    """What is asked, in words; may change. `{}` is where it names the columns of a row expectation."""
    _: KW_ONLY
    variants: tuple[str, ...] = ()
    """Titles for some batches, of which the title would not be true."""
    earlier_titles: tuple[str, ...] = ()
    """Titles of earlier releases, by which recorded waivers may name it."""
    law: str = ""
    """The law that it guards."""
    severity: str = BLOCKING
    waivable: bool = True
    loss: bool = False
    """Whether records are missing where it fails: exit code 4."""
    measure: Callable[[BranchFacts], Measurement | None] | None = None
    """What it finds of a branch; None where it does not apply to the batch."""
    expect: Callable[[Dataset], Sequence[RowExpectation]] | None = None
    """What it expects of rows."""
    titles: tuple[str, ...] = field(init=False)
    """Every title that it has or had."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "titles", (self.title, *self.variants, *self.earlier_titles))

    def id_for(self, columns: Sequence[str]) -> str:
        """The id of its result: with the columns, where it names some, as `key_not_null(id)`."""
        return f"{self.id}({', '.join(columns)})" if columns else self.id

    def title_for(self, columns: Sequence[str]) -> str:
        """The title of its result: with the columns, where it names some, as `id not null`."""
        several = f"({', '.join(columns)})"
        return self.title.format(several if len(columns) > 1 else "".join(columns) or "key")

    def columns_of(self, title: str) -> tuple[str, ...] | None:
        """The columns that a title of this check names, often none; None: it is no title of this check."""
        for template in self.titles:
            before, slot, after = template.partition("{}")
            if not slot:
                if title == template:
                    return ()
            elif title.startswith(before) and title.endswith(after):
                named = _COLUMNS.fullmatch(title[len(before) : len(title) - len(after)])
                if named:
                    return tuple((named[1] or named[2]).split(", "))
        return None


def exactly(observed: float, expected: float, title: str = "") -> Measurement:
    """A count that must be another one."""
    return Measurement(observed, expected, exact=True, title=title)


def figure(value: float) -> str:
    """A number as checks show it: plain, whatever its size, with six digits behind the point at most."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")
