"""Dataset files are YAML 1.2: another reader of it takes plain words for the same."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ruamel.yaml import YAML
from yaml import YAMLError  # type: ignore[import-untyped]

from onefold.dataset.tree import DEEPEST, MOST_NODES, TreeLimitError, read_tree

WORDS = [
    *("yes", "no", "on", "off", "y", "n", "true", "TRUE", "tRUE", "false", "null", "Null", "nULL", "~", ""),
    *("0", "-0", "+7", "017", "0o17", "0x1F", "1:30", "12e3", "1e3", "1.5", ".5", "5.", "-.5e-3", "e3"),
    *(".inf", "-.INF", ".nan", ".NAN", ".Nan", "1.2.3", "30s", "0.30", "0 0 * * *", "-", "+", ".", "..."),
]


def other(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return (type(left), left) == (type(right), right)


@pytest.mark.parametrize("word", WORDS)
def test_a_plain_word_is_what_the_core_schema_says(word: str) -> None:
    assert same(read_tree(f"- {word}\n- end\n")[0][0], other(f"- {word}\n- end\n")[0])


@pytest.mark.parametrize("word", ["2026-01-01", "1_000", "0b11", "="])
def test_what_only_older_yaml_takes_for_more_is_text(word: str) -> None:
    assert read_tree(f"a: {word}")[0] == {"a": word}


def test_every_key_and_every_part_of_a_list_has_its_line() -> None:
    text = "a: &a\n  b: 1\nc:\n  - x\n  - {y: 2,\n     z: 3}\nd:\n  <<: *a\n  e: 4\nf: *a\n"
    found, lines = read_tree(text)
    assert found["d"] == {"b": 1, "e": 4}
    assert lines == {
        ("a",): 1, ("a", "b"): 2, ("c",): 3, ("c", 0): 4, ("c", 1): 5, ("c", 1, "y"): 5, ("c", 1, "z"): 6,
        ("d",): 7, ("d", "<<"): 8, ("d", "<<", "b"): 2, ("d", "e"): 9, ("f",): 10, ("f", "b"): 2,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["a: 1\nb: {c: 1, c: 2}", "a: [{b: 1, b: 1}]"])
def test_a_duplicate_key_is_an_error(text: str) -> None:
    with pytest.raises(YAMLError, match="duplicate key"):
        read_tree(text)


def test_s2_an_alias_within_its_own_anchor_is_refused() -> None:
    with pytest.raises(TreeLimitError, match="within its own anchor"):
        read_tree("a: &a [*a]")


def test_s2_the_deepest_and_largest_document_is_read_and_one_more_is_refused() -> None:
    assert read_tree("[" * DEEPEST + "]" * DEEPEST)
    with pytest.raises(TreeLimitError, match="deeper"):
        read_tree("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))
    assert len(read_tree("- x\n" * (MOST_NODES - 1))[0]) == MOST_NODES - 1
    with pytest.raises(TreeLimitError, match="more than"):
        read_tree("- x\n" * MOST_NODES)


def test_s2_what_an_alias_repeats_counts_where_it_repeats_it() -> None:
    levels = "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    assert read_tree(f"a: &a {levels}\nb: *a")
    with pytest.raises(TreeLimitError, match="deeper"):
        read_tree(f"a: &a {levels}\nb: [*a]")
    half = f"a: &a [{'x, ' * (MOST_NODES // 2 - 5)}]\n"
    assert read_tree(half + "b: *a")
    with pytest.raises(TreeLimitError, match="more than"):
        read_tree(half + "b: *a\nc: *a")
