"""Dataset files and suites that would end, or fill, the process that reads them; each is wrong for its own reason."""

from __future__ import annotations

import json
import os
from pathlib import Path

GOOD = """\
name: good
source: {exports: {path: exports/good/, layout: kcat, origin: {cluster: prod}}}
value: {fields: {id: string, a: string}}
identity: {message_id: value.id}
apply: {mode: append}
target: {table: shop.good}
"""
MANY = 20_000
LONG_LIST = f'filter: "value.a in ({", ".join(repr(str(number)) for number in range(MANY))})"\n'
LONG_CHOICE = f"filter: \"{' or '.join(f'''a = '{number}' ''' for number in range(MANY))}\"\n"


def with_filter(text: str) -> str:
    """A dataset file with a line `filter: …`."""
    return GOOD.replace("source: {", "source:\n  " + text + "  ", 1).replace("}}}\n", "}}\n", 1)


def aliases(levels: int, width: int) -> str:
    """A list of lists that each repeat the list before: width ** levels values in a few bytes."""
    rows = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels + 1)]
    return "\n".join(rows) + "\n"


WRONG = {
    "flow_nesting": ("x: " + "[" * 30_000, "deeper than 32 levels"),
    "map_nesting": ("x: " + "{a: " * 30_000, "deeper than 32 levels"),
    "block_nesting": ("\n".join(" " * level + "a:" for level in range(1_200)), "deeper than 32 levels"),
    "dash_nesting": ("x:\n" + "- " * 30_000, "deeper than 32 levels"),
    "key_nesting": ("? " * 30_000, "deeper than 32 levels"),
    "aliases": (aliases(9, 9), "more than 20,000 values"),
    "merges": (
        "a0: &a0 {x: 1}\n" + "\n".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 30)) + "\n",
        "more than 20,000 values",
    ),
    "own_alias": ("x: &x [*x]\n", "within its own anchor"),
    "many_keys": ("\n".join(f"k{number}: 1" for number in range(30_000)), "more than 20,000 values"),
    "bytes": ("# " + "x" * 2_000_000, "larger than 1,048,576 bytes"),
    "nul": (GOOD.replace("name: good", 'name: nul\ndescription: "a\\0b"'), "control character"),
    "long_namespace": (GOOD.replace("shop.good", f"{'n' * 101}.x"), "at most 100 letters"),
    "long_table": (GOOD.replace("shop.good", f"shop.{'n' * 200}"), "at most 128 letters"),
    "long_owner": (GOOD + f"owner: {'o' * 600}\n", "at most 250 characters"),
    "long_description": (GOOD + f"description: {'o' * 6_000}\n", "at most 5000 characters"),
    "long_key": (GOOD + f"{'k' * 100_000}: 1\n", "not YAML"),
    "long_name": (GOOD + f"? {'k' * 100_000}\n: 1\n", "unknown key"),
    "negations": (with_filter(f'filter: "{"not " * MANY}a is null"\n'), "deeper than 40 levels"),
    "list_of_another_kind": (with_filter(LONG_LIST.replace("'77'", "77")), "compares a string with a long"),
    "types": (GOOD.replace("a: string", f"a: '{'list<' * MANY}'"), "no field type"),
    "deep_types": (GOOD.replace("a: string", f"a: '{'list<' * 150}string{'>' * 150}'"), "deeper than 10 levels"),
    "digits": (GOOD.replace("shop.good}", f"shop.x, buckets: {'9' * 5_000}}}"), "digits"),
}
"""Dataset files by name: the text, and what their error says."""
RIGHT = {"good": GOOD, "long_list": with_filter(LONG_LIST), "long_choice": with_filter(LONG_CHOICE)}
"""Dataset files that are read, in a time that grows with their length."""
WRONG_SUITES = {
    "suite_nesting": ("expectations: " + "[" * 900, "deeper than 32 levels"),
    "suite_aliases": ("expectations: []\n" + aliases(9, 9), "more than 20,000 values"),
    "suite_bytes": ("# " + "x" * 2_000_000, "larger than 1,048,576 bytes"),
}
"""Suites by the name of the dataset that names them."""


def write_files(datasets: Path, expectations: Path) -> None:
    """Write all of them, and a pipe that never ends."""
    datasets.mkdir(exist_ok=True)
    expectations.mkdir(exist_ok=True)
    for name, text in RIGHT.items():
        (datasets / f"{name}.yaml").write_text(_named(text, name))
    for name, (text, _) in WRONG.items():
        (datasets / f"{name}.yaml").write_text(_named(text, name))
    for name, (text, _) in WRONG_SUITES.items():
        (datasets / f"{name}.yaml").write_text(_named(GOOD, name) + f"quality: {{suite: {name}.yaml}}\n")
        (expectations / f"{name}.yaml").write_text(text)
    os.mkfifo(datasets / "pipe.yaml")


def problems(validated: str) -> dict[str, str]:
    """What `onefold validate --json` printed: the problem of each dataset; empty where it is valid."""
    return {row["dataset"]: row["problem"] for row in json.loads(validated)}


def _named(text: str, name: str) -> str:
    return text.replace("name: good", f"name: {name}").replace("shop.good", f"shop.{name}")
