"""Versions of several parts: compared from the left, in a batch and against the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import GateRedError
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.operations.in_process import InSession
from onefold.report.ledger import rows_of
from tests.support.pipeline import Sent, export, run


def test_the_first_part_that_differs_decides(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    made = dataset(
        "accounts",
        key={"format": "json"},
        value={"fields": {"owner": "string"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": ["long(header.v)", "timestamp"]}},
    )
    first = [
        Sent(0, 0, 30, "a", 1, "1", {"owner": "v1 at 30"}),
        Sent(0, 1, 20, "a", 2, "2", {"owner": "v2 at 20"}),
        Sent(0, 2, 40, "b", 1, "3", {"owner": "v1 at 40"}),
        Sent(0, 3, 40, "b", 1, "4", {"owner": "v1 at 40"}),
        Sent(0, 8, 40, "c", 1, "9", {"owner": "v1 at 40"}),
    ]
    second = [
        Sent(0, 4, 99, "a", 1, "5", {"owner": "v1 at 99"}),
        Sent(0, 5, 21, "a", 2, "6", {"owner": "v2 at 21"}),
        Sent(0, 6, 39, "b", 1, "7", {"owner": "v1 at 39"}),
        Sent(0, 9, 40, "c", 1, "8", {"owner": "another at 40"}),
    ]
    counts = []
    for name, records in (("first", first), ("second", second)):
        done = run(session, lake, made, export(tmp_path / name, records)).published
        assert done
        counts.append(
            {f"{verdict}/{reason}": n for verdict, count in done.counts.items() for reason, n in count.items()}
        )
    assert counts == [
        {"applied/insert": 3, "duplicate/key_version": 1, "superseded/in_batch": 1},
        {"applied/update": 1, "conflict/same_version": 1, "superseded/backwards": 2},
    ]
    assert {row["id"]: row["owner"] for row in rows_of(lake, made)} == {
        "a": "v2 at 21",
        "c": "another at 40",
        "b": "v1 at 40",
    }


@pytest.mark.parametrize(
    ("given", "lost"),
    [
        ("long(header.v)", "_version"),
        (["long(header.v)", "timestamp"], "_version_v1"),
        (["long(header.v)", "timestamp"], "_version_v2"),
    ],
)
def test_L4_the_gate_asks_for_a_version_of_every_row_also_of_a_deleted_one(
    session: SparkSession,
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
    given: str | list[str],
    lost: str,
) -> None:
    apply = {"mode": "upsert", "key": ["key.id"], "version": {"from": given}, "delete_when": "tombstone"}
    made = dataset("accounts", key={"format": "json"}, value={"fields": {"owner": "string"}}, apply=apply)
    here = InSession(lake, session)
    log = [Sent(0, 0, 10, "a", 1, "1", {"owner": "A"}), Sent(0, 1, 11, "b", 1, "2", None)]
    plan = plan_batch(lake, made, export=str(export(tmp_path / "1", log)))
    land_batch(lake, made, plan.batch)
    here.run("dedup", made, plan.batch)
    upserted = here.run("upsert", made, plan.batch, "cafe01")
    assert here.run("gate", made, plan.batch, "cafe01").green
    branch = f"onefold.{'.'.join(StateTable(lake, made).identifier)}.branch_{upserted.branch}"
    session.sql(f"UPDATE {branch} SET {lost} = NULL WHERE _state = 'deleted'")
    head = StateTable(lake, made).table.refs()[upserted.branch].snapshot_id
    lake.put(lake_keys.attempt(made, plan.batch, "cafe01", "upsert"), upserted.model_copy(update={"head": head}))
    with pytest.raises(GateRedError, match="no null key or version: found 1"):
        here.run("gate", made, plan.batch, "cafe01")
