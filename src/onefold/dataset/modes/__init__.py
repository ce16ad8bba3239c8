"""MODES: what a record does to the table. Each mode has one file here, one in `onefold.folding`, one in
`onefold.proof.modes`."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag

from onefold.dataset.base import not_built
from onefold.dataset.modes.append import Append
from onefold.dataset.modes.contract import Apply
from onefold.dataset.modes.increment import Increment
from onefold.dataset.modes.upsert import Upsert
from onefold.dataset.modes.upsert_contiguous import UpsertContiguous
from onefold.errors import nearest

MODES: dict[str, type[Apply]] = {mode.NAME: mode for mode in (Append, Upsert, UpsertContiguous, Increment)}
"""By name; each file's section is one of them."""
NOT_BUILT = ("history",)


def _known(given: Any) -> Any:
    words = list(dict.fromkeys(_word(mode) for mode in MODES.values()))
    if isinstance(given, Apply):
        return given
    if not isinstance(given, dict) or "mode" not in given:
        raise ValueError(f"it takes a mapping with a mode ({', '.join(words)})")
    mode = given["mode"]
    if mode in NOT_BUILT:
        raise not_built(f"mode {mode} ({', '.join(words[:-1])} and {words[-1]} are)")
    if mode not in words:
        raise ValueError(f"no mode {mode!r}{nearest(str(mode), words)}")
    return given


def _word(mode: type[Apply]) -> str:
    """What `apply.mode` says; two guards of one mode say the same."""
    (word,) = mode.model_fields["mode"].annotation.__args__  # type: ignore[union-attr]
    return str(word)


def _name(given: Any) -> str:
    """Which mode a section is of: its word, and its guard. It was looked at by `_known`."""
    if isinstance(given, Apply):
        return given.NAME
    mode, version = str(given["mode"]), given.get("version")
    guarded = f"{mode}_{version.get('guard')}" if isinstance(version, dict) else mode
    return guarded if guarded in MODES else mode


if TYPE_CHECKING:
    AnyMode = Apply
else:
    AnyMode = Annotated[
        reduce(or_, (Annotated[mode, Tag(name)] for name, mode in MODES.items())),
        Discriminator(_name),
        BeforeValidator(_known),
    ]
    """The section `apply`, as its mode has it."""
