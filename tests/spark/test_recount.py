"""The account of every batch of the sample, counted once more: plain Python over the landed bytes, no Spark, no SQL."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset, find_dataset
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.offsets import TopicPartition
from onefold.report.document import Report, describe
from onefold.report.ledger import rows_of, verdicts_of
from sample import page_views
from tests.support import oracle
from tests.support.launchers import PROJECT
from tests.support.oracle import Decoded, Rules, Verdict
from tests.support.pipeline import run

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
    key: bytes | None = None


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
                key = None if told["key"] is None else told["key"].encode()
                yield Landed(one.name, told["topic"], told["partition"], told["offset"], kept, key)


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


@pytest.mark.nightly(reason="every offset of two other streams is counted by day")
def test_L2_as_many_verdicts_as_records_in_each_partition(folded: Folded) -> None:
    for batch in folded.batches:
        landed = Counter((one.topic, one.partition) for one in batch.records)
        assert Counter((row["topic"], row["partition"]) for row in batch.verdicts) == landed
        assert batch.report.landed == landed.total()


@pytest.mark.by_day("account_entries", why="the other streams are smaller")
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


def test_the_report_has_a_verdict_for_each_record_of_each_partition(folded: Folded) -> None:
    for batch in folded.batches:
        landed = Counter((one.topic, one.partition) for one in batch.records)
        assert {where: told.total() for where, told in by_partition(batch.report).items()} == landed


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
    keyed = folded.dataset.name == "accounts"  # its key is read
    before: set[tuple[str, int, int, bytes | None, bytes | None]] = set()
    for batch in folded.batches:
        broken = {
            (one.topic, one.partition, one.offset, one.key, one.value)
            for one in batch.records
            if not (_is_json(one.value) and (not keyed or _is_json(one.key)))
        }
        refused = [row for row in batch.verdicts if row["reason"] == "undecodable"]
        fresh = {(topic, partition, offset) for topic, partition, offset, _, _ in broken - before}
        before |= broken
        assert {(row["topic"], row["partition"], row["offset"]) for row in refused} == fresh, "and each of them once"


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


Told = tuple[str | None, str | None]
"""Verdict and reason."""


def by_partition(report: Report) -> dict[Where, Counter[Told]]:
    """The report's verdicts and reasons of each partition."""
    found: dict[Where, Counter[Told]] = {}
    for key, counts in report.partitions.items():
        at = TopicPartition.of(key)
        found[at.topic, at.partition] = Counter(
            {(verdict, reason): n for verdict, reasons in counts.items() for reason, n in reasons.items()}
        )
    return found


def survivors(batch: Batch) -> Counter[tuple[Any, ...]]:
    """Position and survivor of each duplicate, by the verdict table."""
    own = ("topic", "partition", "offset")
    places = [row for row in batch.verdicts if row["verdict"] == "duplicate"]
    return Counter((*(row[name] for name in own), *(row["survivor"][name] for name in own)) for row in places)


def recounted(told: Iterable[tuple[Where, Told]]) -> dict[Where, Counter[Told]]:
    found: dict[Where, Counter[Told]] = {}
    for where, one in told:
        found.setdefault(where, Counter())[one] += 1
    return found


def test_the_report_of_an_upsert_is_that_of_plain_python_in_each_partition(
    session: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """The whole sample at once, every verdict by `tests.support.oracle` from the lines as kcat printed them."""
    lake = Lake(lake.settings.model_copy(update={"home": PROJECT, "lake": str(tmp_path / "lake")}))
    dataset = find_dataset(lake.settings.datasets_folder, "accounts")
    done = run(session, lake, dataset, PROJECT / "sample/exports/kcat")
    batch = Batch(describe(lake, dataset, done.batch), verdicts_of(lake, dataset, done.batch)[0], [])
    objects = [lake.storage.read(one.key) or b"" for one in manifest_of(lake, dataset, done.batch).of_role("values")]
    records = [account(line) for one in objects for line in one.splitlines()]
    verdicts = oracle.verdicts(records, Rules("upsert", narrow=("message_id",)))

    def told(one: Decoded, said: Verdict) -> Told:
        return (said.verdict, said.reason) if said.verdict else ("applied", "delete" if one.deleted else "insert")

    pairs = list(zip(records, verdicts, strict=True))
    expected = recounted(((one.position[1], one.position[3]), told(one, said)) for one, said in pairs)
    assert by_partition(batch.report) == expected
    assert {verdict for told in expected.values() for verdict, _ in told} == {
        "applied", "duplicate", "superseded", "conflict", "rejected"
    }  # fmt: skip
    assert survivors(batch) == Counter(
        (one.position[1], *one.position[3:], said.winner[2], *said.winner[4:])
        for one, said in pairs
        if said.verdict == "duplicate" and said.winner
    )


def account(text: bytes) -> Decoded:
    """A record of the sample's accounts, strictly read."""
    line = json.loads(text.decode(errors="replace"))
    named = line.get("headers") or []
    headers = dict(zip(named[::2], named[1::2], strict=True))
    key, content, rejected = None, "", None
    if line["payload"] is not None:
        content, rejected = account_row(line["payload"]) if _is_text(text) else ("", "undecodable")
    try:
        key = None if line["key"] is None else json.loads(line["key"])["account_id"]
    except (TypeError, ValueError):  # what cannot be read has no part that is a key
        rejected = rejected if _is_json(line["key"].encode()) else "undecodable"
    return Decoded(
        position=("sample", line["topic"], 1, line["partition"], line["offset"]),
        timestamp=line["ts"],
        key=key,
        content=content,
        version=int(headers.get("version") or 0),
        message_id=headers.get("message-id"),
        deleted=line["payload"] is None,
        rejected=rejected or ("null_key" if key is None else None if headers.get("version") else "null_version"),
    )


def account_row(payload: str) -> tuple[str, str | None]:
    """What an account's value says, as text in one form; or why it cannot be used."""
    try:
        value = json.loads(payload, parse_float=Decimal)
    except ValueError:
        return "", "undecodable"
    if not {"owner", "status", "changed_at"} <= value.keys():
        return "", "missing_field"
    limit = None if value.get("credit_limit") is None else Decimal(value["credit_limit"])
    exact = limit is None or limit == round(limit, 2)
    if not (isinstance(value["owner"], str) and isinstance(value["status"], str) and exact):
        return "", "wrong_type"
    at = datetime.fromisoformat(value["changed_at"]).astimezone(UTC)
    return f"{value['owner']}|{value['status']}|{limit and limit.normalize()}|{at}", None


@pytest.mark.nightly(reason="the report of an upsert is counted again by day")
def test_the_report_of_each_batch_of_a_filtered_append_is_that_of_plain_python_in_each_partition(
    session: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """In the batch and against what is published; positions read twice, and again by the next batch."""
    lake = Lake(lake.settings.model_copy(update={"home": PROJECT, "lake": str(tmp_path / "lake")}))
    dataset = find_dataset(lake.settings.datasets_folder, "page_views")
    wanted = dataset.source.model_copy(update={"filter": "value.url <> '/cart'"})
    quality = dataset.quality.model_copy(update={"max_duplicate_rate": None})
    dataset = dataset.model_copy(update={"source": wanted, "quality": quality})
    page_views.generate(tmp_path / "exports", views=2_000)
    stands: dict[str, tuple[int, Where, int]] = {}
    covered: set[tuple[Where, int]] = set()
    for folder in ("1-first", "3-late", "2-next"):
        done = run(session, lake, dataset, tmp_path / "exports" / folder)
        batch = Batch(describe(lake, dataset, done.batch), verdicts_of(lake, dataset, done.batch)[0], [])
        told: list[tuple[Where, Told]] = []
        duplicates: list[tuple[Where, int, tuple[int, Where, int]]] = []
        here: set[tuple[Where, int]] = set()
        data = [lake.storage.read(one.key) or b"" for one in manifest_of(lake, dataset, done.batch).of_role("values")]
        lines = [json.loads(line) for one in data for line in one.splitlines()]
        for line in sorted(lines, key=lambda line: (line["ts"], line["partition"], line["offset"])):
            where, value = (line["topic"], line["partition"]), json.loads(line["payload"])
            at, view = (where, line["offset"]), value["view_id"]
            if at in covered:
                told.append((where, ("duplicate", "position")))
                duplicates.append((*at, (line["ts"], *at)))
                continue
            if value["url"] == "/cart":
                told.append((where, ("filtered", "filter")))
                continue
            order = (line["ts"], *at)
            if view not in stands:
                told.append((where, ("applied", "insert")))
                stands[view] = order
            else:
                read_twice = at in here
                told.append((where, ("duplicate", "position" if read_twice else "message_id")))
                duplicates.append((*at, stands[view]))
                earlier = not read_twice and order < stands[view]
                stands[view] = order if earlier else stands[view]
            here.add(at)
        covered |= here
        assert by_partition(batch.report) == recounted(told), folder
        assert survivors(batch) == Counter(
            (*where, offset, *survivor, there) for where, offset, (_, survivor, there) in duplicates
        )
