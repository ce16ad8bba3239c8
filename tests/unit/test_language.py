"""The language of code and docs: plain words for what private idioms said, and variables named after what they hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
CHECKED = (
    "src/onefold", "docs", "deploy", "sample", "benchmarks", "spark_jobs", "dags", "plugins", "expectations",
    "datasets", "scripts", "README.md", "SECURITY.md", "CHANGELOG.md", "Makefile", "docker-compose.yaml",
    ".env.example", "tests",
)  # fmt: skip
"""Folders and files."""
DATA = ("sample/exports", "sample/recorded")
NO_TEXT = (".png", ".pyc")
INSTEAD = {
    "told": "the noun of the value; or: reported, known, identified",
    "stands": "is, exists, wins",
    "beside": "next to, besides, at the same time as",
    "anew": "again, or re- before the verb",
    "whoever": "anyone who, or the role: the caller, the approver",
    "nobody": "no one, nothing, unknown",
}
WORD = re.compile(rf"(?<![a-z])({'|'.join(INSTEAD)})(?![a-z])", re.IGNORECASE)
RECORDED = (
    "stands: str | None", "stands=_place(", "every action stands on the branch", '["stands"]',
    "columns, landed, stands}]", "(it was `stands`", "(row.landed, row.stands)",
)  # fmt: skip
"""Words of documents that lakes hold already (a field of a proof, the earlier title of a check), and docs of them."""
FROM_ELSEWHERE = re.compile(r"\btest_\w+|\d{4}-[a-z0-9-]+\.md|^\| .* \| `tests/[^`]*::[^`]*` \|$", re.MULTILINE)
"""Text of docs from other places: names of tests, file names of decisions, and the rows of docs/planted-faults.md."""
Finder = Callable[[Path], Iterator[str]]


def idioms(text: str) -> Iterator[tuple[int, str]]:
    """The line of each such word in a source, and the word; in identifiers a word ends at an underscore."""
    for number, line in enumerate(text.splitlines(), start=1):
        if any(recorded in line for recorded in RECORDED):
            continue
        yield from ((number, found[1].lower()) for found in WORD.finditer(line))


def lines_that_bind_one(source: str) -> Iterator[int]:
    """The lines that bind a variable called `one`: in a loop, a comprehension, an assignment, a parameter."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.arg(arg="one") | ast.Name(id="one", ctx=ast.Store()):
                yield node.lineno


def text_of(file: Path) -> str:
    """The text of a file; of docs without the parts that come from other places."""
    text = file.read_text(encoding="utf-8")
    return FROM_ELSEWHERE.sub("", text) if file.suffix == ".md" else text


def idioms_in(file: Path) -> Iterator[str]:
    for line, word in idioms(text_of(file)):
        yield f"{file.relative_to(PROJECT)}:{line}: {word}; write: {INSTEAD[word]}"


def ones_in(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    loops = (number for number, line in enumerate(text.splitlines(), start=1) if re.search(r"\bfor one in\b", line))
    for line in lines_that_bind_one(text) if file.suffix == ".py" else loops:
        yield f"{file.relative_to(PROJECT)}:{line}: a variable called one; name it after the element"


def checked_files() -> list[Path]:
    """The files whose language is checked."""
    places = [PROJECT / name for name in CHECKED]
    found = [file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()]
    data = [PROJECT / name for name in DATA]
    this = Path(__file__)  # it lists the words
    texts = (file for file in found if file.suffix not in NO_TEXT and file != this)
    return sorted(file for file in texts if not any(map(file.is_relative_to, data)))


def complaints(find: Finder) -> list[str]:
    """What is found in all files."""
    return [found for file in checked_files() for found in find(file)]


@pytest.mark.parametrize("find", [idioms_in, ones_in])
def test_code_and_docs_are_in_plain_words(find: Finder) -> None:
    assert complaints(find) == []


def test_every_folder_that_is_checked_has_files() -> None:
    files = [file.relative_to(PROJECT).as_posix() for file in checked_files()]
    assert [name for name in CHECKED if not any(file.startswith(name) for file in files)] == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('raise UsageError("the plan stands")', ["stands"]),
        ("def _told(x: int) -> int:", ["told"]),
        ("Told = TypeVar", ["told"]),
        ("# Nobody asks whoever made it anew.", ["nobody", "whoever", "anew"]),
        ("<p>beside it</p>", ["beside"]),
        ("besides, a standstill is untold: understands", []),
    ],
)
def test_words_are_found_whole_in_code_text_and_templates(source: str, words: list[str]) -> None:
    assert [word for _, word in idioms(source)] == words


def test_names_of_tests_and_of_decisions_are_no_words_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "[why](adr/0051-masked-columns-are-shown-by-digests.md), `test_a_key_that_stands_twice`: it stands.\n"
        "| a row stands | L1 | `f` | Nobody looks. | `tests/unit/test_a.py::test_b[one two]` |\n"
        "| a row stands | twice | `tests/unit/test_a.py` |\n"
    )
    assert list(idioms(text_of(page))) == [(1, "stands"), (3, "stands")]


def test_a_variable_called_one_is_found_where_it_is_bound() -> None:
    source = "one = 1\nfor one, b in c: d(one)\n[one for one in x]\nf = lambda one: one\ndef g(one): ...\none()"
    assert sorted(lines_that_bind_one(source)) == [1, 2, 3, 4, 5]
