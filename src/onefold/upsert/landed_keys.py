"""The landed records of some keys, whatever a run made of them: filtered, rejected, skipped and aborted ones, too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.identity import identify, readable_key
from onefold.dedup.schemas import with_kept_schemas
from onefold.errors import ExportColumnError, ObjectTooLargeError, UnreadableObjectError
from onefold.folding.message_digest import message_digest
from onefold.folding.strategy import folding_of
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.landings import landings_of
from onefold.landing.manifest import Manifest
from onefold.offsets import Range, TopicPartition, merged
from onefold.records import envelope as E
from onefold.records.landed_objects import objects_named
from onefold.records.read import read_records
from onefold.spark.codegen import sized
from onefold.spark.offset_ranges import ranges_by
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.upsert.commit_record import chain
from onefold.upsert.documents import LandedKeys
from onefold.upsert.forgotten_versions import Versions, highest_of
from onefold.values.decode import FILTERED, REJECTED, decode
from onefold.values.rejection import REJECTED_TYPE
from onefold.vocabulary import LogStatus, Verdict

_ANY_KEY, _USABLE, _BECAME, _ASKED, _MINE, _OF_SUM = (
    f"_forget_{name}" for name in ("any_key", "usable", "became", "asked", "mine", "of_sum")
)
UNREADABLE, UNPUBLISHED = "unreadable", "not published"
"""What became of a record whose key cannot be read, and of one in a batch that is not published."""
LEFT_OUT = "skipped or forgotten"
"""What became of a record that could be used; or it was used, and its verdict has the key."""
_UNREADABLE = (UnreadableObjectError, ExportColumnError, ObjectTooLargeError)
Places = dict[str, list[Range]]


@dataclass
class KnownRecords:
    """What is known of the records of some keys: offsets by TopicPartition.key, or lines by object digest; the keys
    themselves, versions, and digests of identities."""

    keys: set[bytes] = field(default_factory=set)
    partitions: Places = field(default_factory=dict)
    lines: Places = field(default_factory=dict)
    versions: Versions = field(default_factory=list)
    identities: set[bytes] = field(default_factory=set)

    def add_places(self, partitions: Mapping[str, list[Range]], lines: Mapping[str, list[Range]]) -> None:
        """The places of more records."""
        for known, more in ((self.partitions, partitions), (self.lines, lines)):
            for name, ranges in more.items():
                known[name] = merged([*known.get(name, []), *ranges])

    def add_rows(self, rows: DataFrame, dataset: Dataset) -> None:
        """The highest versions and the identities of rows with `_key`, `_order` and what else a mark asks for."""
        if C.VERSION in rows.columns:
            self.versions += highest_of(rows, dataset)
        if dataset.version_of_delivery:
            digests = rows.select(message_digest(F.col(C.KEY), rows.columns).alias("digest")).distinct()
            self.identities |= {bytes(row.digest) for row in digests.where("digest IS NOT NULL").collect()}

    def add_messages(self, messages: DataFrame, dataset: Dataset) -> None:
        """The same of rows of the ledger of messages, which has the identities' digests."""
        self.versions += highest_of(messages, dataset)
        if dataset.version_of_delivery:
            digests = messages.where(F.col(S.MESSAGE).isNotNull()).select(S.MESSAGE).distinct()
            self.identities |= {bytes(row[0]) for row in digests.collect()}


def add_landed(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    landings: Sequence[Manifest],
    asked: Collection[bytes],
    known: KnownRecords,
) -> None:
    """Add what landings hold of some keys, or of the messages of some sums. One that cannot be read is left out."""
    for landing in landings if asked else ():
        with suppress(*_UNREADABLE), _rows_of(session, lake, dataset, landing, asked) as read:
            rows = read.where(F.col(_BECAME) != UNREADABLE).withColumn(C.KEY, F.col(_ANY_KEY))
            if found := {bytes(row[0]) for row in rows.select(C.KEY).distinct().collect()}:
                known.keys |= found
                known.add_places(*places_of(rows, dataset, landing))
                known.add_rows(rows, dataset)


def find_landed(session: SparkSession, lake: Lake, dataset: Dataset, asked: Collection[bytes]) -> LandedKeys:
    """Where the landings of a dataset's sources hold records of some keys, by what became of them; and records without
    a readable key. Positions are exact."""
    found: dict[str, Places] = {}
    unread = []
    table = find_state(lake, dataset)
    published = {record.batch for record in chain(lake, dataset, table.main.record)} if table else set()
    for landing in landings_of(lake, dataset):
        try:
            with _rows_of(session, lake, dataset, landing, asked) as rows:
                by_became = ranges_by(rows, [_BECAME, *E.POSITION[:-1]], E.OFFSET)
        except _UNREADABLE:
            unread.append(landing.batch)
            continue
        for (became, *where), ranges in by_became.items():
            seen = became if became == UNREADABLE or landing.batch in published else UNPUBLISHED
            key, places = _key_of(where), found.setdefault(seen, {})
            places[key] = merged([*places.get(key, []), *ranges])
    return LandedKeys(unreadable=found.pop(UNREADABLE, {}), records=found, unread=unread)


@contextmanager
def _rows_of(
    session: SparkSession, lake: Lake, dataset: Dataset, landing: Manifest, asked: Collection[bytes]
) -> Iterator[DataFrame]:
    """The records of a landing that have an asked key, or are of an asked sum, or have payload and no readable key:
    identities and places, `_forget_any_key`, `_forget_became`. They are kept meanwhile: a condition on the key would be
    pushed into the decoder, which then runs once for each use of it."""
    with sized(session, landing.size), objects_named(landing):
        records = read_records(session, lake, dataset, landing)
        dataset = with_kept_schemas(lake, dataset, records)
        decoded = decode(records, dataset)
        _, refused = folding_of(dataset).own_columns()
        is_usable = F.coalesce(F.lit(None).cast(REJECTED_TYPE), *refused).isNull()
        marked = decoded.withColumns({_ANY_KEY: readable_key(dataset), _USABLE: is_usable})
        identified = identify(marked, dataset)
        group = folding_of(dataset).group_key()
        made = {_BECAME: _became()} | ({} if group is None else {_OF_SUM: group})
        if C.VERSION in identified.columns:  # one from the future would bar the key for ever
            made[C.VERSION] = F.when(F.col(_USABLE), F.col(C.VERSION))
        columns = [_ANY_KEY, *made, C.ORDER, C.MESSAGE_ID, C.PRODUCER, *E.POSITION, E.OBJECT, E.LINE]
        known = identified.withColumns(made)
        kept = known.select(*(name for name in columns if name in known.columns)).persist()
        try:
            unreadable = F.col(_BECAME) == UNREADABLE
            rows = _with_asked(kept, _MINE, F.col(_ANY_KEY), asked)
            wanted = unreadable | F.col(_MINE)
            if group is not None:
                rows = _with_asked(rows, _OF_SUM, F.col(_OF_SUM), asked)
                wanted = wanted | F.col(_OF_SUM)
            yield rows.where(wanted)
        finally:
            kept.unpersist()


def _became() -> Column:
    payload = reduce(Column.__or__, (F.col(name).isNotNull() for name in (E.KEY_BYTES, E.VALUE_BYTES)))
    unreadable = F.col(_ANY_KEY).isNull() & payload & ~F.col(E.FATE).eqNullSafe(LogStatus.CONTROL)
    return (
        F.when(unreadable, UNREADABLE)
        .when(F.col(REJECTED).isNotNull(), Verdict.REJECTED)
        .when(F.col(FILTERED), Verdict.FILTERED)
        .otherwise(LEFT_OUT)
    )


def _with_asked(rows: DataFrame, name: str, key: Column, asked: Collection[bytes]) -> DataFrame:
    """Add whether a row has one of the keys."""
    frame = rows.sparkSession.createDataFrame([(digest,) for digest in asked], f"{_ASKED} binary")
    marked = rows.withColumn(name, key).join(F.broadcast(frame), F.col(name) == F.col(_ASKED), "left")
    return marked.withColumn(name, F.col(_ASKED).isNotNull()).drop(_ASKED)


def places_of(rows: DataFrame, dataset: Dataset, landing: Manifest) -> tuple[Places, Places]:
    """Where the records of a landing lie."""
    if dataset.source.exact:
        return {_key_of(where): ranges for where, ranges in ranges_by(rows, [*E.POSITION[:-1]], E.OFFSET).items()}, {}
    digests = landing.digests
    return {}, {digests[name]: ranges for (name,), ranges in ranges_by(rows, [E.OBJECT], E.LINE).items()}


def _key_of(where: Sequence[object]) -> str:
    cluster, topic, incarnation, partition = where
    return TopicPartition.model_validate(
        {"cluster": cluster, "topic": topic, "incarnation": incarnation, "partition": partition}
    ).key
