"""The commands that look at many rows: in which order, how many of them are held, and what is printed of them."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold import lake_keys
from onefold.cli import main
from onefold.cli.console import print_json, print_json_rows
from onefold.dataset import Dataset, find_dataset
from onefold.iceberg.commits import RECORD_PROPERTY
from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import StateTable, find_state
from onefold.lake import Lake
from onefold.offsets import Coverage
from onefold.report import order
from onefold.report.changes import changes_of, difference
from onefold.report.ledger import equal, verdicts_of
from onefold.report.order import in_order, stream
from onefold.report.quarantine import quarantine_of
from onefold.settings import load_settings
from onefold.tables.names import STAGING, state_name
from onefold.upsert.commit_record import CommitRecord
from tests.support.orders import ORDER, flat

ROWS = 20_000
MANY = 4 << 20
"""Bytes of Python's own that no question with a limit needs: all rows as dictionaries are five times as many."""
FILE = """
name: things
source: {exports: {path: exports, layout: kcat, origin: {cluster: c, incarnation: 1}, holes: transactional}}
value: {fields: {id: string, change: string?}}
apply: {mode: append}
target: {table: tests.things, buckets: 2}
"""
SURVIVOR = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("cluster", pa.string()),
        ("incarnation", pa.int32()),
    ]
)
VERDICTS = pa.schema(
    [(name, pa.string()) for name in ("attempt", "cluster", "topic")]
    + [("incarnation", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64())]
    + [(name, pa.string()) for name in ("verdict", "reason", "scope")]
    + [("survivor", SURVIVOR)]
    + [(name, pa.string()) for name in ("finding", "detail", "object")]
    + [("line", pa.int64())]
)
KEPT = pa.struct(
    [(name, pa.string()) for name in ("batch", "reason", "detail", "object")]
    + [("line", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]
    + [("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))]
)
STATE = pa.schema(
    [
        ("_key", pa.binary()),
        ("_hash", pa.binary()),
        ("_state", pa.string()),
        *ORDER,
        ("_quarantine", KEPT),
        ("id", pa.string()),
        ("change", pa.string()),
    ]
)


class Place:
    """A project with one dataset, whose batch `export_b` is published."""

    def __init__(self, home: Path) -> None:
        (home / "datasets").mkdir()
        (home / "datasets" / "things.yaml").write_text(FILE)
        self.lake = Lake(load_settings(home=home, lake="lake"))
        self.dataset: Dataset = find_dataset(home / "datasets", "things")
        self.catalog = open_catalog(self.lake)
        for namespace in (STAGING, self.dataset.target.namespace):
            self.catalog.create_namespace(namespace)
        self.table = self.catalog.create_table((self.dataset.target.namespace, state_name(self.dataset)), STATE)
        self.add([])

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Rows of the state table, in a file of their own, as another batch."""
        number = len(self.table.refresh().snapshots())
        record = CommitRecord(
            name=f"a{number}", parent=f"a{number - 1}" if number else "root", dataset="things",
            generation=self.dataset.generation, batch=f"export_{number}", interval=None, attempt=f"a{number}",
            staging="", verdicts="", landed=0, counts={}, coverage=Coverage(), written=datetime(2026, 3, 9, tzinfo=UTC),
        )  # fmt: skip
        self.lake.put(lake_keys.record(self.dataset, record.name), record)
        self.table.append(pa.Table.from_pylist(rows, STATE), snapshot_properties={RECORD_PROPERTY: record.name})

    def judge(self, *files: list[dict[str, Any]]) -> None:
        """Verdicts of the first batch, a list a file."""
        name = (STAGING, f"things__verdicts_{self.dataset.generation}")
        table = self.catalog.create_table(name, VERDICTS)
        for rows in files:
            table.append(pa.Table.from_pylist(rows, VERDICTS))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("ONEFOLD_HOME", str(tmp_path))
    monkeypatch.setenv("ONEFOLD_LAKE", "lake")
    monkeypatch.setenv("COLUMNS", "200")
    return Place(tmp_path)


def at(topic: str | None, partition: int | None, offset: int | None) -> dict[str, Any]:
    return {"cluster": "c", "topic": topic, "incarnation": 1, "partition": partition, "offset": offset}


def judged(topic: str | None, partition: int | None, offset: int | None, verdict: str = "applied") -> dict[str, Any]:
    return {"attempt": "a0", **at(topic, partition, offset), "verdict": verdict, "reason": "insert"}


def refused(offset: int, batch: str = "export_0", value: bytes = b"{") -> dict[str, Any]:
    kept = {"batch": batch, "reason": "undecodable", "detail": "no JSON", "value": value, "headers": []}
    return {"_state": "quarantined", **flat(timestamp=1, **at("t", 0, offset)), "_quarantine": kept}


def live(number: int, change: str | None = None) -> dict[str, Any]:
    return {"_key": b"%06d" % number, "_hash": b"h", "_state": "live", "id": f"id-{number}", "change": change}


def own_memory(look: Callable[[], Any]) -> int:
    """Bytes that Python held at most for a question, besides what Arrow held. What other threads of the process hold
    counts, too: so it is the least of some tries."""
    look()  # imports and caches
    return min(_traced(look) for _ in range(3))


def _traced(look: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        look()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["onefold", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return capsys.readouterr().out


# The order


PARTS = st.lists(
    st.lists(st.tuples(st.none() | st.sampled_from("ab\u00e9"), st.none() | st.integers(0, 3)), max_size=6), max_size=5
)


@given(PARTS, st.none() | st.integers(1, 8), st.integers(1, 7))
def test_rows_come_as_a_stable_sort_has_them_nulls_first(
    parts: list[list[tuple[str | None, int | None]]], limit: int | None, run_rows: int
) -> None:
    schema = pa.schema([("topic", pa.string()), ("offset", pa.int64()), ("came", pa.int64())])
    numbers = iter(range(1000))
    listed = [[{"topic": topic, "offset": off, "came": next(numbers)} for topic, off in rows] for rows in parts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "_RUN_ROWS", run_rows)
        found = list(in_order((pa.Table.from_pylist(rows, schema) for rows in listed), ("topic", "offset"), limit))

    every = [row for rows in listed for row in rows]
    expected = sorted(every, key=lambda row: (row["topic"] or "", -1 if row["offset"] is None else row["offset"]))
    assert found == expected[:limit]


def test_with_a_limit_no_more_is_held_than_that_and_what_is_being_read() -> None:
    held: list[int] = []

    def tables() -> Iterator[pa.Table]:
        for number in range(40):
            held.append(pa.total_allocated_bytes() - before)
            yield pa.table({"offset": pa.array(range(number, 400_000, 40)), "text": ["x" * 50] * 10_000})

    before = pa.total_allocated_bytes()
    rows = in_order(tables(), ("offset",), 50)

    assert [row["offset"] for row in rows] == list(range(50))
    assert max(held) < 4 * 10_000 * 62, "of 40 tables"


def test_a_scan_is_read_file_by_file(place: Place) -> None:
    for number in range(12):
        place.add([live(5_000 * number + row, "x" * 200) for row in range(5_000)])
    table = StateTable(place.lake, place.dataset)
    before, held, rows = pa.total_allocated_bytes(), [], 0
    for some in stream(table.scan(equal("_state", "live"), ("id", "change"), table.main.snapshot)):
        rows += some.num_rows
        held.append(pa.total_allocated_bytes() - before)

    assert rows == 60_000
    assert max(held) < 60_000 * 200 / 2


# Verdicts


def test_verdicts_are_in_the_order_of_their_positions_whatever_file_they_are_in(place: Place) -> None:
    place.judge(
        [judged("t", 1, 0), judged("t", 0, 9), judged(None, None, None)],
        [judged("s", 5, 1), judged("t", 0, 2, "duplicate")],
    )
    where = [(None, None), (5, 1), (0, 2), (0, 9), (1, 0)]

    for limit in (None, 1, 3, 99):
        rows, published = verdicts_of(place.lake, place.dataset, "export_0", None, limit)
        assert published
        assert [(row["partition"], row["offset"]) for row in rows] == where[:limit]


def test_the_first_verdicts_of_many_are_listed_without_holding_the_others(place: Place) -> None:
    place.judge([judged("t", 0, offset) for offset in reversed(range(ROWS))])

    def look() -> list[int]:
        return [row["offset"] for row in verdicts_of(place.lake, place.dataset, "export_0", None, 50)[0]]

    assert look() == list(range(50))
    assert own_memory(look) < MANY


def test_a_verdict_as_json_names_what_it_always_named(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"topic": "t", "partition": 0, "offset": 1, "cluster": "other", "incarnation": 1}
    place.judge([judged("t", 0, 2) | {"survivor": other}])

    out = run(capsys, monkeypatch, "verdicts", "things", "--batch", "export_0", "--json")

    (row,) = json.loads(out)
    assert row == {
        "topic": "t", "partition": 0, "offset": 2, "verdict": "applied", "reason": "insert", "scope": None,
        "survivor": other,
    }  # fmt: skip
    assert out == json.dumps([row], indent=2) + "\n"


# Quarantine


def test_rejected_records_are_in_order_and_those_of_a_batch_or_reason_are_found(place: Place) -> None:
    place.add([refused(7), refused(3, "export_1"), live(1)])
    place.add([refused(5), refused(3)])

    def offsets(*asked: Any, **more: Any) -> list[tuple[int, str]]:
        return [(row["offset"], row["batch"]) for row in quarantine_of(place.lake, place.dataset, *asked, **more)]

    assert offsets() == [(3, "export_0"), (3, "export_1"), (5, "export_0"), (7, "export_0")]
    assert offsets(limit=3) == offsets()[:3]
    assert offsets("export_1") == [(3, "export_1")]
    assert offsets(None, "undecodable", limit=1) == [(3, "export_0")]
    assert offsets(None, "wrong_type") == []
    (row,) = quarantine_of(place.lake, place.dataset, "export_1")
    assert row == {
        "batch": "export_1", "cluster": "c", "topic": "t", "incarnation": 1, "partition": 0, "offset": 3,
        "timestamp": "1970-01-01T00:00:00.001000+00:00", "reason": "undecodable", "detail": "no JSON", "key": None,
        "value": "7b", "key_text": None, "value_text": "{", "headers": [], "object": None, "line": None,
    }  # fmt: skip


def test_the_first_rejected_records_of_many_are_listed_without_holding_the_others(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add([refused(offset, value=b"v" * 300) for offset in range(ROWS)])
    printed: list[str] = []

    used = own_memory(lambda: printed.append(run(capsys, monkeypatch, "quarantine", "things", "--limit", "2")))

    assert "t-0@1" in printed[-1]
    assert "t-0@2" not in printed[-1]
    assert used < MANY


# Changes


def test_changes_are_counted_and_only_the_first_are_listed(place: Place) -> None:
    place.add([live(number) for number in range(ROWS)])

    found = changes_of(place.lake, place.dataset, None, 3)

    assert found.count == ROWS
    assert [row["row"]["id"] for row in found.rows] == ["id-0", "id-1", "id-2"]
    assert len(changes_of(place.lake, place.dataset).rows) == ROWS
    assert own_memory(lambda: changes_of(place.lake, place.dataset, None, 50)) < MANY


def test_changes_as_json_are_read_as_they_are_printed(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add([live(number) for number in range(3)])

    out = run(capsys, monkeypatch, "changes", "things", "--json")

    expected = changes_of(place.lake, place.dataset)
    assert expected.until
    document = {"since": None, "until": expected.until.plain(), "rows": expected.rows}
    assert out == json.dumps(document, indent=2) + "\n"
    assert own_memory(lambda: all(difference(place.lake, place.dataset).rows())) < MANY


def test_a_column_called_change_does_not_take_the_place_of_what_changed(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add([live(1, "of address")])
    state = find_state(place.lake, place.dataset)
    assert state

    out = run(capsys, monkeypatch, "changes", "things")

    assert "inserted" in out
    assert "of address" in out
    assert "_change" in out


# JSON


TEXT = st.text(st.sampled_from('a"\\\n\r\t\x0b\u0085\u2028{}[],é'), max_size=8)
JSON = st.recursive(
    st.none() | st.integers() | TEXT, lambda some: st.lists(some) | st.dictionaries(TEXT, some), max_leaves=4
)
ROW = st.dictionaries(TEXT, JSON, max_size=3)


@given(st.lists(ROW, max_size=3), st.none() | st.dictionaries(TEXT.map(lambda name: f"a{name}"), JSON, min_size=1))
def test_rows_one_by_one_are_printed_as_the_list_of_them_is(
    rows: list[dict[str, Any]], head: dict[str, Any] | None
) -> None:
    whole = rows if head is None else {**head, "rows": rows}
    with pytest.MonkeyPatch.context() as patch:
        out: list[str] = []
        patch.setattr("onefold.cli.console.sys.stdout.write", out.append)
        print_json_rows(iter(rows), head)
        one_by_one = "".join(out)
        out.clear()
        print_json(whole)
    assert one_by_one == "".join(out)
    assert json.loads(one_by_one) == whole
