"""Accepted gaps: rows are a function of the records and the gaps, which come before, between and after them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from tests.support import oracle
from tests.support.fold import Gap, Table, fold, key_of, order_of
from tests.support.generate import CHAINS, Arrival, arrivals, cases, log_of, rules_of, varied
from tests.support.oracle import Decoded

pytestmark = pytest.mark.nightly(reason="histories accept gaps by day")
Drawn = tuple[list[Arrival], dict[tuple[str, int], Gap]]


def with_gaps(number: int, log: tuple[Decoded, ...], seed: int) -> Drawn:
    """Every way in which a log may arrive, with the same gaps accepted at any places between its batches."""
    rng = random.Random(seed)
    log = tuple(
        replace(record, version=record.version * 2 - rng.randrange(2)) for record in log if record.version is not None
    )
    wanted = [(rng.choice("kkl"), rng.randrange(2, 7)) for _ in range(rng.randint(1, 2))]
    found: list[Arrival] = []
    gaps: dict[tuple[str, int], Gap] = {}
    for arrival in arrivals(str(number), log, seed):
        batches = list(arrival.batches)
        for _ in wanted:
            batches.insert(rng.randint(0, len(batches)), ())
        places = [at for at, batch in enumerate(batches) if not batch]
        rng.shuffle(places)
        gaps |= {(arrival.name, at): gap for at, gap in zip(places, wanted, strict=False)}
        found.append(replace(arrival, batches=tuple(batches)))
    return found, gaps


@pytest.fixture(scope="module")
def chained(dataset: Callable[..., Dataset]) -> Dataset:
    return dataset(**CHAINS["contiguous, tie last"])


@pytest.fixture(scope="module")
def drawn(chained: Dataset) -> Drawn:
    drawings: list[Any] = []

    @settings(max_examples=1)
    @given(drawing=cases(60))
    def draw(drawing: list[tuple[list[int], int]]) -> None:
        varied(drawing)
        drawings.append(drawing)

    draw()
    made = [with_gaps(n, log_of(numbers, chained), seed) for n, (numbers, seed) in enumerate(drawings[-1])]
    return [arrival for found, _ in made for arrival in found], {
        at: gap for _, gaps in made for at, gap in gaps.items()
    }


@pytest.fixture(scope="module")
def tables(plain: SparkSession, chained: Dataset, drawn: Drawn) -> list[tuple[Arrival, Table, set[Gap]]]:
    found, gaps = drawn
    tables = fold(plain, found, chained, gaps)
    accepted = [{gap for (name, _), gap in gaps.items() if name == arrival.name} for arrival in found]
    return list(zip(found, tables, accepted, strict=True))


def test_L1_rows_are_a_function_of_the_records_and_the_accepted_gaps(
    tables: list[tuple[Arrival, Table, set[Gap]]], chained: Dataset
) -> None:
    wrong, moved = [], 0
    for arrival, table, gaps in tables:
        records = table.published(arrival)
        heads, held = oracle.chain(records, rules_of(chained), accepted=gaps)
        moved += heads != oracle.chain(records, rules_of(chained))[0]
        states = {head: "deleted" if head.deleted else "live" for head in heads.values()} | dict.fromkeys(
            held.values(), "held"
        )
        expected = {(key_of(arrival.name, head), head.version): (head.order, state) for head, state in states.items()}
        found: Any = {place: (order_of(row), row[S.STATE]) for place, row in table.rows.items()}
        if expected != found:
            wrong.append((arrival, gaps, expected, found))
    assert moved > 20, "the drawings hold gaps that matter"
    if wrong:
        arrival, gaps, expected, found = min(wrong, key=lambda case: len(repr(case[0])))
        pytest.fail(f"{len(wrong)} wrong; the smallest:\n{arrival}\n{gaps}\nexpected {expected}\nfound    {found}")


def test_L2_a_gap_gives_verdicts_to_those_alone_whom_it_wakes(tables: list[tuple[Arrival, Table, set[Gap]]]) -> None:
    woken = 0
    for arrival, table, _ in tables:
        for batch, judged in zip(arrival.batches, table.judged, strict=True):
            if not batch:
                assert all(row[C.SURVIVOR] is None for row in judged), arrival
                decided = [row for row in judged if row[C.VERDICT]]
                assert {row[C.VERDICT] for row in decided} <= {"applied"}, arrival
                woken += len(decided)
    assert woken > 20


def test_L4_no_gap_moves_a_head_back(tables: list[tuple[Arrival, Table, set[Gap]]]) -> None:
    for arrival, table, _ in tables:
        heads: dict[bytes, int] = {}
        published = (judged for number, judged in enumerate(table.judged) if number not in table.refused)
        for judged in published:  # a red batch moves no row
            for row in judged:
                if row[U.ACTION] in ("insert", "wake") and row[U.BECOMES] != "held":
                    assert row[C.VERSION] >= heads.get(row[C.KEY], 0), arrival
                    heads[row[C.KEY]] = row[C.VERSION]
