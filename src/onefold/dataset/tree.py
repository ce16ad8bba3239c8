"""YAML by the core schema of 1.2, read by libyaml: what it holds, and in which lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

import yaml  # type: ignore[import-untyped]
from yaml.constructor import ConstructorError  # type: ignore[import-untyped]

Place = tuple[str | int, ...]
"""The keys, and places in lists, on the way to a value."""

_DEEPEST = 32
"""Levels that are read: an alias may point to its own place."""


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
    """
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        lines: dict[Place, int] = {}
        _note(lines, (), root)
        return (loader.construct_document(root) if root else None), lines
    finally:
        loader.dispose()


def _note(lines: dict[Place, int], place: Place, node: Any) -> None:
    parts: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(node, yaml.MappingNode):
        parts = ((key.value, key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode))
    elif isinstance(node, yaml.SequenceNode):
        parts = ((number, value, value) for number, value in enumerate(node.value))
    if len(place) == _DEEPEST:
        return
    for part, marked, value in parts:
        here = (*place, part)
        if here in lines:
            raise ConstructorError(None, None, f'found duplicate key "{part}"', marked.start_mark)
        lines[here] = marked.start_mark.line + 1
        _note(lines, here, value)
