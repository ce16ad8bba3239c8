"""What people are shown in place of the values of masked columns.

Code that takes a value out of the table for a report, a check, an error or a log masks it there, so that what is
stored, handed on and rendered holds none.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from onefold.errors import UsageError

if TYPE_CHECKING:
    from onefold.dataset.expressions import Expression
    from onefold.dataset.model import Dataset

HIDDEN = "not shown: the dataset masks columns"
"""In place of a text that may hold anything, such as a record that could not be read."""
NOT_SHOWN = "not shown"
"""In place of a value of a column that is hidden."""
KEY_DIGEST = "key_digest"
"""The name under which checks of rows see the digest of the row's key."""
LONGEST = 1_000
"""Letters of a value that are shown."""
LONGEST_ROW = 20_000
"""Letters of all values of a row together that are shown, about."""
_SHORT = 60
"""Letters of a value that is shown in any row: its length and digest are no shorter."""


class Mask(StrEnum):
    """What is shown in place of a value, the weakest first."""

    HASH = "hash"
    """Twelve hex digits of its SHA-256: who guesses a value can confirm the guess."""
    HMAC = "hmac"
    """The same, keyed by the setting `mask_key`: who has no key can confirm no guess."""
    HIDE = "hide"
    """That it is not shown; equal values look like any others."""


def strictest(masks: Iterable[Mask | None]) -> Mask | None:
    """The strictest of some masks; None: there is none among them."""
    return max((mask for mask in masks if mask is not None), key=list(Mask).index, default=None)


def digest(value: Any) -> str:
    """The same for equal values: it tells that two differ, not what they are."""
    return f"sha256:{hashlib.sha256(_text(value)).hexdigest()[:12]}"


def bounded(value: Any, longest: int = LONGEST) -> Any:
    """A value as it is, or of a long value the beginning as text, with its length and a digest of all of it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= max(longest, _SHORT):
        return value
    return f"{text[:longest]}… ({len(text):,} letters, {digest(value)})"


@dataclass(frozen=True, slots=True)
class Masks:
    """The masked columns of a dataset, each with its mask, and the key of `hmac`."""

    columns: Mapping[str, Mask] = field(default_factory=dict)
    key: bytes | None = field(default=None, repr=False)

    def show(self, value: Any, mask: Mask | None, longest: int = LONGEST) -> Any:
        """A value as people are shown it. Without a key for `hmac` it is hidden; NULL stays NULL."""
        if mask is None or value is None:
            return bounded(value, longest)
        if mask is Mask.HASH:
            return digest(value)
        if mask is Mask.HMAC and self.key:
            return f"hmac:{hmac.new(self.key, _text(value), hashlib.sha256).hexdigest()[:12]}"
        return NOT_SHOWN

    @property
    def strictest(self) -> Mask | None:
        """The strictest of them all: of what may be a value of any column."""
        return strictest(self.columns.values())


def masks_of(dataset: Dataset) -> Masks:
    """The masks of a dataset, with that of the key's digest: it hides no key from who guesses it."""
    of_key = strictest(dataset.masked.get(name) for name in dataset.row_key_columns)
    more = {KEY_DIGEST: of_key} if of_key else {}
    return Masks(dataset.masked | more, dataset.mask_key)


def masked(dataset: Dataset, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row, or a part of a row, as people are shown it by its columns: long values are cut, and those of a long row
    are cut shorter; NULL stays NULL."""
    masks, left = masks_of(dataset), LONGEST_ROW
    shown = {}
    for name, value in row.items():
        shown[name] = masks.show(value, masks.columns.get(name), max(0, min(LONGEST, left)))
        left -= len(shown[name]) if isinstance(shown[name], str) else _SHORT
    return shown


def masked_json(dataset: Dataset, row: str) -> str:
    """The same of a row that is written as JSON."""
    if not dataset.mask and len(row) <= LONGEST:
        return row
    return json.dumps(masked(dataset, json.loads(row, parse_float=str)), ensure_ascii=False)


def masked_text(dataset: Dataset, value: Any, *expressions: Expression) -> Any:
    """What expressions made of a record, as people are shown it."""
    return masks_of(dataset).show(value, strictest(map(dataset.mask_of, expressions)))


def masked_key_digest(dataset: Dataset, digest_of_key: bytes) -> str:
    """The digest of a row's key in hex. Where `hmac` or `hide` masks a part of the key, as that does: the digest has no
    key, and would confirm a guess."""
    mask, text = masks_of(dataset).columns.get(KEY_DIGEST), digest_of_key.hex()
    return text if mask in (None, Mask.HASH) else str(masks_of(dataset).show(text, mask))


def check_mask_key(dataset: Dataset) -> None:
    """Refuse to judge records of a dataset whose masks need a key that is not set.

    Raises:
        UsageError: it names the column and the setting.
    """
    keyed = [name for name, mask in dataset.mask.items() if mask is Mask.HMAC]
    if keyed and not dataset.mask_key:
        raise UsageError(
            f"{dataset.name}: mask.{keyed[0]}: hmac needs the setting mask_key (ONEFOLD_MASK_KEY), which is not set. "
            "Nothing was run. Set it wherever Onefold runs, or say hide, which needs none."
        )


def _text(value: Any) -> bytes:
    parts = isinstance(value, dict | list | tuple | bool)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str) if parts else str(value)
    return text.encode(errors="surrogatepass")
