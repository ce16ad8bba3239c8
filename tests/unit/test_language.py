"""The language of the code: plain words for what private idioms said, and variables named after what they hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "onefold"
INSTEAD = {
    "told": "the noun of the value; or: reported, known, identified",
    "stands": "is, exists, wins",
    "beside": "next to, besides, at the same time as",
    "anew": "again, or re- before the verb",
    "whoever": "anyone who, or the role: the caller, the approver",
    "nobody": "no one, nothing, unknown",
}
WORD = re.compile(rf"(?<![a-z])({'|'.join(INSTEAD)})(?![a-z])", re.IGNORECASE)
RECORDED = ("stands: str | None", "stands=_place(", "every action stands on the branch")
"""Words of documents that lakes hold already: a field of a proof, the earlier title of a check."""
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


def idioms_in(file: Path) -> Iterator[str]:
    for line, word in idioms(file.read_text(encoding="utf-8")):
        yield f"{file.relative_to(ROOT)}:{line}: {word}; write: {INSTEAD[word]}"


def ones_in(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    loops = (number for number, line in enumerate(text.splitlines(), start=1) if re.search(r"\bfor one in\b", line))
    for line in lines_that_bind_one(text) if file.suffix == ".py" else loops:
        yield f"{file.relative_to(ROOT)}:{line}: a variable called one; name it after the element"


def complaints(find: Finder) -> list[str]:
    """What is found in all files."""
    files = sorted(path for path in ROOT.rglob("*") if path.suffix in (".py", ".html"))
    return [found for file in files for found in find(file)]


@pytest.mark.parametrize("find", [idioms_in, ones_in])
def test_the_code_is_in_plain_words(find: Finder) -> None:
    assert complaints(find) == []


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


def test_a_variable_called_one_is_found_where_it_is_bound() -> None:
    source = "one = 1\nfor one, b in c: d(one)\n[one for one in x]\nf = lambda one: one\ndef g(one): ...\none()"
    assert sorted(lines_that_bind_one(source)) == [1, 2, 3, 4, 5]
