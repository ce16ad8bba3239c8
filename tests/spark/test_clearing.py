"""A step of a batch that is over, run again alone, as Airflow does with a task that is cleared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold.catalog import StateTable
from onefold.dataset import Dataset
from onefold.errors import StepMissingError
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from spark_jobs import upsert
from tests.spark.pipeline import Sent, accounts, export, mend, run


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
