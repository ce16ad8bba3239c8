"""L1 through the real thing: orders, splits, overlaps and repetitions of batches, folded into Iceberg tables.

Every case folds one log in its own way; the rows that `show` prints must be the oracle's, which knows no
batches, and a batch that is received again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.offsets import TopicPartition
from onefold.report.ledger import records_of, rows_of
from tests.support import oracle
from tests.support.generate import rules_of
from tests.support.pipeline import Sent, accounts, entries, export, run

ACCOUNTS = [
    Sent(0, 0, 10, "a", 1, "1", {"owner": "A", "credit": "1.00"}),
    Sent(0, 1, 11, "b", 1, "2", {"owner": "B"}),
    Sent(0, 2, 12, "a", 2, "3", {"owner": "A", "credit": "2.00"}),
    Sent(0, 3, 9, "a", 2, "4", {"owner": "A", "credit": "9.99"}),  # the same version, other content, earlier
    Sent(0, 4, 13, "b", 2, "5", None),
    Sent(1, 0, 12, "a", 2, "3", {"owner": "A", "credit": "2.00"}),  # sent again to another partition
    Sent(1, 1, 14, "b", 1, "2", {"owner": "B"}),  # a late retry of what is deleted
    Sent(1, 2, 15, "c", 1, "6", {"owner": "C"}),
    Sent(1, 3, 16, "c", 3, "7", {"owner": "C", "credit": "3.10"}),
    Sent(1, 4, 17, "c", 2, "8", {"owner": "C", "credit": "0"}),
    Sent(0, 5, 18, "d", 1, "9", "{} junk"),
    Sent(1, 6, 19, "e", 1, "10", {"owner": "E", "credit": None}),  # offset 5 is a hole
]
TIED = [*ACCOUNTS[:3], replace(ACCOUNTS[3], version=1), *ACCOUNTS[4:9], replace(ACCOUNTS[9], version=3), *ACCOUNTS[10:]]
"""The same, where offsets decide ties: two contents of a version are in one partition, or they would not compare."""
ENTRIES = [
    Sent(0, 0, 12, "a", 1, "1", {"id": "a", "credit": "1.00"}),
    Sent(0, 1, 11, "b", 1, "2", {"id": "b"}),
    Sent(0, 2, 13, "a", 1, "1", {"id": "a", "credit": 1.0}),  # a retry
    Sent(0, 3, 14, "c", 1, "3", {"id": "c", "credit": "3.00"}),
    Sent(0, 4, 15, "c", 1, "4", {"id": "c", "credit": "4.00"}),  # the same entry, other content
    Sent(1, 0, 10, "c", 1, "5", {"id": "c", "credit": "5.00"}),  # and an earlier one
    Sent(1, 1, 11, "b", 1, "2", {"id": "b"}),  # the same instant in another partition
    Sent(1, 2, 16, "d", 1, "6", '{"id": 4}'),
    Sent(1, 4, 9, "e", 1, "7", {"id": "e", "credit": "0.10"}),
]
NUMBERS = range(12)
Split = Sequence[Sequence[int]]
CASES: dict[str, tuple[str, Split]] = {
    # how it arrives: (tie, or append; numbers of records of the log, batch by batch)
    "accounts at once": ("conflict", [NUMBERS]),
    "accounts by partition": ("conflict", [[0, 1, 2, 3, 4, 10], [5, 6, 7, 8, 9, 11]]),
    "accounts backwards": ("conflict", [[8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]]),
    "accounts with overlaps": ("last", [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8], [7, 8, 9, 10, 11]]),
    "accounts with overlaps, backwards": ("last", [[7, 8, 9, 10, 11], [3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5]]),
    "accounts interleaved": ("first", [NUMBERS[1::2], NUMBERS[0::2]]),
    "accounts read twice in one batch": ("first", [[*NUMBERS, *reversed(NUMBERS)]]),
    "entries in order": ("append", [[0, 1, 2], [2, 3, 4, 5], [5, 6, 7, 8]]),
    "entries backwards": ("append", [[6, 7, 8], [3, 4, 5], [0, 1, 2]]),
    "entries whose holes are filled later": ("append", [[0, 2, 4, 5, 8], [1, 3, 6, 7]]),
}


AT_NIGHT = (
    *("accounts at once", "accounts by partition", "accounts backwards", "accounts with overlaps"),
    *("accounts interleaved", "accounts read twice in one batch", "entries in order", "entries backwards"),
)
"""What `test_histories.py` draws the like of."""


@pytest.mark.nightly(reason="tests/property goes over orders in each mode by day")
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.nightly if case in AT_NIGHT else ()) for case in CASES]
)
def test_L1_rows_are_the_oracles_and_a_repeated_batch_changes_nothing(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, case: str
) -> None:
    kind, split = CASES[case]
    made = entries(dataset) if kind == "append" else accounts(dataset, kind)
    log = {"append": ENTRIES, "conflict": ACCOUNTS}.get(kind, TIED)
    for number, numbers in enumerate(split):
        folder = export(tmp_path / f"export-{number}", [log[n] for n in numbers], files=1 + number)
        done = run(session, lake, made, folder)
        assert done.red is None
        assert done.published is not None
        # L2: as many verdicts as records, and they are all that was ever said of the batch
        assert sum(sum(reasons.values()) for reasons in done.published.counts.values()) == len(numbers)
    expected = _expected(log, made)
    assert _read_rows(lake, made) == expected

    again = run(session, lake, made, tmp_path / "export-0")
    assert again.published is not None
    assert again.published.already
    elsewhere = run(session, lake, made, export(tmp_path / "again", log, files=2))
    assert elsewhere.published is not None
    assert elsewhere.published.changes == {}
    assert elsewhere.published.counts == {"duplicate": {"position": len(log)}}  # rejected again or covered
    assert _read_rows(lake, made) == expected

    coverage = records_of(lake, made)[0].coverage
    covered = {
        (TopicPartition.of(key).partition, offset)
        for key, partition in coverage.partitions.items()
        for start, end in partition.present
        for offset in range(start, end)
    }
    assert covered == {(record.partition, record.offset) for record in log if record.decoded(made).rejected is None}


def _read_rows(lake: Lake, made: Dataset) -> list[dict[str, Any]]:
    return sorted(rows_of(lake, made), key=lambda row: str(row["id"]))


def _expected(log: list[Sent], made: Dataset) -> list[dict[str, Any]]:
    """The oracle's live rows as `show` prints them."""
    decoded = {record.decoded(made): record for record in log}
    table = oracle.live(decoded, rules_of(made))
    by_position = {record.position: sent for record, sent in decoded.items()}
    rows = []
    for key, record in sorted(table.items()):
        value = by_position[record.position].value
        assert isinstance(value, dict)
        rows.append({"id": key, **{name: value.get(name) for name in made.fields if name != "id"}})
        if rows[-1]["credit"] is not None:
            rows[-1]["credit"] = str(Decimal(str(rows[-1]["credit"])).quantize(Decimal("0.01")))
    return rows
