"""Several topics, incarnations and clusters in one table: `explain` tells equal offsets apart, causes say whence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.cli.look_commands import _place, _touched
from onefold.dataset import Dataset
from onefold.dataset.source import Origin
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.offsets import Position
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.report.document import describe
from onefold.report.explain import explain, explain_position
from onefold.tables.key_digest import digest_of_key
from tests.support.pipeline import Sent, entries, export

MakeDataset = Callable[..., Dataset]


def run_as(session: SparkSession, lake: Lake, made: Dataset, folder: Path, **origin: Any) -> list[tuple[str, str, int]]:
    """Run an export whose landing says of which cluster and incarnation it is, as a live topic's does.

    Gives the duplicates' causes, with how far they are from their survivors.
    """
    plan = plan_batch(lake, made, export=str(folder))
    landed = land_batch(lake, made, plan.batch)
    lake.put(lake_keys.manifest(plan.source, plan.batch), landed.model_copy(update={"origin": Origin(**origin)}))
    done = run_batch(lake, made, plan, InSession(lake, session))
    assert done.red is None, done.red
    return [
        (cause.cause.name, group.place, group.records)
        for cause in describe(lake, made, plan.batch).causes
        for group in cause.groups
    ]


@pytest.mark.nightly(reason="causes tell incarnations apart by day")
def test_explain_tells_equal_offsets_of_two_incarnations_apart(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    """Of `a` the first record wins, and of `b` the one that came later with an earlier timestamp."""
    made = entries(dataset)
    first = [Sent(0, 0, 10, "a", 1, "a", {"id": "a"}), Sent(0, 1, 20, "b", 1, "b", {"id": "b"})]
    again = [Sent(0, 0, 11, "a", 1, "a", {"id": "a"}), Sent(0, 1, 19, "b", 1, "b", {"id": "b"})]
    run_as(session, lake, made, export(tmp_path / "first", first), cluster="c", incarnation=1)
    run_as(session, lake, made, export(tmp_path / "again", again), cluster="c", incarnation=2)
    explained = {id_: explain(lake, made, digest_of_key(made, {"id": id_})) for id_ in "ab"}
    row = {"_state": "live", "id": "a", "credit": None}
    names = ("cluster", "incarnation", "offset", "verdict", "reason", "row")
    assert [tuple(row[name] for name in names) for row in explained["a"]] == [
        ("c", 1, 0, "applied", "insert", row),
        ("c", 2, 0, "duplicate", "message_id", None),
    ]
    assert [tuple(row[name] for name in names) for row in explained["b"]] == [
        ("c", 2, 1, "duplicate", "message_id", row | {"id": "b"}),
        ("c", 1, 1, "applied", "insert", None),
    ]
    here = {"topic": "t", "partition": 0}
    assert [row["survivor"] for row in explained["a"]] == [None, here | {"offset": 0, "cluster": "c", "incarnation": 1}]
    assert explained["b"][0]["survivor"] == here | {"offset": 1, "cluster": "c", "incarnation": 1}
    assert _place(explained["a"][1]["survivor"]) == "t-0@0 (cluster c, incarnation 1)"
    assert explain_position(lake, made, Position("t", 0, 0)) == explained["a"]
    shown = [_touched(explained["a"])(row) for row in explained["a"]]
    assert [(row["incarnation"], row["position"], row["row"]) for row in shown] == [
        (1, "t-0@0", "live"),
        (2, "t-0@0", ""),
    ]
    assert "cluster" not in shown[0]
    assert "incarnation" not in _touched(explained["a"][:1])(explained["a"][0])


def test_a_cause_tells_another_topic_another_incarnation_and_another_cluster(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = entries(dataset)
    sent = [Sent(0, n, 10 + n, id_, 1, id_, {"id": id_}) for n, id_ in enumerate("ab")]
    routed = Sent(0, 0, 30, "a", 1, "a", {"id": "a"}, topic="u")
    causes = run_as(session, lake, made, export(tmp_path / "first", [*sent, routed]), cluster="c", incarnation=1)
    assert causes == [("sent again to another place", "other_topic", 1)]
    causes = run_as(session, lake, made, export(tmp_path / "again", sent), cluster="c", incarnation=2)
    assert causes == [("loaded again into a new topic", "other_incarnation", 2)]
    causes = run_as(session, lake, made, export(tmp_path / "mirror", sent), cluster="d", incarnation=2)
    assert causes == [("mirrored", "other_cluster", 2)]
