"""What never came, and what should not have come, on real parts: offsets, topics, partitions and keys of an export.

What a single account or check says is in `tests/unit/test_account.py` and `tests/unit/test_checks.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import DataLossError
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.report.ledger import rows_of
from tests.support.pipeline import run

MakeDataset = Callable[..., Dataset]
Fold = Callable[..., BatchRun]
FOLD = {"max_rejected_rate": 1.0, "max_duplicate_rate": 1.0}
START = 1_767_225_600_000
"""Milliseconds since 1970, of offset 0."""


def line(offset: int, id_: str, value: Any = "", topic: str = "t", partition: int = 0) -> bytes:
    """A line of `kcat -J`, a second after the line of the offset before it; a value of None is a tombstone."""
    payload = None if value is None else json.dumps({"id": id_, "name": value or id_})
    record = {
        "topic": topic, "partition": partition, "offset": offset, "ts": START + 1_000 * offset,
        "headers": ["mid", f"{topic}-{partition}-{offset}"], "key": json.dumps({"id": id_}), "payload": payload,
    }  # fmt: skip
    return json.dumps(record).encode() + b"\n"


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of the lines of a folder."""

    def run_lines(made: Dataset, lines: Iterable[bytes], name: str = "e1") -> BatchRun:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_bytes(b"".join(lines))
        return run(session, lake, made, tmp_path / name)

    return run_lines


def export(holes: Any, **more: Any) -> dict[str, Any]:
    return {"exports": {"path": "e", "layout": "kcat", "origin": {"cluster": "kafka"}, "holes": holes}, **more}


def markers(dataset: MakeDataset, holes: Any = "transactional") -> Dataset:
    return dataset(
        "markers", source=export(holes), value={"fields": {"id": "string"}}, identity={"message_id": "header.mid"}
    )


def test_a_file_that_never_came_is_no_run_of_markers(dataset: MakeDataset, lake: Lake, fold: Fold) -> None:
    """Offsets 0 to 9 and 1000 to 1009 are there: 990 in a row are missing. Declared, they are explained."""
    lines = [line(offset, f"a{offset}") for offset in (*range(10), *range(1000, 1010))]
    red = fold(markers(dataset), lines)
    assert isinstance(red.red, DataLossError)
    assert red.red.exit_code == 4
    assert "t, partition 0: [10, 1000)" in str(red.red)
    assert "source.exports.holes: {kind: transactional, longest: 990}" in str(red.red)
    declared = markers(dataset, {"kind": "transactional", "longest": 990})
    assert fold(declared, [*lines, line(1012, "a1012")], name="e2").published
    assert len(list(rows_of(lake, declared))) == 21
