"""Which records of a staged batch forget marks take out by their key: what was landed before a mark, and what is sent
again of it later.

A record of a forgotten key counts for nothing if a mark of the key says so:

- it was landed before the mark;
- the mode's key is the message's identity (append, increment): the record is the forgotten message again;
- its version is not greater than the highest that the mark knows of the key;
- where a version belongs to the delivery (`Declaration.version_of_delivery`): the mark knows its message.

What a mark names by position is taken out without this (`onefold.upsert.decisions_in_force`). Here the staged rows of
the batch are asked, and the answer is positions, too: dedup takes them out before it chooses survivors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions import Mark
from onefold.decisions.marks import identities_of
from onefold.dedup.documents import Staged, TakenOut
from onefold.folding.message_digest import message_digest
from onefold.folding.strategy import folding_of
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.offsets import Range, TopicPartition, meet, merged, minus
from onefold.records import envelope as E
from onefold.records.covered import mark_positions_of
from onefold.spark.flat_structs import read_flat
from onefold.spark.offset_ranges import ranges_by
from onefold.tables import staging as C
from onefold.upsert.forgotten_versions import HIGHEST, not_greater
from onefold.vocabulary import Reason

_KEY, _SUM, _KNOWN, _MARK, _HIGHEST, _LANDED, _MESSAGE = (
    f"_forget_{name}" for name in ("key", "sum", "known", "mark", "highest", "landed", "message")
)
_PARTITION = ("cluster", "topic", "incarnation", "partition")


def with_forgotten(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    staged: Staged,
    manifest: Manifest,
    marks: Collection[Mark],
    taken: TakenOut,
) -> TakenOut:
    """What is taken out of a batch, with the records that marks take out by their key. Of a batch that meets no key of
    a mark only the keys are read."""
    if taken.everything or not marks or not staged.records:
        return taken
    rows = _keyed(read_flat(session, staged.table), dataset)
    pairs = _pairs(rows, list(marks))
    if not pairs:
        return taken
    offsets, lines = _places(_taken(rows, lake, dataset, staged, manifest, pairs), dataset)
    if offsets:  # by position two contents would go, of which one may be another key's: such a batch is red
        odd, _ = _places(rows.where(F.col(C.REASON) == Reason.INCONSISTENT_POSITION), dataset)
        offsets = {key: left for key, ranges in offsets.items() if (left := minus(ranges, odd.get(key, [])))}
    more = TakenOut(
        forgotten=_together(taken.forgotten, offsets),
        forgotten_lines=_together(taken.forgotten_lines, lines),
    )
    return taken.model_copy(update=more.model_dump(exclude_unset=True))


def _together(known: dict[str, list[Range]], more: dict[str, list[Range]]) -> dict[str, list[Range]]:
    return {place: merged([*known.get(place, []), *more.get(place, [])]) for place in sorted({*known, *more})}


Pairs = list[tuple[bytes, Mark]]
"""Keys of a batch, each with a mark that has it."""


def _keyed(rows: DataFrame, dataset: Dataset) -> DataFrame:
    """Staged rows with `_forget_key`, the key that can be read, and `_forget_sum`, the key of the row that they are a
    part of."""
    group = folding_of(dataset).group_key()
    read = F.col(C.READABLE_KEY) if C.READABLE_KEY in rows.columns else F.lit(None).cast("binary")
    if group is not None:  # of what is no survivor the fields are not kept: `_taken` finds it by its message
        return rows.withColumns({_KEY: F.col(C.KEY), _SUM: F.coalesce(read, F.when(F.col(C.SURVIVOR), group))})
    known = [F.col(name) for name in (C.KEY, C.NULL_KEY, C.FILTERED_KEY) if name in rows.columns]
    return rows.withColumns({_KEY: F.coalesce(*known, read), _SUM: F.lit(None).cast("binary")})


def _pairs(rows: DataFrame, marks: Sequence[Mark]) -> Pairs:
    keys, numbers = list[bytes](), list[int]()
    for number, mark in enumerate(marks):
        known = sorted({*mark.keys, *mark.asked})
        keys += map(bytes.fromhex, known)
        numbers += [number] * len(known)
    frame = rows.sparkSession.createDataFrame(
        pa.table({_KNOWN: pa.array(keys, pa.binary()), _MARK: pa.array(numbers, pa.int32())})
    )
    own = rows.select(F.explode(F.array(_KEY, _SUM)).alias(_KNOWN))
    met = own.join(F.broadcast(frame), _KNOWN).select(_KNOWN, _MARK).distinct()
    return sorted(((bytes(key), marks[number]) for key, number in met.collect()), key=lambda pair: pair[0])


def _taken(
    rows: DataFrame, lake: Lake, dataset: Dataset, staged: Staged, manifest: Manifest, pairs: Pairs
) -> DataFrame:
    """The staged rows that marks take out; one that several take out, more than once."""
    marks = list({mark.attempt: mark for _, mark in pairs}.values())
    met = _with_landed(_of_pairs(rows, dataset, _KEY, pairs), staged, manifest, marks)
    takes = [F.col(_LANDED)]
    if dataset.apply.KEYED_BY_IDENTITY:
        takes.append(F.lit(True))
    elif C.VERSION in rows.columns:
        is_not_greater = not_greater(dataset, rows.schema[C.VERSION].dataType)
        takes.append(F.exists(_HIGHEST, is_not_greater))
    known = [digest for mark in marks for digest in identities_of(lake, dataset.name, mark)]
    if dataset.version_of_delivery and known:
        frame = rows.sparkSession.createDataFrame(pa.table({_MESSAGE: pa.array(sorted({*known}), pa.binary())}))
        digest = message_digest(F.col(_KEY), rows.columns)
        met = met.join(F.broadcast(frame), digest == F.col(_MESSAGE), "left")
        takes.append(F.col(_MESSAGE).isNotNull())
    found = met.where(reduce(Column.__or__, (F.coalesce(take, F.lit(False)) for take in takes)))
    if folding_of(dataset).group_key() is None:
        return found.select(*rows.columns)
    of_sums = _with_landed(_of_pairs(rows, dataset, _SUM, pairs), staged, manifest, marks).where(_LANDED)
    messages = of_sums.where(F.col(C.KEY).isNotNull()).select(F.col(C.KEY).alias(_KNOWN), _MARK).distinct()
    copies = rows.join(messages, F.col(C.KEY) == F.col(_KNOWN))
    copies = _with_landed(copies, staged, manifest, marks).where(_LANDED)
    return reduce(DataFrame.unionByName, (some.select(*rows.columns) for some in (found, of_sums, copies)))


def _of_pairs(rows: DataFrame, dataset: Dataset, key: str, pairs: Pairs) -> DataFrame:
    """Rows whose `key` marks have, once for each of these: `_forget_mark`, its attempt, and `_forget_highest`. Versions
    of another declaration do not compare."""
    known = [
        (
            digest,
            mark.attempt,
            [(highest.version, highest.place) for highest in mark.highest.get(digest.hex(), ())]
            if mark.versioned_by == dataset.versioned_by
            else [],
        )
        for digest, mark in pairs
    ]
    frame = rows.sparkSession.createDataFrame(known, f"{_KNOWN} binary, {_MARK} string, {_HIGHEST} {HIGHEST}")
    return rows.join(F.broadcast(frame), F.col(key) == F.col(_KNOWN)).drop(_KNOWN)


def _with_landed(rows: DataFrame, staged: Staged, manifest: Manifest, marks: Sequence[Mark]) -> DataFrame:
    """Add `_forget_landed`: whether the record was landed before the mark of `_forget_mark`."""
    ranges = {mark.attempt: landed_before(mark, staged) for mark in marks}
    marked = mark_positions_of(rows, _LANDED, _MARK, ranges, C.ORDER)
    landed, digests = F.col(_LANDED), manifest.digests
    for mark in marks:
        known = set(mark.landed_objects)
        objects = [name for name in staged.objects if digests.get(name) in known]
        if objects:
            whole = len(objects) == len(staged.objects)
            landed |= (F.col(_MARK) == mark.attempt) & (F.lit(True) if whole else F.col(E.OBJECT).isin(objects))
    return marked.withColumn(_LANDED, landed)


def landed_before(mark: Mark, staged: Staged) -> list[tuple[TopicPartition, Range]]:
    """The offsets of a batch that had been landed before a mark."""
    return [
        (TopicPartition.of(key), range_)
        for key, offsets in staged.partitions.items()
        for range_ in meet(
            merged([*offsets.present, *offsets.quarantined, *offsets.undecided]), mark.landed.get(key, [])
        )
    ]


def _places(rows: DataFrame, dataset: Dataset) -> tuple[dict[str, list[Range]], dict[str, list[Range]]]:
    """Where rows lie: offsets by TopicPartition.key, or, where positions are inferred, lines by object's name."""
    if not dataset.source.exact:
        return {}, {name: ranges for (name,), ranges in ranges_by(rows, [E.OBJECT], E.LINE).items()}
    flat = rows.select(*(F.col(f"{C.ORDER}.{name}").alias(name) for name in (*_PARTITION, "offset")))
    offsets = {}
    for (cluster, topic, incarnation, number), ranges in ranges_by(flat, [*_PARTITION], "offset").items():
        where = TopicPartition(cluster=cluster, topic=topic, incarnation=incarnation, partition=number)
        offsets[where.key] = ranges
    return offsets, {}
