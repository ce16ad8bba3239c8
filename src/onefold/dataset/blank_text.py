"""Which texts are none where an id or a name is asked for."""

from __future__ import annotations

_PARTS = (range(0x21), range(0x7F, 0xA1), range(0x2000, 0x2010), range(0x2028, 0x2030), range(0x205F, 0x2065))
BLANKS = "".join(chr(letter) for part in _PARTS for letter in part) + "\u00ad\u1680\u180e\u3000\ufeff"
"""What a reader does not see: control characters, Unicode's spaces and separators, and those without a width."""


def is_blank(text: str) -> bool:
    """Whether a text has nothing to see."""
    return not text.strip(BLANKS)
