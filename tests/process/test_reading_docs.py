"""The recipes of docs/reading.md, taken from the page and run as they stand: all engines give the same rows."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from onefold.lake import Lake
from onefold.report.changes import changes_of
from onefold.report.ledger import rows_of
from onefold.report.quarantine import quarantine_of
from tests.support.project import PROJECT, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
PAGE = (PROJECT / "docs" / "reading.md").read_text()
BLOCKS = re.findall(r"^```(python|sql)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SAMPLE = PROJECT / "sample" / "exports" / "kcat"
Names = dict[str, Any]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The shipped dataset `accounts` in a project of its own."""
    made = Project(tmp_path_factory.mktemp("reading"))
    made.write_dataset("accounts", (PROJECT / "datasets" / "accounts.yaml").read_text())
    shutil.copy(PROJECT / "expectations" / "accounts.yaml", made.home / "expectations")
    return made


@pytest.fixture(scope="module")
def names(project: Project, session_on: Callable[[Lake], SparkSession]) -> Names:
    """Two batches, and what the page's names hold when its blocks have run in their order; `sql` the answers to SQL."""
    session, marks = session_on(project.lake), []
    for name in ("1-first", "3-next"):
        assert [run.red for run in project.run(session, "accounts", export=SAMPLE / name)] == [None]
        marks.append(changes_of(project.lake, project.dataset("accounts")).until)
    assert marks[0]
    names: Names = {"spark": session, "since": marks[0].snapshot, "sql": []}
    with contextlib.chdir(project.home):
        for language, code in BLOCKS:
            if language == "sql":
                names["sql"].append(session.sql(code).collect())
            else:
                exec(compile(code, "docs/reading.md", "exec"), names)
    return names


@pytest.mark.nightly(reason="it is about examples in the docs")
def test_every_recipe_gives_what_the_commands_give(project: Project, names: Names) -> None:
    dataset = project.dataset("accounts")
    live = rows_of(project.lake, dataset)
    active, refused = names["sql"]
    assert (
        {row.account_id for row in active} == {row["account_id"] for row in live if row["status"] == "active"} != set()
    )
    assert Counter(names["live"]["account_id"].to_pylist()) == Counter(row["account_id"] for row in live)
    assert dict(names["by_status"]) == Counter(row["status"] for row in live)

    kept = quarantine_of(project.lake, dataset)
    wanted = Counter((row["batch"], row["topic"], row["offset"], row["reason"], row["value"]) for row in kept)
    assert len(wanted) > 5
    assert Counter((row.batch, row.topic, row.offset, row.reason, _hex(row.value)) for row in refused) == wanted
    assert Counter((batch, topic, at, why, _hex(value)) for batch, topic, _, at, why, value in names["why"]) == wanted

    found = changes_of(project.lake, dataset, str(names["since"]))
    changes = {(row["change"], row["row"]["account_id"], _owner(row)) for row in found.rows}
    assert {change for change, _, _ in changes} == {"inserted", "updated", "deleted"}
    assert len(changes) == len(found.rows)
    assert {(row.change, row.account_id, row.owner) for row in names["changed"].collect()} == changes
    assert {row[:3] for row in names["differences"]} == changes
    by_kind = {kind: {row["account_id"] for row in names[kind]} for kind in ("inserted", "updated", "deleted")}
    assert by_kind == {kind: {id_ for change, id_, _ in changes if change == kind} for kind in by_kind}
    assert found.until
    assert names["until"] == found.until.snapshot


def _hex(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).hex()


def _owner(row: dict[str, Any]) -> str | None:
    return None if row["change"] == "deleted" else row["row"]["owner"]


@pytest.mark.nightly(reason="it is about examples in the docs")
def test_a_snapshot_that_is_gone_is_an_error_in_each_engine(names: Names) -> None:
    with pytest.raises(LookupError, match="snapshot 7 has expired"):
        names["files"](7)
    with pytest.raises(Exception, match="Cannot find snapshot"):
        names["spark"].sql(f"SELECT * FROM {names['table']} VERSION AS OF 7").collect()


def test_the_pages_blocks_were_found() -> None:
    assert Counter(language for language, _ in BLOCKS) == {"python": 6, "sql": 2}
    assert PAGE.count("```python") + PAGE.count("```sql") == len(BLOCKS)


@pytest.mark.nightly(reason="it is about examples in the docs")
def test_the_join_of_two_looks_shuffles_nothing(names: Names) -> None:
    plan = names["changed"]._jdf.queryExecution().explainString(_mode(names["spark"]))
    assert "SortMergeJoin FullOuter" in plan or "ShuffledHashJoin FullOuter" in plan
    assert not re.findall(r"(?<![A-Za-z])Exchange ", plan)


def _mode(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")


def test_the_page_is_named_where_readers_look() -> None:
    for page in ("README.md", "docs/operating.md"):
        assert "reading.md" in (PROJECT / page).read_text(), page
