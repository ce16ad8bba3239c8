"""Literal records for verdict tables: one partition, so that an offset names a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onefold.dataset import Dataset
from tests.support.oracle import Decoded

PRODUCER = {"name": "header.p", "sequence": "long(header.s)"}
IDENTITY = {"message_id": "header.m", "business_key": ["header.b"]}


def rec(offset: int, content: str = "x", key: str | None = "k", *, at: int = 100, **given: Any) -> Decoded:
    """A record at t/0; `version`, the levels, `deleted`, `rejected`, `filtered` as given."""
    return Decoded(("c", "t", 1, 0, offset), at, key, content, **given)


def append(dataset: Callable[..., Dataset], **levels: Any) -> Dataset:
    """One row a business key; message ids are the narrower level, and what else is given."""
    return dataset(identity=IDENTITY | levels)


def upsert(dataset: Callable[..., Dataset], tie: str = "conflict", **levels: Any) -> Dataset:
    """The newest version a key: one of the value, so that a message that is sent again has its own."""
    version = {"from": "value.v", "tie": tie}
    apply = {"mode": "upsert", "key": ["key.id"], "version": version, "delete_when": "value.gone"}
    return dataset(
        key={"format": "json"},
        value={"fields": {"v": "long", "gone": "boolean?"}},
        identity=IDENTITY | levels,
        apply=apply,
    )
