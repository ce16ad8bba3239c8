"""The account of every batch of the sample, counted once more: plain Python over the landed bytes, no Spark, no SQL."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset, find_dataset
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.report.document import Report, describe
from onefold.report.ledger import rows_of, verdicts_of
from sample import page_views
from tests.conftest import PROJECT
from tests.spark.pipeline import run

Where = tuple[str, int]
ARRIVALS = {
    "accounts": ["sample/exports/kcat/1-first", "sample/exports/kcat/2-overlap", "sample/exports/kcat/4-late"],
    "account_entries": ["sample/exports/connect/1-first", "sample/exports/connect/2-more"],
    "page_views": ["1-first", "2-next"],
}


@dataclass(frozen=True, slots=True)
class Landed:
    """A record as its bytes have it."""

    object: str
    topic: str
    partition: int
    offset: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What the report says of a batch, and what its landed bytes hold."""

    report: Report
    verdicts: list[dict[str, Any]]
    records: list[Landed]


@dataclass(frozen=True, slots=True)
class Folded:
    """Some batches of one dataset."""

    lake: Lake
    dataset: Dataset
    batches: list[Batch]


def read(lake: Lake, dataset: Dataset, batch: str) -> Iterator[Landed]:
    """The records of the landed objects, as whoever wrote the layout would read them back."""
    for one in manifest_of(lake, dataset, batch).of_role("values"):
        data = lake.storage.read(one.key)
        assert data is not None
        lines = data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n")
        name = re.search(r"([^/+]+)\+(\d+)\+(\d+)\.json$", one.name)
        for number, text in enumerate(lines):
            if name:
                yield Landed(one.name, name[1], int(name[2]), int(name[3]) + number, text)
            else:
                told = json.loads(text.decode(errors="replace"))
                value = None if told["payload"] is None else told["payload"].encode()
                kept = value if _is_text(text) else text  # kcat prints raw what is no UTF-8
                yield Landed(one.name, told["topic"], told["partition"], told["offset"], kept)


@pytest.fixture(scope="module", params=ARRIVALS)
def folded(
    request: pytest.FixtureRequest,
    session_on: Callable[[Lake], SparkSession],
    lake_in: Callable[[Path], Lake],
    tmp_path_factory: pytest.TempPathFactory,
) -> Folded:
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    own = lake_in(folder)
    lake = Lake(own.settings.model_copy(update={"home": PROJECT, "lake": str(folder / "lake")}))
    dataset = find_dataset(lake.settings.datasets_folder, name)
    dataset = dataset.model_copy(update={"quality": dataset.quality.model_copy(update={"max_duplicate_rate": None})})
    if name == "page_views":
        page_views.generate(folder / "exports", views=2_000)
    batches, session = [], session_on(lake)
    for place in ARRIVALS[name]:
        done = run(session, lake, dataset, (folder / "exports" if name == "page_views" else PROJECT) / place)
        assert done.red is None, done.red
        verdicts, published = verdicts_of(lake, dataset, done.batch)
        assert published
        batches.append(Batch(describe(lake, dataset, done.batch), verdicts, list(read(lake, dataset, done.batch))))
    return Folded(lake, dataset, batches)


def test_L2_as_many_verdicts_as_records_in_each_partition(folded: Folded) -> None:
    for batch in folded.batches:
        landed = Counter((one.topic, one.partition) for one in batch.records)
        assert Counter((row["topic"], row["partition"]) for row in batch.verdicts) == landed
        assert batch.report.landed == landed.total()


def test_L2_every_offset_has_as_many_verdicts_as_it_was_landed(folded: Folded) -> None:
    for batch in folded.batches:
        landed = Counter((one.topic, one.partition, one.offset) for one in batch.records)
        assert Counter((row["topic"], row["partition"], row["offset"]) for row in batch.verdicts) == landed


def test_the_report_counts_each_object_and_each_verdict(folded: Folded) -> None:
    for batch in folded.batches:
        assert {one.name: one.records for one in batch.report.objects} == Counter(one.object for one in batch.records)
        told = Counter((row["verdict"], row["reason"]) for row in batch.verdicts)
        counts = batch.report.counts.items()
        assert told == {(verdict, reason): n for verdict, reasons in counts for reason, n in reasons.items()}


def test_L2_span_is_distinct_and_missing_offsets_of_each_partition(folded: Folded) -> None:
    if not folded.dataset.source.exact:
        assert all(not batch.report.accounts for batch in folded.batches)
        return
    for batch in folded.batches:
        offsets: dict[Where, set[int]] = {}
        for one in batch.records:
            offsets.setdefault((one.topic, one.partition), set()).add(one.offset)
        assert len(batch.report.accounts) == len(offsets)
        for account in batch.report.accounts:
            mine = offsets[account.topic_partition.topic, account.topic_partition.partition]
            missing = set(range(min(mine), max(mine) + 1)) - mine
            assert (account.start, account.end, account.distinct) == (min(mine), max(mine) + 1, len(mine))
            assert sum(account.explained.values()) == len(missing)
            assert account.unexplained == []


def test_undecodable_are_exactly_the_records_whose_bytes_are_no_json(folded: Folded) -> None:
    for batch in folded.batches:
        broken = {(one.topic, one.partition, one.offset) for one in batch.records if not _is_json(one.value)}
        refused = [row for row in batch.verdicts if row["reason"] == "undecodable"]
        assert {(row["topic"], row["partition"], row["offset"]) for row in refused} == broken


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(value: bytes | None) -> bool:
    if value is None:
        return True  # a null is not decoded
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def test_every_row_is_of_the_landed_bytes(folded: Folded) -> None:
    key = {"accounts": "account_id", "account_entries": "transfer_id", "page_views": "view_id"}[folded.dataset.name]
    rows = rows_of(folded.lake, folded.dataset)
    bytes_ = b"\n".join(one.value or b"" for batch in folded.batches for one in batch.records)
    assert rows
    if key in folded.dataset.fields:
        assert [row[key] for row in rows if row[key].encode() not in bytes_] == []
