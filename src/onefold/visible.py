"""Text that records, brokers and files brought, before people see it: what cannot be seen is spelled out."""

from __future__ import annotations

import unicodedata

_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def visible(text: str) -> str:
    """A text with characters that cannot be seen (controls, text direction) spelled out; lines and tabs stay.

    A terminal obeys the control characters that it is sent; a page shows text in the direction that it asks for.
    """
    if text.isascii() and text.isprintable():
        return text
    hidden = {char for char in set(text) - {"\n", "\t"} if unicodedata.category(char) in _INVISIBLE}
    return "".join(_spelled(char) if char in hidden else char for char in text) if hidden else text


def _spelled(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
