"""The dataset files of docs/other-connectors.md, each on records as its connector sends them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from onefold.dataset import Dataset, load_dataset
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of
from tests.support.pipeline import run

PAGE = (Path(__file__).parents[2] / "docs" / "other-connectors.md").read_text()
Change = dict[str, Any]


@pytest.fixture
def recipe(lake: Lake, tmp_path: Path) -> Callable[[str], Dataset]:
    """The file under a heading, with its suite, of exports in place of a live topic."""

    def load(heading: str) -> Dataset:
        section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        file, *suites = [block.partition("\n```")[0] for block in section.split("```yaml\n")[1:]]
        given = yaml.safe_load(file)
        given["source"].pop("kafka")
        given["source"]["exports"] = {"path": str(tmp_path / "exports"), "layout": "kcat", "origin": {"cluster": "c"}}
        if suites:
            lake.settings.expectations_folder.mkdir(parents=True, exist_ok=True)
            (lake.settings.expectations_folder / given["quality"]["suite"]).write_text(suites[0])
        (tmp_path / "customers.yaml").write_text(yaml.safe_dump(given))
        return load_dataset(tmp_path / "customers.yaml")

    return load


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Iterator[Callable[..., BatchRun]]:
    offsets = [0, 0]

    def fold_changes(made: Dataset, *changes: Change, partition: Callable[[Change], int] = lambda _: 0) -> BatchRun:
        folder = tmp_path / "exports" / str(sum(offsets))
        folder.mkdir(parents=True)
        with (folder / "x.jsonl").open("w") as file:
            for change in changes:
                at = partition(change)
                line = {"topic": "t", "partition": at, "offset": offsets[at], "ts": 1_772_500_000_000, "key": None}
                print(json.dumps(line | {"payload": json.dumps(change)}), file=file)
                offsets[at] += 1
        return run(session, lake, made, folder)

    return fold_changes


def rows(lake: Lake, made: Dataset) -> dict[Any, Any]:
    return {row["id"]: row["name"] for row in rows_of(lake, made)}


def maxwell(change: str, at: int | None, id_: int, name: str | None, **more: Any) -> Change:
    found: Change = {"database": "shop", "table": "customers", "type": change, "ts": 1449786310}
    if at is not None:
        found |= {"xid": 940752 + at, "xoffset": at % 2, "position": f"master.000006:{800_000 + at // 2}"}
    return found | {"data": {"id": id_, "name": name}} | more


@pytest.mark.nightly(reason="Canal and the connector of MongoDB go by day")
def test_maxwell(
    recipe: Callable[[str], Dataset], fold: Callable[..., BatchRun], session: SparkSession, lake: Lake
) -> None:
    made = recipe("Maxwell")
    start = {"database": "shop", "table": "customers", "type": "bootstrap-start", "ts": 1, "data": {}}
    done = fold(
        made,
        start,
        maxwell("bootstrap-insert", None, 1, "Ann"),
        maxwell("bootstrap-insert", None, 2, "Bob"),
        start | {"type": "bootstrap-complete"},
        maxwell("update", 0, 1, "Anna", old={"name": "Ann"}),
        maxwell("insert", 1, 3, None),
        maxwell("update", 2, 1, "Anne", old={"name": "Anna"}),
        maxwell("update", 0, 1, "Anna", old={"name": "Ann"}),  # sent again
    )
    assert done.published, (done.red and done.red.failed) or done.error
    assert rows(lake, made) == {1: "Anne", 2: "Bob", 3: None}
    done = fold(
        made,
        maxwell("insert", 1, 3, None),
        maxwell("delete", 3, 2, "Bob"),
        maxwell("update", 2, 1, "Anne", old={"name": "Anna"}),
    )
    assert done.published, (done.red and done.red.failed) or done.error
    assert done.published.counts == {"applied": {"delete": 1}, "duplicate": {"message_id": 2}}
    assert rows(lake, made) == {1: "Anne", 3: None}
    assert prove(session, lake, made).holds
    moved = fold(made, maxwell("update", 5, 4, "Anne", old={"id": 1}))
    assert moved.red
    assert "former_id" in str(moved.red)


def test_canal_by_way_of_flink(
    recipe: Callable[[str], Dataset], fold: Callable[..., BatchRun], session: SparkSession, lake: Lake
) -> None:
    made = recipe("Canal")
    first, second = {"id": 1, "name": "Ann"}, {"id": 2, "name": None}
    done = fold(
        made,
        {"before": None, "after": first, "op": "c"},
        {"before": None, "after": second, "op": "c"},
        {"before": first, "after": None, "op": "d"},
        {"before": None, "after": first | {"name": "Anne"}, "op": "c"},
        {"before": second, "after": None, "op": "d"},
    )
    assert done.published, (done.red and done.red.failed) or done.error
    assert rows(lake, made) == {1: "Anne"}
    assert prove(session, lake, made).holds
    whole = {"data": [first, second], "database": "shop", "table": "customers", "type": "INSERT", "isDdl": False}
    assert fold(made, whole).red, "Canal's own message"


def dms(operation: str, id_: int, name: str, transaction: int | None = None, number: int = 1) -> Change:
    about: Change = {"timestamp": "2026-03-01T08:00:00.5Z", "record-type": "data", "operation": operation}
    about |= {"partition-key-type": "primary-key", "schema-name": "shop", "table-name": "customers"}
    if transaction is not None:
        about |= {"transaction-id": transaction, "transaction-record-id": number}
    return {"data": {"id": id_, "name": name}, "metadata": about}


@pytest.mark.nightly(reason="Canal and the connector of MongoDB go by day")
def test_aws_dms(
    recipe: Callable[[str], Dataset], fold: Callable[..., BatchRun], session: SparkSession, lake: Lake
) -> None:
    made = recipe("AWS DMS")
    control = {"metadata": {"record-type": "control", "operation": "create-table", "table-name": "customers"}}
    changes = [dms("update", 1, "Anna", 7), dms("update", 1, "Anne", 7, 2), dms("insert", 3, "Cy", 8)]
    done = fold(made, control, dms("load", 1, "Ann"), dms("load", 2, "Bob"), *changes, *changes)
    assert done.published, (done.red and done.red.failed) or done.error
    assert rows(lake, made) == {1: "Anne", 2: "Bob", 3: "Cy"}
    done = fold(made, changes[0], dms("delete", 2, "Bob", 9))
    assert done.published, (done.red and done.red.failed) or done.error
    assert rows(lake, made) == {1: "Anne", 3: "Cy"}
    assert prove(session, lake, made).holds
    assert fold(made, {"metadata": control["metadata"] | {"record-type": "data"}}).red, "no key"


def mongo(operation: str, at: int, id_: str, name: str | None = None) -> Change:
    found: Change = {"_id": {"_data": f"82{at:08X}0004"}, "operationType": operation, "documentKey": {"_id": id_}}
    found |= {"clusterTime": {"$timestamp": {"t": 1_668_102_600 + at // 3, "i": at % 3 + 1}}}
    found |= {"ns": {"db": "shop", "coll": "customers"}}
    return found | ({} if name is None else {"fullDocument": {"_id": id_, "name": name}})


def test_mongodbs_own_connector(
    recipe: Callable[[str], Dataset], fold: Callable[..., BatchRun], session: SparkSession, lake: Lake
) -> None:
    """The changes of a document are in any partition."""
    made = recipe("MongoDB's own connector")
    changes = [
        mongo("insert", 1, "a", "Ann"),
        mongo("insert", 2, "b", "Bob"),
        mongo("update", 3, "a", "Anna"),
        mongo("replace", 4, "a", "Anne"),
        mongo("delete", 5, "b"),
        mongo("insert", 6, "c", "Cy"),
    ]

    def anywhere(change: Change) -> int:
        return int(change["_id"]["_data"], 16) % 2

    done = fold(made, *reversed(changes), changes[0], partition=anywhere)
    assert done.published, (done.red and done.red.failed) or done.error
    assert rows(lake, made) == {"a": "Anne", "c": "Cy"}
    done = fold(made, changes[0], changes[1], mongo("update", 9, "c", "Cyd"), partition=anywhere)
    assert done.published, (done.red and done.red.failed) or done.error
    assert rows(lake, made) == {"a": "Anne", "c": "Cyd"}
    assert prove(session, lake, made).holds
    dropped = {name: part for name, part in mongo("drop", 12, "").items() if name != "documentKey"}
    assert fold(made, dropped).red
