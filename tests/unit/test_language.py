"""The language of the code: plain words for what private idioms said."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
NOT_SWEPT = ("decisions", "dedup", "folding", "operations", "proof", "quality", "report", "upsert")
"""Packages that still have some of the words. The list only gets shorter."""


def idioms(text: str) -> Iterator[tuple[int, str]]:
    """The line of each such word in a source, and the word; in identifiers a word ends at an underscore."""
    for number, line in enumerate(text.splitlines(), start=1):
        yield from ((number, found[1].lower()) for found in WORD.finditer(line))


def idioms_below(folder: Path) -> list[str]:
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".html"))
    return [
        f"{path.relative_to(ROOT.parent)}:{number}: {word}; write: {INSTEAD[word]}"
        for path in files
        if folder != ROOT or path.relative_to(ROOT).parts[0] not in NOT_SWEPT
        for number, word in idioms(path.read_text(encoding="utf-8"))
    ]


def test_the_code_has_none_of_the_private_idioms() -> None:
    assert idioms_below(ROOT) == []


@pytest.mark.parametrize("package", NOT_SWEPT)
def test_a_package_that_is_swept_is_not_listed_any_more(package: str) -> None:
    assert idioms_below(ROOT / package), f"{package} has none of the words left: remove it from NOT_SWEPT"


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
