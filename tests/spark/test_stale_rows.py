"""Rows of which readers see an older state, because a record of their key was rejected, are counted and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.quality.documents import gate_of
from tests.support.pipeline import Sent, export, run

MODES: dict[str, dict[str, Any]] = {
    "newer": {"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)"}},
    "contiguous": {"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)", "guard": "contiguous"}},
    "increment": {"mode": "increment", "key": ["key.id"], "add": {"total": "n"}},
}


@pytest.mark.nightly(reason="tests/unit/test_checks.py warns of stale rows")
@pytest.mark.parametrize("mode", MODES)
def test_a_rejected_record_makes_the_row_of_its_key_stale(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, mode: str
) -> None:
    """An older version than the row's does not, nor one whose key has no row. In a sum every record counts."""
    made = dataset(
        key={"format": "json"},
        value={"fields": {"n": "long"}},
        identity={"message_id": "header.m"},
        apply=MODES[mode],
        quality={"max_rejected_rate": 1.0},
    )
    first = [Sent(0, n, n, key, 1, f"m{n}", {"n": 1}) for n, key in enumerate("abc")]
    first.append(Sent(0, 3, 3, "c", 2, "m3", {"n": 1}))
    run(session, lake, made, export(tmp_path / "first", first))
    second = [
        Sent(0, 4, 4, "a", 2, "m4", {"n": "wrong"}),
        Sent(0, 5, 5, "a", 3, "m5", "{cut"),
        Sent(0, 6, 6, "c", 1, "m6", {"n": "wrong"}),
        Sent(0, 7, 7, "d", 1, "m7", {"n": "wrong"}),
        Sent(0, 8, 8, "e", 1, "m8", {"n": 1}),
    ]
    done = run(session, lake, made, export(tmp_path / "second", second))
    assert done.published, done.red
    [stale] = [
        check for check in gate_of(lake, made, done.batch, done.published.attempt).checks if check.id == "stale_rows"
    ]
    named = ['key {"id":"a"}', *(['key {"id":"c"}'] if mode == "increment" else [])]
    assert (stale.status, stale.severity, stale.observed, stale.first) == ("failed", "warning", str(len(named)), named)
