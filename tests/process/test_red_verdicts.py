"""Why a record of a red batch has its verdict: asked before anybody decides, and marked as not published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from onefold.operations.run import BatchRun
from onefold.tables.names import verdict_table
from onefold.upsert.documents import upserted_of
from tests.support.project import THINGS, Done, Project, line, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
STRICT = THINGS.replace("max_conflicts: 1000", "max_conflicts: 0")
STOCK = """\
name: stock
source: {exports: {path: exports/stock/, layout: kcat, origin: {cluster: c, incarnation: 1}, holes: none}}
key: {format: string}
value: {format: json, fields: {sku: string, delta: long, id: string}}
identity: {message_id: id}
apply: {mode: increment, key: [sku], add: {stock: delta}}
target: {table: shop.stock, buckets: 2}
quality: {max_conflicts: 0}
"""


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str, str]:
    """A project with a published batch, and one that is red for a conflict with it; their ids."""
    project = Project(tmp_path_factory.mktemp("red"))
    project.write_dataset("things", STRICT)
    project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "b", 2)])
    assert project.onefold("run", "things").code == 0
    project.put("things/1.jsonl", [thing(2, "a", 99), thing(3, "c", 3), line(4, "{}")])
    assert project.onefold("run", "things").code == 3
    first, second = (row["batch"] for row in project.onefold("batches", "things", "--json").json)
    return project, first, second


def explained(done: Done) -> list[tuple[Any, ...]]:
    names = ("offset", "verdict", "reason", "scope", "published", "batch")
    assert done.code == 0, done.err
    return [tuple(row[name] for name in names) for row in done.json]


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_key_lists_what_its_red_batch_found(red: tuple[Project, str, str]) -> None:
    project, first, second = red
    done = project.onefold("explain", "things", "--key", '{"id": "a"}', "--json")
    assert explained(done) == [
        (0, "applied", "insert", "in_batch", True, first),
        (2, "conflict", "same_identity", "stored", False, second),
    ]
    assert [row["survivor"] and row["survivor"]["offset"] for row in done.json] == [None, 0]
    assert [row["row"] and row["row"]["n"] for row in done.json] == [1, None], "of a red batch no row is published"
    assert f"not published: batch {second} is red (conflicts: found 1, wanted at most 0)." in words(done.err)
    assert "its last attempt found" in words(done.err)


def test_a_position_lists_the_same_and_records_without_a_key(red: tuple[Project, str, str]) -> None:
    project, _, second = red
    by_key = project.onefold("explain", "things", "--key", '{"id": "a"}', "--json")
    for position in ("things-0@0", "things-0@2"):
        done = project.onefold("explain", "things", "--position", position, "--json")
        assert (done.json, done.err) == (by_key.json, by_key.err)
    new = project.onefold("explain", "things", "--position", "things-0@3", "--json")
    assert explained(new) == [(3, "applied", "insert", "in_batch", False, second)]
    rejected = project.onefold("explain", "things", "--position", "things-0@4", "--json")
    assert explained(rejected) == [(4, "rejected", "missing_field", "in_batch", False, second)]
    assert f"not published: batch {second}" in words(rejected.err)


def cells(table: str, name: str) -> str:
    """The text of a column without its spaces: the table folds it."""
    rows = [line.split("│") for line in table.splitlines() if "│" in line]
    header = next(line for line in table.splitlines() if name in line)
    place = next(number for number, cell in enumerate(header.split("┃")) if cell.strip() == name)
    return "".join(row[place].replace(" ", "") for row in rows)


def test_the_table_marks_what_is_not_published(red: tuple[Project, str, str]) -> None:
    project, first, second = red
    for asked in (("--key", '{"id": "a"}'), ("--position", "things-0@2")):
        done = project.onefold("explain", "things", *asked)
        assert f"not published: batch {second} is red" in words(done.err)
        assert cells(done.out, "batch") == f"{first}{second}(notpublished)"
    plain = project.onefold("explain", "things", "--key", '{"id": "b"}')
    assert (cells(plain.out, "batch"), plain.err) == (first, "")


def test_the_verdicts_of_a_red_batch_have_the_same_mark(red: tuple[Project, str, str]) -> None:
    project, first, second = red
    of_key = project.onefold("explain", "things", "--key", '{"id": "a"}')
    done = project.onefold("verdicts", "things", "--batch", second, "--json")
    assert [(row["offset"], row["verdict"]) for row in done.json] == [(2, "conflict"), (3, "applied"), (4, "rejected")]
    assert done.err == of_key.err
    assert project.onefold("verdicts", "things", "--batch", first).err == ""


def red_run(project: Project, session: SparkSession, name: str = "things") -> BatchRun:
    [ended] = project.run(session, name)
    assert ended.red is not None
    return ended


def test_a_first_batch_that_is_red_is_explained_and_a_release_publishes_what_was_listed(
    project: Project, session: SparkSession
) -> None:
    project.write_dataset("things", STRICT)
    project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "a", 2)])
    batch = red_run(project, session).batch
    asked = ("explain", "things", "--key", '{"id": "a"}', "--json")
    before = project.onefold(*asked)
    verdicts = [(0, "applied", "insert", "in_batch"), (1, "conflict", "same_identity", "in_batch")]
    assert explained(before) == [(*verdict, False, batch) for verdict in verdicts]
    released = project.onefold("release", batch, "--waive", "conflicts=1", "--reason", "the first is right")
    assert released.code == 0, released.err
    after = project.onefold(*asked)
    assert explained(after) == [(*verdict, True, batch) for verdict in verdicts]
    assert after.err == ""


@pytest.mark.nightly(reason="a red batch is explained by day")
def test_verdicts_of_a_red_batch_that_are_gone_are_said_to_be(project: Project, session: SparkSession) -> None:
    project.write_dataset("things", STRICT)
    project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "a", 2)])
    batch, dataset = red_run(project, session).batch, project.dataset()
    attempt = upserted_of(project.lake, dataset, batch).attempt
    asked = ("explain", "things", "--key", '{"id": "a"}')
    for statement in (f"DELETE FROM {{}} WHERE attempt = '{attempt}'", "DROP TABLE {}"):
        session.sql(statement.format(verdict_table(dataset)))
        done = project.onefold(*asked)
        assert (done.code, "no record" in done.out) == (0, True)
        assert f"batch {batch} is red" in words(done.err)
        assert "the verdicts of its last attempt are not in the lake any more" in words(done.err)
        listed = project.onefold("verdicts", "things", "--batch", batch)
        assert (listed.code, "are not in the lake any more" in words(listed.err)) == (2, True)
    assert project.onefold("discard", "things", batch, "--reason", "judged again").code == 0
    assert (project.onefold(*asked, "--json").json, project.onefold(*asked).err) == ([], "")
    assert project.onefold("run", "things").code == 3
    assert [row["offset"] for row in project.onefold(*asked, "--json").json] == [0, 1]


def moved(offset: int, id_: str, sku: str, delta: int) -> bytes:
    return line(offset, {"id": id_, "sku": sku, "delta": delta}, topic="stock")


@pytest.mark.nightly(reason="a key lists what its red batch found by day")
def test_a_sum_lists_the_messages_that_a_red_batch_would_add(project: Project, session: SparkSession) -> None:
    project.write_dataset("stock", STOCK)
    project.put("stock/0.jsonl", [moved(0, "m0", "s", 1)])
    [first] = project.run(session, "stock")
    assert first.published
    project.put("stock/1.jsonl", [moved(1, "m0", "s", 5), moved(2, "m1", "s", 2), moved(3, "m2", "other", 2)])
    batch = red_run(project, session, "stock").batch
    done = project.onefold("explain", "stock", "--key", '{"sku": "s"}', "--json")
    assert explained(done) == [
        (0, "applied", "add", "in_batch", True, first.batch),
        (1, "conflict", "same_identity", "stored", False, batch),
        (2, "applied", "add", "in_batch", False, batch),
    ]
