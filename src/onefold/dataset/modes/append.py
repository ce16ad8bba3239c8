"""Mode append: a message becomes a row once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from onefold.dataset.modes.contract import Apply, refuse
from onefold.vocabulary import Level

if TYPE_CHECKING:
    from onefold.dataset.declaration import Declaration


class Append(Apply):
    """The first record of an identity is a row."""

    mode: Literal["append"]

    NAME: ClassVar[str] = "append"

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        why = "append takes no key, version, delete_when or add: its identity decides"
        return refuse(given, ("key", "version", "delete_when", "add"), why)

    def check(self, dataset: Declaration) -> None:
        """An identity must decide, and more than an inferred position."""
        if len(dataset.levels) == 1 and not dataset.source.exact:
            raise ValueError(
                f"identity: positions of layout {dataset.source.layout} are inferred and cannot decide; "
                "declare message_id or business_key"
            )
        if dataset.within and dataset.deciding is Level.POSITION:
            raise ValueError(
                f"identity.within: {dataset.identity.within!r}: only the position decides, and it needs no bound; "
                "declare a wider identity"
            )
