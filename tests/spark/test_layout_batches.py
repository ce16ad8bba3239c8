"""Overlaps, objects under two names and offsets that restart, through the real steps, in exact and inexact layouts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.proof.prove import prove
from onefold.report.ledger import records_of, rows_of
from tests.support import layouts as L
from tests.support.layouts import Sent
from tests.support.pipeline import run

FIRST = [Sent(0, 10 + n, f"a{n}", f"{n}.10", at=n, message=f"m{n}") for n in range(4)]
NEW = [Sent(0, 10 + n, f"new{n}", "9.99", at=100 + n, message=f"new{n}") for n in range(4)]
"""A topic that was created again under the same name: the same offsets, other records."""
HOLED = [Sent(0, 10 + n + bool(n), f"a{n}", f"{n}.10", at=n, message=f"m{n}") for n in range(4)]
"""Offset 11 is a transaction's marker."""
MakeDataset = Callable[..., Dataset]


def green(session: SparkSession, lake: Lake, made: Dataset, folder: Path) -> dict[str, dict[str, int]]:
    """Verdicts and reasons of one green batch of a folder."""
    done = run(session, lake, made, folder)
    assert done.red is None
    assert done.published is not None
    return {name: dict(reasons) for name, reasons in done.published.counts.items()}


def rows(lake: Lake, made: Dataset) -> list[dict[str, Any]]:
    """What readers see."""
    return sorted(rows_of(lake, made), key=lambda row: str(row["id"]))


@pytest.mark.nightly(reason="most tests of batches read kcat, and test_layouts reads each layout")
@pytest.mark.parametrize("name", ["kcat", "aiven, text", "parquet, structs"])
def test_an_exact_layout_is_folded_by_position(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path, name: str
) -> None:
    layout = L.EXACT[name]
    made = L.dataset_of(dataset, layout.name, **layout.exports)
    layout.write(tmp_path / "one", FIRST[:3])
    layout.write(tmp_path / "two", FIRST[1:])
    layout.write(tmp_path / "two" / "again", FIRST[1:])  # the same object under two names
    layout.write(tmp_path / "new", NEW)
    assert green(session, lake, made, tmp_path / "one") == {"applied": {"insert": 3}}
    overlap = green(session, lake, made, tmp_path / "two")
    assert overlap == {"applied": {"insert": 1}, "duplicate": {"position": 5}}
    assert rows(lake, made) == L.shown(FIRST)
    coverage = records_of(lake, made)[0].coverage
    assert {key: partition.present for key, partition in coverage.partitions.items()} == {"c/t/1/0": [(10, 14)]}

    # A topic that was created again has other records at covered offsets: nothing of it is taken for read.
    recreated = run(session, lake, made, tmp_path / "new")
    assert recreated.red is not None
    assert "no position with two contents: found 4" in str(recreated.red)
    assert rows(lake, made) == L.shown(FIRST)
    raised = L.dataset_of(
        dataset, layout.name, name="raised", **layout.exports, origin={"cluster": "c", "incarnation": 2}
    )
    assert green(session, lake, raised, tmp_path / "new") == {"applied": {"insert": 4}}
    assert rows(lake, raised) == L.shown(NEW)


@pytest.mark.nightly(reason="test_layouts reads each of them, and deletes go by day")
@pytest.mark.parametrize("kind", ["json", "json.gz", "avro", "parquet"])
def test_tombstones_that_connect_writes_apart_delete(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path, kind: str
) -> None:
    source = {"exports": {"path": "e", "layout": "connect", "origin": {"cluster": "c"}, "holes": "none"}}
    version = {"from": "long(header.m)"}
    apply = {"mode": "upsert", "key": ["key"], "version": version, "delete_when": "tombstone"}
    made = dataset(
        "entries", source=source, value={"fields": L.FIELDS}, identity={"message_id": "header.m"}, apply=apply
    )
    L.put_connect(tmp_path / "one", [L.Sent(0, n, f"k{n}", "1.00", message="1") for n in range(3)], kind)
    for ending, data in L.CONNECT[kind]([L.Sent(0, n, f"k{n}", message="2") for n in (0, 1)]).items():
        if ".keys" in ending or ".headers" in ending:
            L.put(tmp_path / "two", f"topics/t/tombstone/t+0+{3:010d}{ending}", data)
    assert green(session, lake, made, tmp_path / "one") == {"applied": {"insert": 3}}
    assert green(session, lake, made, tmp_path / "two") == {"applied": {"delete": 2}}
    assert [row["id"] for row in rows_of(lake, made)] == ["k2"]
    assert prove(session, lake, made).holds


@pytest.mark.nightly(reason="tests/spark/test_known_positions.py: what decodes later leaves the quarantine")
def test_a_record_that_gets_its_key_later_is_used_then(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    """The object of its values alone was filtered; with the headers next to it, it is another (L1)."""
    source = {"exports": {"path": str(tmp_path), "layout": "connect", "origin": {"cluster": "c"}, "holes": "none"}}
    made = dataset(
        "entries",
        source=source | {"filter": "header.m = '1'"},
        value={"fields": L.FIELDS},
        identity={"business_key": ["id"]},
    )
    name = L.put_connect(tmp_path, [L.Sent(0, n, f"k{n}", "1.00", message="1") for n in range(3)], "json")
    kept = (tmp_path / f"{name}.headers.json").read_bytes()
    (tmp_path / f"{name}.headers.json").unlink()
    assert green(session, lake, made, tmp_path) == {"filtered": {"filter": 3}}
    (tmp_path / f"{name}.headers.json").write_bytes(kept)
    assert green(session, lake, made, tmp_path) == {"applied": {"insert": 3}}
    assert prove(session, lake, made).holds


@pytest.mark.by_day("avro", why="test_layouts reads each of them")
@pytest.mark.parametrize("kind", ["json", "avro", "parquet"])
def test_connect_is_covered_by_object_and_folded_by_identity(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path, kind: str
) -> None:
    made = L.dataset_of(dataset, "connect")
    L.put_connect(tmp_path / "one", HOLED[:3], kind)
    L.put_connect(tmp_path / "two", HOLED[1:], kind)  # a scheduled rotation that began one record later
    shutil.copytree(tmp_path / "one", tmp_path / "two" / "again")  # the same object under another name
    L.put_connect(tmp_path / "new", NEW, kind)
    assert green(session, lake, made, tmp_path / "one") == {"applied": {"insert": 3}}
    assert list(records_of(lake, made)[0].coverage.objects.values()) == [3]
    overlap = green(session, lake, made, tmp_path / "two")
    assert overlap["applied"] == {"insert": 1}
    # Behind the hole two records have the inferred offset 12, and one record has two: no position decides.
    assert overlap["duplicate"] == {"position": 3, "message_id": 2}
    assert sorted(records_of(lake, made)[0].coverage.objects.values()) == [3, 3]
    assert green(session, lake, made, tmp_path / "new") == {"applied": {"insert": 4}}
    assert rows(lake, made) == L.shown([*HOLED, *NEW])
