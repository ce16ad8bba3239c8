"""Every mode has one row and one file in each package that knows it; no other code asks for its name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import onefold
from onefold.dataset.modes import MODES
from onefold.dataset.modes.contract import Apply

SOURCE = Path(onefold.__file__).parent
HOMES = ("dataset/modes", "folding", "proof/modes")
SHARED = {
    "dataset/modes": {"__init__", "contract", "version"},
    "folding": {
        "__init__",
        "backwards",
        "deliveries",
        "message_digest",
        "strategy",
        "judging",
        "levels",
        "positions",
        "ties",
        "versions",
        "witness",
    },
    "proof/modes": {"__init__"},
}
"""Files that are no mode's own."""
ASKED = re.compile(r"\.apply\.mode\b|\.guard\b|dataset\.(?:chained|sums)\b|isinstance\([^)]*\.apply\b")
WORDS = {"append", "upsert", "upsert_contiguous", "increment", "contiguous", "newer"}


@pytest.mark.parametrize("home", HOMES)
def test_every_mode_has_a_file_and_every_file_a_mode(home: str) -> None:
    assert {file.stem for file in (SOURCE / home).glob("*.py")} - SHARED[home] == set(MODES)


def test_a_mode_says_what_it_answers_itself() -> None:
    for name, mode in MODES.items():
        assert name == mode.NAME
        assert mode.__doc__
        assert mode.model_fields.keys() >= Apply.model_fields.keys()


def elsewhere() -> list[Path]:
    files = SOURCE.rglob("*.py")
    return [file for file in files if not file.relative_to(SOURCE).as_posix().startswith(HOMES)]


def test_no_code_outside_its_home_asks_for_a_mode() -> None:
    """A page, a tag or a message shows its title."""
    found = [
        f"{file.relative_to(SOURCE)}:{number}: {line.strip()}"
        for file in elsewhere()
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if ASKED.search(line)
    ]
    assert found == []


def test_nothing_is_compared_with_a_mode_outside_its_home() -> None:
    found = []
    for file in elsewhere():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare):
                literals = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                of_step = ast.unparse(node) == "name == 'upsert'"  # the step of this name
                if any(isinstance(literal, str) and literal in WORDS for literal in literals) and not of_step:
                    found.append(f"{file.relative_to(SOURCE)}: {ast.unparse(node)}")
    assert found == []


def test_no_page_asks_for_a_mode() -> None:
    asked = re.compile(r"\bmode\s*(?:==|!=|in\b|not in\b)")
    templates = sorted(SOURCE.rglob("*.html"))
    assert len(templates) >= 20
    assert [str(file.relative_to(SOURCE)) for file in templates if asked.search(file.read_text())] == []
