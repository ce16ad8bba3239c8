"""A draft: the keys of a dataset file in their order, each with what is drafted and why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.()/-]*\??")
_SPECIAL = {"yes", "no", "on", "off", "y", "n", "null", "true", "false"}
"""Words that some readers of YAML take for something else than text."""
_ESCAPED = {'"': '\\"', "\\": "\\\\"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One key (`path` from the top of the file), its value as YAML, and why. Without a value: only a comment."""

    path: tuple[str, ...]
    value: str | None
    reason: str = ""

    @property
    def key(self) -> str:
        """The key as people say it."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Draft:
    """The paragraphs at the top of a drafted file, and its entries."""

    head: tuple[str, ...]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    """What its author should know at once: sentences that are comments of the file, too."""


def scalar(text: str) -> str:
    """A text as YAML, anywhere: quoted unless it is a plain word to every reader."""
    if _PLAIN.fullmatch(text) and text.lower() not in _SPECIAL:
        return text
    return '"' + "".join(_ESCAPED.get(letter) or _printable(letter) for letter in text) + '"'


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def listed(texts: Iterable[str]) -> str:
    """Texts as a YAML list on one line."""
    return f"[{', '.join(map(scalar, texts))}]"


def mapped(**values: str) -> str:
    """YAML values as a mapping on one line."""
    return "{" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}"


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
