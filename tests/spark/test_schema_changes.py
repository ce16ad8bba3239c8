"""Fields that change in place: what was folded before and what is read again stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onefold.cli.rebuild import rebuild
from onefold.cli.run import BatchRun
from onefold.dataset import Dataset
from onefold.errors import ChangedDatasetError
from onefold.lake import Lake
from onefold.proof.prove import prove
from onefold.report.changes import changes_of
from onefold.report.ledger import rows_of
from onefold.upsert.generation import settle
from tests.spark.pipeline import InSession, Sent, export, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeDataset = Callable[..., Dataset]
pytestmark = pytest.mark.spark


class Table:
    """A dataset whose file changes between its batches."""

    def __init__(self, session: SparkSession, lake: Lake, make: MakeDataset, folder: Path, **keys: Any) -> None:
        self.session, self.lake, self._make, self._folder, self._keys = session, lake, make, folder, keys
        self.batches = 0

    def file(self, fields: dict[str, str], **value: Any) -> Dataset:
        """The dataset with these fields, as the lake has it."""
        self.raw = self._make("things", value={"fields": fields, **value}, **self._keys)
        self.dataset = settle(self.lake, self.raw)
        return self.dataset

    def fold(self, *records: Sent) -> BatchRun:
        """A batch of records."""
        self.batches += 1
        return self.again(export(self._folder / f"in-{self.batches}", records))

    def again(self, folder: Path) -> BatchRun:
        """A batch of what a folder holds."""
        self.dataset = settle(self.lake, self.raw)
        done = run(self.session, self.lake, self.dataset, folder)
        assert done.published, done.red
        return done

    def rows(self) -> list[dict[str, Any]]:
        """What readers see, by id; from the command and from the view alike."""
        told = sorted(rows_of(self.lake, self.dataset), key=lambda row: str(row["id"]))
        seen = [row.asDict() for row in self.session.table("onefold.tests.things").orderBy("id").collect()]
        assert [list(row) for row in told] == [list(row) for row in seen]
        assert [[str(one) for one in row.values()] for row in told] == [
            [str(one) for one in row.values()] for row in seen
        ]
        return told

    def proved(self) -> dict[str, int]:
        """What a proof finds wrong."""
        return prove(self.session, self.lake, settle(self.lake, self.raw)).differences


def sent(offset: int, id_: str, at: int | None = None, **value: Any) -> Sent:
    """A record of the id; its version is its offset."""
    return Sent(0, offset, at or 1000 + offset, id_, offset, f"m-{id_}", {"id": id_, **value})


APPEND: dict[str, Any] = {"identity": {"message_id": "id"}}
UPSERT: dict[str, Any] = {
    "identity": {"message_id": "header.m"},
    "apply": {"mode": "upsert", "key": ["id"], "version": {"from": "long(header.v)"}},
}
CHAIN: dict[str, Any] = {
    "apply": {"mode": "upsert", "key": ["id"], "version": {"from": "long(header.v)", "guard": "contiguous"}},
}
MODES = {"append": APPEND, "upsert": UPSERT}


@pytest.fixture
def table(session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path) -> Callable[..., Table]:
    def make(keys: dict[str, Any]) -> Table:
        return Table(session, lake, dataset, tmp_path, **keys)

    return make


@pytest.mark.parametrize("mode", MODES)
def test_an_added_field_is_null_for_what_was_folded_before_and_rebuild_fills_it(
    table: Callable[..., Table], mode: str
) -> None:
    made = table(MODES[mode])
    began = made.file({"id": "string", "n": "int"})
    first = [sent(0, "a", n=1, note="early"), sent(1, "b", n=2, note=5)]
    made.fold(*first)
    changed = made.file({"id": "string", "n": "int", "note": "string?"})
    assert changed.generation == began.generation
    made.fold(sent(2, "c", n=3, note="late"))
    rows = [{"id": "a", "n": 1, "note": None}, {"id": "b", "n": 2, "note": None}, {"id": "c", "n": 3, "note": "late"}]
    assert made.rows() == rows
    # What was folded without the field is read again, with it: at its position, and sent once more.
    read_again = made.fold(*first[:1], sent(3, "c", n=3, note="late"))
    assert read_again.published
    assert set(read_again.published.counts) <= {"duplicate", "applied"}
    assert made.rows() == rows
    assert made.proved() == {}
