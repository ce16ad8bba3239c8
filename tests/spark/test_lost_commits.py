"""L5 where the catalog is a server that may not answer: what was committed is found, and nothing is committed twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import CommitOutcomeUnknownError
from onefold.iceberg.connection import key_below_warehouse
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.prove import prove
from onefold.report.ledger import records_of, rows_of
from tests.support.pipeline import Sent, accounts, export
from tests.support.s3_faults import Fault, Faulty

FIRST = [Sent(0, n, 10 + n, f"k{n}", 1, f"m{n}", {"owner": "A"}) for n in range(3)]
SECOND = [Sent(0, 3 + n, 20 + n, f"k{n}", 2, f"n{n}", {"owner": "B"}) for n in range(2)]


@pytest.mark.nightly(reason="tests/integration/test_catalog.py commits against another on each catalog by day")
def test_L5_a_commit_that_is_not_answered_is_looked_for(
    session_on: Callable[[Lake], SparkSession],
    lake: Lake,
    rest_catalog: str,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
) -> None:
    made = accounts(dataset)
    first, second = (str(export(tmp_path / name, sent)) for name, sent in (("1", FIRST), ("2", SECOND)))
    with Faulty(rest_catalog) as proxy:
        behind = Lake(lake.settings.model_copy(update={"catalog": proxy.address}))
        spark = InSession(behind, session_on(behind))

        def run(folder: str, fault: Fault | None = None) -> BatchRun:
            def say(step: str) -> None:
                if step == "publish" and fault:  # its first request that is no question is the commit
                    proxy.spoil("POST", fault)

            return run_batch(behind, made, plan_batch(behind, made, export=folder), spark, say)

        run(first)
        before = StateTable(behind, made).main
        for fault in (Fault.CUT, Fault.BUSY):  # the server has not done it
            with pytest.raises(CommitOutcomeUnknownError):
                run(second, fault)
            assert StateTable(behind, made).main == before
        assert run(second, Fault.LOST).published
        assert (proxy.left, [fault for _, fault in proxy.seen if fault]) == ([], [Fault.CUT, Fault.BUSY, Fault.LOST])

        assert {row["id"]: row["owner"] for row in rows_of(behind, made)} == {"k0": "B", "k1": "B", "k2": "A"}
        published = [record.batch for record in records_of(behind, made)]
        assert len(set(published)) == len(published) == 2
        assert prove(spark.session, behind, made).holds
        assert key_below_warehouse(behind, StateTable(behind, made).table.location()), "not where the server would"
