"""Text that records, brokers and files brought, before people see it: what cannot be seen is spelled out."""

from __future__ import annotations

import unicodedata

_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS_AND_FILLERS = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
_VARIATIONS_AND_TAGS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0000, 0xE1000))
_EMPTY = frozenset([*_JOINERS_AND_FILLERS, *(code for codes in _VARIATIONS_AND_TAGS for code in codes)])
"""Letters and marks of other categories that are shown as nothing."""


def visible(text: str) -> str:
    """A text with characters that cannot be seen (controls, text direction, no width) spelled out; lines and tabs stay.

    A terminal obeys the control characters that it is sent; a page shows text in the direction that it asks for.
    """
    return _replaced(text, {char: _spelled(char) for char in _hidden(text) - {"\n", "\t"}})


def visible_line(text: str) -> str:
    """A text as `visible` shows it, in one line: line ends and tabs are spelled out, too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_json(text: str) -> str:
    """A JSON document of the same value, in whose strings these characters are escaped."""
    return _replaced(text, {char: _escaped(char) for char in _hidden(text) - {"\n"}})


def _hidden(text: str) -> set[str]:
    if text.isascii() and text.isprintable():
        return set()
    return {char for char in set(text) if unicodedata.category(char) in _INVISIBLE or ord(char) in _EMPTY}


def _replaced(text: str, spellings: dict[str, str]) -> str:
    return "".join(spellings.get(char, char) for char in text) if spellings else text


def _spelled(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _escaped(char: str) -> str:
    """As JSON escapes it: beyond 16 bits as two."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
