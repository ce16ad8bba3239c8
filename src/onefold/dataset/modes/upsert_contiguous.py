"""Mode upsert, guard contiguous: a version is applied only behind the version before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from onefold.dataset.expressions import parse
from onefold.dataset.modes.upsert import Upsert

if TYPE_CHECKING:
    from onefold.dataset.declaration import Declaration


class UpsertContiguous(Upsert):
    """The versions of a key are numbers without a gap; what is above a gap waits."""

    NAME: ClassVar[str] = "upsert_contiguous"
    HOLDS: ClassVar[bool] = True
    NEEDS_EVERY_RECORD: ClassVar[bool] = True
    MAX_REJECTED_RATE: ClassVar[float] = 0.0

    @property
    def words(self) -> str:
        """The mode and its guard, within a sentence."""
        return f"mode {self.mode} with guard contiguous"

    _which: ClassVar[str] = "version by version, along"

    def _check_version(self, dataset: Declaration) -> None:
        for place, text in self.version.expressions:
            kind = dataset.type_of(parse(text))
            if not kind or kind.name not in ("int", "long"):
                raise ValueError(
                    f"apply.version.{place}: {text!r}: guard contiguous counts whole numbers; "
                    "cast with long(…) or int(…)"
                )
