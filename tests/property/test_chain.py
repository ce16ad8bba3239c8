"""Guard contiguous: heads and held rows are a function of the set of records, in any split, order and overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.vocabulary import Reason
from tests.support import oracle
from tests.support.fold import Table, fold, key_of, order_of
from tests.support.generate import CHAINS, Arrival, arrivals, cases, log_of, rules_of, varied

VERDICTS = {
    "applied": {"insert", "update", "replace", "delete", "hide", "folded"},
    "duplicate": {"position", "producer", "message_id", "business_key", "key_version", "late_copy"},
    "superseded": {"stored", "same_version", "backwards"},
    "conflict": {"inconsistent_position", "same_version", "incomparable_version", "earlier_delivery"},
    "held": {"version_gap"},
    "rejected": {"undecodable"},
    "filtered": {"filter"},
}
pytestmark = pytest.mark.by_day(
    "contiguous, tie conflict",
    why="ties and excepted fields are drawn by test_laws by day, and tests/spark/test_filters.py hides rows",
)


@dataclass(frozen=True, slots=True)
class Chained:
    """Many logs, each in several arrivals, and the table of each arrival."""

    dataset: Dataset
    pairs: list[tuple[Arrival, Table]]


@pytest.fixture(scope="module", params=CHAINS)
def chained(request: pytest.FixtureRequest, plain: SparkSession, dataset: Callable[..., Dataset]) -> Chained:
    made, drawings = dataset(**CHAINS[request.param]), []

    @settings(max_examples=1)
    @given(drawn=cases(60))
    def draw(drawn: list[tuple[list[int], int]]) -> None:
        varied(drawn)
        drawings.append(drawn)

    draw()
    all_arrivals = [
        arrival
        for n, (numbers, seed) in enumerate(drawings[-1])
        for arrival in arrivals(str(n), log_of(numbers, made), seed)
    ]
    return Chained(made, list(zip(all_arrivals, fold(plain, all_arrivals, made), strict=True)))


def test_L1_heads_and_held_rows_are_a_function_of_the_set(chained: Chained) -> None:
    wrong = []
    for arrival, table in chained.pairs:
        records, rules = table.published(arrival), rules_of(chained.dataset)
        heads, held = oracle.chain(records, rules)
        states = {head: oracle.state(head) for head in heads.values()} | dict.fromkeys(held.values(), "held")
        usable = [record for record in records if record.usable]
        expected = {
            (key_of(arrival.name, record), record.version): (record.order, state, rules.placeless(record, usable))
            for record, state in states.items()
        }
        found: Any = {
            place: (order_of(row), row[S.STATE], bool(row.get(C.PLACELESS))) for place, row in table.rows.items()
        }
        if expected != found:
            wrong.append((arrival, expected, found))
    _assert_none(wrong)


def test_L2_every_record_and_every_record_that_wakes_gets_one_verdict(chained: Chained) -> None:
    wrong = []
    for arrival, table in chained.pairs:
        for batch, judged in zip(arrival.batches, table.judged, strict=True):
            landed = Counter(record.order for record in batch)
            of_batch = Counter(order_of(row) for row in judged if row[C.SURVIVOR] is not None)
            with_verdict = (row for row in judged if row[C.VERDICT] or row[C.SURVIVOR] is not None)
            unknown = [row for row in with_verdict if row[C.REASON] not in VERDICTS.get(row[C.VERDICT], ())]
            woken = [row for row in judged if row[C.SURVIVOR] is None and row[C.VERDICT]]
            if landed != of_batch or unknown or any(row[C.VERDICT] != "applied" for row in woken):
                wrong.append((arrival, landed, (of_batch, unknown, woken)))
    _assert_none(wrong)


def test_a_position_that_is_received_again_never_has_another_content(chained: Chained) -> None:
    """The logs have one content for each position: whatever its row is now, copies of it do not conflict."""
    wrong = []
    for arrival, table in chained.pairs:
        conflicts = [row for judged in table.judged for row in judged if row[C.REASON] == Reason.INCONSISTENT_POSITION]
        if conflicts:
            wrong.append((arrival, "one content for each position", conflicts))
    _assert_none(wrong)


def test_every_held_record_wakes_or_is_beaten_when_its_predecessors_exist(chained: Chained) -> None:
    """Every head was applied by some batch."""
    wrong = []
    for arrival, table in chained.pairs:
        applied = Counter(
            order_of(row)
            for judged in table.judged
            for row in judged
            if row[C.VERDICT] == "applied" or row[U.WON] or (row[C.VERDICT] == "duplicate" and row[U.ACTION])
        )
        heads = {order_of(row) for row in table.rows.values() if row[S.STATE] != "held"}
        if missing := heads - applied.keys():
            wrong.append((arrival, missing, applied))
    _assert_none(wrong)


def test_L4_no_batch_moves_a_head_back(chained: Chained) -> None:
    wrong = []
    for arrival, table in chained.pairs:
        for judged in table.judged:
            for row in judged:
                if row[U.ACTION] and row[U.BECOMES] != "held" and row[U.ACTION] != "remove":
                    before = row[U.BASE + C.VERSION]
                    if before is not None and row[C.VERSION] < before:
                        wrong.append((arrival, before, row))
    _assert_none(wrong)


def test_the_drawings_have_gaps_that_close(chained: Chained) -> None:
    reasons = Counter(row[C.REASON] for _, table in chained.pairs for judged in table.judged for row in judged)
    woken = sum(
        row[C.SURVIVOR] is None and row[C.VERDICT] is not None
        for _, table in chained.pairs
        for judged in table.judged
        for row in judged
    )
    assert min(reasons["version_gap"], reasons["folded"], reasons["key_version"], woken) > 5, (reasons, woken)


def _assert_none(wrong: list[tuple[Any, Any, Any]]) -> None:
    if wrong:
        given_, expected, found = min(wrong, key=lambda case: len(repr(case[0])))
        pytest.fail(f"{len(wrong)} wrong; the smallest:\n{given_}\nexpected {expected}\nfound    {found}")
