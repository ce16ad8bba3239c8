"""The total order in state tables that tests make by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from onefold.dataset.reserved_columns import FLAT_ORDER

_KINDS = {"cluster": pa.string(), "topic": pa.string(), "incarnation": pa.int32(), "partition": pa.int32()}
ORDER = [(name, _KINDS.get(part, pa.int64())) for part, name in FLAT_ORDER.items()]
"""Its columns, with their types."""


def flat(**parts: Any) -> dict[str, Any]:
    """These columns of a row; parts that are not given are null."""
    return {name: parts.pop(part, None) for part, name in FLAT_ORDER.items()} | parts
