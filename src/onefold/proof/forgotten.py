"""Which claims forget marks take out by their key, asked of each record in plain Python: no join and no window.

What a mark names by position never becomes a claim (`onefold.proof.claims`).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold.dataset import Dataset
from onefold.decisions import Mark
from onefold.landing.manifest import Manifest
from onefold.offsets import Range, TopicPartition
from onefold.proof.expected import expected_of
from onefold.records import envelope as E
from onefold.spark.python_tasks import map_in_python
from onefold.tables import staging as C

_SUM = "_forget_sum"
_TYPED: dict[str, Callable[[str], Any]] = {
    "date": date.fromisoformat,
    "timestamp": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
    "double": float,
    "string": str,
    "boolean": lambda text: text == "true",
}
"""Of a part of a version, by its type, the value of its text; all others are numbers."""


@dataclass(frozen=True)
class _Rules:
    """What a mark says of records, for one dataset and one landing."""

    keys: frozenset[bytes]
    sums: frozenset[bytes]
    landed: Mapping[str, list[Range]]
    objects: frozenset[str]
    highest: Mapping[bytes, list[tuple[tuple[Any, ...], str | None]]]
    identities: frozenset[bytes]
    bars_key: bool
    before_offset: int | None

    def takes(self, key: bytes, row: Mapping[str, Any]) -> bool:
        """Whether the mark takes a record out."""
        order, mine = row[C.ORDER], key in self.keys
        if (mine or row.get(_SUM) in self.sums) and self._was_landed(row, order):
            return True
        if not mine:
            return False
        if self.bars_key or identity_of(key, row) in self.identities:
            return True
        version = _parts(row.get(C.VERSION))
        return any(self._reaches(version, *known, order) for known in self.highest.get(key, ()))

    def _was_landed(self, row: Mapping[str, Any], order: Mapping[str, Any]) -> bool:
        if row[E.OBJECT] in self.objects:
            return True
        where = TopicPartition(**{name: order[name] for name in ("cluster", "topic", "incarnation", "partition")})
        ranges = self.landed.get(where.key, [])
        before = bisect_right(ranges, order["offset"], key=lambda range_: range_[0])
        return before > 0 and order["offset"] < ranges[before - 1][1]

    def _reaches(
        self, version: tuple[Any, ...], highest: tuple[Any, ...], place: str | None, order: Mapping[str, Any]
    ) -> bool:
        """Whether a version compares with the highest, and is not greater."""
        if None in version or not version:
            return False
        if self.before_offset is not None and place != _place(order):
            same = version[: self.before_offset] == highest[: self.before_offset]
            return not same and version <= highest
        return version <= highest


def without_forgotten(
    claims: DataFrame, dataset: Dataset, manifest: Manifest, marks: Sequence[tuple[Mark, list[bytes]]]
) -> DataFrame:
    """Claims without the key of those that marks take out. `marks`: each with the digests of its identities."""
    if not marks:
        return claims
    kind = claims.schema[C.VERSION].dataType if C.VERSION in claims.columns else None
    rules = [_rules_of(dataset, manifest, mark, identities, kind) for mark, identities in marks]
    group, names = expected_of(dataset).group_key(), claims.columns
    if group is not None:
        claims = claims.withColumn(_SUM, group)
    keys = [name for name in (C.KEY, C.FILTERED_KEY) if name in claims.columns]
    asked = [*keys, C.ORDER, E.OBJECT, _SUM, C.VERSION, C.MESSAGE_ID, C.PRODUCER]
    asked = [name for name in asked if name in claims.columns]

    def is_taken(row: Mapping[str, Any]) -> bool:
        own = next((row[name] for name in keys if row[name] is not None), None)
        return own is not None and any(mark.takes(own, row) for mark in rules)

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            taken = pa.array([is_taken(row) for row in batch.select(asked).to_pylist()], pa.bool_())
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name in keys:
                columns[name] = pc.if_else(taken, pa.scalar(None, columns[name].type), columns[name])
            yield pa.RecordBatch.from_pydict(columns)

    return map_in_python(claims, judge, claims.schema).select(*map(F.col, names))


def _rules_of(
    dataset: Dataset, manifest: Manifest, mark: Mark, identities: list[bytes], kind: T.DataType | None
) -> _Rules:
    highest = {}
    if kind is not None and mark.versioned_by == dataset.versioned_by:
        of = [_typed(field.dataType) for field in kind.fields] if isinstance(kind, T.StructType) else [_typed(kind)]
        highest = {
            bytes.fromhex(key): [
                (tuple(typed(text) for typed, text in zip(of, known.version, strict=True)), known.place)
                for known in versions
            ]
            for key, versions in mark.highest.items()
        }
    objects = {name for name, digest in manifest.digests.items() if digest in mark.landed_objects}
    asked = frozenset(map(bytes.fromhex, mark.asked))
    return _Rules(
        keys=asked | frozenset(map(bytes.fromhex, mark.keys)),
        sums=asked,
        landed=mark.landed,
        objects=frozenset(objects),
        highest=highest,
        identities=frozenset(identities if dataset.version_of_delivery else ()),
        bars_key=dataset.apply.KEYED_BY_IDENTITY,
        before_offset=dataset.before_offset,
    )


def _typed(kind: T.DataType) -> Callable[[str], Any]:
    return _TYPED.get(kind.typeName(), Decimal)


def _parts(version: Any) -> tuple[Any, ...]:
    return tuple(version.values()) if isinstance(version, dict) else () if version is None else (version,)


def _place(order: Mapping[str, Any]) -> str:
    return f"{order['cluster']} {order['topic']} {order['partition']}"


def identity_of(key: bytes, row: Mapping[str, Any]) -> bytes | None:
    """The digest of a record's message id, else of its producer's sequence."""
    message, sent = row.get(C.MESSAGE_ID), row.get(C.PRODUCER)
    if message is not None:
        text = f"m{message}"
    elif sent is not None:
        logged = "" if sent["epoch"] < 0 else f"{sent['epoch']} {_place(row[C.ORDER])} "
        text = f"p{logged}{sent['sequence']} {sent['name']}"
    else:
        return None
    return hashlib.sha256(key + text.encode()).digest()[:16]
