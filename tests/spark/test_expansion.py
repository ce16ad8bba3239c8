"""S6: a landed object that expands beyond a setting fails its own batch, by the setting's name."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import UnreadableObjectError
from onefold.lake import Lake
from onefold.settings import Settings
from tests.support.batches import Export, values
from tests.support.layouts import avro, dataset_of, parquet
from tests.support.pipeline import Sent, export, run

FEW = {"max_object_records": 1_000, "max_object_bytes": 100_000, "max_block_bytes": 50_000}
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}


def _named(name: str, data: bytes) -> Callable[[Path], object]:
    def put(folder: Path) -> None:
        folder.mkdir()
        (folder / name).write_bytes(data)

    return put


def _segment(*batches: bytes) -> Callable[[Path], object]:
    return lambda folder: Export(folder).write(0, *batches)


def _ids(count: int, size: int = 1) -> list[dict[str, str]]:
    return [{"id": "x" * size} for _ in range(count)]


BEYOND: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "kcat lines": ("kcat", _named("t.jsonl.gz", gzip.compress(b"\n" * 1_001)), "max_object_records"),
    "kcat bytes": ("kcat", _named("t.jsonl.gz", gzip.compress(b"x" * 100_001)), "max_object_bytes"),
    "aiven lines": ("aiven", _named("t-0-0.gz", gzip.compress(b"\n" * 1_001)), "max_object_records"),
    "connect avro": ("connect", _named("t+0+0.avro", avro(SCHEMA, _ids(1_001), codec="deflate")), "max_object_records"),
    "connect block": (
        "connect",
        _named("t+0+0.avro", avro(SCHEMA, _ids(1, 60_000), codec="deflate")),
        "max_block_bytes",
    ),
    "connect parquet": (
        "connect",
        _named("t+0+0.parquet", parquet(pa.table({"id": ["x"] * 1_001}))),
        "max_object_records",
    ),
    "connect lines": ("connect", _named("t+0+0.json.gz", gzip.compress(b"1\n" * 1_001)), "max_object_records"),
    "parquet": ("parquet", _named("p.parquet", parquet(pa.table({"value": [b"x"] * 1_001}))), "max_object_records"),
    "a log's records": ("segments", _segment(values(0, *(["{}"] * 1_001))), "max_object_records"),
    "a log's batch": ("segments", _segment(values(0, "x" * 60_000, codec="zstd")), "max_block_bytes"),
}


@pytest.mark.parametrize("case", BEYOND)
def test_s6_an_object_of_any_layout_fails_its_own_batch_beyond_a_limit(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, case: str
) -> None:
    layout, put, setting = BEYOND[case]
    few = Lake(lake.settings.model_copy(update=FEW))
    made = dataset_of(dataset, layout)
    put(tmp_path / "export")
    with pytest.raises(UnreadableObjectError, match=f"which the setting {setting} allows"):
        run(session, few, made, tmp_path / "export")
    assert setting in Settings.model_fields


def test_packed_lines_within_the_limits_are_read(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    few: dict[str, Any] = {**FEW, "max_object_records": 3}
    folder = export(tmp_path / "export", [Sent(0, n, n, "k", 1, f"m{n}", {"id": f"i{n}"}) for n in range(3)])
    plain = folder / "t-0.jsonl"
    (folder / "t-0.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    done = run(session, Lake(lake.settings.model_copy(update=few)), dataset(), folder)
    assert done.published, json.dumps(few)
