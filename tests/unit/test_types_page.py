"""`docs/types.md` names every type that the code reads, and every type that can be declared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onefold.dataset import protobuf_schema
from onefold.dataset.types import SCALARS, UNITS, WITH_PARTS
from onefold.formats import avro, protobuf

PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text()
WELL_KNOWN = [*protobuf._WRAPPED, *protobuf._TIME_TYPES, *protobuf._JSON_TYPES, "Any"]
LOGICAL = [f"{family}-{unit}" for family in ("time", "timestamp", "local-timestamp") for unit in avro._SECONDS] + [
    "decimal",
    "date",
    "uuid",
    "duration",
]
NAMED = {
    "What JSON becomes": (2, [*SCALARS, *WITH_PARTS, "decimal"]),
    "Avro": (1, [*avro._PRIMITIVES, "record", "error", "enum", "fixed", "array", "map", "union", *LOGICAL]),
    "Protobuf": (1, [*protobuf_schema._NAMES, "repeated", "map", "oneof", *WELL_KNOWN]),
}
"""Of each section the column of its table that names types, and the types."""


@pytest.mark.parametrize("section", NAMED)
def test_every_type_is_in_the_table(section: str) -> None:
    column, types = NAMED[section]
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    cells = [line.split(" | ")[column - 1] for line in text.splitlines() if line.startswith("| ")]
    words = {word for cell in cells for word in re.findall(r"[\w.-]+", " ".join(re.findall(r"`([^`]*)`", cell)))}
    words |= {word.removeprefix("google.protobuf.") for word in words}
    assert [name for name in types if name not in words] == []


def test_the_units_of_times_are_named() -> None:
    assert all(name in PAGE for name in UNITS)
