"""A layout is one file of the dataset's, one reader with its count, and a row: a whole batch needs nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.lake import Lake
from onefold.landing.erase import check_erasable
from onefold.report.ledger import rows_of
from tests.support import layouts as L
from tests.support.added_layout import NAME, add_layout, line
from tests.support.pipeline import run


def test_an_added_layout_is_landed_folded_counted_and_refused_where_it_has_no_row(
    session: SparkSession,
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_layout(monkeypatch, tmp_path, drafts=False)
    exports = {"path": "exports", "layout": NAME, "origin": {"cluster": "c"}}
    made = dataset("entries", source={"exports": exports}, value={"fields": {"id": "string"}})
    L.put(tmp_path / "export", "a.tsv", "".join(line(n, f'{{"id": "{n}"}}') for n in (1, 2, 2)).encode())
    L.put(tmp_path / "export", "README.md", b"no object of the layout")
    done = run(session, lake, made, tmp_path / "export")
    assert (done.red, done.published and done.published.counts) == (
        None,
        {"applied": {"insert": 2}, "duplicate": {"position": 1}},
    )
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["1", "2"]
    with pytest.raises(UsageError, match=f"layout {NAME}: single records can be taken out of live topics and kcat"):
        check_erasable(lake, made.source_id)
