"""Situations from public bug reports, end to end: what people's producers and exporters write, and what is right.

Each is of a kind; `docs/situations.md` lists them. What a single value becomes is in test_decode, what a line becomes
in test_kcat.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import GateRedError
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.quality.documents import CheckResult, gate_of
from onefold.report.ledger import rows_of
from tests.support.pipeline import run

MakeDataset = Callable[..., Dataset]
FOLD = {"max_rejected_rate": 1.0, "max_duplicate_rate": 1.0}


def line(
    offset: int, value: Any, key: Any = None, partition: int = 0, headers: Iterable[Any] = (), **more: Any
) -> bytes:
    """A line of `kcat -J`; bytes are written as they are."""
    fields = {"topic": "t", "partition": partition, "offset": offset, "ts": 1_000 + offset, "headers": list(headers)}
    fields |= {"key": key, "payload": value, **more}
    raw: list[bytes] = []

    def written(item: Any) -> Any:
        if isinstance(item, bytes):
            raw.append(item)
            return f"\0{len(raw) - 1}\0"
        return [written(part) for part in item] if isinstance(item, list) else item

    text = json.dumps({name: written(member) for name, member in fields.items()}, ensure_ascii=False).encode()
    for number, data in enumerate(raw):
        text = text.replace(rb"\u0000%d\u0000" % number, data)
    return text + b"\n"


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Callable[..., BatchRun]:
    """Runs a batch of lines."""

    def run_lines(made: Dataset, *lines: bytes, name: str = "1") -> BatchRun:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_bytes(b"".join(lines))
        return run(session, lake, made, tmp_path / name)

    return run_lines


def counts(done: BatchRun) -> dict[str, dict[str, int]]:
    assert done.published, done.red
    return done.published.counts


def test_ids_that_were_cut_within_a_character_are_not_made_one(
    fold: Callable[..., BatchRun], dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    fields = {"id": "string", "note": "string?"}
    made = dataset(value={"fields": fields}, identity={"message_id": "id"}, quality=FOLD)
    values = ['{"id": "msg-\\ud83d"}', '{"id": "msg-\\ud83e"}', '{"id": "msg-?"}', '{"id": "a", "other": "\\ud83d"}']
    values.append('{"id": "b", "note": "nice \\ude00"}')
    done = fold(made, *(line(n, value) for n, value in enumerate(values)))
    assert counts(done) == {"applied": {"insert": 2}, "rejected": {"undecodable": 3}}
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["a", "msg-?"]
    assert prove(session, lake, made).holds


@pytest.mark.nightly(reason="message ids that were cut go by day")
def test_keys_that_were_cut_within_a_character_are_not_made_one(
    fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake
) -> None:
    version = {"from": "long(header.v)"}
    made = dataset(
        key={"format": "json"},
        value={"fields": {"n": "long"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": version, "delete_when": "tombstone"},
        quality=FOLD,
    )
    keys = ['{"id": "k\\ud83d"}', '{"id": "k\\ud83e"}', '{"id": "k?", "other": "\\ud83d"}']
    done = fold(made, *(line(n, f'{{"n": {n}}}', key, headers=["v", "1"]) for n, key in enumerate(keys)))
    assert counts(done) == {"applied": {"insert": 1}, "rejected": {"undecodable": 2}}
    assert rows_of(lake, made) == [{"id": "k?", "n": 2}]


def test_bytes_that_nothing_reads_reject_nothing(
    fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake
) -> None:
    """LongSerializer keys, a schema id in a header, a byte order mark before the value."""
    made = dataset(key={"format": "bytes"}, value={"fields": {"id": "string"}}, identity={"message_id": "id"})
    binary = b"".join(b"\\u%04x" % n if n < 32 else bytes([n]) for n in (0, 0, 0, 0, 0, 0, 1, 0xC8))
    lines = [
        line(n, f'\ufeff{{"id": "i{n}"}}', binary, headers=["__value_schema_id", b"\\u0001\xf0\x9f\x80"])
        for n in range(3)
    ]
    assert counts(fold(made, *lines)) == {"applied": {"insert": 3}}
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["i0", "i1", "i2"]


def test_a_header_that_is_read_and_is_no_text_is_no_missing_header(
    fold: Callable[..., BatchRun], dataset: MakeDataset
) -> None:
    made = dataset(value={"fields": {"id": "string"}}, identity={"message_id": "header.m"}, quality=FOLD)
    lines = [
        line(0, '{"id": "a"}', headers=["m", b"\xff"]),
        line(1, '{"id": "b"}', headers=["m", "1"]),
        line(2, '{"id": "c"}', headers=["m", "2"]),
        line(3, '{"id": "d"}'),
    ]
    done = fold(made, *lines)
    assert counts(done) == {"applied": {"insert": 2}, "rejected": {"undecodable": 1, "null_identity": 1}}


@pytest.mark.by_day("at once", why="each split is found by the same comparison")
@pytest.mark.parametrize("split", [[[0, 1, 2]], [[0, 1], [2]], [[2], [0, 1]]], ids=["at once", "in order", "backwards"])
def test_an_offset_orders_the_records_of_one_partition_only(
    fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake, split: list[list[int]]
) -> None:
    """A key that moves to a new partition has small offsets there: its old value would stay for ever."""
    made = dataset(
        key={"format": "json"},
        value={"fields": {"v": "string"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}, "delete_when": "tombstone"},
        identity={"message_id": "header.m"},
        quality=FOLD | {"max_conflicts": 1000},
    )
    log = [
        line(90, '{"v": "old"}', '{"id": "a"}', headers=["m", "1"]),
        line(91, '{"v": "b"}', '{"id": "b"}', headers=["m", "2"]),
        line(0, '{"v": "NEW"}', '{"id": "a"}', partition=1, headers=["m", "3"], ts=9_999),
    ]
    ends = [fold(made, *(log[n] for n in numbers), name=str(name)) for name, numbers in enumerate(split)]
    reds = [end.red for end in ends if end.red]
    assert len(reds) == 1
    assert isinstance(reds[0], GateRedError)
    said = str(reds[0])
    assert "no versions that cannot be compared: found 1, wanted at most 0" in said
    assert "declare a version of the value, or [timestamp, offset], which trusts the producers' clocks" in said
    assert "NEW" not in {row["v"] for row in rows_of(lake, made)} or split[0] == [2]


RESTARTED = [
    line(0, '{"id": "a", "v": 0, "name": "first"}'),
    line(1, '{"id": "a", "v": 1, "name": "first"}'),
    line(2, '{"id": "a", "v": 2, "op": "d"}'),
    line(3, '{"id": "b", "v": 7, "name": "b"}'),
    line(4, '{"id": "a", "v": 0, "name": "second"}'),
    line(5, '{"id": "a", "v": 1, "name": "second!"}'),
    line(6, '{"id": "b", "v": 1, "name": "restored"}'),
]
"""A key is deleted and created again from 0 on; another falls back from 7 to 1."""
LIVES = {"id": "string", "v": "long", "name": "string?", "op": "string?"}


@pytest.mark.by_day("at once", why="each split is found by the same comparison")
@pytest.mark.parametrize(
    "split",
    [[range(7)], [range(4), range(4, 7)], [range(5), range(5, 7)], [range(1), range(1, 7)], [[n] for n in range(7)]],
    ids=["at once", "at the restart", "amid it", "behind the first", "one by one"],
)
def test_a_counter_that_begins_again_is_named_however_the_log_is_split(
    fold: Callable[..., BatchRun],
    dataset: MakeDataset,
    session: SparkSession,
    lake: Lake,
    split: list[Iterable[int]],
) -> None:
    """Versions 0 and 1 of a are there twice, with two contents: that is no conflict, for its counter began again."""
    made = dataset(
        value={"fields": LIVES},
        apply={"mode": "upsert", "key": ["id"], "version": {"from": "v"}, "delete_when": "op = 'd'"},
        quality={"max_backwards_rate": 0},
    )
    ends = [fold(made, *(RESTARTED[n] for n in numbers), name=str(name)) for name, numbers in enumerate(split)]
    reasons = [row["backwards"] for end in ends if (row := counts(end).get("superseded", {})) and "backwards" in row]
    assert sum(reasons) == 3
    assert not any("conflict" in counts(end) for end in ends)
    assert [row["name"] for row in rows_of(lake, made)] == ["b"]
    assert prove(session, lake, made).holds
    warnings = [warning for end in ends for warning in backwards(lake, made, end)]
    assert [name for warning in warnings for name in warning.first] == [
        'key {"id":"a"} at t-0@4, below t-0@2',
        'key {"id":"a"} at t-0@5, below t-0@2',
        'key {"id":"b"} at t-0@6, below t-0@3',
    ]
    assert all("[long(header.epoch), v]" in warning.way_out for warning in warnings)


@pytest.mark.by_day("at once", why="each split is found by the same comparison")
@pytest.mark.parametrize("split", [[[0, 1, 2]], [[0], [1], [2]], [[1], [2], [0]]], ids=["at once", "in order", "not"])
def test_a_time_from_the_future_does_not_freeze_its_key(
    fold: Callable[..., BatchRun],
    dataset: MakeDataset,
    session: SparkSession,
    lake: Lake,
    split: list[list[int]],
) -> None:
    """One client's clock is years ahead. Its record waits in the quarantine."""
    made = dataset(
        value={"fields": {"id": "string", "at": "timestamp", "name": "string?"}},
        apply={"mode": "upsert", "key": ["id"], "version": {"from": "at"}},
        quality=FOLD,
    )
    day = 1_767_225_600_000
    log = [
        line(0, '{"id": "a", "at": "2026-01-01T00:00:00Z", "name": "old"}', ts=day),
        line(1, '{"id": "a", "at": "2031-01-01T00:00:00Z", "name": "wrong clock"}', ts=day + 1),
        line(2, '{"id": "a", "at": "2026-01-01T00:00:02Z", "name": "new"}', ts=day + 2),
    ]
    ends = [fold(made, *(log[n] for n in numbers), name=str(name)) for name, numbers in enumerate(split)]
    assert [said for end in ends if (said := counts(end).get("rejected"))] == [{"version_ahead": 1}]
    assert [row["name"] for row in rows_of(lake, made)] == ["new"]
    assert prove(session, lake, made).holds


def test_a_log_timestamp_from_the_future_is_red_and_named(
    fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake
) -> None:
    version = {"from": ["timestamp", "offset"]}
    made = dataset(value={"fields": {"id": "string"}}, apply={"mode": "upsert", "key": ["id"], "version": version})
    red = fold(made, line(0, '{"id": "a"}'), line(1, '{"id": "b"}', ts=4_070_908_800_000)).red
    assert isinstance(red, GateRedError)
    assert "newest log timestamp ahead of the clock, seconds: found" in str(red)
    assert "(first: t-0@1 of 2099-01-01 00:00:00), wanted at most 86,400" in str(red)
    assert rows_of(lake, made) == []


def backwards(lake: Lake, made: Dataset, done: BatchRun) -> list[CheckResult]:
    """The check of versions that go backwards, where it failed; in small batches it warns."""
    assert done.published
    gate = gate_of(lake, made, done.published.batch, done.published.attempt)
    return [check for check in gate.checks if check.id == "backwards_rate" and check.status == "failed"]


def test_a_source_restored_from_a_backup_is_red(
    fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake
) -> None:
    made = dataset(
        value={"fields": LIVES},
        apply={"mode": "upsert", "key": ["id"], "version": {"from": "v"}},
        quality={"min_records": 20},
    )
    fold(made, *(line(n, f'{{"id": "k{n}", "v": 100, "name": "before"}}') for n in range(20)), name="1")
    after = [line(20 + n, f'{{"id": "k{n}", "v": 1, "name": "after"}}') for n in range(20)]
    red = fold(made, *after, name="2").red
    assert isinstance(red, GateRedError)
    said = 'rate of versions that go backwards: found 1 (first: key {"id":"k0"} at t-0@20, below t-0@0'
    assert said in str(red)
    assert "and 15 more), wanted at most 0.5" in str(red)
    assert {row["name"] for row in rows_of(lake, made)} == {"before"}


@pytest.mark.nightly(reason="as under guard newer: test_a_source_restored_from_a_backup_is_red")
def test_a_chain_that_begins_again_below_its_head_goes_backwards(
    fold: Callable[..., BatchRun], dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    version = {"from": "v", "guard": "contiguous"}
    made = dataset(
        value={"fields": LIVES},
        apply={"mode": "upsert", "key": ["id"], "version": version, "delete_when": "op = 'd'"},
    )
    first = [line(n, f'{{"id": "a", "v": {n + 1}, "name": "first"}}') for n in range(2)]
    fold(made, *first, line(2, '{"id": "a", "v": 3, "op": "d"}'), name="1")
    second = [line(n + 2, f'{{"id": "a", "v": {n}, "name": "second"}}') for n in (1, 2)]
    twice = line(5, '{"id": "a", "v": 2, "name": "third"}')
    elsewhere = line(0, '{"id": "a", "v": 1, "name": "late"}', partition=1)
    assert counts(fold(made, *second, twice, name="2")) == {"superseded": {"backwards": 3}}
    assert counts(fold(made, elsewhere, name="3")) == {"superseded": {"stored": 1}}
    assert rows_of(lake, made) == []
    assert prove(session, lake, made).holds


def test_names_that_no_column_can_have(
    fold: Callable[..., BatchRun], dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    fields: dict[str, Any] = {
        "at": {"type": "timestamp", "from": "@timestamp"},
        "event_id": {"type": "string", "from": '"event.id"'},
        "deleted": {"type": "string?", "from": "__deleted"},
        "id": "long",
        "upper": {"type": "long", "from": "ID"},
        "city": {"type": "string?", "from": "address.city"},
        "upper_city": {"type": "string?", "from": "address.CITY"},
        "agent": {"type": "string?", "from": 'headers."user agent".$x'},
    }
    made = dataset(
        key={"format": "json"},
        value={"fields": fields},
        identity={"message_id": 'value."event.id"', "business_key": ['header."x:trace"', 'key."tenant.id"']},
        quality=FOLD,
    )
    value = {
        "@timestamp": "2026-01-01T09:01Z", "event.id": "e1", "__deleted": "false", "id": 1, "ID": 2,
        "address": {"city": "A", "CITY": "B"}, "headers": {"user agent": {"$x": "curl"}},
    }  # fmt: skip
    other = value | {"event.id": "e2", "address": None, "headers": {"user agent": "text"}}
    lines = [
        line(0, json.dumps(value), '{"tenant.id": "t1"}', headers=["x:trace", "a"]),
        line(1, json.dumps(other), '{"tenant.id": "t2"}', headers=["x:trace", "a"]),
        line(2, json.dumps(value), '{"tenant.id": "t1"}', headers=["x:trace", "a"]),
    ]
    assert counts(fold(made, *lines)) == {"applied": {"insert": 2}, "duplicate": {"message_id": 1}}
    first, second = sorted(rows_of(lake, made), key=lambda row: str(row["event_id"]))
    assert (first["id"], first["upper"], first["city"], first["upper_city"]) == (1, 2, "A", "B")
    assert (first["deleted"], first["agent"], str(first["at"])[:16]) == ("false", "curl", "2026-01-01T09:01")
    assert (second["city"], second["agent"]) == (None, None)
    assert prove(session, lake, made).holds


def test_a_part_of_the_key_may_be_a_field_too(
    fold: Callable[..., BatchRun], dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    """The usual compacted topic. What the key says fills the column, and tombstones find their row by it."""
    made = dataset(
        key={"format": "json"},
        value={"fields": {"id": "long", "owner": "string?"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)"}, "delete_when": "tombstone"},
        quality=FOLD,
    )
    lines = [
        line(0, '{"id": 1, "owner": "a"}', '{"id": 1}', headers=["v", "1"]),
        line(1, '{"id": 2, "owner": "b"}', '{"id": "2"}', headers=["v", "1"]),
        line(2, '{"owner": "c"}', '{"id": 3}', headers=["v", "1"]),
        line(3, '{"id": 5, "owner": "d"}', '{"id": 4}', headers=["v", "1"]),
        line(4, '{"id": 6}', '{"id": "x"}', headers=["v", "1"]),
        line(5, None, '{"id": "1"}', headers=["v", "2"]),
    ]
    done = fold(made, *lines)
    assert counts(done) == {
        "applied": {"insert": 2, "delete": 1},
        "superseded": {"in_batch": 1},
        "rejected": {"key_mismatch": 1, "wrong_type": 1},
    }
    assert sorted((row["id"], row["owner"]) for row in rows_of(lake, made)) == [(2, "b"), (3, "c")]
    assert prove(session, lake, made).holds


def test_a_scalar_is_a_json_key_and_a_key_may_fall_back(
    fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake
) -> None:
    made = dataset(
        key={"format": "json"},
        value={"fields": {"after": "struct<id: long>?", "before": "struct<id: long>?", "op": "string"}},
        apply={
            "mode": "upsert",
            "key": ["coalesce(after.id, before.id)", "key"],
            "version": {"from": "offset"},
            "delete_when": "op = 'd'",
        },
        quality=FOLD,
    )
    lines = [
        line(0, '{"after": {"id": 1}, "before": null, "op": "c"}', "7"),
        line(1, '{"after": {"id": 2}, "op": "c"}', '"k"'),
        line(2, '{"before": {"id": 1}, "op": "d"}', "7"),
        line(3, '{"after": {"id": 3}, "op": "c"}', '{"id": 3}'),
    ]
    done = fold(made, *lines)
    assert counts(done)["rejected"] == {"undecodable": 1}
    assert [(row["after_id"], row["key"]) for row in rows_of(lake, made)] == [(2, "k")]


@pytest.mark.parametrize(("wrong", "is_red"), [(3, True), (2, False)])
def test_a_batch_of_which_more_than_half_is_rejected_is_red_however_small(
    fold: Callable[..., BatchRun], dataset: MakeDataset, wrong: int, is_red: bool
) -> None:
    quality = {"max_rejected_rate": 0.01, "min_records": 100}
    made = dataset(value={"fields": {"id": "string"}}, identity={"message_id": "id"}, quality=quality)
    done = fold(made, *(line(n, '{"id": 5}' if n < wrong else f'{{"id": "{n}"}}') for n in range(5)))
    assert bool(done.red) is is_red
    if is_red:
        assert "rejected records, of a batch of any size: found 0.6, wanted at most 0.5" in str(done.red)


def test_a_conflict_says_what_the_dataset_file_can_say(fold: Callable[..., BatchRun], dataset: MakeDataset) -> None:
    version = {"from": "long(header.v)"}
    made = dataset(
        key={"format": "json"},
        value={"fields": {"n": "long"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": version},
        quality={"max_conflicts": 0},
    )
    done = fold(made, *(line(n, f'{{"n": {n}}}', '{"id": "a"}', headers=["v", "1"]) for n in range(2)))
    assert "apply.version.tie: last takes the one at the larger offset" in str(done.red)


@pytest.mark.parametrize(
    ("version", "given", "order"),
    [
        ("pg_lsn(header.v)", ["F/1A2B", "0/FFFFFFFF", "1/0", "F/1A2A", "10/0"], [1, 2, 3, 0, 4]),
        ("hex(header.v)", ["0x0A", "9", "00000027:00000ac0:0002", "27000001000000", "ff"], [1, 0, 4, 3, 2]),
        ("long(header.v)", ["9", "23", "-1", "0007", "+8"], [2, 3, 4, 0, 1]),
    ],
)
def test_positions_of_databases_order_as_numbers(
    fold: Callable[..., BatchRun], dataset: MakeDataset, lake: Lake, version: str, given: list[str], order: list[int]
) -> None:
    apply = {"mode": "upsert", "key": ["header.k"], "version": {"from": version}}
    made = dataset(value={"fields": {"n": "long"}}, apply=apply, quality=FOLD)
    # Of each two neighbours in the order the later one wins, whichever of them was written first.
    lines = []
    for pair, (low, high) in enumerate(pairwise(order)):
        for which in (high, low):
            lines.append(line(len(lines), f'{{"n": {which}}}', headers=["v", given[which], "k", str(pair)]))
    wrong = line(len(lines), '{"n": 9}', headers=["v", "x/y", "k", "w"])
    done = fold(made, *lines, wrong)
    assert counts(done)["rejected"] == {"wrong_type": 1}
    assert [row["n"] for row in sorted(rows_of(lake, made), key=lambda row: str(row["k"]))] == order[1:]
