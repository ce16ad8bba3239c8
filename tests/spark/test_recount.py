"""The account of every batch of the sample, counted again in plain Python from the landed bytes: no Spark, no SQL."""

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
pytestmark = pytest.mark.by_day("page_views", why="the report of an upsert is counted again by day in each partition")


@dataclass(frozen=True, slots=True)
class Landed:
    """A record as it was landed."""

    object: str
    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The report and the verdicts of a batch, and the records of its landed bytes."""

    report: Report
    verdicts: list[dict[str, Any]]
    records: list[Landed]


@dataclass(frozen=True, slots=True)
class Folded:
    """Several batches of one dataset."""

    lake: Lake
    dataset: Dataset
    batches: list[Batch]


def read(lake: Lake, dataset: Dataset, batch: str) -> Iterator[Landed]:
    """The records of the landed objects, read as the layout was written."""
    for object_ in manifest_of(lake, dataset, batch).of_role("values"):
        data = lake.storage.read(object_.key)
        assert data is not None
        lines = data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n")
        name = re.search(r"([^/+]+)\+(\d+)\+(\d+)\.json$", object_.name)
        for number, text in enumerate(lines):
            if name:
                yield Landed(object_.name, name[1], int(name[2]), int(name[3]) + number, text)
            else:
                envelope = json.loads(text.decode(errors="replace"))
                value = None if envelope["payload"] is None else envelope["payload"].encode()
                kept = value if _is_text(text) else text  # kcat prints bytes that are not UTF-8 as they are
                key = None if envelope["key"] is None else envelope["key"].encode()
                yield Landed(object_.name, envelope["topic"], envelope["partition"], envelope["offset"], kept, key)


@pytest.fixture(scope="module", params=ARRIVALS)
def folded(
    request: pytest.FixtureRequest,
    session_on: Callable[[Lake], SparkSession],
    lake_in: Callable[[Path], Lake],
    tmp_path_factory: pytest.TempPathFactory,
) -> Folded:
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    temporary = lake_in(folder)
    lake = Lake(temporary.settings.model_copy(update={"home": PROJECT, "lake": str(folder / "lake")}))
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
        landed = Counter((record.topic, record.partition) for record in batch.records)
        assert Counter((row["topic"], row["partition"]) for row in batch.verdicts) == landed
        assert batch.report.landed == landed.total()


@pytest.mark.by_day("page_views", why="the report of an upsert is counted again by day")
def test_L2_every_offset_has_as_many_verdicts_as_it_was_landed(folded: Folded) -> None:
    for batch in folded.batches:
        landed = Counter((record.topic, record.partition, record.offset) for record in batch.records)
        assert Counter((row["topic"], row["partition"], row["offset"]) for row in batch.verdicts) == landed


def test_the_report_counts_each_object_and_each_verdict(folded: Folded) -> None:
    for batch in folded.batches:
        assert {object_.name: object_.records for object_ in batch.report.objects} == Counter(
            record.object for record in batch.records
        )
        counted = Counter((row["verdict"], row["reason"]) for row in batch.verdicts)
        counts = batch.report.counts.items()
        assert counted == {(verdict, reason): n for verdict, reasons in counts for reason, n in reasons.items()}


def test_the_report_has_a_verdict_for_each_record_of_each_partition(folded: Folded) -> None:
    for batch in folded.batches:
        landed = Counter((record.topic, record.partition) for record in batch.records)
        assert {where: outcomes.total() for where, outcomes in by_partition(batch.report).items()} == landed


def test_L2_span_is_distinct_and_missing_offsets_of_each_partition(folded: Folded) -> None:
    if not folded.dataset.source.exact:
        assert all(not batch.report.accounts for batch in folded.batches)
        return
    for batch in folded.batches:
        offsets: dict[Where, set[int]] = {}
        for record in batch.records:
            offsets.setdefault((record.topic, record.partition), set()).add(record.offset)
        assert len(batch.report.accounts) == len(offsets)
        for account in batch.report.accounts:
            present = offsets[account.topic_partition.topic, account.topic_partition.partition]
            missing = set(range(min(present), max(present) + 1)) - present
            assert (account.start, account.end, account.distinct) == (min(present), max(present) + 1, len(present))
            assert sum(account.explained.values()) == len(missing)
            assert account.unexplained == []


def test_exactly_the_records_whose_bytes_are_not_json_are_undecodable(folded: Folded) -> None:
    keyed = folded.dataset.name == "accounts"  # its key is read
    before: set[tuple[str, int, int, bytes | None, bytes | None]] = set()
    for batch in folded.batches:
        broken = {
            (record.topic, record.partition, record.offset, record.key, record.value)
            for record in batch.records
            if not (_is_json(record.value) and (not keyed or _is_json(record.key)))
        }
        refused = [row for row in batch.verdicts if row["reason"] == "undecodable"]
        fresh = {(topic, partition, offset) for topic, partition, offset, _, _ in broken - before}
        before |= broken
        assert {(row["topic"], row["partition"], row["offset"]) for row in refused} == fresh, "each of them once"


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


def test_the_landed_bytes_have_the_key_of_every_row(folded: Folded) -> None:
    key = {"accounts": "account_id", "account_entries": "transfer_id", "page_views": "view_id"}[folded.dataset.name]
    rows = rows_of(folded.lake, folded.dataset)
    bytes_ = b"\n".join(record.value or b"" for batch in folded.batches for record in batch.records)
    assert rows
    if key in folded.dataset.fields:
        assert [row[key] for row in rows if row[key].encode() not in bytes_] == []


Outcome = tuple[str | None, str | None]
"""Verdict and reason."""


def by_partition(report: Report) -> dict[Where, Counter[Outcome]]:
    """The report's verdicts and reasons of each partition."""
    outcomes: dict[Where, Counter[Outcome]] = {}
    for key, counts in report.partitions.items():
        at = TopicPartition.of(key)
        outcomes[at.topic, at.partition] = Counter(
            {(verdict, reason): n for verdict, reasons in counts.items() for reason, n in reasons.items()}
        )
    return outcomes


def survivors(batch: Batch) -> Counter[tuple[Any, ...]]:
    """Position and survivor of each duplicate, by the verdict table."""
    position = ("topic", "partition", "offset")
    places = [row for row in batch.verdicts if row["verdict"] == "duplicate"]
    return Counter((*(row[name] for name in position), *(row["survivor"][name] for name in position)) for row in places)


def count_outcomes(outcomes: Iterable[tuple[Where, Outcome]]) -> dict[Where, Counter[Outcome]]:
    counts: dict[Where, Counter[Outcome]] = {}
    for where, outcome in outcomes:
        counts.setdefault(where, Counter())[outcome] += 1
    return counts


def test_the_report_of_an_upsert_equals_that_of_plain_python_in_each_partition(
    session: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """The whole sample in one batch; each verdict is by `tests.support.oracle`, from the lines that kcat printed."""
    lake = Lake(lake.settings.model_copy(update={"home": PROJECT, "lake": str(tmp_path / "lake")}))
    dataset = find_dataset(lake.settings.datasets_folder, "accounts")
    done = run(session, lake, dataset, PROJECT / "sample/exports/kcat")
    batch = Batch(describe(lake, dataset, done.batch), verdicts_of(lake, dataset, done.batch)[0], [])
    objects = [
        lake.storage.read(object_.key) or b"" for object_ in manifest_of(lake, dataset, done.batch).of_role("values")
    ]
    records = [account(line) for data in objects for line in data.splitlines()]
    verdicts = oracle.verdicts(records, Rules("upsert", narrow=("message_id",), by_delivery=True))

    def settle(record: Decoded, verdict: Verdict) -> Outcome:
        if verdict.verdict:
            return verdict.verdict, verdict.reason
        return "applied", "delete" if record.deleted else "insert"

    pairs = list(zip(records, verdicts, strict=True))
    expected = count_outcomes(
        ((record.position[1], record.position[3]), settle(record, verdict)) for record, verdict in pairs
    )
    assert by_partition(batch.report) == expected
    assert {verdict for outcomes in expected.values() for verdict, _ in outcomes} == {
        "applied", "duplicate", "superseded", "conflict", "rejected"
    }  # fmt: skip
    assert survivors(batch) == Counter(
        (record.position[1], *record.position[3:], verdict.winner[2], *verdict.winner[4:])
        for record, verdict in pairs
        if verdict.verdict == "duplicate" and verdict.winner
    )


def account(text: bytes) -> Decoded:
    """A record of the sample's accounts, strictly read."""
    line = json.loads(text.decode(errors="replace"))
    names_and_values = line.get("headers") or []
    headers = dict(zip(names_and_values[::2], names_and_values[1::2], strict=True))
    key, content, rejected = None, "", None
    if line["payload"] is not None:
        content, rejected = account_row(line["payload"]) if _is_text(text) else ("", "undecodable")
    try:
        key = None if line["key"] is None else json.loads(line["key"])["account_id"]
    except (TypeError, ValueError):  # what cannot be decoded has no key
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
    """An account's value as text in one form, and the reason why it is rejected, if it is."""
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
def test_the_report_of_each_batch_of_a_filtered_append_equals_that_of_plain_python_in_each_partition(
    session: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Within a batch and against the published rows; positions are read twice, and again by the next batch."""
    lake = Lake(lake.settings.model_copy(update={"home": PROJECT, "lake": str(tmp_path / "lake")}))
    dataset = find_dataset(lake.settings.datasets_folder, "page_views")
    source = dataset.source.model_copy(update={"filter": "value.url <> '/cart'"})
    quality = dataset.quality.model_copy(update={"max_duplicate_rate": None})
    dataset = dataset.model_copy(update={"source": source, "quality": quality})
    page_views.generate(tmp_path / "exports", views=2_000)
    winners: dict[str, tuple[int, Where, int]] = {}
    covered: set[tuple[Where, int]] = set()
    for folder in ("1-first", "3-late", "2-next"):
        done = run(session, lake, dataset, tmp_path / "exports" / folder)
        batch = Batch(describe(lake, dataset, done.batch), verdicts_of(lake, dataset, done.batch)[0], [])
        outcomes: list[tuple[Where, Outcome]] = []
        duplicates: list[tuple[Where, int, tuple[int, Where, int]]] = []
        of_batch: set[tuple[Where, int]] = set()
        objects = manifest_of(lake, dataset, done.batch).of_role("values")
        contents = [lake.storage.read(object_.key) or b"" for object_ in objects]
        lines = [json.loads(line) for data in contents for line in data.splitlines()]
        for line in sorted(lines, key=lambda line: (line["ts"], line["partition"], line["offset"])):
            where, value = (line["topic"], line["partition"]), json.loads(line["payload"])
            at, view = (where, line["offset"]), value["view_id"]
            if at in covered:
                outcomes.append((where, ("duplicate", "position")))
                duplicates.append((*at, (line["ts"], *at)))
                continue
            if value["url"] == "/cart":
                outcomes.append((where, ("filtered", "filter")))
                continue
            order = (line["ts"], *at)
            if view not in winners:
                outcomes.append((where, ("applied", "insert")))
                winners[view] = order
            else:
                read_twice = at in of_batch
                outcomes.append((where, ("duplicate", "position" if read_twice else "message_id")))
                duplicates.append((*at, winners[view]))
                earlier = not read_twice and order < winners[view]
                winners[view] = order if earlier else winners[view]
            of_batch.add(at)
        covered |= of_batch
        assert by_partition(batch.report) == count_outcomes(outcomes), folder
        assert survivors(batch) == Counter(
            (*where, offset, *survivor, survivor_offset) for where, offset, (_, survivor, survivor_offset) in duplicates
        )
