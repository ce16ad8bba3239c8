"""Every value format has one row and one module of its name, and no other module knows its name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import onefold
from onefold.dataset.value_formats import VALUE_FORMATS, ValueFormat

SOURCE = Path(onefold.__file__).parent
DOCS = SOURCE.parents[1] / "docs" / "datasets.md"
READERS = ("ValueReader", "KeyReader")


def readers_of(file: Path) -> list[str]:
    classes = (node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef))
    return [name for name in classes if name in READERS]


def test_every_format_has_a_row_and_a_module() -> None:
    modules = {file.stem: readers_of(file) for file in (SOURCE / "values").glob("*.py") if readers_of(file)}
    rows = {
        name.value: [*(["ValueReader"] if value_format.of_values else []), "KeyReader"]
        for name, value_format in VALUE_FORMATS.items()
    }
    assert modules == rows
    assert set(VALUE_FORMATS) == set(ValueFormat)


@pytest.mark.parametrize("name", ValueFormat)
def test_the_docs_name_it(name: ValueFormat) -> None:
    row = next(line for line in DOCS.read_text().splitlines() if line.startswith("| `key.format`"))
    assert f"`{name}`" in row


def test_no_condition_outside_its_home_compares_with_a_name_of_a_format() -> None:
    found = []
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare) and "format" in ast.unparse(node.left):
                literals = [comparator.value for comparator in node.comparators if isinstance(comparator, ast.Constant)]
                found += [
                    f"{file.relative_to(SOURCE)}: {ast.unparse(node)}"
                    for literal in literals
                    if literal in VALUE_FORMATS
                ]
    assert found == []
