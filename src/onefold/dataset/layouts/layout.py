"""What a layout answers: what its objects are called, and what their records carry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from onefold.dataset.base import Model

Role = Literal["values", "keys", "headers"]
"""What an object of an export holds of its records."""


class NoOptions(Model):
    """The keys that a layout adds to `source.exports`: none."""


class Layout:
    """How records lie in objects. A layout is a subclass in a file of its own, and a row of `LAYOUTS`."""

    name: ClassVar[str]
    """As dataset files and manifests have it, and the name of its modules."""
    names: ClassVar[re.Pattern[str]]
    """Matches the names of its objects; groups `topic`, `partition`, `start` and `role`, where names have them."""
    exported: ClassVar[bool] = True
    """Whether a dataset file names it as the layout of an export."""
    exact: ClassVar[bool] = True
    """Whether each record carries its own offset."""
    shows_log: ClassVar[bool] = False
    """Whether objects are the log as the broker wrote it: record batches with producer, epoch and sequence, markers and
    aborted records too. Landing resolves their transactions."""
    holds_bytes: ClassVar[bool] = True
    """Whether keys and values are the bytes that were sent, so that any format may be declared; else they are JSON."""
    options: ClassVar[type[Model]] = NoOptions
    """The keys of `source.exports` that belong to this layout only."""
    refused_holes: ClassVar[Mapping[str, str]] = {}
    """Values of `source.exports.holes` that cannot be, each with the reason."""

    @property
    def plural(self) -> str:
        """Its sources, in a sentence."""
        return f"{self.name} exports"

    def position_of(self, name: str) -> tuple[str, int, int] | None:
        """Topic, partition and first offset of an object, by its name; None: names of this layout do not have them."""
        match = self.names.search(name)
        parts = match.groupdict() if match else {}
        return (parts["topic"], int(parts["partition"]), int(parts["start"])) if "topic" in parts else None

    def role_of(self, name: str) -> Role | None:
        """What an object holds, by its name; None: it is not of this layout."""
        return "values" if self.names.search(name) else None

    def is_ignored(self, name: str) -> bool:
        """Whether an object is neither of this layout nor expected next to its objects."""
        return self.role_of(name) is None

    def group_of(self, name: str) -> str:
        """What an object of values shares with its companions."""
        return name
