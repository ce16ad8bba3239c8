"""A batch whose base moves each time before it is published: bounded tries, no branch left, and the next run ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import ContentionError
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.report.ledger import records_of, rows_of
from tests.support.pipeline import Sent, accounts, export, run


class Overtaken(InSession):
    """Behind each gate of one batch another is published."""

    gates = 0

    def __init__(self, lake: Lake, session: SparkSession, folder: Path) -> None:
        super().__init__(lake, session)
        self.folder = folder

    def run(self, step: str, dataset: Dataset, batch: str, attempt: str | None = None) -> Any:
        done = super().run(step, dataset, batch, attempt)
        if step == "gate":
            self.gates += 1
            other = export(self.folder / f"other-{self.gates}", [sent(100 + self.gates, f"other-{self.gates}")])
            assert run(self.session, self.lake, dataset, other).published
        return done


def sent(offset: int, key: str) -> Sent:
    return Sent(0, offset, offset, key, 1, f"m{offset}", {"owner": key})


@pytest.mark.nightly(reason="batches meet in histories, and processes in tests/process/test_contention.py, by day")
def test_it_gives_up_behind_its_tries_and_is_published_by_the_next_run(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    made = accounts(dataset)
    hurried = Lake(lake.settings.model_copy(update={"publish_tries": 3, "lease_wait": 0.0}))
    run(session, lake, made, export(tmp_path / "first", [sent(1, "first")]))
    plan = plan_batch(lake, made, export=str(export(tmp_path / "slow", [sent(2, "slow")])))
    launcher = Overtaken(hurried, session, tmp_path)
    with pytest.raises(ContentionError, match="3") as raised:
        run_batch(hurried, made, plan, launcher)
    assert (raised.value.exit_code, launcher.gates) == (5, 3), "each try is judged again"
    assert StateTable(lake, made).branches() == {}
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["first", "other-1", "other-2", "other-3"]

    done = run_batch(lake, made, plan, InSession(lake, session))
    assert done.published
    assert not done.published.already
    assert "slow" in {row["id"] for row in rows_of(lake, made)}
    assert [record.batch for record in records_of(lake, made)].count(done.batch) == 1
    assert StateTable(lake, made).branches() == {}
