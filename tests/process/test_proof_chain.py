"""Published rows rest on documents that are linked by digests: one that someone else has changed is found by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from onefold import lake_keys
from onefold.iceberg.state_table import StateTable
from onefold.report.ledger import records_of
from onefold.upsert.commit_record import LOOP
from tests.support.kept import Kept
from tests.support.project import THINGS, Done, Project, thing

pytestmark = [pytest.mark.process, pytest.mark.spark]
STRICT = THINGS.replace("max_conflicts: 1000", "max_conflicts: 0")


def put(project: Project, name: str, *lines: bytes) -> Done:
    project.put(f"things/{name}.jsonl", lines)
    return project.onefold("run", "things", "--json")


def chain(project: Project) -> dict[str, Any]:
    found = project.onefold("prove", "things", "--chain", "--json").json
    assert isinstance(found, dict)
    return found


@pytest.fixture
def project(kept: Kept) -> Project:
    """An empty project, at the same place for each test."""
    return kept.empty()


@pytest.fixture
def published(project: Project, kept: Kept) -> list[str]:
    """Three batches, of which the second was released; the newest first."""

    def publish() -> list[str]:
        project.write_dataset("things", STRICT)
        assert put(project, "1", thing(0, "a", 1), thing(1, "b", 1)).code == 0
        red = put(project, "2", thing(2, "a", 2, ts=1_772_323_300_000), thing(3, "c", 2))
        assert red.code == 3
        batch = red.json[0]["batch"]
        assert project.onefold("release", "things", batch, "--waive", "conflicts=1", "--reason", "known").code == 0
        assert put(project, "3", thing(4, "d", 3)).code == 0
        return [record.batch for record in records_of(project.lake, project.dataset())]

    return kept.begin("published", publish)


@contextmanager
def changed(project: Project, key: str, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """The lake with a document as someone else has left it."""
    was = project.lake.storage.read(key)
    assert was is not None
    document = json.loads(was)
    change(document)
    project.lake.storage.write(key, json.dumps(document).encode())
    yield
    project.lake.storage.write(key, was)


def test_s8_a_document_that_was_changed_is_found_by_name(project: Project, published: list[str]) -> None:
    lake, dataset = project.lake, project.dataset()
    right = project.onefold("prove", "things", "--chain")
    assert (right.code, right.out) == (
        0, "things: 3 commit records, 8 documents with a digest: each is what it was when it was published\n"
    )  # fmt: skip
    newest, released, first = records_of(lake, dataset)
    of_newest, of_first = (lake_keys.record(dataset, record.name) for record in (newest, first))
    manifest = lake_keys.manifest(dataset.source_id, first.batch)
    decision = lake_keys.decision_of("things", released.batch, 1)
    decided = lake_keys.decided_conflicts("things", released.batch, released.attempt)

    def widen(document: dict[str, Any]) -> None:
        [offsets] = document["coverage"]["partitions"].values()
        offsets["present"] = [[0, 1000]]

    def turn(document: dict[str, Any]) -> None:
        document["parent"] = newest.name

    cases = [
        (manifest, lambda document: document.update(layout="aiven")),
        (decision, lambda document: document["who"].update(name="someone else")),
        (decided, lambda document: document.update(conflicts=[])),
        (of_first, widen),
        (of_newest, widen),
        (of_first, turn),
    ]
    for key, change in cases:
        with changed(project, key, change):
            wrong = project.onefold("prove", "things", "--chain")
            assert wrong.code == 3
            assert f"{key}: it was changed" in wrong.err
            assert (f"{of_newest}: {LOOP}" in wrong.err) is (change is turn), wrong.err
            assert len(chain_problems(project)) == 1 + (change is turn)
    assert chain_problems(project) == []


def chain_problems(project: Project) -> list[str]:
    return list(chain(project)["problems"])


def test_s8_no_batch_goes_on_from_a_record_that_was_changed(project: Project, published: list[str]) -> None:
    """It would take offsets that were never read for covered, or be red for a wrong cause."""
    lake, dataset = project.lake, project.dataset()
    main = StateTable(lake, dataset).main
    key, older = (lake_keys.record(dataset, name) for name in (main.record, records_of(lake, dataset)[1].name))

    def widen(document: dict[str, Any]) -> None:
        [offsets] = document["coverage"]["partitions"].values()
        offsets["present"] = [[0, 1000]]

    for number, changed_key in enumerate((key, older)):
        with changed(project, changed_key, widen):
            refused = put(project, f"4{number}", thing(5 + number, f"e{number}", 1))
        assert refused.code == 3
        assert f"{changed_key}: it was changed" in refused.err
        assert "`onefold prove things --chain` looks at all of them" in refused.err
        assert StateTable(lake, dataset).main == main
    assert put(project, "5", thing(7, "f", 1)).code == 0
    assert chain_problems(project) == []


@pytest.mark.nightly(reason="a changed document is found by day, and histories roll back and are proved")
def test_s8_what_onefold_itself_changes_is_no_problem(project: Project, published: list[str]) -> None:
    """A rollback goes back to an earlier record, an erasure lets a manifest name another object."""
    back = ("rollback", "things", "--to", published[1], "--reason", "wrong")
    assert project.onefold(*back).code == 0
    assert (chain(project)["records"], chain_problems(project)) == (2, [])
    assert project.onefold("run", "things", "--again", published[0]).code == 0
    erased = project.onefold("erase", "things", "--key", '{"id": "c"}', "--reason", "asked for", "--yes")
    assert erased.code == 0, erased.err
    found = chain(project)
    manifest = lake_keys.manifest(project.dataset().source_id, published[1])
    assert (found["problems"], found["erased"]) == ([], [manifest])
    assert put(project, "6", thing(9, "g", 1)).code in (0, 3)
    assert project.onefold("maintain", "things").code == 0
    assert chain_problems(project) == []

    # The manifest is another one again, and this time nothing says why.
    with changed(project, manifest, lambda document: document.update(layout="aiven")):
        assert project.onefold("prove", "things", "--chain").code == 3
