"""A record's version, versions that do not compare (offsets of two partitions), and times that cannot be right."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path, parse
from onefold.dataset.modes.version import Version
from onefold.folding.positions import partition_of
from onefold.instants import span_text
from onefold.records import envelope as E
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.values.connector_positions import POSTGRES, SERVERS
from onefold.values.decode import REJECTED
from onefold.values.expressions import compile_expression
from onefold.values.rejection import rejected, unusable
from onefold.vocabulary import Reason

APART = "_apart"
"""While a batch is judged: order of an earlier record of the key with which a record's version does not compare."""
_DAY = 86_400_000_000
"""Microseconds."""
_OFFSETS = 1 << 48
"""More than a partition ever has: the offsets of a re-created topic, read as versions, start above it."""


_NO_POSITION = (
    "debezium: the change has no position that orders it. source has it as sequence (PostgreSQL, with op), file, pos "
    "and server_id (MySQL, MariaDB), commit_lsn (SQL Server), commit_scn and scn (Oracle, with op) or ord (MongoDB); "
    "ExtractNewRecordState adds it by add.fields"
)


def version_of(version: Version) -> tuple[Column, list[Column]]:
    """A record's version, and why it has none. Of the number it expects, only the next can follow."""
    given = [(place, text, compile_expression(parse(text))) for place, text in version.expressions]
    if version.by_connector:
        parts = [part.value for _, _, part in given]
        missing = reduce(Column.__or__, (part.isNull() for part in parts))
        return _composite(parts), [F.when(missing, rejected(Reason.NULL_VERSION, _NO_POSITION))]
    refused = [unusable(part, Reason.NULL_VERSION, text) for _, text, part in given]
    parts = [_of_incarnation(text, part.value) for place, text, part in given if place == "from"]
    for expected in (part.value for place, _, part in given if place == "expected"):
        following = F.try_add(expected, F.lit(1))  # null behind the greatest number
        made = parts[0] if parts else following
        said = F.concat(F.lit("it expects version "), expected.cast("string"))
        if parts:
            said = F.concat(said, F.lit(" and makes "), made.cast("string"))
        refused.append(F.when(following.isNull() | (made != following), rejected(Reason.WRONG_STEP, said)))
        parts = [made]
    return parts[0] if len(parts) == 1 else _composite(parts), refused


def ahead_of_log(dataset: Dataset) -> list[Column]:
    """Why a record's version cannot be right: a time of it is more than `max_ahead` after the record's log timestamp.
    One such stamp would be the greatest version of its key for a long time. A record without a log timestamp is not
    asked."""
    if dataset.max_ahead is None:
        return []
    stamp, most = F.col(E.TIMESTAMP), dataset.max_ahead // timedelta(milliseconds=1)
    limit = F.try_multiply(F.try_add(stamp, F.lit(most)), F.lit(1000))  # null where no version can be so late
    found = []
    for text in dataset.times_of_version:
        value, kind = compile_expression(parse(text)).value, dataset.type_of(parse(text))
        of_date = kind is not None and kind.name == "date"
        micros = F.unix_date(value).cast("bigint") * _DAY if of_date else F.unix_micros(value)
        said = F.concat(
            F.lit(f"{text} is "),
            value.cast("string"),
            F.lit(f", more than {span_text(dataset.max_ahead)} after the record's log timestamp, "),
            F.expr(C.stamp(E.TIMESTAMP)).cast("string"),
        )
        found.append(F.when((stamp >= 0) & (micros > limit), rejected(Reason.VERSION_AHEAD, said)))
    return found


def _of_incarnation(text: str, part: Column) -> Column:
    """A part of a version; an offset behind all those of earlier incarnations of the topic."""
    if parse(text) != Path("offset"):
        return part
    return part + (F.col(E.INCARNATION).cast("bigint") - 1) * F.lit(_OFFSETS)


def _composite(parts: Sequence[Column]) -> Column:
    """A version of several parts, as one value that orders by the first, then the second, and so on."""
    return F.struct(*(part.alias(f"v{number}") for number, part in enumerate(parts, 1)))


def set_apart(records: DataFrame, dataset: Dataset, within: tuple[str, ...]) -> DataFrame:
    """Records whose version does not compare with that of an earlier one of their key leave the fold, as a conflict:
    what is before the offset is equal, and they are of another partition. Adds `APART`, the order of that other."""
    if version_by_connector(dataset):
        return _leaving(records.withColumn(APART, _incomparable_in_batch(within)), _OTHER_LOG)
    if dataset.before_offset is None:
        return records
    key: list[Column | str] = [C.KEY, *within, *parts_before_offset(dataset, F.col(C.VERSION))]
    first = F.min(C.ORDER).over(Window.partitionBy(*key))
    apart = F.col(C.KEY).isNotNull() & (partition_of(first) != partition_of(F.col(C.ORDER)))
    marked = records.withColumn(APART, F.when(apart, first))
    said = F.concat(
        F.lit("offsets of two partitions order nothing: an earlier record of the key is in "),
        *(F.col(APART)[name].cast("string") if name else F.lit("-") for name in ("topic", "", "partition")),
    )
    return _leaving(marked, said)


def _leaving(marked: DataFrame, said: Column | str) -> DataFrame:
    """Records that are set apart without their key, and with the reason."""
    said = F.lit(said) if isinstance(said, str) else said
    gone = F.col(APART).isNotNull()
    left = F.when(gone, F.struct(F.lit(Reason.INCOMPARABLE_VERSION).alias("reason"), said.alias("detail")))
    columns = {REJECTED: F.coalesce(F.col(REJECTED), left), C.KEY: F.when(~gone, F.col(C.KEY))}
    if C.READABLE_KEY in marked.columns:
        columns[C.READABLE_KEY] = F.when(gone, F.col(C.KEY)).otherwise(F.col(C.READABLE_KEY))
    return marked.withColumns(columns)


_OTHER_LOG = (
    "positions of the connector that do not compare: of another server, or of another replication slot than an earlier "
    "record of the key"
)


def version_by_connector(dataset: Dataset) -> bool:
    """Whether the position of Debezium's connector is the version."""
    return dataset.apply.version is not None and dataset.apply.version.by_connector


class _Position:
    """A version that is the position of a connector, by its parts."""

    def __init__(self, version: Column) -> None:
        self.first, self.kind, self.second, source = (version[f"v{number}"] for number in range(1, 5))
        self.database = F.floor(source / F.lit(1 << SERVERS))
        self.server = source % F.lit(1 << SERVERS)
        self.is_postgres = self.database == POSTGRES
        self.is_streamed = self.is_postgres & (self.first >= 0) & (self.kind == 1)
        self.is_first_read = self.is_postgres & (self.first < 0) & (self.kind == 0)

    def is_after_slot(self, other: _Position) -> Column:
        """Whether it has no first part, and was written behind a change that has: a new slot wrote it."""
        return self.is_postgres & (self.first < 0) & other.is_streamed & (self.second > other.first)

    def differs(self, other: _Position) -> Column:
        """Whether two positions do not compare."""
        servers = (self.server > 0) & (other.server > 0) & (self.server != other.server)
        reads = self.is_first_read & other.is_first_read & (self.second != other.second)
        apart = (self.database != other.database) | servers | reads
        return apart | self.is_after_slot(other) | other.is_after_slot(self)


def _incomparable_in_batch(within: tuple[str, ...]) -> Column:
    """Of a record of a batch the order of another of its key with which its position does not compare, and which is of
    the smaller database, server, first read or change; null: there is none."""
    at = _Position(F.col(C.VERSION))
    of_key = Window.partitionBy(C.KEY, *within)

    def least(value: Column, where: Column) -> Column:
        found = F.when(where, F.struct(value.alias("value"), F.col(C.ORDER).alias("order")))
        return F.min(found).over(of_key)

    streamed, read = least(at.first, at.is_streamed), least(at.second, at.is_first_read)
    server, database = least(at.server, at.server > 0), least(at.database, F.lit(True))
    behind = at.is_postgres & (at.first < 0) & (at.second > streamed["value"])
    other = F.when(at.database > database["value"], database["order"])
    other = other.when((at.server > 0) & (at.server > server["value"]), server["order"])
    other = other.when(behind, streamed["order"])
    other = other.when(at.is_first_read & (at.second > read["value"]), read["order"])
    return F.when(F.col(C.KEY).isNotNull(), other)


def are_apart(has: Column, base_order: Column, dataset: Dataset) -> Column:
    """Whether a version does not compare with that of the row that the base has: only the offsets differ, of two
    partitions."""
    if version_by_connector(dataset):
        mine, base = (_Position(F.col(name)) for name in (C.VERSION, U.BASE + C.VERSION))
        return F.coalesce(has & mine.differs(base), F.lit(False))
    if dataset.before_offset is None:
        return F.lit(False)
    parts = (parts_before_offset(dataset, F.col(name)) for name in (C.VERSION, U.BASE + C.VERSION))
    same = (part == other for part, other in zip(*parts, strict=True))
    elsewhere = partition_of(F.col(C.ORDER)) != partition_of(base_order)
    return F.coalesce(reduce(Column.__and__, same, has & elsewhere), F.lit(False))


def parts_before_offset(dataset: Dataset, version: Column) -> list[Column]:
    """The parts of a version that are before an offset."""
    several = dataset.apply.version is not None and len(dataset.apply.version.parts) > 1
    return [version[f"v{number}"] for number in range(1, 1 + (dataset.before_offset or 0))] if several else []
