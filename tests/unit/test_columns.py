"""The columns that no part of a key may have are just those that the rooms which work on rows name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from onefold.dataset.reserved_columns import OWN, PREFIXES, STRUCTS, is_own
from onefold.records import envelope as E
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S

SOURCE = Path(__file__).parents[2] / "src" / "onefold"
ROOMS = ("spark", "tables", "records", "values", "folding", "dedup", "upsert", "quality", "proof")
NO_COLUMNS = {
    "_base", "_move_",  # prefixes
    "_kind", "_read", "_text", "_digits", "_array", "_new", "_given",  # ends of names
    "_schema_id",  # the end of a header's name
    "_data", "_file", "_metadata",  # of what is read, before there is a key
    "_to_be_unique", "_to_be_unique_within_record",  # of Great Expectations
}  # fmt: skip


def texts(tree: ast.Module) -> Iterator[str]:
    """Every text of a file, but those that only say something."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def named() -> set[str]:
    """What looks like a column of Onefold's own in the texts of the rooms."""
    files = (file for room in ROOMS for file in (SOURCE / room).rglob("*.py"))
    found = (re.findall(r"(?<![\w-])_[a-z]\w*", text) for file in files for text in texts(ast.parse(file.read_text())))
    return {name for names in found for name in names}


def test_every_column_that_a_room_names_is_known_and_no_other() -> None:
    columns = named() - NO_COLUMNS
    assert sorted(name for name in columns if not is_own(name)) == []
    assert sorted(OWN - columns) == []
    structs = {f"{name}_" for name in STRUCTS}
    assert set(PREFIXES) == {
        f"{U.BASE}_",
        "_move_",
        "_chain_",
        "_fact_",
        "_forget_",
        "_new_",
        "_range_",
        "_reused_",
        *structs,
    }
    assert set(STRUCTS) <= OWN


def test_the_columns_of_tables_are_among_them() -> None:
    values = [value for module in (C, E, U, S) for value in vars(module).values()]
    names = [value for value in values if isinstance(value, str) and re.fullmatch(r"_[a-z][a-z_]*", value)]
    assert len(names) > 40
    assert [name for name in names if not is_own(name) and name != U.BASE] == []


def test_capital_letters_are_small_ones_and_what_others_call_theirs_is_not_taken() -> None:
    assert all(map(is_own, ("_Key", "_file")))
    assert not any(map(is_own, ("_id", "_class", "key", "order")))
