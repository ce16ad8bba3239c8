"""Changes of a database as Debezium sends them: the table is the database's, and what no record can do is red."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.identity import identify
from onefold.folding.versions import set_apart
from onefold.formats.connect_decimals import DECIMAL
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.proof.decode import decode_again
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of
from onefold.tables import staging as C
from onefold.values.decode import DELETED, FILTERED, REJECTED, decode
from tests.support.envelopes import envelope, record
from tests.support.pipeline import run

Record = tuple[int, int, Any, Any]
"""Partition, offset, key, value"""


def change(op: str, id_: Any, name: str | None, lsn: int, **source: Any) -> dict[str, Any]:
    """As PostgreSQL's connector sends it; of a delete the other fields are made up."""
    row = {"id": id_, "name": name, "qty": lsn}
    images = (
        {"before": {"id": id_, "name": "", "qty": 0}, "after": None} if op == "d" else {"before": None, "after": row}
    )
    place = {"name": "inv", "schema": "public", "table": "items", "ts_ms": 1_000 + lsn, "lsn": lsn}
    place |= {"sequence": f'["{lsn - 1}","{lsn}"]', "snapshot": "true" if op == "r" else "false"} | source
    return images | {"source": place, "op": op, "ts_ms": 2_000 + lsn, "transaction": None}


def flattened(value: dict[str, Any]) -> dict[str, Any]:
    """As ExtractNewRecordState makes it, with delete.tombstone.handling.mode=rewrite."""
    is_delete = value["op"] == "d"
    marks = {"__deleted": str(is_delete).lower(), "__op": value["op"], "__lsn": value["source"]["lsn"]}
    marks |= {"__source_table": value["source"]["table"]}
    return (value["before"] if is_delete else value["after"]) | marks


def wrapped(value: Any) -> Any:
    """As JsonConverter writes it with schemas.enable=true."""
    return None if value is None else {"schema": {"type": "struct", "fields": []}, "payload": value}


FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "bare": lambda value: value,
    "wrapped": wrapped,
    "flattened": flattened,
}


@pytest.fixture
def items(dataset: Callable[..., Dataset]) -> Callable[..., Dataset]:
    def make(**more: Any) -> Dataset:
        given: dict[str, Any] = {
            "key": {"format": "json"},
            "value": {"envelope": "debezium", "fields": {"id": "long", "name": "string", "qty": "long"}},
            "identity": {"message_id": "debezium.position"},
            "apply": {"mode": "upsert", "key": ["id"], "version": {"from": "offset"}},
        }
        return dataset(**given | more)

    return make


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Callable[..., BatchRun]:
    def fold_records(made: Dataset, records: Sequence[Record]) -> BatchRun:
        folder = tmp_path / f"in-{len(list(tmp_path.glob('in-*')))}"
        folder.mkdir()
        lines = [
            {"topic": "t", "partition": partition, "offset": offset, "ts": 1_000, "headers": []}
            | {"key": key if key is None else json.dumps(key), "payload": value if value is None else json.dumps(value)}
            for partition, offset, key, value in records
        ]
        (folder / "x.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return run(session, lake, made, folder)

    return fold_records


def names(lake: Lake, made: Dataset) -> dict[int, str]:
    return {row["id"]: row["name"] for row in rows_of(lake, made)}


@pytest.mark.by_day("bare", why="tests/unit/test_envelopes.py reads each form by day")
@pytest.mark.parametrize("form", FORMS)
def test_the_table_is_the_databases(
    form: str, fold: Callable[..., BatchRun], items: Callable[..., Dataset], session: SparkSession, lake: Lake
) -> None:
    """A snapshot, changes, deletes with their tombstones, a row that is created again, and what is no row."""
    made = items()
    changes = [
        *(change("r", id_, f"read {id_}", 10) for id_ in range(4)),
        change("u", 1, "updated", 11),
        change("d", 2, None, 12),
        None,
        change("d", 3, None, 13),
        None,
        change("c", 3, "again", 14),
    ]
    own: list[Any] = [{"ts_ms": 5}, {"status": "END", "id": "5:6", "event_count": 1}] if form == "bare" else []
    ids = [0, 1, 2, 3, 1, 2, 2, 3, 3, 3]
    values = [None if value is None else FORMS[form](value) for value in changes]
    keys = [wrapped({"id": id_}) if form == "wrapped" else {"id": id_} for id_ in ids]
    records = [(0, offset, key, value) for offset, (key, value) in enumerate(zip(keys, values, strict=True))]
    records += [(1, offset, None, value) for offset, value in enumerate(own)]
    done = fold(made, records)
    assert done.published, done.red or done.error
    assert done.published.counts["control"] == {"tombstone": 2} | ({"service": 2} if own else {})
    assert names(lake, made) == {0: "read 0", 1: "updated", 3: "again"}
    done = fold(made, [(0, 10, keys[0], FORMS[form](change("d", 0, None, 15))), (0, 11, keys[0], None)])
    assert done.published, done.red or done.error
    assert names(lake, made) == {1: "updated", 3: "again"}
    assert prove(session, lake, made).holds


NUMERIC = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}}


def described(value: Any) -> Any:
    """As JsonConverter writes it with schemas.enable=true, of a table whose key is a numeric."""
    fields = [{"field": "id", **NUMERIC}, {"field": "name", "type": "string"}]
    images = [{"field": image, "type": "struct", "fields": fields} for image in ("before", "after")]
    return {"schema": {"type": "struct", "fields": [*fields, *images]}, "payload": value}


@pytest.mark.by_day("key", "row", why="where both have the decimal, each is read as it is alone")
@pytest.mark.parametrize(
    ("key", "kind"), [("key.id", None), ("id", "string"), ("key.id", "decimal(9,2)")], ids=["key", "row", "both"]
)
def test_a_key_stays_the_same_when_the_connector_writes_its_decimals_in_another_way(
    key: str, kind: str | None, fold: Callable[..., BatchRun], items: Callable[..., Dataset], session: SparkSession,
    lake: Lake,
) -> None:  # fmt: skip
    """As Base64 next to a schema, then as text with a schema and without one, in keys and in rows."""
    fields = {"name": "string"} | ({"id": kind} if kind else {})
    made = items(
        value={"envelope": "debezium", "fields": fields},
        apply={"mode": "upsert", "key": [key], "version": {"from": "offset"}},
    )
    base64, digits = "ANc=", "2.15"
    sent = [
        (described({"id": base64}), described(change("c", base64, "a", 10))),
        (described({"id": "/w=="}), described(change("c", "/w==", "other", 10))),
        (described({"id": digits}), described(change("u", digits, "b", 11))),
        ({"id": digits}, change("u", digits, "c", 12)),
    ]
    done = fold(made, [(0, offset, *record) for offset, record in enumerate(sent)])
    assert done.published, done.red or done.error
    rows = {str(row["id"]): row["name"] for row in rows_of(lake, made)}
    assert rows == {"2.15": "c", "-0.01": "other"}
    done = fold(made, [(0, 4, described({"id": base64}), described(change("d", base64, None, 13)))])
    assert done.published, done.red or done.error
    assert [row["name"] for row in rows_of(lake, made)] == ["other"]
    assert prove(session, lake, made).holds


def test_what_a_connector_sends_again_after_a_restart_brings_no_old_value_back(
    fold: Callable[..., BatchRun], items: Callable[..., Dataset], session: SparkSession, lake: Lake
) -> None:
    """The copies differ in the time of the envelope alone. They are in the batch and in the next one; a row that was
    deleted stays so; and two keys at one position are no reused identity."""
    made = items()
    sent = [change("c", 1, "a", 10), change("c", 2, "x", 10), change("u", 1, "b", 11), change("d", 2, None, 12)]
    copies = [value | {"ts_ms": 9_999} for value in sent]
    log = [*sent, *copies[:2], change("u", 1, "c", 13), *copies[2:]]

    def records(values: Sequence[dict[str, Any]], first: int) -> list[Record]:
        ids = [(value["after"] or value["before"])["id"] for value in values]
        return [(0, first + n, {"id": id_}, value) for n, (id_, value) in enumerate(zip(ids, values, strict=True))]

    done = fold(made, records(log, 0))
    assert done.published, done.red or done.error
    assert done.published.counts["duplicate"] == {"late_copy": 3, "message_id": 1}
    assert names(lake, made) == {1: "c"}
    done = fold(made, records(copies, len(log)))
    assert done.published, done.red or done.error
    assert done.published.counts == {"duplicate": {"late_copy": 3, "message_id": 1}}
    assert names(lake, made) == {1: "c"}
    assert prove(session, lake, made).holds


def test_what_no_record_can_do_is_red_by_name_and_a_connectors_own_records_are_not(
    fold: Callable[..., BatchRun], items: Callable[..., Dataset], lake: Lake
) -> None:
    emptied = {"before": None, "after": None, "source": {"schema": "public", "table": "items"}, "op": "t", "ts_ms": 5}
    done = fold(
        items(),
        [
            (0, 0, {"id": 1}, change("c", 1, "x", 10)),
            (0, 1, None, emptied),
            (0, 2, None, {"ts_ms": 5}),
            (0, 3, None, {"status": "BEGIN", "id": "5:6", "ts_ms": 5}),
            (0, 4, None, {"source": {}, "databaseName": "inv", "ddl": "ALTER TABLE items", "tableChanges": []}),
        ],
    )
    assert done.red
    assert done.red.failed == (
        "no table was emptied in the database: found 1 (first: t-0@1: table public.items was emptied), wanted at most "
        "0 [truncates]",
        "no change of the database's schema: found 1 (first: t-0@4: a change of the database's schema), wanted at most "
        "0 [schema_changes]",
    )


def test_a_filter_tells_the_tables_of_a_topic_apart(
    fold: Callable[..., BatchRun], items: Callable[..., Dataset], session: SparkSession, lake: Lake
) -> None:
    """Also their truncates; and a delete, which has no field but its key."""
    made = items(source=items().source.model_dump(exclude_none=True) | {"filter": "envelope.source.table = 'items'"})
    emptied = {"before": None, "after": None, "source": {"table": "others"}, "op": "t"}
    done = fold(
        made,
        [
            (0, 0, {"id": 1}, change("c", 1, "x", 10)),
            (0, 1, {"id": 2}, change("c", 2, "y", 11)),
            (0, 2, {"id": 1}, change("d", 1, None, 12, table="others")),
            (0, 3, None, emptied),
            (0, 4, {"id": 2}, change("d", 2, None, 13)),
        ],
    )
    assert done.published, done.red or done.error
    assert done.published.counts["filtered"] == {"filter": 2}
    assert names(lake, made) == {1: "x"}
    assert prove(session, lake, made).holds


def test_a_value_that_the_connector_did_not_have_is_rejected_with_what_to_set(
    fold: Callable[..., BatchRun], items: Callable[..., Dataset], lake: Lake
) -> None:
    made = items(quality={"max_rejected_rate": 1.0})
    unavailable = change("u", 1, "__debezium_unavailable_value", 11)
    done = fold(made, [(0, 0, {"id": 1}, change("c", 1, "x", 10)), (0, 1, {"id": 1}, unavailable)])
    assert done.published, done.red or done.error
    assert done.published.counts["rejected"] == {"unavailable_value": 1}
    assert names(lake, made) == {1: "x"}


@pytest.mark.parametrize(
    ("delete_when", "key", "expected"),
    [
        ("never", "id", "filtered"),
        ("tombstone", "key.id", "deletes"),
        ("envelope.op = 'x'", "id", "null_value"),
        (None, "id", "deletes"),
    ],
)
def test_a_delete_is_never_a_row_of_nulls_whatever_the_file_says_of_deletes(
    spark: SparkSession, items: Callable[..., Dataset], delete_when: str | None, key: str, expected: str
) -> None:
    apply = {"mode": "upsert", "key": [key], "version": {"from": "offset"}, "delete_when": delete_when}
    names = {"id": "long?"} if key == "id" else {}
    fields = names | {"name": "string?", "qty": "long?"}
    made = items(apply=apply, value={"envelope": "debezium", "fields": fields})
    given = envelope(spark, [record("d", json.dumps(change("d", 1, None, 5)).encode(), key_bytes=b'{"id": 1}')])
    for rows in (decode(given, made), decode_again(given, made)):
        [row] = rows.collect()
        reason = row[REJECTED] and row[REJECTED]["reason"]
        found = "filtered" if row[FILTERED] else "deletes" if row[DELETED] else reason
        assert found in ({expected, "undecodable"} if expected == "null_value" else {expected})


def test_a_change_without_a_position_is_rejected_where_positions_name_messages(
    spark: SparkSession, items: Callable[..., Dataset]
) -> None:
    """Else what a connector sends again would bring old values back, and the batch would be green."""
    row = {"id": 1, "name": "x", "qty": 1, "__deleted": "false", "__op": "u"}
    places: dict[str, dict[str, Any]] = {
        "with": {"__lsn": 5},
        "in a file": {"__source_file": "binlog.000001", "__source_pos": 4},
        "in a commit": {
            "__source_commit_lsn": "00000027:00000758:0005",
            "__source_change_lsn": "00000027:00000758:0002",
        },
        "without": {},
        "in any file": {"__source_pos": 4},
        "anywhere in a commit": {"__source_commit_lsn": "00000027:00000758:0005"},
        "anywhere in a transaction": {"__source_gtid": "0-1-5"},
    }
    given = envelope(spark, [record(case, json.dumps(row | place).encode()) for case, place in places.items()])
    made = items()
    found = {row["case"]: row[REJECTED] for row in identify(decode(given, made), made).collect()}
    assert [found[case] for case in ("with", "in a file", "in a commit")] == [None, None, None]
    for case in ("without", "in any file", "anywhere in a commit", "anywhere in a transaction"):
        assert (found[case]["reason"], "add.fields" in found[case]["detail"]) == ("null_identity", True)


# The connector's position as the version.

BY_CONNECTOR = {"mode": "upsert", "key": ["id"], "version": {"from": "debezium"}}

Source = tuple[str, dict[str, Any]]
"""The kind of change, and where it was read"""


def postgres(op: str, first: str | None, second: str) -> Source:
    return op, {"sequence": json.dumps([first, second]), "lsn": None if op == "r" else int(second)}


def mysql(op: str, file: str, pos: int, row: int, server: int) -> Source:
    return op, {"file": file, "pos": pos, "row": row, "server_id": server}


def sql_server(op: str, commit: str, change_: str | None, serial: int | None) -> Source:
    return op, {"commit_lsn": commit, "change_lsn": change_, "event_serial_no": serial}


def oracle(op: str, commit: str | None, scn: str, ssn: int | None) -> Source:
    return op, {"commit_scn": commit, "scn": scn, "ssn": ssn}


def mongodb(op: str, at: int, ordinal: int) -> Source:
    return op, {"ts_ms": at, "ord": ordinal}


IN_ORDER: dict[str, list[Source]] = {
    "PostgreSQL": [
        postgres("r", None, "500"),
        postgres("u", None, "480"),  # of a transaction that had begun before the snapshot
        postgres("u", None, "510"),
        postgres("u", "520", "515"),
        postgres("r", "999", "1005"),  # of an incremental or a blocking snapshot
        postgres("u", "999", "990"),
        postgres("d", "1000", "995"),  # as text it is the smallest
        postgres("c", "23024023119", "23024023120"),
    ],
    "MySQL": [
        mysql("r", "binlog.000009", 900, 0, 0),
        mysql("u", "binlog.000009", 999_999, 0, 7),
        mysql("d", "binlog.000010", 4, 0, 7),
        mysql("c", "binlog.000010", 4, 1, 7),
        mysql("u", "binlog.1000000", 4, 0, 7),
    ],
    "SQL Server": [
        sql_server("r", "00000027:00000758:0005", None, None),
        sql_server("d", "00000027:00000758:0005", "00000027:00000758:0002", 1),
        sql_server("c", "00000027:00000758:0005", "00000027:00000758:0002", 2),
        sql_server("u", "00000027:00000758:000a", "00000027:00000758:0001", 1),
        sql_server("u", "0000002a:00000001:0001", "0000002a:00000001:0001", 1),
    ],
    "Oracle": [
        oracle("u", "1000", "990", 1),
        oracle("r", None, "1000", None),  # it has seen what was committed at 1000
        oracle("u", "1500", "980", 0),
        oracle("u", "1500", "980", 1),
        oracle("u", "99999999999999999999", "990", 0),
    ],
    "MongoDB": [mongodb("r", 1_000, 1), mongodb("u", 1_000, 2), mongodb("u", 2_000, 1), mongodb("d", 12_000, 1)],
}
"""Of each database changes of one row, in the order in which it made them."""
APART: dict[str, tuple[Source, Source]] = {
    "a new slot": (postgres("u", "200", "210"), postgres("r", None, "300")),
    "the first transaction of a new slot": (postgres("u", "200", "210"), postgres("u", None, "310")),
    "two snapshots": (postgres("r", None, "100"), postgres("r", None, "300")),
    "two servers": (mysql("u", "binlog.000009", 4, 0, 7), mysql("u", "binlog.000002", 4, 0, 8)),
    "two kinds of databases": (mysql("u", "binlog.000009", 4, 0, 7), mongodb("u", 5, 1)),
}
"""Positions that do not compare, the older one first."""
NONE = {
    "lsn alone": ("u", {"lsn": 5}),
    "nothing": ("u", {"ts_ms": 5}),
    "no numbers": ("u", {"sequence": '["x","1"]'}),
    "which server it was is not known": ("u", {"file": "binlog.000009", "pos": 4, "row": 0}),
    "when it was committed is not known": ("u", {"scn": "990", "commit_scn": None, "ssn": 0}),
}


def read(spark: SparkSession, made: Dataset, given: dict[str, list[Source]]) -> DataFrame:
    """Changes as identified records, each case with a key of its own, in no order."""
    records = []
    for id_, (case, sources) in enumerate(given.items()):
        for number, (op, source) in enumerate(sources):
            value = change(op, id_, "x", 1)
            value["source"] = {"name": "inv", "table": "items", "ts_ms": 1_000} | source
            records.append(record(f"{case}/{number}", json.dumps(value).encode(), offset=100 * id_ + number))
    Random(7).shuffle(records)
    return identify(decode(envelope(spark, records), made), made)


def test_positions_order_the_changes_of_a_row_as_the_database_made_them(
    spark: SparkSession, items: Callable[..., Dataset]
) -> None:
    made = items(apply=BY_CONNECTOR)
    rows = read(spark, made, IN_ORDER).orderBy(C.VERSION).select("case", C.VERSION, REJECTED).collect()
    assert [row.case for row in rows if row[REJECTED]] == []
    for name, sources in IN_ORDER.items():
        of_row = [row for row in rows if row.case.startswith(f"{name}/")]
        assert [row.case for row in of_row] == [f"{name}/{number}" for number in range(len(sources))]
        assert all(row[C.VERSION] != later[C.VERSION] for row, later in pairwise(of_row))


def test_a_change_without_a_position_that_orders_is_rejected_with_what_is_missing(
    spark: SparkSession, items: Callable[..., Dataset]
) -> None:
    made = items(apply=BY_CONNECTOR, identity={})
    rows = read(spark, made, {name: [source] for name, source in NONE.items()}).collect()
    assert {row.case.partition("/")[0]: row[REJECTED]["reason"] for row in rows} == dict.fromkeys(NONE, "null_version")
    assert all("source has it as sequence (PostgreSQL, with op)" in row[REJECTED]["detail"] for row in rows)


def test_a_flattened_change_has_a_position_that_orders_if_it_says_whether_it_is_of_a_snapshot(
    spark: SparkSession, items: Callable[..., Dataset]
) -> None:
    """A row of a snapshot is before the changes that the same position follows."""
    made = items(apply=BY_CONNECTOR, identity={})
    row = {"id": 1, "name": "x", "qty": 1, "__deleted": "false", "__sequence": '[null,"500"]'}
    values = {"with op": row | {"__op": "r"}, "without": row}
    given = envelope(spark, [record(case, json.dumps(value).encode()) for case, value in values.items()])
    found = {row["case"]: row[REJECTED] for row in identify(decode(given, made), made).collect()}
    assert found["with op"] is None
    assert found["without"]["reason"] == "null_version"


def test_a_flattened_change_that_is_sent_again_is_the_same_message_though_it_was_read_at_another_time(
    spark: SparkSession, items: Callable[..., Dataset]
) -> None:
    """`__ts_ms` is when the connector read it, and not `source.ts_ms`."""
    made = items()
    row = {"id": 1, "name": "x", "qty": 1, "__deleted": "false", "__op": "u", "__lsn": 5}
    given = envelope(spark, [record(str(at), json.dumps(row | {"__ts_ms": at}).encode()) for at in (1, 2)])
    rows = identify(decode(given, made), made).select(REJECTED, C.MESSAGE_ID).collect()
    assert [row[REJECTED] for row in rows] == [None, None]
    assert rows[0][C.MESSAGE_ID] == rows[1][C.MESSAGE_ID]


def test_within_a_batch_positions_that_do_not_compare_are_a_conflict_and_others_are_none(
    spark: SparkSession, items: Callable[..., Dataset]
) -> None:
    made = items(apply=BY_CONNECTOR)
    given = IN_ORDER | {name: list(pair) for name, pair in APART.items()}
    apart = set_apart(read(spark, made, given), made, ()).where(F.col(REJECTED).isNotNull())
    found = {row.case: row[REJECTED]["reason"] for row in apart.collect()}
    assert found == dict.fromkeys((f"{name}/1" for name in APART), "incomparable_version")


def test_the_table_is_the_databases_wherever_the_log_has_the_changes(
    fold: Callable[..., BatchRun], items: Callable[..., Dataset], session: SparkSession, lake: Lake
) -> None:
    """The changes of a key lie in two partitions, as after more partitions were added, and in batches that come in the
    wrong order; copies of old ones come last."""
    made = items(apply=BY_CONNECTOR)

    def at(op: str, id_: int, name: str, first: int, second: int) -> dict[str, Any]:
        return change(op, id_, name, second, sequence=f'["{first}","{second}"]')

    early = [at("c", 1, "a", 90, 95), at("c", 2, "x", 95, 99), at("c", 3, "y", 95, 100)]
    late = [at("u", 1, "b", 100, 98), at("d", 2, "", 999, 1_000), at("u", 3, "z", 9_999, 10_000)]
    done = fold(made, [(1, n, {"id": n + 1}, value) for n, value in enumerate(late)])
    assert done.published, done.red or done.error
    done = fold(made, [(0, n, {"id": n + 1}, value) for n, value in enumerate([*early, *early])])
    assert done.published, done.red or done.error
    assert done.published.counts == {"superseded": {"stored": 3}, "duplicate": {"message_id": 3}}
    assert {row["id"]: row["name"] for row in rows_of(lake, made)} == {1: "b", 3: "z"}
    assert prove(session, lake, made).holds


@pytest.mark.by_day("True-a new slot", why="each is compared in a batch by day")
@pytest.mark.parametrize("case", APART)
@pytest.mark.parametrize("newest_first", [False, True])
def test_against_the_table_positions_that_do_not_compare_are_red_in_either_order(
    case: str, newest_first: bool, fold: Callable[..., BatchRun], items: Callable[..., Dataset], lake: Lake
) -> None:
    made = items(apply=BY_CONNECTOR)
    values = []
    for number, (op, source) in enumerate(APART[case]):
        value = change(op, 1, f"v{number}", 1)
        value["source"] = {"name": "inv", "table": "items", "ts_ms": 1_000} | source
        values.append((0, number, {"id": 1}, value))
    first, second = reversed(values) if newest_first else values
    done = fold(made, [first])
    assert done.published, done.red or done.error
    red = fold(made, [second]).red
    assert red
    [way_out] = [said for said in red.ways_out if said.startswith("the connector's position is of another server")]
    assert "declare apply.version: {from: offset}, and run onefold rebuild" in way_out
    assert [row["name"] for row in rows_of(lake, made)] == [first[3]["after"]["name"]]


# Other databases: whole sequences as their connectors' documentation has them.


class Database:
    """A table with a few keys, and the records of its connector: a snapshot, then transactions of one to three changes.
    After a restart the connector sends its last changes again, with other times."""

    def __init__(self, kind: str, draw: Random) -> None:
        self.kind, self.draw = kind, draw
        self.rows: dict[int, tuple[str, int]] = {}
        self.log: list[tuple[int, dict[str, Any] | None]] = []
        self.commit = 1_000
        for id_ in range(4):
            self.change("r", id_, 0)
        for _ in range(40):
            self.commit += self.draw.randrange(1, 2_000)
            for number in range(self.draw.randrange(1, 4)):
                id_ = self.draw.randrange(7)
                op = "c" if id_ not in self.rows else self.draw.choice("uud")
                self.change(op, id_, number + 1)
            if self.draw.random() < 0.15:
                again = self.log[-self.draw.randrange(1, 9) :]
                self.log += [(id_, value and value | {"ts_ms": 9_999}) for id_, value in again]

    def change(self, op: str, id_: int, number: int) -> None:
        row = (f"{op}{self.commit}.{number}", number)
        if op == "d":
            del self.rows[id_]
        else:
            self.rows[id_] = row
        self.log.append((id_, {"op": op, "ts_ms": 5, "source": self.source(op, number)} | self.images(op, id_, row)))
        self.log += [(id_, None)] if op == "d" else []

    def images(self, op: str, id_: int, row: tuple[str, int]) -> dict[str, Any]:
        names = {"name": row[0], "qty": row[1]}
        if self.kind == "MongoDB":
            document = {"_id": {"$numberLong": str(id_)}, "name": row[0], "qty": {"$numberInt": str(row[1])}}
            return {"before": None, "after": None if op == "d" else json.dumps(document)}
        made_up = {"id": id_, "name": "", "qty": 0}
        return {"before": made_up, "after": None} if op == "d" else {"before": None, "after": {"id": id_} | names}

    def source(self, op: str, number: int) -> dict[str, Any]:
        at, is_read = self.commit, op == "r"
        of_kind = {
            "SQL Server": {
                "commit_lsn": f"{at:08x}:00000010:0001",
                "change_lsn": None if is_read else f"{at:08x}:00000010:{number:04x}",
                "event_serial_no": None if is_read else 1,
            },
            "Oracle": {
                "commit_scn": None if is_read else str(at),
                "scn": str(at if is_read else at - 500 + number),
                "ssn": None if is_read else number,
            },
            "MongoDB": {"ts_ms": 1_000 * at, "ord": number},
        }
        return {"name": "inv", "table": "items", "ts_ms": at} | of_kind[self.kind]


def folded(log: Sequence[tuple[int, dict[str, Any] | None]]) -> dict[str, str]:
    """The names by key after a part of the log: each change counts once, when it first comes."""
    names, seen = dict[str, str](), set[str]()
    for id_, value in log:
        if value is None or (position := json.dumps([id_, value["op"], value["source"]], sort_keys=True)) in seen:
            continue
        seen.add(position)
        if value["op"] == "d":
            names.pop(str(id_), None)
        else:
            after = value["after"]
            names[str(id_)] = (json.loads(after) if isinstance(after, str) else after)["name"]
    return names


@pytest.mark.nightly(reason="the positions of each database are compared by day, and documents are read by unit tests")
@pytest.mark.parametrize("version", ["offset", "debezium"])
@pytest.mark.parametrize("kind", ["SQL Server", "Oracle", "MongoDB"])
def test_after_each_batch_the_table_is_that_of_the_changes_so_far(
    kind: str,
    version: str,
    fold: Callable[..., BatchRun],
    items: Callable[..., Dataset],
    session: SparkSession,
    lake: Lake,
    draw: Random,
) -> None:
    made = items(
        value={"envelope": "debezium", "fields": {"name": "string", "qty": "int"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": version}},
    )
    database = Database(kind, draw)
    cuts = sorted({0, len(database.log), *draw.sample(range(1, len(database.log)), 3)})
    offsets = dict.fromkeys(range(3), 0)
    for begin, end in pairwise(cuts):
        records: list[Record] = []
        for id_, value in database.log[begin:end]:
            partition = id_ % 3
            records.append((partition, offsets[partition], {"id": str(id_)}, value))
            offsets[partition] += 1
        done = fold(made, records)
        assert done.published, done.red or done.error
        assert {row["id"]: row["name"] for row in rows_of(lake, made)} == folded(database.log[:end])
    assert folded(database.log) == {str(id_): name for id_, (name, _) in database.rows.items()}
    assert prove(session, lake, made).holds
