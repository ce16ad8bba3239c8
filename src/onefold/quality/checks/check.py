"""What a check of the gate is: its id, its titles, and what it measures. Imports no engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from typing import Any

from onefold.dataset import Dataset
from onefold.quality.checks.facts import BranchFacts

BLOCKING, WARNING = "blocking", "warning"
_COLUMNS = re.compile(r"(\w+)|\((\w+(?:, \w+)+)\)")
"""How a title names its columns: `id`, or `(id, part)`."""


class Behind(Enum):
    """What the value of a check is made of. A waiver holds its digest: identities and contents, never positions, which
    change with the split. `onefold.quality.evidence` makes the digests."""

    MEASUREMENT = auto()
    """A time or a distance. No record is behind it but the newest or the oldest, and a waiver holds by value alone."""
    CONFLICTS = auto()
    """Each identity with its contents and which of them wins; and each identity of two messages with these."""
    DUPLICATES = auto()
    """The identities that are repeated. What repeats them has the same content."""
    REJECTED = auto()
    """Reason and bytes of each rejected record."""
    REJECTED_DELETES = auto()
    """The same, of the records that delete."""
    OF_DATABASE = auto()
    """Reason and bytes of each record that says what happened to a database as a whole."""
    BACKWARDS = auto()
    """Key and version of each record that goes backwards."""
    FILTERED = auto()
    """Key and version of each filtered record that is newer than its row."""
    HELD = auto()
    """Key and version of each held record."""
    NULL_KEYS = auto()
    """Each row without a column of its key."""
    GONE = auto()
    """The logs that are gone."""
    GAPS = auto()
    """The offsets that no batch has landed."""
    NEW_TOPICS = auto()
    """The topics that are new."""
    WARNING = auto()
    """Nothing: the check only warns, so that there is nothing to waive."""
    DAMAGED = auto()
    """The places of landed segments, and the offsets that are missing for them."""
    LOST = auto()
    """The offsets. What was at them is unknown, so that they are all that tells two losses apart."""


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
    behind: Behind | None = None
    """What a waiver of it holds the digest of; a check that can be waived says so."""
    loss: bool = False
    """Whether records are missing where it fails: exit code 4."""
    measure: Callable[[BranchFacts], Measurement | None] | None = None
    """What it finds of a branch; None where it does not apply to the batch."""
    expect: Callable[[Dataset], Sequence[RowExpectation]] | None = None
    """What it expects of rows."""
    titles: tuple[str, ...] = field(init=False)
    """Every title that it has or had."""

    def __post_init__(self) -> None:
        if self.waivable and self.behind is None:
            raise TypeError(f"check {self.id} can be waived: say what its value is made of (behind)")
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
