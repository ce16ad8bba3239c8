"""What the objects of an export say by their names: the layout, their role, their place in the log."""

from __future__ import annotations

import re
from typing import Literal

_FORMATS = r"(?:\.json(?:\.gz)?|\.avro|(?:\.(?:snappy|gz|zstd|lz4|br))?\.parquet)$"
"""How objects of Kafka Connect's S3 sink end, by format and compression."""
_TOMBSTONES = re.compile(rf"(?:^|/)tombstone/[^/]+\.keys{_FORMATS}")
_NAMES = {
    "kcat": re.compile(r"\.(jsonl|ndjson|json|kcat)(\.gz)?$"),
    "connect": re.compile(
        rf"(?:^|/)(?P<topic>[^/+]+)\+(?P<partition>\d+)\+(?P<start>\d+)(?P<role>\.keys|\.headers)?{_FORMATS}"
    ),
    "aiven": re.compile(r"(?:^|/)(?P<topic>[^/]+)-(?P<partition>\d+)-(?P<start>\d+)(?:\.jsonl?)?(?:\.gz)?$"),
    "parquet": re.compile(r"\.parquet$"),
    # On a broker's disk `orders-0/00000000000000000042.log`; in tiered storage with a topic's and a segment's id.
    "segments": re.compile(
        r"(?:^|/)(?P<topic>[a-zA-Z0-9._-]{1,249}?)-(?:(?P<partition>\d+)|[a-zA-Z0-9_-]{22}/(?P<tiered>\d+))"
        r"/(?P<start>\d{20})(?:-[a-zA-Z0-9_-]{22})?\.log$"
    ),
}
"""What objects of a layout are called."""
_BESIDE = re.compile(
    r"(?:^|/)(?:\d{20}(?:-[a-zA-Z0-9_-]{22})?\.(?:index|timeindex|txnindex|snapshot|indexes|rsm-manifest)"
    r"|leader-epoch-checkpoint|partition\.metadata)$"
)
"""What a broker keeps beside its segments; they say all of it themselves."""


def base_of(name: str) -> str:
    """What an object of values shares with its companions, whose formats may be others."""
    return re.sub(rf"(?:\.keys|\.headers)?{_FORMATS}", "", name)


def position_of(name: str, layout: str = "connect") -> tuple[str, int, int] | None:
    """Topic, partition and first offset of an object, by its name; None: the layout's names do not say it."""
    found = _NAMES[layout].search(name)
    told = found.groupdict() if found else {}
    if "topic" not in told:
        return None
    return told["topic"], int(told["partition"] or told["tiered"]), int(told["start"])


def is_ignored(layout: str, name: str) -> bool:
    """Whether an object is not of a layout, nor what belongs beside it."""
    return role_of(layout, name) is None and not (layout == "segments" and _BESIDE.search(name))


def role_of(layout: str, name: str) -> Literal["values", "keys", "headers"] | None:
    """What an object of an export is, by its name; None: not of this layout."""
    found = _NAMES[layout].search(name)
    if not found:
        return None
    if is_tombstones(layout, name):
        return "values"
    role = found.groupdict().get("role") or ""
    return {".keys": "keys", ".headers": "headers"}.get(role, "values")  # type: ignore[return-value]


def is_tombstones(layout: str, name: str) -> bool:
    """Whether an object has the keys of records without a value, and stands for these records itself: Connect's sink
    writes them into a folder of their own (`behavior.on.null.values=write`, `tombstone.encoded.partition`)."""
    return layout == "connect" and bool(_TOMBSTONES.search(name))
