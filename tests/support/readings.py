"""What a run and a proof have read of one value, next to each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from onefold.dataset import Dataset


def assert_read_alike(
    made: Dataset, found: Mapping[str, Any], row: Mapping[str, Any], faults: Collection[str], value: Any
) -> None:
    """The same fields, with the same ones that cannot be used, and unknown names in both or in none.

    Args:
        made: the dataset.
        found: what `onefold.values.columns.reader` gives.
        row: the fields of `onefold.proof.decode.fields_of`.
        faults: its faults.
        value: what was read; an error shows it.
    """
    wrong = {fault.removeprefix("(").removesuffix(" is absent)") for fault in faults} - {"unknown)"}
    assert {name for name, _ in found["problems"] or ()} == wrong, value
    assert bool(found["unknown"]) == ("(unknown)" in faults), value
    fields = dict(zip(made.fields, found["fields"].values(), strict=True))
    assert fields == {name: row.get(name) for name in made.fields}, value
