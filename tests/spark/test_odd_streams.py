"""Rows and verdicts of odd streams, counted again from their bytes by a decoder and a fold that share no code with runs
and proofs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.report.ledger import rows_of, verdicts_of
from tests.support import oracle
from tests.support.launchers import small_session_on
from tests.support.odd_streams import KINDS, Export, generate
from tests.support.oracle import Decoded, Rules, Verdict
from tests.support.pipeline import run
from tests.support.plain_decoder import Decoder, Raw, read_connect, read_kcat, read_parquet

Place = tuple[int, int]
"""Partition and offset; -1 for a line that is not a record."""
Account = Counter[tuple[Place, str | None, str | None]]
"""Records by place, verdict and reason."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, lake_in: Callable[[Path], Lake]) -> Lake:
    """One lake for all streams."""
    return lake_in(tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="module")
def session(lake: Lake, spark: SparkSession) -> SparkSession:
    """A session on the lake."""
    del spark
    return small_session_on(lake)


@pytest.mark.nightly(
    reason="the laws are tried on odd logs by day, and test_recount, test_filters and test_layout_batches count"
)
@pytest.mark.parametrize("kind", KINDS)
def test_L1_L2_rows_and_verdicts_are_those_of_plain_python(
    session: SparkSession,
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
    draw: Random,
    kind: str,
) -> None:
    export = generate(KINDS[kind], kind.replace(" ", "_"), draw)
    made, recount = dataset(export.name, **export.given), Recount(export)
    for number, files in enumerate(export.batches):
        folder = tmp_path / str(number)
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        done = run(session, lake, made, folder)
        assert done.red is None, done.red
        verdicts, _ = verdicts_of(lake, made, done.batch)
        assert account((place(row), row["verdict"], row["reason"]) for row in verdicts) == recount.add(files)
    assert multiset(rows_of(lake, made)) == multiset(recount.rows())


class Recount:
    """An export's table and verdicts, from its bytes."""

    def __init__(self, export: Export) -> None:
        given = export.given
        self.decoder, self.layout = Decoder(given), given["source"]["exports"]["layout"]
        self.apply = given["apply"]
        upsert, identity = self.apply["mode"] == "upsert", given["identity"]
        narrow = ("message_id",) if "message_id" in identity and (upsert or "business_key" in identity) else ()
        deciding = "key_version" if upsert else ("business_key" if "business_key" in identity else "message_id")
        exact = self.layout != "connect"
        of_delivery = upsert and re.search("header\\.|offset", str(self.apply["version"]))
        by_delivery = bool(narrow and of_delivery)
        self.rules = Rules(
            "upsert" if upsert else "append", deciding, narrow=narrow, exact=exact, by_delivery=by_delivery
        )
        self.records: list[Decoded] = []
        self.quarantined: set[tuple[Place, bytes | None, bytes | None]] = set()
        """Place, key and value of each rejected record."""

    def add(self, files: dict[str, bytes]) -> Account:
        """The verdicts of the next batch."""
        raws = [raw for name, data in files.items() for raw in self._read(name, data)]
        batch = [self.decoder.decode(raw) for raw in raws]
        covered = {record.position for record in self.records if record.rejected is None}
        table = oracle.rows(self.records, self.rules)
        again = [self._was_sent_before(record) for record in batch]
        new = [record for record, before in zip(batch, again, strict=True) if not before]
        of_batch = iter(oracle.verdicts(new, self.rules))
        verdicts = []
        for raw, record, before in zip(raws, batch, again, strict=True):
            read_before = record.usable and record.position in covered
            read_before |= self.rules.exact and sent_as(raw) in self.quarantined
            if before:
                verdict = ("duplicate", oracle.of_copy(record, [*self.records, *new], self.rules))
            else:
                verdict = self._judge_against(table.get(record.key), record, next(of_batch))
            verdicts.append((record.position[3:], *(("duplicate", "position") if read_before else verdict)))
        self.records += batch
        with_place = [(raw, record) for raw, record in zip(raws, batch, strict=True) if raw.offset >= 0]
        self.quarantined |= {sent_as(raw) for raw, record in with_place if record.rejected}
        return account(verdicts)

    def _was_sent_before(self, record: Decoded) -> bool:
        """Whether an earlier batch has the message, so that its batch is judged without it."""
        known = record.usable and self.rules.by_delivery and bool(record.message_id)
        return known and (record in self.records or oracle.is_copy(record, self.records, self.rules))

    def _read(self, name: str, data: bytes) -> Iterable[Any]:
        if self.layout == "connect":
            return read_connect(name, data)
        return (read_parquet if self.layout == "parquet" else read_kcat)(data)

    def _judge_against(self, row: Decoded | None, record: Decoded, alone: Verdict) -> tuple[str | None, str | None]:
        """The verdict of a record, from the verdict of its batch alone and the table's row of the key.

        A second batch has no other content for an identity of the first batch: so a record that lost within its
        batch keeps its verdict.
        """
        upsert = self.rules.mode == "upsert"
        if not record.usable:
            return alone.verdict, alone.reason
        tied = row is not None and row.version == record.version
        same = row is not None and row.content == record.content
        behind = row is not None and oracle.goes_backwards(record, row, self.rules)
        if alone.verdict is not None:
            if behind and (alone.verdict == "superseded" or alone.reason == "same_version"):
                return "superseded", "backwards"
            if not (tied and (alone.reason == "in_batch" or (alone.reason == "backwards" and same))):
                return alone.verdict, alone.reason
        new = "insert" if upsert or self.apply["mode"] == "append" else "add"
        fresh = "delete" if record.deleted else new
        if row is None:
            return "applied", fresh
        level = next((name for name in self.rules.narrow if oracle.same_at(name, row, record)), None)
        if same and (tied or level):
            return "duplicate", level or self.rules.deciding
        if tied:
            return "conflict", "same_version" if upsert else "same_identity"
        if record.version < row.version:
            return "superseded", "backwards" if behind else "stored"
        return "applied", fresh if record.deleted or row.deleted else "update"

    def rows(self) -> list[dict[str, Any]]:
        """The rows that readers see."""
        live = [json.loads(record.content) for record in oracle.live(self.records, self.rules).values()]
        rows = [{name: value for name, value in row.items() if name != "deleted"} for row in live]
        if self.apply["mode"] != "increment":
            return rows
        sums: dict[str, Decimal] = {}
        for row in rows:
            sums[row["sku"]] = sums.get(row["sku"], Decimal(0)) + Decimal(row["delta"])
        return [{"sku": sku, "stock": f"{total:f}"} for sku, total in sums.items()]


def account(verdicts: Iterable[tuple[Place, str | None, str | None]]) -> Account:
    return Counter(verdicts)


def place(row: dict[str, Any]) -> Place:
    return (-1, -1) if row["offset"] is None else (row["partition"], row["offset"])


def sent_as(raw: Raw) -> tuple[Place, bytes | None, bytes | None]:
    return (raw.partition, raw.offset), raw.key, raw.value


def multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)
