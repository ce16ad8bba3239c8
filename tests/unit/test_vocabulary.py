"""The words of Onefold's answers: each has a meaning, and everyone reads it from one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from onefold.dataset import Dataset
from onefold.vocabulary import (
    DECLARED_LEVELS,
    LOST,
    OUTCOMES,
    Action,
    Finding,
    HoleKind,
    Level,
    LogStatus,
    Reason,
    RowState,
    Verdict,
    meaning_of,
    outcome_of,
)
from tests.support.project import Project

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
ALSO_SOMETHING_ELSE = {
    "position", "producer", "message_id", "business_key",  # sections of dataset files, columns, parts of a record
    "conflict", "tombstone", "filter", "add", "delete", "replace",  # words of dataset files, topics, SQL and Python
    "control", "aborted", "held", "rejected", "skipped", "stored", "in_batch", "decision",  # columns and counts
    "transactional", "compacted", "deleted", "open",  # declared holes, columns, states and colours of pages
    "hide",  # a mask
}  # fmt: skip


def listed() -> dict[str, set[str]]:
    """The reasons of each verdict as docs/verdicts.md has them; a row without a verdict continues the one above."""
    found: dict[str, set[str]] = {}
    verdict = ""
    table = (DOCS / "verdicts.md").read_text().partition("| --- | --- | --- |\n")[2].partition("\n\n")[0]
    for line in table.splitlines():
        first, reasons, _ = (cell.strip() for cell in line.split("|", 3)[1:])
        verdict = first or verdict
        found.setdefault(verdict, set()).update(re.findall(r"[a-z_]+", reasons))
    return found


def test_the_docs_list_each_reason_under_its_verdict() -> None:
    known: dict[str, set[str]] = {}
    for verdict, reason in OUTCOMES:
        known.setdefault(verdict, set()).add(reason)
    assert listed() == known


def test_no_file_spells_such_a_word_by_itself() -> None:
    words = {
        str(word) for words in (Verdict, Reason, Level, HoleKind, LogStatus, Finding) for word in words
    } - ALSO_SOMETHING_ELSE
    files = [file for folder in ("src", "spark_jobs", "dags", "plugins") for file in (PROJECT / folder).rglob("*.py")]
    found = [
        (file.relative_to(PROJECT).as_posix(), node.value)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value in words and file.name != "vocabulary.py"
    ]
    assert found == []


def test_no_file_compares_with_the_name_of_a_level() -> None:
    """`level == "producer"`: some of these names mean something else, too, but no other place compares with them."""
    levels = {str(level) for level in Level}
    found = [
        (file.relative_to(PROJECT).as_posix(), node.lineno)
        for folder in ("src", "spark_jobs", "dags", "plugins")
        for file in (PROJECT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Compare)
        and any(isinstance(side, ast.Constant) and side.value in levels for side in (node.left, *node.comparators))
    ]
    assert found == []


def test_the_docs_name_each_finding() -> None:
    text = (DOCS / "verdicts.md").read_text()
    assert [finding for finding in Finding if f"`{finding}`" not in text] == []


def test_the_docs_list_each_kind_of_hole() -> None:
    table = (DOCS / "verdicts.md").read_text().partition("| kind | the offset | evidence |")[2].partition("\n\n")[0]
    assert {word for line in table.splitlines()[2:] for word in re.findall(r"[a-z_]+", line.split("|")[1])} == {
        *HoleKind
    }


def test_lost_are_the_holes_where_a_record_may_have_been_that_nothing_has_read() -> None:
    assert LOST == (HoleKind.RETENTION, HoleKind.TRUNCATED, HoleKind.DELETED)


def test_a_dataset_file_declares_each_level_but_the_position_and_the_version_of_a_key(
    dataset: Callable[..., Dataset],
) -> None:
    assert [level for level in Level if level not in DECLARED_LEVELS] == [Level.POSITION, Level.KEY_VERSION]
    assert set(DECLARED_LEVELS) <= set(type(dataset().identity).model_fields)


def test_only_what_is_rejected_is_quarantined_and_it_can_be_received_again() -> None:
    quarantined = [outcome for outcome in OUTCOMES.values() if outcome.quarantined]
    assert {outcome.verdict for outcome in quarantined} == {Verdict.REJECTED}
    assert not any(outcome.covered for outcome in quarantined)
    assert Reason.FORGOTTEN not in [outcome.reason for outcome in quarantined]


def test_a_word_is_text_and_says_what_it_means() -> None:
    assert [f"{word}" for word in (Verdict.HELD, Reason.MARKER, Action.WAKE, RowState.LIVE)] == [
        "held",
        "marker",
        "wake",
        "live",
    ]
    assert all(word.meaning for words in (Verdict, Action, RowState, Level, HoleKind, LogStatus) for word in words)
    assert meaning_of("rejected", "forgotten") == outcome_of(Verdict.REJECTED, Reason.FORGOTTEN).meaning
    assert meaning_of("won", "by a later release") == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("verdicts", "accounts", "--batch", "b", "--reason", "same_versoin"), "did you mean same_version?"),
        (("quarantine", "accounts", "--reason", "undecodabel"), "did you mean undecodable?"),
        (("quarantine", "accounts", "--reason", "position"), "there are before_first, "),
    ],
)
def test_a_reason_that_is_none_is_refused_with_the_nearest(tmp_path: Path, command: tuple[str, ...], said: str) -> None:
    done = Project(tmp_path).onefold(*command)
    assert (done.code, said in done.err) == (2, True), done
