"""SECURITY.md names tests that exist, and every promise that a test keeps."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "SECURITY.md").read_text(encoding="utf-8")
TESTS = {
    name
    for file in (PROJECT / "tests").glob("*/test_*.py")
    for name in re.findall(r"^def (test_s\d+_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
}


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(test_\w+)`", PAGE)
    assert len(named) > 15
    assert [name for name in named if name not in TESTS] == []


def test_a_promise_is_kept_where_a_test_has_its_number_and_else_is_said_not_to_be() -> None:
    kept, _, open_ = PAGE.partition("## What is not kept yet")
    promises = set(re.findall(r"^\*\*(S\d+)\. ", kept, re.MULTILINE))
    assert promises == {name.split("_")[1].upper() for name in TESTS}
    assert {f"S{number}" for number in range(1, 11)} <= promises | set(re.findall(r"\*\*(S\d+)", open_))


def test_its_links_lead_to_files() -> None:
    for link in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (PROJECT / link).is_file(), link
