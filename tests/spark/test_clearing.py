"""A step of a batch that has ended, run again alone, as Airflow does with a task that is cleared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import AuditRedError, StepMissingError
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.maintenance.landings import clear_landing
from onefold.maintenance.maintain import maintain
from onefold.operations.in_process import InSession
from onefold.publish import publish_batch
from onefold.quality.documents import GateResult
from onefold.report import report_batch
from spark_jobs import upsert
from tests.support.arrivals import AT_ONCE
from tests.support.pipeline import Sent, accounts, export, mend, run


def sent(offset: int) -> Sent:
    return Sent(0, offset, offset, "a", offset, f"m{offset}", {"owner": "o"})


def test_upsert_finds_a_published_batch_whatever_code_is_installed_since(
    session: SparkSession,
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = accounts(dataset)
    done = run(session, lake, made, export(tmp_path / "first", [sent(1)]))
    assert done.published
    waiting = plan_batch(lake, made, export=str(export(tmp_path / "second", [sent(2)]))).batch
    land_batch(lake, made, waiting)
    before = StateTable(lake, made).main

    mend(monkeypatch, "#")  # so that no staging is of the code that is installed

    found = upsert.run(session, lake, made, done.batch)
    assert (found.published, found.attempt) == (True, done.published.attempt)
    assert StateTable(lake, made).main == before
    with pytest.raises(StepMissingError, match="dedup"):
        upsert.run(session, lake, made, waiting)


@pytest.mark.nightly(reason="upsert finds a published batch by day")
def test_every_step_finds_a_published_batch_whose_tables_and_landed_bytes_are_gone(
    session: SparkSession,
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = accounts(dataset)
    steps = InSession(lake, session)
    batch = plan_batch(lake, made, export=str(export(tmp_path / "first", [sent(1)]))).batch
    landed = land_batch(lake, made, batch)
    staged = steps.run("dedup", made, batch)
    attempt = steps.run("upsert", made, batch, "cafe01").attempt
    judged = steps.run("gate", made, batch, attempt)
    published = publish_batch(lake, made, batch, attempt, never)

    assert maintain(session, lake, made, AT_ONCE).tables
    clear_landing(lake, landed, "decision")
    mend(monkeypatch, "#")  # and other code is installed
    before = state_of(lake, made)

    assert land_batch(lake, made, batch) == landed
    assert steps.run("dedup", made, batch) == staged
    assert steps.run("upsert", made, batch, "cafe02").attempt == attempt
    for asked in (attempt, "cafe02", None):  # an attempt that a rebase has overtaken is none of the batch any more
        assert steps.run("gate", made, batch, asked) == judged
    again = publish_batch(lake, made, batch, attempt, never)
    assert (again.already, again.record, again.counts) == (True, published.record, published.counts)
    assert state_of(lake, made) == before


@pytest.mark.nightly(reason="tests/unit/test_report_page.py shows the newer audit by day")
def test_a_published_batch_is_audited_after_its_gate_and_the_report_has_the_newer_result(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    made, twice = accounts(dataset), [sent(1), replace(sent(1), offset=2)]
    done = run(session, lake, made, export(tmp_path / "first", twice))
    assert done.published
    before, gate = StateTable(lake, made).main, lake_keys.attempt(made, done.batch, done.published.attempt, "gate")
    judged = lake.get(gate, GateResult)
    steps = InSession(lake, session)

    again = steps.run("gate", made, done.batch)
    assert judged
    assert (again.green, again.checks, again.judged > judged.judged) == (True, judged.checks, True)
    strict = accounts(dataset, quality={"max_duplicate_rate": 0, "min_records": 0})
    with pytest.raises(AuditRedError, match="is published, and judged again its gate is red: duplicate rate"):
        steps.run("gate", strict, done.batch)

    assert (lake.get(gate, GateResult), StateTable(lake, made).main) == (judged, before)
    report_batch(lake, made, done.batch)
    page = lake.storage.read(lake_keys.report(made.name, done.batch, "html"))
    assert page
    assert b"The audit that ran last is red all the same" in page


def never(step: str, batch: str, attempt: str) -> dict[str, Any]:
    raise AssertionError((step, batch, attempt))


def state_of(lake: Lake, made: Dataset) -> tuple[Any, ...]:
    """Everything that lies in the lake, and what the table's branches lead to."""
    return list(lake.storage.list()), StateTable(lake, made).table.refs()
