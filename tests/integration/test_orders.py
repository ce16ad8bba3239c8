"""The shipped `orders`: two live topics with real lost acknowledgements and transactions become one row an order."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import load_dataset
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.report.ledger import offsets_of, rows_of, verdicts_of
from sample import orders
from sample.stage import stage
from sample.story import LostAcknowledgements, Transaction

SHIPPED = Path(__file__).parents[2]


@pytest.mark.nightly(reason="the demo folds the orders of two topics by day")
@pytest.mark.kafka
def test_orders_hold_the_highest_revision_of_each_over_both_topics(lake: Lake, session: SparkSession) -> None:
    with stage(orders.TOPICS) as topics:
        kafka = {"kafka_default": {"bootstrap.servers": topics.bootstrap}}
        expectations = SHIPPED / "expectations"
        lake = Lake(lake.settings.model_copy(update={"kafka": kafka, "expectations": expectations}))
        dataset = load_dataset(SHIPPED / "datasets" / "orders.yaml")
        launcher = InSession(lake, session)
        runs: list[BatchRun] = []
        for chapter in orders.story():
            ends = topics.play(chapter)
            runs.append(run_batch(lake, dataset, plan_batch(lake, dataset), launcher))
        assert plan_batch(lake, dataset).empty

    assert [run.red for run in runs] == [None, None]
    assert {row["order_id"]: spelled(row) for row in rows_of(lake, dataset)} == {
        order: spelled(row) for order, row in orders.rows().items()
    }

    verdicts = [row for run in runs for row in verdicts_of(lake, dataset, run.batch)[0]]
    sent = [step for chapter in orders.story() for step in chapter.steps]
    markers = Counter(
        place
        for step in sent
        if isinstance(step, Transaction)
        for place in {(m.topic, m.partition) for m in step.messages}
    )
    aborted = sum(len(step.messages) for step in sent if isinstance(step, Transaction) and not step.commit)
    again = sum(len(step.messages) * step.times for step in sent if isinstance(step, LostAcknowledgements))
    committed = sum(len(step.messages) for step in sent) - aborted + again
    assert len(verdicts) == committed == sum(ends.values()) - markers.total() - aborted
    holes = [hole for row in offsets_of(lake, dataset) for hole in row["holes"]]
    assert sum(hole["end"] - hole["start"] for hole in holes) == markers.total() + aborted

    rejected = sorted(row["detail"] for row in verdicts if row["verdict"] == "rejected")
    assert rejected == [
        "customer.id is absent",
        "lines[0].quantity: wanted int, found number 1.5",
    ]
    across = [row for row in verdicts if row["survivor"] and row["survivor"]["topic"] != row["topic"]]
    assert len([row for row in across if (row["verdict"], row["reason"]) == ("duplicate", "message_id")]) == 6


def spelled(row: dict[str, Any]) -> dict[str, Any]:
    """A row with one spelling for prices, instants and what is absent."""
    lines = [line | {"price": Decimal(line["price"])} for line in row["lines"]]
    customer = {"vip": None} | row["customer"]
    placed = datetime.fromisoformat(row["placed_at"])
    return {"tags": None} | row | {"lines": lines, "customer": customer, "placed_at": placed}
