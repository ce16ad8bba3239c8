"""Many small tables at once: each round is one Spark job over the next batch of every arrival."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from onefold.dataset import Dataset
from onefold.decisions import LostContent
from onefold.decisions.accepted_gaps import Link
from onefold.dedup.lost_contents import judge_with_lost, put_lost_last
from onefold.dedup.survivors import judge_batch
from onefold.folding.strategy import Placing, folding_of
from onefold.records import envelope as E
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.upsert.known_positions import settle_known
from onefold.values.decode import FILTERED, REJECTED
from onefold.vocabulary import Action, Reason
from tests.support.generate import Arrival
from tests.support.oracle import Decoded

CASE, CONTENT = "case", "content"
ORDER_TYPE = pa.struct(
    [
        ("timestamp", pa.int64()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("incarnation", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
Row = dict[str, Any]
Gap = tuple[Any, int]
"""A key, and the version that needs no version before it."""
_NONE: Mapping[tuple[str, int], Gap] = {}
Lost = Collection[tuple[Any, Any, str]]
"""Contents that lost a conflict by a decision: key, version, content."""
_NOTHING: Mapping[str, Lost] = {}


@dataclass(slots=True)
class Table:
    """The result of one arrival: its rows by key, and the verdicts of each batch."""

    rows: dict[bytes, Row] = field(default_factory=dict)
    messages: list[Row] = field(default_factory=list)
    """The ledger of messages, where a delivery decides."""
    judged: list[list[Row]] = field(default_factory=list)
    covered: set[tuple[Any, ...]] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    """Numbers of the batches that no release publishes: they change no row."""

    def published(self, arrival: Arrival) -> list[Decoded]:
        """The records of the batches that the table consists of."""
        batches = enumerate(arrival.batches)
        return [record for number, batch in batches if number not in self.refused for record in batch]


def fold(
    session: SparkSession,
    arrivals: Sequence[Arrival],
    dataset: Dataset,
    gaps: Mapping[tuple[str, int], Gap] = _NONE,
    lost: Mapping[str, Lost] = _NOTHING,
) -> list[Table]:
    """Fold every arrival's batches, in their order, into a table of its own.

    `gaps`: guard contiguous: by arrival and batch number, the gap that the batch accepts. `lost`: by arrival, the
    contents that lost conflicts decided before its first batch.
    """
    contents = [
        LostContent(
            f"{name}|{key}".encode().hex(),
            None if version is None else f'{{"v":{version}}}',
            content.encode().hex(),
        )
        for name, some in lost.items()
        for key, version, content in some
    ]
    tables = {arrival.name: Table() for arrival in arrivals}
    for number in range(max(len(arrival.batches) for arrival in arrivals)):
        staged = [
            (arrival.name, record, arrival.exact and record.position in tables[arrival.name].covered)
            for arrival in arrivals
            if number < len(arrival.batches)
            for record in arrival.batches[number]
        ]
        if not staged and not any(at == number for _, at in gaps):
            continue
        base = [row for table in tables.values() for row in table.rows.values()]
        records = put_lost_last(identified(session, staged, dataset), dataset, contents)
        rows = judge_batch(records, dataset, within=(CASE,))
        table_rows = state(session, base, dataset)
        if dataset.versions_by_delivery:
            known = [message for table in tables.values() for message in table.messages]
            rows = _meet_messages(session, rows, known, dataset, contents)
        if dataset.apply.HOLDS:  # they are read several times
            rows = rows.persist()
        links = []
        if dataset.apply.HOLDS:
            links = [
                Link(f"{name}|{key}".encode(), version, own=at == number)
                for (name, at), (key, version) in gaps.items()
                if at <= number
            ]
        folding = folding_of(dataset)
        judge = partial(folding.judge, base=folding.base_columns(table_rows), placing=Placing(links=links))
        judged = judge_with_lost(rows, dataset, judge) if lost else judge(rows)
        verdicts = settle_known(judged).toArrow().to_pylist()
        if dataset.apply.HOLDS:
            rows.unpersist()
        by_case: dict[str, list[Row]] = {}
        for row in verdicts:
            by_case.setdefault(row[CASE] or row[C.KEY].decode().rpartition("|")[0], []).append(row)
        for arrival in arrivals:
            if number < len(arrival.batches):
                (_link if dataset.apply.HOLDS else _apply)(tables[arrival.name], by_case.get(arrival.name, []))
    return [tables[arrival.name] for arrival in arrivals]


def _meet_messages(
    session: SparkSession, rows: DataFrame, known: Sequence[Row], dataset: Dataset, lost: Sequence[LostContent]
) -> DataFrame:
    """The rows of a batch, without copies of messages that the tables have."""
    columns = {C.KEY: pa.binary(), C.VERSION: pa.int64(), C.ORDER: ORDER_TYPE, C.compared(dataset): pa.binary()}
    folding = folding_of(dataset)
    messages = put_lost_last(_frame(session, known, columns | {S.MESSAGE: pa.binary()}), dataset, lost)
    return folding.meet_messages(rows, folding.known_messages(messages))


def identified(session: SparkSession, staged: Sequence[tuple[str, Decoded, bool]], dataset: Dataset) -> DataFrame:
    """The columns of `onefold.dedup.identity.identify`, for (case, record, covered); the case is part of the key."""
    rows = []
    for case, record, covered in staged:
        cluster, topic, incarnation, partition, offset = record.position
        row = {
            CASE: case,
            CONTENT: record.whole,
            E.TIMESTAMP: record.timestamp,
            E.CLUSTER: cluster,
            E.TOPIC: topic,
            E.INCARNATION: incarnation,
            E.PARTITION: partition,
            E.OFFSET: offset,
            C.KEY: None if record.key is None else key_of(case, record),
            C.ORDER: dict(zip(ORDER_TYPE.names, record.order, strict=True)),
            C.HASH: record.whole.encode(),
            C.COMPARED: record.content.encode(),
            C.VERSION: record.version,
            C.PRODUCER: record.producer and {"name": record.producer, "epoch": -1, "sequence": 7},
            C.MESSAGE_ID: record.message_id,
            C.BUSINESS_KEY: record.business_key,
            C.DELETED: record.deleted,
            C.HIDDEN: record.hidden,
            REJECTED: {"reason": record.rejected, "detail": "said so"} if record.rejected else None,
            FILTERED: record.filtered,
            E.FATE: None,
            C.SAID: b"" if record.rejected else None,
            U.COVERED: covered,
            U.DIFFERS: False,
            U.AGAIN: False,
            U.FINDING: None,
        }
        rows.append(row)
    fields: dict[str, pa.DataType] = {
        CASE: pa.string(),
        CONTENT: pa.string(),
        E.TIMESTAMP: pa.int64(),
        E.CLUSTER: pa.string(),
        E.TOPIC: pa.string(),
        E.INCARNATION: pa.int32(),
        E.PARTITION: pa.int32(),
        E.OFFSET: pa.int64(),
        C.KEY: pa.binary(),
        C.ORDER: ORDER_TYPE,
        C.HASH: pa.binary(),
        **_compared(dataset),
        **_levels(dataset),
        C.DELETED: pa.bool_(),
        **_hidden(dataset),
        REJECTED: pa.struct([("reason", pa.string()), ("detail", pa.string())]),
        FILTERED: pa.bool_(),
        E.FATE: pa.string(),
        C.SAID: pa.binary(),
        U.COVERED: pa.bool_(),
        U.DIFFERS: pa.bool_(),
        U.AGAIN: pa.bool_(),
        U.FINDING: pa.struct([("level", pa.string()), ("scope", pa.string())]),
    }
    return _frame(session, rows, fields)


def state(session: SparkSession, rows: Sequence[Row], dataset: Dataset) -> DataFrame:
    """The state tables of all cases in one frame."""
    levels = _levels(dataset)
    columns = {C.KEY: pa.binary(), C.ORDER: ORDER_TYPE, C.HASH: pa.binary(), S.STATE: pa.string(), CONTENT: pa.string()}
    if dataset.ties_by_offset:
        columns[C.PLACELESS] = pa.bool_()
        rows = [{C.PLACELESS: False} | row for row in rows]
    chained = {C.DELETED: pa.bool_(), **_hidden(dataset)} if dataset.apply.HOLDS else {}
    return _frame(session, rows, columns | _compared(dataset) | levels | chained)


def key_of(case: str, record: Decoded) -> bytes:
    """The key digest's stand-in."""
    return f"{case}|{record.key}".encode()


def order_of(row: Row, name: str = C.ORDER) -> tuple[Any, ...] | None:
    """An order column as the oracle has it."""
    return None if row[name] is None else tuple(row[name].values())


def multiset(rows: Sequence[Row], *names: str) -> Counter[str]:
    """Rows as a multiset of their values in some columns."""
    return Counter(repr([row[name] for name in names]) for row in rows)


def _compared(dataset: Dataset) -> dict[str, pa.DataType]:
    return {C.COMPARED: pa.binary()} if dataset.excepted else {}


def _hidden(dataset: Dataset) -> dict[str, pa.DataType]:
    return {C.HIDDEN: pa.bool_()} if dataset.where else {}


def _levels(dataset: Dataset) -> dict[str, pa.DataType]:
    version = {C.VERSION: pa.int64()} if dataset.apply.mode == "upsert" else {}
    producer = pa.struct([("name", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64())])
    kinds = {"producer": producer, "message_id": pa.string(), "business_key": pa.string()}
    return version | {C.LEVELS[level]: kinds[level] for level in dataset.narrow}


def _frame(session: SparkSession, rows: Sequence[Row], fields: dict[str, pa.DataType]) -> DataFrame:
    schema = pa.schema(list(fields.items()))
    return session.createDataFrame(pa.Table.from_pylist([{name: row[name] for name in fields} for row in rows], schema))


def _apply(table: Table, judged: list[Row]) -> None:
    """Apply the actions as the merge does; an insert of a key that has a row, or an update without one, is an error."""
    table.judged.append(judged)
    if _is_refused(table):
        return
    _keep_messages(table, judged)
    for row in (row for row in judged if row[U.ACTION]):
        is_new = row[U.ACTION] in (Action.INSERT, Action.ENTER)
        assert is_new is not (row[C.KEY] in table.rows), f"{row[U.ACTION]} of {row[C.KEY]!r}"
        if row[U.ACTION] == Action.UNPLACE:
            table.rows[row[C.KEY]] |= {C.PLACELESS: True}
        else:
            table.rows[row[C.KEY]] = row | {S.STATE: state_of(row)}
    usable = (row for row in judged if row[C.VERDICT] != "rejected")
    table.covered |= {order_of(row)[1:] for row in usable}  # type: ignore[index]


def _keep_messages(table: Table, judged: list[Row]) -> None:
    """Change the ledger of messages as the merge does: later deliveries of a message are removed, except those of the
    same version in other partitions, which do not compare."""
    for row in map(_as_sent, judged):
        if row.get(U.DELIVERED) == Action.LOWER:
            content = C.COMPARED if C.COMPARED in row else C.HASH
            table.messages = [
                known
                for known in table.messages
                if any(known[name] != row[name] for name in (C.KEY, S.MESSAGE, content))
                or (known[C.VERSION] == row[C.VERSION] and _is_elsewhere(known, row) and C.PLACELESS in row)
                or (U.BECOMES in row and known[C.VERSION] != row[C.VERSION])
            ]
        if row.get(U.DELIVERED):
            table.messages.append(row)


def _as_sent(row: Row) -> Row:
    """The row with the record's own timestamp, which a decision may have changed."""
    if row.get(C.TRUE_TIMESTAMP) is None:
        return row
    return row | {C.ORDER: row[C.ORDER] | {"timestamp": row[C.TRUE_TIMESTAMP]}}


def _is_elsewhere(row: Row, other: Row) -> bool:
    return any(row[C.ORDER][name] != other[C.ORDER][name] for name in ("cluster", "topic", "partition"))


def _is_refused(table: Table) -> bool:
    """Whether the last batch has a verdict that no release waives; if so, note it as refused."""
    red = (Reason.INCOMPARABLE_VERSION, Reason.EARLIER_DELIVERY)
    refused = any(row[C.REASON] in red for row in table.judged[-1])
    if refused:
        table.refused.add(len(table.judged) - 1)
    return refused


def state_of(row: Row) -> str:
    """The state of the row after an action."""
    if row.get(U.BECOMES):
        return str(row[U.BECOMES])
    return "deleted" if row[C.DELETED] else "hidden" if row.get(C.HIDDEN) else "live"


def _link(table: Table, judged: list[Row]) -> None:
    """`_apply` where held versions have rows, too: what is removed or wakes has a row, what is inserted has none."""
    table.judged.append(judged)
    if _is_refused(table):
        return
    _keep_messages(table, judged)
    acts = [row for row in judged if row[U.ACTION]]
    for row in sorted(acts, key=lambda row: row[U.ACTION] == Action.INSERT):
        place: Any = row[C.KEY], row[C.VERSION]
        if row[U.ACTION] == Action.INSERT:
            assert place not in table.rows, f"insert of {place}"
            table.rows[place] = row | {S.STATE: row[U.BECOMES]}
        else:
            assert table.rows[place][C.ORDER] == row[C.ORDER], f"{row[U.ACTION]} of {place}"
            row_before = table.rows.pop(place)
            if row[U.ACTION] != Action.REMOVE:
                table.rows[place] = row_before | {name: row[name] for name in (C.PLACELESS,) if name in row}
                table.rows[place][S.STATE] = row[U.BECOMES]
    usable = (row for row in judged if row[C.SURVIVOR] is not None and row[C.VERDICT] != "rejected")
    table.covered |= {order_of(row)[1:] for row in usable}  # type: ignore[index]
