"""What people are shown in place of the values of masked columns.

Code that takes a value out of the table for a report, a check, an error or a log masks it there, so that what is
stored, handed on and rendered holds none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from onefold.dataset.model import Dataset

HIDDEN = "not shown: the dataset masks columns"
"""In place of a text that may hold anything, such as a record that could not be read."""


def digest(value: Any) -> str:
    """The same for equal values: it tells that two differ, not what they are."""
    parts = isinstance(value, dict | list | tuple | bool)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str) if parts else str(value)
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:12]}"


LONGEST = 1_000
"""Letters of a value that are shown."""


def bounded(value: Any) -> Any:
    """A value as it is, or of a long value the beginning as text, with its length and a digest of all of it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} letters, {digest(value)})"


def masked(dataset: Dataset, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row, or a part of a row, as people are shown it by its columns: long values are cut; NULL stays NULL."""
    return {name: digest(of) if of is not None and name in dataset.masked else bounded(of) for name, of in row.items()}


def masked_json(dataset: Dataset, row: str) -> str:
    """The same of a row that is written as JSON."""
    if not dataset.mask and len(row) <= LONGEST:
        return row
    return json.dumps(masked(dataset, json.loads(row, parse_float=str)), ensure_ascii=False)
