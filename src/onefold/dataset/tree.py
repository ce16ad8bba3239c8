"""YAML by the core schema of 1.2, read by libyaml: what it holds, and in which lines.

Anyone may write a file that costs its readers memory or their stack. So a document is measured before it is composed:
its bytes, levels and nodes, with what aliases repeat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml  # type: ignore[import-untyped]
from yaml.constructor import ConstructorError  # type: ignore[import-untyped]

Place = tuple[str | int, ...]
"""The keys, and places in lists, on the way to a value."""

LARGEST = 1 << 20
"""Bytes of a document, at most."""
DEEPEST = 32
"""Levels of lists and mappings, at most: what composes and reads them recurses."""
MOST_NODES = 20_000
"""Values, keys, lists and mappings, at most; those that aliases repeat count again."""
_HALF = re.compile(r"[\ud800-\udfff]")
"""Halves of characters, which no UTF-8 has."""


class TreeLimitError(yaml.MarkedYAMLError):  # type: ignore[misc]
    """The document is larger than files of settings are."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        super().__init__(None, None, problem, mark)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Without what 1.1 takes for more than text: yes, no, 1:30, 017 as octal, 2026-01-01 as a date."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


# https://yaml.org/spec/1.2.2/#1032-tag-resolution, and the merge key of 1.1
for _kind, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.nan|\.NaN|\.NAN", "-+."),
    ("merge", "<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(rf"^(?:{_pattern})$"), list(_first))
_BASES = {"0o": 8, "0x": 16}
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value, _BASES.get(node.value[:2], 10)))


def read_tree(text: str) -> tuple[Any, dict[Place, int]]:
    """What a document holds, and the line of each place in it, from 1; merged keys have none.

    Raises:
        yaml.YAMLError: it is no document, or a key is there twice.
        TreeLimitError: it is too large to be composed.
    """
    _measure(text)
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        lines: dict[Place, int] = {}
        _note(lines, (), root)
        return (loader.construct_document(root) if root else None), lines
    finally:
        loader.dispose()


@dataclass(slots=True)
class _Part:
    """A list or mapping that is not read to its end: the nodes in it, and the levels below it, so far."""

    anchor: str | None
    nodes: int = 1
    levels: int = 0


def _measure(text: str) -> None:
    """Refuse a document that is too large; its events are read without recursion.

    Raises:
        TreeLimitError: it has too many bytes, levels or nodes, an alias within its own anchor, or half a character.
    """
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST:
        raise TreeLimitError(f"larger than {LARGEST:,} bytes")
    anchored: dict[str, _Part] = {}
    open_parts = [_Part(None)]
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            open_parts.append(_Part(event.anchor))
            part = _Part(None, nodes=0)
        elif isinstance(event, yaml.CollectionEndEvent):
            part = open_parts.pop()
            part.levels += 1
        elif isinstance(event, yaml.ScalarEvent):
            if _HALF.search(event.value):
                raise TreeLimitError("a text holds half a character (a lone surrogate)", event.start_mark)
            part = _Part(event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            if any(event.anchor == parent.anchor for parent in open_parts):
                raise TreeLimitError(f"the alias *{event.anchor} is within its own anchor", event.start_mark)
            part = anchored.get(event.anchor, _Part(None))  # what composes it names an alias without an anchor
        else:
            continue
        if part.anchor:
            anchored[part.anchor] = part
        parent = open_parts[-1]
        parent.nodes += part.nodes
        parent.levels = max(parent.levels, part.levels)
        if len(open_parts) - 1 + part.levels > DEEPEST:
            raise TreeLimitError(f"nests deeper than {DEEPEST} levels", event.start_mark)
        if sum(parent.nodes for parent in open_parts) > MOST_NODES + len(open_parts):
            raise TreeLimitError(
                f"more than {MOST_NODES:,} values, those that aliases repeat included", event.start_mark
            )


def _note(lines: dict[Place, int], place: Place, node: Any) -> None:
    parts: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(node, yaml.MappingNode):
        parts = ((key.value, key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode))
    elif isinstance(node, yaml.SequenceNode):
        parts = ((number, value, value) for number, value in enumerate(node.value))
    for part, marked, value in parts:
        here = (*place, part)
        if here in lines:
            raise ConstructorError(None, None, f'found duplicate key "{part}"', marked.start_mark)
        lines[here] = marked.start_mark.line + 1
        _note(lines, here, value)


def line_of(lines: dict[Place, int], place: Place) -> int | None:
    """The line of a place, or of the last key on the way to it that is in the file."""
    known = (lines.get(place[:length]) for length in range(len(place), 0, -1))
    return next((line for line in known if line), None)
