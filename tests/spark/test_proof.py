"""A proof holds for a right table and names each kind of wrong row; it uses only the landed bytes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.reserved_columns import FLAT_ORDER
from onefold.errors import UsageError
from onefold.lake import Lake
from onefold.landing.plan import find_plan
from onefold.operations import decide
from onefold.operations.in_process import InSession
from onefold.operations.replay import plan_replay, replay
from onefold.operations.run import run_batch
from onefold.proof.documents import Proof
from onefold.proof.prove import prove
from onefold.tables.names import STAGING
from tests.support import layouts as L
from tests.support.pipeline import Sent, accounts, entries, export, mend, run, tampered

FIRST = [
    Sent(0, 0, 10, "a", 1, "1", {"owner": "A"}),
    Sent(0, 1, 11, "b", 1, "2", {"owner": "B", "credit": "1.50"}),
    Sent(0, 2, 12, "c", 1, "3", {"owner": "C"}),
    Sent(0, 3, 13, "c", 2, "4", None),
]
LATER = [
    Sent(0, 1, 11, "b", 1, "2", {"owner": "B", "credit": "1.50"}),
    Sent(0, 4, 14, "a", 3, "5", {"owner": "A3"}),
    Sent(0, 5, 15, "a", 2, "6", {"owner": "A2"}),
    Sent(0, 6, 16, "d", 1, "7", "no JSON"),
]


def list_differences(proof: Proof) -> dict[str, tuple[str | None, str | None]]:
    """The differences by key and kind: the record that the row should come from, and the one that it comes from."""
    return {f"{row.columns.get('id')} {row.kind}": (row.landed, row.stands) for row in proof.shown}


def test_a_right_table_is_proved_and_each_kind_of_wrong_row_is_named(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    made = accounts(dataset)
    with pytest.raises(UsageError, match="nothing is published"):
        prove(session, lake, made)
    run(session, lake, made, export(tmp_path / "1", FIRST))
    run(session, lake, made, export(tmp_path / "2", LATER))
    messages: list[str] = []
    right = prove(session, lake, made, say=messages.append)  # a copy of a position claims no row: 6 of 8 count
    assert (right.batches, right.records, right.rows, right.differences) == (2, 6, 3, {})
    assert right.holds
    assert messages == ["batch 1 of 2", "batch 2 of 2", "comparing"]
    assert lake.get(lake_keys.proof("accounts", right.name), Proof) == right
    assert session.sql(f"SHOW TABLES IN onefold.{STAGING} LIKE '*claims*'").count() == 0

    tampered(
        session, lake, made,
        "UPDATE {t} SET owner = 'Z' WHERE id = 'a'",
        "UPDATE {t} SET _version = 2, _state = 'live' WHERE id = 'c'",
        f"INSERT INTO {{t}} SELECT unhex('00'), _version, {', '.join(FLAT_ORDER.values())}, _hash, _message_id, "
        "_state, _quarantine, 'x', owner, credit, _message FROM {t} WHERE id = 'b'",
        "DELETE FROM {t} WHERE id = 'b'",
    )  # fmt: skip
    wrong = prove(session, lake, made)
    assert wrong.differences == {"extra": 1, "missing": 1, "other_content": 1, "other_record": 1}
    assert list_differences(wrong) == {
        "b missing": ("t-0@1", None),
        "x extra": (None, "t-0@1"),
        "a other_content": ("t-0@4", "t-0@4"),
        "c other_record": ("t-0@3", "t-0@3"),
    }
    assert not wrong.holds


@pytest.mark.nightly(reason="a proof of all keys goes by day")
def test_a_share_of_the_keys_finds_what_is_wrong_among_them(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    made = entries(dataset)
    sent = [Sent(0, n, n, f"k{n}", 1, f"{n}", {"id": f"k{n}", "credit": "1"}) for n in range(40)]
    run(session, lake, made, export(tmp_path / "1", sent))
    tampered(session, lake, made, "UPDATE {t} SET credit = 2")
    whole, some = (prove(session, lake, made, share) for share in (1, 0.5))
    assert whole.differences == {"other_content": 40}
    assert 0 < some.rows < 40
    assert some.differences == {"other_content": some.rows}
    drawn = [row.key for row in some.shown]
    assert drawn == [row.key for row in whole.shown][: len(drawn)], "drawn by digests, the smallest first"


@pytest.mark.nightly(reason="test_row_checks and the other wrong rows of a proof go by day")
def test_a_repeated_row_is_named(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """As a missed DELETE would leave it: both rows are right."""
    made = accounts(dataset)
    run(session, lake, made, export(tmp_path / "1", FIRST))
    tampered(session, lake, made, "INSERT INTO {t} SELECT * FROM {t} WHERE id = 'b'")
    proof = prove(session, lake, made)
    assert (proof.differences, proof.holds) == ({"repeated": 2}, False)
    assert list_differences(proof) == {"b repeated": ("t-0@1", "t-0@1")}


@pytest.mark.nightly(reason="each history by day is proved after its decisions")
def test_decisions_and_uncovered_records_count_as_they_do_for_the_table(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skipped batch counts for nothing, also when its records are received again; a replayed record counts."""
    made = accounts(dataset, quality={"max_rejected_rate": 1.0, "max_conflicts": 0})
    first = run(session, lake, made, export(tmp_path / "1", [*FIRST, Sent(0, 9, 9, "e", 1, "9", '~{"owner": "E"}')]))
    assert first.published
    conflicting = [*LATER[:2], Sent(0, 7, 17, "a", 3, "8", {"owner": "other"})]
    red = run(session, lake, made, export(tmp_path / "2", conflicting))
    assert red.red
    decide.skip(lake, made, red.batch, "mia", "a test topic")
    spark = InSession(lake, session)
    assert run_batch(lake, made, find_plan(lake, made, red.batch), spark).published
    assert run(session, lake, made, export(tmp_path / "3", LATER)).published
    proof = prove(session, lake, made)
    assert (proof.differences, proof.rows) == ({}, 3)

    mend(monkeypatch, "~")
    assert prove(session, lake, made).differences == {}  # it could be decoded, and is not covered
    plan = plan_replay(lake, made, first.batch).plan
    replay(lake, made, plan, "mia", "mended")
    assert run_batch(lake, made, plan, spark).published
    proof = prove(session, lake, made)
    assert (proof.differences, proof.rows) == ({}, 4)


def test_another_record_at_a_covered_position_stays_out_of_a_table_that_is_proved(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """Two exports have two records at one offset: the second batch is red, and its record is not covered."""
    made = entries(dataset)
    run(session, lake, made, export(tmp_path / "1", [Sent(0, 0, 10, "a", 1, "1", {"id": "a", "credit": "1"})]))
    second = run(session, lake, made, export(tmp_path / "2", [Sent(0, 0, 10, "b", 1, "1", {"id": "b", "credit": "1"})]))
    assert second.red
    proof = prove(session, lake, made)
    assert (proof.differences, proof.rows) == ({}, 1)


@pytest.mark.nightly(reason="histories of sums and chains are proved by day, and wrong rows of an upsert are named")
def test_sums_and_chains_are_proved_by_their_records(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """An altered sum, an altered message, a head that is marked as held, a held version that is gone."""
    given = {"key": {"format": "json"}, "value": {"fields": {"n": "long"}}, "identity": {"message_id": "header.m"}}
    stock = dataset("stock", apply={"mode": "increment", "key": ["key.id"], "add": {"in_all": "n"}}, **given)
    sent = [Sent(0, n, n, "ab"[n % 2], n // 2 + 1, f"{n}", {"n": n}) for n in range(6)]
    run(session, lake, stock, export(tmp_path / "1", sent))
    tampered(session, lake, stock, "UPDATE {t} SET in_all = in_all + 1 WHERE id = 'a' AND _state = 'live'")
    assert prove(session, lake, stock).differences == {"other_sum": 1}
    tampered(session, lake, stock, "UPDATE {t} SET n = n + 1 WHERE id = 'a' AND n = 2 AND _state = 'entry'")
    assert prove(session, lake, stock).differences == {"other_content": 1}, "the sum is that of the entries now"

    tampered(session, lake, stock, "UPDATE {t} SET n = n - 1 WHERE id = 'a' AND n = 3 AND _state = 'entry'")
    tampered(session, lake, stock, "UPDATE {t} SET in_all = in_all - 1 WHERE id = 'a' AND _state = 'live'")
    assert prove(session, lake, stock).differences == {}
    tampered(session, lake, stock, "UPDATE {t} SET id = 'z' WHERE id = 'a' AND _state = 'live'")
    assert prove(session, lake, stock).differences == {"other_sum": 1}, "the sum has another key"

    version = {"from": "long(header.v)", "guard": "contiguous"}
    chained = dataset("chained", apply={"mode": "upsert", "key": ["key.id"], "version": version}, **given)
    run(session, lake, chained, export(tmp_path / "2", [record for record in sent if record.offset != 2]))
    proof = prove(session, lake, chained)
    assert (proof.differences, proof.rows) == ({}, 3), "a1, b3, and a3 waits"
    tampered(session, lake, chained, "UPDATE {t} SET _state = 'held' WHERE id = 'b'")
    tampered(session, lake, chained, "UPDATE {t} SET _version = 4 WHERE _version = 3 AND id = 'a'")
    wrong = prove(session, lake, chained)
    assert wrong.differences == {"extra": 1, "missing": 1, "other_record": 1}


@pytest.mark.nightly(reason="Connect batches are proved in test_layout_batches")
def test_with_inferred_positions_objects_and_their_lines_count_once(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    made = L.dataset_of(dataset, "connect")
    sent = [L.Sent(0, 10 + n, f"a{n}", f"{n}.10", at=n, message=f"m{n}") for n in range(5)]
    name = L.put_connect(tmp_path / "1", sent[:4], "json")
    file = tmp_path / "1" / f"{name}.json"
    lines = file.read_bytes().splitlines()
    file.write_bytes(L.lines([*lines[:2], b"broken", lines[3]]))
    shutil.copytree(tmp_path / "1", tmp_path / "2" / "copy")
    L.put_connect(tmp_path / "2", sent[3:], "json")
    for folder in ("1", "2"):
        assert run(session, lake, made, tmp_path / folder).published
    proof = prove(session, lake, made)
    assert (proof.differences, proof.rows) == ({}, 4)
    tampered(session, lake, made, "UPDATE {t} SET ms = 0 WHERE id = 'a4'")
    assert prove(session, lake, made).differences == {"other_content": 1}
