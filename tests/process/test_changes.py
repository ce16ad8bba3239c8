"""What changed since a batch is what two looks at the table differ in; where that cannot be known, it is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from onefold.errors import ChangedDatasetError, ChangesUnknownError
from onefold.iceberg.state_table import StateTable
from onefold.maintenance.keep import Keep
from onefold.maintenance.maintain import maintain
from onefold.operations.decide import take_up
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.rollback import roll_back
from onefold.report.changes import changes_of
from onefold.report.ledger import records_of, rows_of
from tests.support.project import ACCOUNTS, Project, account

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
PAID = ACCOUNTS.replace("{n: long}", '{n: long, paid: "decimal(9,2)?"}')
NOTHING = timedelta(0)
GONE = None
BATCHES: list[dict[str, Any]] = [
    {"kept": 1, "updated": 1, "deleted": 1, "revived": 1, "there-and-back": 1, "same": 1},
    {"updated": 2, "deleted": GONE, "revived": GONE, "there-and-back": 2, "same": 1, "new": 1, "short-lived": 1},
    {"updated": 3, "revived": 7, "there-and-back": 1, "short-lived": GONE, "never": GONE, "refused": "no number"},
]
"""What each batch says of an id."""
Row = tuple[str, int]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all tests here, in their order: each goes on with what the one before left."""
    made = Project(tmp_path_factory.mktemp("changes"))
    made.write_dataset("accounts", PAID)
    return made


def put(project: Project, number: int, said: dict[str, Any]) -> None:
    lines = [
        account(100 * number + place, id_, None if n is GONE else {"n": n, "paid": "1.50"}, ts=1_772_323_200_000)
        for place, (id_, n) in enumerate(said.items())
    ]
    project.put(f"accounts/{number}.jsonl", lines)


def rows(project: Project, batch: str | None = None) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in rows_of(project.lake, project.dataset("accounts"), batch)}


def published(project: Project) -> list[str]:
    """Batches, oldest first."""
    return [record.batch for record in records_of(project.lake, project.dataset("accounts"))][::-1]


def listed_changes(project: Project, since: str | None) -> dict[str, list[dict[str, Any]]]:
    """The changes by kind, in the order of ids."""
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in changes_of(project.lake, project.dataset("accounts"), since).rows:
        found.setdefault(entry["change"], []).append(entry["row"])
    return {change: sorted(listed, key=lambda row: row["id"]) for change, listed in found.items()}


def differ(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The oracle: two looks at the table, compared as sets."""
    kinds = {
        "inserted": [after[id_] for id_ in sorted(after.keys() - before.keys())],
        "updated": [after[id_] for id_ in sorted(after.keys() & before.keys()) if after[id_] != before[id_]],
        "deleted": [before[id_] for id_ in sorted(before.keys() - after.keys())],
    }
    return {change: listed for change, listed in kinds.items() if listed}


def tidy(project: Project, session: SparkSession, snapshots: timedelta) -> None:
    keep = Keep(attempts=NOTHING, snapshots=snapshots, generations=NOTHING, orphans=timedelta(days=3))
    maintain(session, project.lake, project.dataset("accounts"), keep)


@pytest.fixture(scope="module")
def looks(project: Project) -> list[dict[str, dict[str, Any]]]:
    """What readers saw before the first batch and after each."""
    return [{}]


def test_each_batch_again_is_the_difference_of_two_looks(
    project: Project, session: SparkSession, looks: list[dict[str, dict[str, Any]]]
) -> None:
    for number, said in enumerate(BATCHES):
        put(project, number, said)
        assert [run.red for run in project.run(session, "accounts")] == [None]
        looks.append(rows(project))
        for since, batch in enumerate([None, *published(project)]):
            assert listed_changes(project, batch) == differ(looks[since], looks[-1]), (number, since)
    first = published(project)[0]
    ids = {change: [row["id"] for row in listed] for change, listed in listed_changes(project, first).items()}
    assert ids == {"inserted": ["new"], "updated": ["revived", "updated"], "deleted": ["deleted"]}


def test_the_mark_that_it_ends_with_goes_on(project: Project) -> None:
    dataset, batches = project.dataset("accounts"), published(project)
    found = changes_of(project.lake, dataset, batches[0])
    assert found.since
    assert found.until
    assert (found.since.batch, found.until.batch) == (batches[0], batches[-1])
    again = changes_of(project.lake, dataset, str(found.until.snapshot))
    assert (again.until, again.rows) == (found.until, [])
    assert changes_of(project.lake, dataset, str(found.since.snapshot)).rows == found.rows


def test_the_command_prints_them(project: Project) -> None:
    batches = published(project)
    done = project.onefold("changes", "accounts", "--since", batches[0], "--json")
    assert (done.code, done.json["since"]["batch"], done.json["until"]["batch"]) == (0, batches[0], batches[-1])
    kinds = Counter(row["change"] for row in done.json["rows"])
    assert kinds == {"inserted": 1, "updated": 2, "deleted": 1}
    assert {"change": "inserted", "row": {"id": "new", "n": 1, "paid": "1.50"}} in done.json["rows"]
    shown = project.onefold("changes", "accounts", "--since", batches[0])
    assert (shown.code, "revived" in shown.out) == (0, True)
    assert f"--since {done.json['until']['snapshot']}" in shown.err


def test_a_compaction_is_no_change(
    project: Project, session: SparkSession, looks: list[dict[str, dict[str, Any]]]
) -> None:
    tidy(project, session, timedelta(days=1))
    for since, batch in enumerate([None, *published(project)]):
        assert listed_changes(project, batch) == differ(looks[since], looks[-1]), since


def test_only_what_the_change_touched_is_read(
    project: Project, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L8: after a compaction a batch of one new key reads one file, the one that it wrote."""
    last = published(project)[-1]
    put(project, 3, {"one more": 1})
    assert [run.red for run in project.run(session, "accounts")] == [None]
    read = count_files(monkeypatch)
    found = changes_of(project.lake, project.dataset("accounts"), str(before_last(project)))
    assert [(row["change"], row["row"]["id"]) for row in found.rows] == [("inserted", "one more")]
    assert len(read) == 1
    assert {row["id"] for row in listed_changes(project, last)["inserted"]} == {"one more"}


def before_last(project: Project) -> int:
    """The snapshot on which the last batch was published: the compaction's."""
    table = StateTable(project.lake, project.dataset("accounts"))
    parent = table.table.snapshot_by_id(table.main.snapshot)
    assert parent
    assert parent.parent_snapshot_id
    return parent.parent_snapshot_id


def count_files(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The data files that are read from now on."""
    from onefold.report import changes

    read: set[str] = set()
    ours = changes.ArrowScan.to_table

    def noting(self: Any, tasks: Iterable[Any]) -> Any:
        listed = list(tasks)
        read.update(task.file.file_path for task in listed)
        return ours(self, listed)

    monkeypatch.setattr(changes.ArrowScan, "to_table", noting)
    return read


def refused(project: Project, since: str, problem: str) -> None:
    with pytest.raises(ChangesUnknownError, match=problem) as raised:
        changes_of(project.lake, project.dataset("accounts"), since)
    assert raised.value.exit_code == 2
    assert "Read everything again (`onefold changes accounts` without --since)" in str(raised.value)


def test_what_was_never_published_is_refused(project: Project) -> None:
    refused(project, "export_000000000000", "it is not published")
    refused(project, "7", "no such snapshot")


def test_a_batch_that_was_rolled_back_is_refused_and_so_is_its_snapshot(
    project: Project, session: SparkSession
) -> None:
    dataset, batches = project.dataset("accounts"), published(project)
    there = changes_of(project.lake, dataset, batches[-1]).until
    assert there
    roll_back(project.lake, dataset, batches[-2], "me", "")
    refused(project, batches[-1], "it was rolled back")
    refused(project, str(there.snapshot), "it was rolled back")
    assert listed_changes(project, batches[-2]) == {}
    take_up(project.lake, dataset, batches[-1], "me")
    assert [run.batch for run in project.run(session, "accounts")] == [batches[-1]]
    # Published again it may be next to other rows than those that were read with it.
    refused(project, batches[-1], "rolled back and published again; a snapshot tells which")
    refused(project, str(there.snapshot), "it was rolled back")
    assert [row["id"] for row in listed_changes(project, batches[-2])["inserted"]] == ["one more"]


@pytest.mark.nightly(reason="the difference of two looks goes by day")
def test_an_expired_snapshot_is_refused(project: Project, session: SparkSession) -> None:
    first = published(project)[0]
    mark = changes_of(project.lake, project.dataset("accounts"), first).since
    assert mark
    for number in (4, 5, 6):
        put(project, number, {"updated": number})
        project.run(session, "accounts")
    tidy(project, session, NOTHING)
    refused(project, first, "its snapshot has expired")
    refused(project, str(mark.snapshot), "has expired, or the table was rebuilt")
    done = project.onefold("changes", "accounts", "--since", first)
    assert (done.code, done.out) == (2, "")
    assert "has expired" in done.err


@pytest.mark.nightly(reason="by day the changes within a generation are listed")
def test_everything_is_read_again_after_a_rebuild(project: Project, session: SparkSession) -> None:
    newest = published(project)[-1]
    mark = changes_of(project.lake, project.dataset("accounts"), newest).until
    assert mark
    project.write_dataset("accounts", PAID.replace("paid:", "gift:"))
    with pytest.raises(ChangedDatasetError):
        changes_of(project.lake, project.dataset("accounts"), newest)
    launcher = InSession(project.lake, session)
    assert rebuild(project.lake, project.dataset("accounts"), launcher).swapped
    assert newest in published(project), "a batch keeps its name"
    refused(project, newest, "the table was rebuilt")
    refused(project, str(mark.snapshot), "the table was rebuilt")
    assert listed_changes(project, None) == differ({}, rows(project))
    put(project, 7, {"updated": 8})
    [after] = project.run(session, "accounts")
    assert listed_changes(project, after.batch) == {}
