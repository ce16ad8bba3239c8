"""A dataset's batches at a glance: what is read for it, and what it says when reports change, break or race."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.iceberg.commits import RECORD_PROPERTY
from onefold.iceberg.connection import open_catalog
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.offsets import Coverage, Present
from onefold.quality.documents import CheckResult
from onefold.report import report_batch
from onefold.report.document import Report
from onefold.report.history import CELLS, KEPT, History, gather, keep_history, read_history, strip_of
from onefold.settings import load_settings
from onefold.storage import LocalStorage
from onefold.tables.names import state_name
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.coverage import PartitionAccount

MakeDataset = Callable[..., Dataset]
WRITTEN = datetime(2026, 3, 9, 6, 12, 44, tzinfo=UTC)
STOPS = CheckResult(id="conflicts", title="conflicts", by="spark", status="failed", observed="1", expected="at most 0")


class Watched(LocalStorage):
    """A folder that notes what is read and listed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[str] = []

    def read(self, key: str) -> bytes | None:
        self.reads.append(key)
        return super().read(key)


class Raced(LocalStorage):
    """A folder in which another batch's report appears, once, while a history is on its way."""

    def __init__(self, root: Path, then: Callable[[], None]) -> None:
        super().__init__(root)
        self.then: Callable[[], None] | None = then

    def write(self, key: str, data: bytes) -> None:
        if self.then and key.startswith("histories/"):
            then, self.then = self.then, None
            then()
        super().write(key, data)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "lake")


@pytest.fixture
def lake(tmp_path: Path, watched: Watched) -> Lake:
    made = Lake(load_settings(home=tmp_path, lake="lake"))
    made.__dict__["storage"] = watched
    return made


def report(lake: Lake, batch: str, **changed: Any) -> None:
    fields: dict[str, Any] = {
        "dataset": "things", "description": "", "owner": "", "table": "tests.things", "mode": "append",
        "deciding": "message_id", "exact": True, "batch": batch, "interval": None, "attempt": "a1",
        "status": "published", "why": [], "snapshot": 1, "landed": 10, "covered": 0, "objects": [], "ignored": [],
        "counts": {"applied": {"insert": 8}, "duplicate": {"position": 1, "message_id": 1}}, "changes": {},
        "accounts": [], "checks": [], "examples": {}, "written": WRITTEN,
    }  # fmt: skip
    lake.put(lake_keys.report("things", batch, "json"), Report(**(fields | changed)))
    lake.storage.write(lake_keys.report("things", batch, "html"), b"<p>page</p>")


def test_a_report_that_is_known_is_not_read_again_and_one_that_changed_is(lake: Lake, watched: Watched) -> None:
    report(lake, "export_a")
    report(lake, "export_b")
    known, batches = gather(lake, "things", (), KEPT)
    assert (len(known), batches, len(watched.reads)) == (2, 2, 2)

    watched.reads.clear()
    assert gather(lake, "things", known, KEPT) == (known, 2)
    assert watched.reads == []

    report(lake, "export_a", status="red", checks=[STOPS])
    again, _ = gather(lake, "things", known, KEPT)
    assert watched.reads == ["reports/things/export_a.json"]
    assert {entry.batch: entry.status for entry in again} == {"export_a": "red", "export_b": "published"}


def test_no_more_reports_are_read_than_asked_for_and_all_are_counted(lake: Lake, watched: Watched) -> None:
    for number in range(5):
        report(lake, f"export_{number}")

    entries, batches = gather(lake, "things", (), 3)

    assert (len(entries), batches, len(watched.reads)) == (3, 5, 3)


def test_a_red_batch_stays_however_many_come_after_it(lake: Lake) -> None:
    report(lake, "export_red", status="red", checks=[STOPS])
    known, _ = gather(lake, "things", (), 2)
    for number in range(3):
        report(lake, f"export_{number}", written=WRITTEN.replace(hour=7 + number))

    entries, _ = gather(lake, "things", known, 2)

    assert [entry.batch for entry in entries] == ["export_2", "export_1", "export_red"]


def test_what_an_entry_says_is_what_the_report_says(lake: Lake) -> None:
    line = PartitionAccount(
        partition="prod/t/1/0", start=0, end=20, distinct=10, quarantined=0,
        explained={"control": 3, "covered by another batch": 2}, unexplained=[(4, 7), (9, 11)],
    )  # fmt: skip
    report(lake, "export_a", status="red", checks=[STOPS], accounts=[line], held=4)

    ((entry,), _) = gather(lake, "things", (), KEPT)

    assert entry.counts == {"applied": 8, "duplicate": 2}
    assert entry.duplicates == {"position": 1, "message_id": 1}
    assert entry.duplicate_rate == 0.2
    assert entry.holes == {"control": 3}, "an offset that another batch covers is no hole"
    assert (entry.unexplained, entry.missing) == (5, [("prod/t/1/0", 4, 7), ("prod/t/1/0", 9, 11)])
    assert (entry.red, entry.held) == (["conflicts"], 4)


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b'{"dataset": "things"}'])
def test_a_report_that_cannot_be_read_says_so_and_keeps_its_place(lake: Lake, data: bytes) -> None:
    batch = "20260309T050000Z-20260309T060000Z_0f3b"
    lake.storage.write(lake_keys.report("things", batch, "json"), data)

    ((entry,), _) = gather(lake, "things", (), KEPT)

    assert (entry.status, entry.page) == ("damaged", False)
    assert entry.at == datetime(2026, 3, 9, 6, tzinfo=UTC)


def test_a_report_of_a_newer_version_is_read_for_what_is_known_of_it(lake: Lake) -> None:
    report(lake, "export_a")
    key = lake_keys.report("things", "export_a", "json")
    data = lake.storage.read(key)
    assert data
    lake.storage.write(key, data.replace(b'"decision": null', b'"decision": {"kind": "bless"}, "wings": 2'))

    ((entry,), _) = gather(lake, "things", (), KEPT)

    assert (entry.status, entry.landed) == ("published", 10)


def test_reports_and_histories_of_before_are_sorted_by_when_their_reports_were_written(lake: Lake) -> None:
    for number in range(2):
        report(lake, f"export_{number}", written=WRITTEN.replace(hour=6 + number))
        key = lake_keys.report("things", f"export_{number}", "json")
        document = json.loads(lake.storage.read(key) or b"")
        del document["committed"]
        lake.storage.write(key, json.dumps(document).encode())
    entries, _ = gather(lake, "things", (), KEPT)
    kept = History(dataset="things", entries=entries).model_dump(mode="json")
    for entry in kept["entries"]:
        del entry["committed"]
    lake.storage.write(lake_keys.history("things"), json.dumps(kept).encode())

    history = read_history(lake, "things")

    assert history
    assert [(entry.batch, entry.at.hour) for entry in history.entries] == [("export_1", 7), ("export_0", 6)]
    assert gather(lake, "things", history.entries, KEPT)[0] == history.entries


def test_a_report_under_another_batchs_name_counts_for_neither(lake: Lake) -> None:
    report(lake, "export_a")
    stolen = lake.storage.read(lake_keys.report("things", "export_a", "json"))
    assert stolen
    lake.storage.write(lake_keys.report("things", "export_b", "json"), stolen)

    entries, _ = gather(lake, "things", (), KEPT)

    assert {entry.batch: entry.status for entry in entries} == {"export_a": "published", "export_b": "damaged"}


def test_a_page_without_its_numbers_is_listed(lake: Lake) -> None:
    lake.storage.write(lake_keys.report("things", "export_a", "html"), b"<p>page</p>")

    ((entry,), _) = gather(lake, "things", (), KEPT)

    assert (entry.batch, entry.status, entry.page) == ("export_a", "damaged", True)


def test_a_page_that_came_after_its_numbers_is_linked(lake: Lake) -> None:
    report(lake, "export_a")
    page = lake.storage.read(lake_keys.report("things", "export_a", "html"))
    assert page
    Path(lake.where(lake_keys.report("things", "export_a", "html"))).unlink()
    known, _ = gather(lake, "things", (), KEPT)
    assert [entry.page for entry in known] == [False]

    lake.storage.write(lake_keys.report("things", "export_a", "html"), page)

    assert [entry.page for entry in gather(lake, "things", known, KEPT)[0]] == [True]


def test_a_batchs_report_is_in_the_history_when_it_is_written(lake: Lake, dataset: MakeDataset, tmp_path: Path) -> None:
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports" / "t-0.jsonl").write_text("{}\n")
    things = dataset()
    batch = plan_batch(lake, things, None, str(tmp_path / "exports")).batch

    report_batch(lake, things, batch)

    kept = read_history(lake, "things")
    assert kept
    assert [(entry.batch, entry.status, entry.page) for entry in kept.entries] == [(batch, "unpublished", True)]


def test_a_history_is_kept_with_what_the_dataset_file_says(lake: Lake, dataset: MakeDataset) -> None:
    report(lake, "export_a")
    keep_history(lake, dataset(quality={"freshness": "2h"}))

    kept = read_history(lake, "things")

    assert kept
    assert (kept.table, kept.mode, kept.freshness, kept.batches) == ("tests.things", "append", 7200.0, 1)
    assert [entry.batch for entry in kept.entries] == ["export_a"]
    assert kept.coverage is None, "there is no table yet"


def test_a_report_that_appears_while_the_history_is_written_is_in_it(
    lake: Lake, dataset: MakeDataset, watched: Watched
) -> None:
    report(lake, "export_a")
    raced = Raced(watched.root, lambda: report(lake, "export_b"))
    lake.__dict__["storage"] = raced

    keep_history(lake, dataset())

    kept = read_history(lake, "things")
    assert raced.then is None
    assert kept
    assert {entry.batch for entry in kept.entries} == {"export_a", "export_b"}


def test_a_history_that_is_damaged_is_made_again(lake: Lake, dataset: MakeDataset) -> None:
    report(lake, "export_a")
    lake.storage.write(lake_keys.history("things"), b"{")

    keep_history(lake, dataset())

    kept = read_history(lake, "things")
    assert kept
    assert len(kept.entries) == 1


def test_a_report_that_is_written_again_says_when_its_batch_was_published(
    lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports" / "t-0.jsonl").write_text("{}\n")
    things = dataset()
    batch = plan_batch(lake, things, None, str(tmp_path / "exports")).batch
    publish(lake, things, batch, Coverage())

    for _ in range(2):
        report_batch(lake, things, batch)

    kept = read_history(lake, "things")
    assert kept
    (entry,) = kept.entries
    assert (entry.status, entry.at) == ("published", WRITTEN)
    assert entry.written > WRITTEN


def publish(lake: Lake, things: Dataset, batch: str, coverage: Coverage) -> None:
    """A table whose `main` points to the batch's commit record."""
    catalog, rows = open_catalog(lake), pa.table({"id": ["a"]})
    catalog.create_namespace(things.target.namespace)
    table = catalog.create_table((things.target.namespace, state_name(things)), rows.schema)
    table.append(rows, snapshot_properties={RECORD_PROPERTY: "one"})
    record = CommitRecord(
        name="one", parent="root", dataset="things", generation=things.generation, batch=batch, interval=None,
        attempt="one", staging="", verdicts="", landed=18, counts={}, written=WRITTEN, coverage=coverage,
    )  # fmt: skip
    lake.put(lake_keys.record(things, "one"), record)


def test_coverage_is_that_of_the_commit_record_that_main_points_to(lake: Lake, dataset: MakeDataset) -> None:
    things, report_of = dataset(), Present(present=[(0, 10), (12, 20)], holes=[(10, 12, "aborted")])
    publish(lake, things, "export_a", Coverage(partitions={"prod/t/1/10": report_of, "prod/t/1/2": report_of}))
    report(lake, "export_a")

    keep_history(lake, things)

    kept = read_history(lake, "things")
    assert kept
    assert kept.coverage
    assert [partition.partition for partition in kept.coverage] == ["prod/t/1/2", "prod/t/1/10"]
    assert (kept.coverage[0].start, kept.coverage[0].end, kept.coverage[0].holes) == (0, 20, {"aborted": 2})


def test_a_strip_draws_every_loss_and_gap_and_leaves_out_small_harmless_holes() -> None:
    offsets = Present(
        present=[(0, 400_000), (400_001, 800_000), (800_001, 900_000)],
        holes=[(400_000, 400_001, "retention"), (900_000, 1_000_000, "compacted")],
    )
    strip = strip_of("prod/t/1/0", offsets)

    assert [kind for _, _, kind in strip.parts] == ["landed", "retention", "landed", "open", "landed", "compacted"]
    assert strip.holes == {"retention": 1, "compacted": 100_000}
    assert strip.open == 1

    scattered = Present(
        present=[(start, start + 99) for start in range(0, 100_000, 100)],
        holes=[(start + 99, start + 100, "control") for start in range(0, 100_000, 100)],
    )
    assert strip_of("prod/t/1/0", scattered).parts == [(0, 100_000, "landed")]


@pytest.mark.parametrize("end", [1, 2, CELLS - 1, CELLS, CELLS + 1, 10 * CELLS + 7])
def test_the_parts_of_a_strip_are_the_whole_of_it(end: int) -> None:
    parts = strip_of("prod/t/1/0", Present(present=[(0, end)], holes=[(end, end + 3, "control")])).parts

    assert parts[0][0] == 0
    assert parts[-1][1] == end + 3
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    assert len(parts) <= CELLS
