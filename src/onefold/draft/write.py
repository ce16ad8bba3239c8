"""A draft as the text of a dataset file: reasons are comments, behind a value where there is room, else above it."""

from __future__ import annotations

import textwrap
from itertools import groupby

from onefold.draft.entries import Draft, Entry, scalar

_WIDTH = 118
_MOST_ALIGNED = 48
"""Up to so many letters a value may have for the comments after it to be aligned."""


def text_of(draft: Draft) -> str:
    """The dataset file. Every value of a record stays out of it: figures and names only."""
    lines = [line for paragraph in draft.head for line in _comment(paragraph, "")]
    open_at: tuple[str, ...] = ()
    for parent, group in groupby(draft.entries, key=lambda entry: entry.path[:-1]):
        entries = list(group)
        shared = _shared(open_at, parent)
        lines += [f"{'  ' * depth}{scalar(parent[depth])}:" for depth in range(shared, len(parent))]
        open_at = parent
        lines += _block(entries, "  " * len(parent))
    return "\n".join(lines) + "\n"


def _shared(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _block(entries: list[Entry], indent: str) -> list[str]:
    codes = [f"{indent}{scalar(entry.path[-1])}: {entry.value}" for entry in entries]
    said = [len(code) for code, entry in zip(codes, entries, strict=True) if entry.reason and entry.value is not None]
    column = max((length for length in said if length <= _MOST_ALIGNED), default=0) + 2
    lines: list[str] = []
    for code, entry in zip(codes, entries, strict=True):
        reason = _clean(entry.reason)
        if entry.value is None:
            lines += _comment(entry.reason, indent)
        elif not reason:
            lines.append(code)
        elif max(column, len(code) + 2) + 2 + len(reason) <= _WIDTH:
            lines.append(f"{code.ljust(column - 2)}  # {reason}")
        else:
            lines += [*_comment(entry.reason, indent), code]
    return lines


def _comment(text: str, indent: str) -> list[str]:
    width = _WIDTH - len(indent) - 2
    wrapped = textwrap.wrap(_clean(text), width, break_long_words=True, break_on_hyphens=False)
    return [f"{indent}# {line}" for line in wrapped] or [""]


def _clean(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
