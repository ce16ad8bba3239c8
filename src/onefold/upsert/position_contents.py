"""What the table keeps of the contents at a batch's positions: digests in the verdict table, bytes in the quarantine.

It is read only where ranges overlap: of the verdict table only the attempts that covered the batch's offsets, and of
the quarantine only entries of its offsets.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.documents import Staged
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.offsets import Coverage, Present, Range, TopicPartition, meet, merged, minus
from onefold.records.covered import at_positions_of, mark_positions
from onefold.spark.flat_structs import read_flat
from onefold.spark.offset_ranges import ranges_by
from onefold.tables import staging as C
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.upsert.coverage import covered_objects
from onefold.upsert.known_positions import Known, Ranges, damaged_copies, listed, overlaps
from onefold.upsert.quarantine import read_entries
from onefold.values.canonical import same_content
from onefold.vocabulary import Verdict

_POSITION = ("cluster", "topic", "incarnation", "partition", "offset")
_PARTITION = _POSITION[:-1]
_DIFFERS, _APART, _NOT_COMPARED = 0, 1, 2
_KIND, _KEPT, _THERE = "_fact_kind", "_fact_kept", "_fact_there"


def known_positions(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    staged: Staged,
    manifest: Manifest,
    record: CommitRecord | None,
    snapshot: int,
) -> Known:
    """What the base, whose `record` and `snapshot` these are, knows of the positions of a staged batch."""
    before = record.coverage if record else Coverage()
    covered, quarantined = overlaps(staged, before)
    objects = covered_objects(staged, manifest, before)
    compared: dict[int, Ranges] = {}
    again: Ranges = {}
    lines_again: dict[str, list[Range]] = {}
    if record and covered:
        compared = _compare(session, dataset, staged, covered, covering_attempts(lake, dataset, record, covered))
    if manifest.replays is None:  # what a replay rejects again is its result, and has its first entry
        again = _rejected_again(session, dataset, staged, quarantined, snapshot) if quarantined else {}
        lines_again = {name: lines for name, lines in objects.items() if lines}
    apart, unknown = compared.get(_APART, {}), compared.get(_NOT_COMPARED, {})
    return Known(
        covered=covered,
        differing=compared.get(_DIFFERS, {}),
        apart={key: merged([*apart.get(key, []), *unknown.get(key, [])]) for key in sorted({*apart, *unknown})},
        not_compared=unknown,
        rejected_again=again,
        damaged=damaged_copies(staged),
        objects=objects,
        lines_again=lines_again,
    )


def covering_attempts(
    lake: Lake, dataset: Dataset, record: CommitRecord, wanted: Ranges
) -> list[tuple[CommitRecord, Ranges]]:
    """Which published attempts covered some covered offsets first, each with its own, from `record` back along the
    chain."""
    found, left = list[tuple[CommitRecord, Ranges]](), wanted
    records = chain(lake, dataset, record.name)
    newer = next(records, None)
    while newer and left:
        older = next(records, None)
        before = older.coverage.partitions if older else {}
        earlier = {key: meet(ranges, before.get(key, Present()).present) for key, ranges in left.items()}
        own = {key: fresh for key, ranges in left.items() if (fresh := minus(ranges, earlier[key]))}
        if own:
            found.append((newer, own))
        left = {key: ranges for key, ranges in earlier.items() if ranges}
        newer = older
    return found


def _compare(
    session: SparkSession,
    dataset: Dataset,
    staged: Staged,
    covered: Ranges,
    attempts: list[tuple[CommitRecord, Ranges]],
) -> dict[int, Ranges]:
    """The covered offsets at which readable records are not what was folded there, by how they differ."""
    rows = read_flat(session, staged.table)
    mine = mark_positions(rows, _THERE, listed(covered), C.ORDER).where(_THERE).where(C.readable(rows.columns))
    none = F.lit(None).cast("string")
    own = {
        "key": F.col(C.KEY),
        "version": F.col(C.VERSION).cast("string") if C.VERSION in rows.columns else none,
        "timestamp": F.expr(C.stamp(C.sent_at(rows.columns))),
        "message_id": F.col(C.MESSAGE_ID) if C.MESSAGE_ID in rows.columns else none,
        "content": F.expr(C.position_content(rows.columns)),
    }
    mine = mine.select(*_position(C.ORDER), F.struct(*(of.alias(name) for name, of in own.items())).alias(_THERE))
    # Of several records of an attempt at one position the one that has a key was folded; their contents are equal.
    kept = _verdicts(session, attempts).groupBy(*_POSITION).agg(F.max(F.struct(*own)).alias(_KEPT))
    there, known = F.col(_THERE), F.col(_KEPT)
    apart = there["key"].isNotNull() & ~_all_equal(there, known, ("key", "version", "timestamp", "message_id"))
    kind = (
        F.when(known["content"].isNull(), _NOT_COMPARED)
        .when(~same_content(known["content"], there["content"]), _DIFFERS)
        .when(apart, _APART)
    )
    compared = mine.join(kept, [*_POSITION], "left").withColumn(_KIND, kind).where(F.col(_KIND).isNotNull())
    return _by_kind(compared)


def _verdicts(session: SparkSession, attempts: list[tuple[CommitRecord, Ranges]]) -> DataFrame:
    """What the verdict tables keep of attempts at their offsets; nothing of a table that is gone."""
    found = session.createDataFrame([], _KEPT_DDL)
    for table in sorted({record.verdicts for record, _ in attempts if record.verdicts}):
        if session.catalog.tableExists(table):
            of_table = {record.attempt: listed(ranges) for record, ranges in attempts if record.verdicts == table}
            rows = session.table(table).where(F.col("attempt").isin(list(of_table)))
            rows = at_positions_of(rows.where(F.col("verdict") != Verdict.REJECTED), of_table)
            found = found.unionByName(rows.select(*found.columns))
    return found


_KEPT_DDL = (
    "cluster string, topic string, incarnation int, partition int, offset bigint, key binary, version string, "
    "timestamp timestamp, message_id string, content binary"
)


def _rejected_again(
    session: SparkSession, dataset: Dataset, staged: Staged, quarantined: Ranges, snapshot: int
) -> Ranges:
    """The offsets at which every rejected record of the batch has key and value of one in quarantine."""
    rows = mark_positions(read_flat(session, staged.table), _THERE, listed(quarantined), C.ORDER)
    rows = rows.where(F.col(_THERE) & F.expr(C.REFUSED))
    mine = rows.select(*_position(C.ORDER), F.col(C.RAW_KEY).alias("key"), F.col(C.RAW_VALUE).alias("value"))
    ranges = [range_ for some in quarantined.values() for range_ in some]
    start, end = min(start for start, _ in ranges), max(end for _, end in ranges)
    entries = read_entries(session, dataset, snapshot).where(F.col("offset").between(start, end - 1))
    same = [mine[name].eqNullSafe(entries[name]) for name in (*_POSITION, "key", "value")]
    met = mine.join(entries.distinct(), same, "left_semi").select(*mine.columns, F.lit(0).alias(_KIND))
    new = mine.join(entries, same, "left_anti").select(*mine.columns, F.lit(1).alias(_KIND))
    found = _by_kind(met.unionByName(new))
    again = {key: minus(some, found.get(1, {}).get(key, [])) for key, some in found.get(0, {}).items()}
    return {key: some for key, some in again.items() if some}


def _position(order: str) -> list[Column]:
    return [F.col(f"{order}.{name}").alias(name) for name in _POSITION]


def _all_equal(left: Column, other: Column, names: tuple[str, ...]) -> Column:
    return F.struct(*(left[name] for name in names)).eqNullSafe(F.struct(*(other[name] for name in names)))


def _by_kind(rows: DataFrame) -> dict[int, Ranges]:
    """The offsets of rows by their kind and partition."""
    found: dict[int, Ranges] = {}
    for (*where, kind), ranges in ranges_by(rows, [*_PARTITION, _KIND], "offset").items():
        partition = TopicPartition(**dict(zip(_PARTITION, where, strict=True)))
        found.setdefault(kind, {})[partition.key] = ranges
    return found
