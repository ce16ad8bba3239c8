"""Rows inserted, updated and deleted as readers see them: the gate's counts are those of `onefold changes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.report.changes import changes_of
from onefold.report.document import describe
from onefold.report.ledger import batches_of
from tests.support.pipeline import Sent, accounts, chained, export, run

MakeDataset = Callable[..., Dataset]
Rows = tuple[int, int, int]
"""Inserted, updated, deleted."""
LAX = {"max_conflicts": 100, "max_rejected_rate": 1.0, "max_duplicate_rate": 1.0}
WHERE = {"table": "tests.accounts", "buckets": 2, "where": "credit > 0"}


def of(offset: int, key: str, version: int, owner: str | None, credit: int | None = 1) -> Sent:
    value = None if owner is None else {"owner": owner, "credit": credit}
    return Sent(0, offset, offset, key, version, f"m{offset}", value)


HIDDEN: list[tuple[list[Sent], Rows]] = [
    # Two rows that readers see, one that is hidden at once, and a delete of nothing.
    ([of(0, "a", 1, "o"), of(1, "b", 1, "o"), of(2, "c", 1, "o", 0), of(3, "d", 1, None)], (2, 0, 0)),
    # a changes, b becomes hidden, c becomes visible, d stays deleted.
    ([of(4, "a", 2, "p"), of(5, "b", 2, "o", 0), of(6, "c", 2, "o"), of(7, "d", 2, None)], (1, 1, 1)),
    # The hidden one is deleted, a is sent again with the same content, c is deleted and created again in one batch.
    ([of(8, "b", 3, None), of(9, "a", 3, "p"), of(10, "c", 3, None), of(11, "c", 4, "q")], (0, 1, 0)),
    # An older version, and a hidden row that stays so.
    ([of(12, "a", 1, "z"), of(13, "e", 1, "o", 0), of(14, "a", 4, None)], (0, 0, 1)),
    # Only new keys.
    ([of(15, "f", 1, "o"), of(16, "g", 1, "o", 0)], (1, 0, 0)),
]
CHAIN: list[tuple[list[Sent], Rows]] = [
    # a is there, what comes above the gap waits, b waits whole.
    ([of(0, "a", 1, "o"), of(1, "a", 3, "q"), of(2, "b", 2, "o")], (1, 0, 0)),
    # The gap closes: the row that waited wakes; b wakes, too.
    ([of(3, "a", 2, "p"), of(4, "b", 1, "o")], (1, 1, 0)),
    ([of(5, "a", 4, None), of(6, "b", 5, "o")], (0, 0, 1)),
]


@pytest.fixture
def made(request: pytest.FixtureRequest, dataset: MakeDataset) -> Dataset:
    """A dataset of the mode that the test names."""
    makers: dict[str, Callable[[], Dataset]] = {
        "upsert": lambda: accounts(dataset, quality=LAX, target=WHERE),
        "contiguous": lambda: chained(dataset, value={"fields": {"owner": "string", "credit": "long?"}}),
    }
    return makers[request.param]()


@pytest.mark.nightly(reason="tests/process/test_changes.py compares each batch with the difference of two looks by day")
@pytest.mark.parametrize(
    ("made", "batches"),
    [("upsert", HIDDEN), ("contiguous", CHAIN)],
    ids=["upsert", "contiguous"],
    indirect=["made"],
)
def test_they_are_what_changes_says(
    made: Dataset, batches: list[tuple[list[Sent], Rows]], session: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    before = None
    for number, (sent, wanted) in enumerate(batches):
        ended = run(session, lake, made, export(tmp_path / str(number), sent))
        assert ended.published, ended.red
        readers = describe(lake, made, ended.batch).readers
        assert readers
        assert (readers.inserted, readers.updated, readers.deleted) == wanted, number
        changed = Counter(change["change"] for change in changes_of(lake, made, before).rows)
        assert (changed["inserted"], changed["updated"], changed["deleted"]) == wanted, number
        assert batches_of(lake, made)[-1]["rows"] == readers.model_dump()
        before = ended.batch
