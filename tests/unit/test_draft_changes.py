"""Drafts from changes of a database: the file is right as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onefold.dataset.envelopes import Envelope
from onefold.draft import Draft
from onefold.errors import NoDraftError
from onefold.kafka.record import Record
from tests.support.drafts import CONNECT, drafted, entry, loaded, notes, record

SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "type": "struct",
            "field": "after",
            "optional": True,
            "fields": [
                {"type": "int32", "optional": False, "field": "id"},
                {"type": "string", "optional": True, "field": "name"},
                {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "field": "at"},
                {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "field": "day"},
            ],
        },
    ],
}


def change(op: str, id_: int, **more: Any) -> dict[str, Any]:
    row = {"id": id_, "name": f"n{id_}", "at": 1_772_359_200_123_456, "day": 20_000}
    images = {"before": {"id": id_}, "after": None} if op == "d" else {"before": None, "after": row}
    source = {"name": "inv", "table": "items", "lsn": id_, "sequence": f'["1","{id_}"]', "ts_ms": 5}
    return images | {"source": source, "op": op, "ts_ms": 9} | more


def changes(wrapped: bool = False) -> list[Record]:
    """Some changes of all kinds, the key's records one after another."""
    values: list[Any] = [change("r", 1), change("c", 2), change("u", 2), change("d", 1), None, {"ts_ms": 5}]
    keys: list[Any] = [{"id": 1}, {"id": 2}, {"id": 2}, {"id": 1}, {"id": 1}, None]
    if wrapped:
        values = [value and {"schema": SCHEMA, "payload": value} for value in values]
        keys = [key and {"schema": {}, "payload": key} for key in keys]
    return [record(offset, value, key) for offset, (value, key) in enumerate(zip(values, keys, strict=True))]


def key_entries(draft: Draft) -> dict[str, str | None]:
    """What is drafted of all that makes a table of changes right."""
    names = ("value.envelope", "identity.message_id", "apply.mode", "apply.key", "apply.version.from")
    return {name: entry(draft, name)[0] for name in names}


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "with schemas"])
def test_changes_are_an_upsert_in_the_order_of_the_log(wrapped: bool, tmp_path: Path) -> None:
    draft = drafted(changes(wrapped))
    assert key_entries(draft) == {
        "value.envelope": "debezium",
        "identity.message_id": "debezium.position",
        "apply.mode": "upsert",
        "apply.key": "[id]",
        "apply.version.from": "offset",
    }
    assert entry(draft, "value.envelope")[1] == "1 delete, 1 service in the sample"
    made = loaded(draft, tmp_path)
    assert made.quality.max_duplicate_rate is None, "a restarted connector sends changes again"
    assert (made.value.envelope, made.apply.delete_when) == (Envelope.DEBEZIUM, "envelope.deleted")
    kinds = {name: str(kind) for name, kind in made.fields.items()}
    of_schema = {"id": "int", "name": "string?", "at": "timestamp(micros)?", "day": "date(days)?"}
    assert kinds == (of_schema if wrapped else {"id": "long", "name": "string", "at": "long", "day": "long"})


def test_flattened_changes_have_no_fields_of_the_envelope_and_a_note_on_truncates(tmp_path: Path) -> None:
    rows = [{"id": n, "name": "x", "__deleted": "false", "__op": "c", "__lsn": n} for n in range(3)]
    rows.append({"id": 1, "name": None, "__deleted": "true", "__op": "d", "__lsn": 9})
    draft = drafted([record(offset, row, {"id": row["id"]}) for offset, row in enumerate(rows)])
    assert [*loaded(draft, tmp_path).fields] == ["id", "name"]
    assert "ExtractNewRecordState drops truncates" in notes(draft)


def test_changes_without_a_position_get_no_identity_and_a_note() -> None:
    rows = [{"id": n, "name": "x", "__deleted": "false", "__op": "c"} for n in range(3)]
    draft = drafted([record(offset, row, {"id": row["id"]}) for offset, row in enumerate(rows)])
    assert "identity.message_id" not in [entry.key for entry in draft.entries]
    assert "add.fields: op,source.lsn,source.sequence" in notes(draft)


def test_a_topic_with_several_tables_gets_a_filter(tmp_path: Path) -> None:
    other = change("c", 9, source={"name": "inv", "table": "others", "lsn": 9})
    draft = drafted([*changes(), record(6, other, {"id": 9})])
    value, why = entry(draft, "source.filter")
    assert value == "\"envelope.source.table = 'items'\""
    assert "others (1)" in why
    assert loaded(draft, tmp_path).source.filter == "envelope.source.table = 'items'"


def test_rows_in_schema_and_payload_are_drafted_as_rows(tmp_path: Path) -> None:
    values = [{"schema": {}, "payload": {"id": n, "name": "x"}} for n in range(3)]
    draft = drafted([record(offset, value) for offset, value in enumerate(values)])
    assert entry(draft, "value.envelope")[0] == "connect"
    assert [*loaded(draft, tmp_path).fields] == ["id", "name"]


def test_what_cannot_be_drafted_says_what_to_do() -> None:
    with pytest.raises(NoDraftError, match="heartbeats"):
        drafted([record(0, {"ts_ms": 1}), record(1, {"ts_ms": 2})])
    with pytest.raises(NoDraftError, match="Kafka keys do not name the key of the table"):
        drafted([record(0, change("c", 1)), record(1, change("c", 2))])
    with pytest.raises(NoDraftError, match="nothing in this layout orders them"):
        drafted(changes(), CONNECT)


@pytest.mark.parametrize("flattened", [False, True], ids=["whole", "flattened"])
def test_the_topic_of_a_signal_table_is_no_table(flattened: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"ID": "a", "TYPE": "execute-snapshot", "DATA": "{}"},
        {"id": "b-open", "type": "snapshot-window-open", "data": None},
    ]
    values = [row | {"__deleted": "false"} if flattened else change("c", 1, after=row) for row in rows]
    with pytest.raises(NoDraftError, match=r"signals to a connector \(its signal table\)"):
        drafted([record(offset, value) for offset, value in enumerate(values)])


def test_a_table_with_the_columns_of_a_signal_table_is_drafted() -> None:
    rows = [{"id": str(n), "type": "invoice", "data": "{}"} for n in range(3)]
    keys = [{"id": row["id"]} for row in rows]
    draft = drafted([record(n, change("c", n, after=rows[n]), keys[n]) for n in range(3)])
    assert entry(draft, "value.envelope")[0] == "debezium"
