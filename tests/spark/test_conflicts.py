"""Both sides of a conflict as the gate shows them: the judged record and the winner, each with its fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.quality.examples import examples_of
from onefold.report.document import describe
from onefold.report.ledger import equal, verdict_rows, verdicts_of
from onefold.tables import staging as C
from onefold.tables.key_digest import digest_of_key
from onefold.upsert.documents import Upserted
from tests.support.pipeline import Sent, accounts, export, run

MakeDataset = Callable[..., Dataset]


def test_two_contents_at_one_position_are_shown_as_the_loser_and_the_winner(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    """Equal timestamps: nothing but content and key tells the two apart; of two tombstones nothing but the key."""
    made = accounts(dataset)
    first, second = sorted("pq", key=lambda id_: digest_of_key(made, {"id": id_}))  # of equal hashes the smaller key
    log = [
        Sent(0, 0, 10, "a", 1, "1", {"owner": "A"}),
        Sent(0, 0, 10, "b", 1, "2", {"owner": "B"}),
        Sent(0, 1, 11, "c", 1, "3", {"owner": "C1"}),
        Sent(0, 1, 11, "c", 1, "4", {"owner": "C2"}),
        # The winner at the position is superseded by a later version of its key.
        Sent(0, 2, 12, first, 1, "5", None),
        Sent(0, 2, 12, second, 1, "6", None),
        Sent(0, 3, 13, first, 2, "7", {"owner": "P"}),
    ]
    done = run(session, lake, made, export(tmp_path / "export", log))
    assert done.red is not None
    rows, _ = verdicts_of(lake, made, done.batch)
    conflicts = {row["offset"]: row for row in rows if row["verdict"] == "conflict"}
    assert {(row["reason"], row["scope"]) for row in conflicts.values()} == {("inconsistent_position", "in_batch")}
    assert {offset: row["survivor"] for offset, row in conflicts.items()} == {
        offset: {"topic": "t", "partition": 0, "offset": offset} for offset in (0, 1, 2)
    }
    shown = {conflict["record"]["offset"]: conflict for conflict in shown_of(session, lake, made, done.batch)}
    assert shown[0]["other"]["fields"] == applied_at(lake, made, 0)
    assert sorted(side_ids(shown[0])) == ["a", "b"]
    assert sorted(shown[1][side]["fields"]["owner"] for side in ("record", "other")) == ["C1", "C2"]
    assert side_ids(shown[2]) == [second, first]
    assert [len(shown), *(conflict["other"]["offset"] for conflict in shown.values())] == [3, 0, 1, 2]


def shown_of(session: SparkSession, lake: Lake, made: Dataset, batch: str) -> list[dict[str, Any]]:
    """The conflicts as reported; they do not follow the order of the staged rows."""
    reported = describe(lake, made, batch).examples["conflicts"]
    upserted = lake.get(lake_keys.latest(made, batch), Upserted)
    assert upserted
    key, owner = F.col(C.KEY), F.col("owner")
    for order in ((key.asc_nulls_first(), owner.asc_nulls_first()), (key.asc_nulls_last(), owner.asc_nulls_last())):
        session.table(upserted.staging).coalesce(1).sortWithinPartitions(*order).createOrReplaceTempView("turned")
        again = examples_of(session, made, upserted.model_copy(update={"staging": "turned"}))
        assert again["conflicts"] == reported
    return reported


def side_ids(conflict: dict[str, Any]) -> list[str]:
    return [conflict[side]["fields"]["id"] for side in ("record", "other")]


def applied_at(lake: Lake, made: Dataset, offset: int) -> dict[str, Any]:
    """The row that the attempt made of a position, of the two that claim it."""
    (key,) = (row["key"] for row in verdict_rows(lake, made, equal("offset", offset), ("key", "verdict")) if row["key"])
    fields = {"a": "A", "b": "B"}
    (id_,) = (field for field in fields if digest_of_key(made, {"id": field}).hex() == key)
    return {"id": id_, "owner": fields[id_], "credit": None}


@pytest.mark.nightly(reason="a conflict is shown with its fields by day: the test before")
def test_a_conflict_that_was_read_twice_is_shown_with_its_fields(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = accounts(dataset)
    beaten = Sent(0, 0, 10, "a", 1, "1", {"owner": "A"})
    log = [*[beaten] * 3, Sent(0, 1, 11, "a", 1, "2", {"owner": "B"})]
    done = run(session, lake, made, export(tmp_path / "export", log))
    assert done.red is None
    (shown,) = shown_of(session, lake, made, done.batch)
    owners = {side: shown[side]["fields"]["owner"] for side in ("record", "other")}
    assert owners == {"record": "A", "other": "B"}
