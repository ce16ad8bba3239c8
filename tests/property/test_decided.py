"""L1 under decisions: what lost a conflict that was released wins nowhere, in any order and split (brute force)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from tests.support import oracle
from tests.support.fold import CONTENT, Lost, Row, Table, fold, order_of
from tests.support.generate import CHAINS, KINDS, TIMES, Arrival, arrivals, cases, log_of, rules_of, varied
from tests.support.oracle import Decoded

MakeDataset = Callable[..., Dataset]
INCREMENT = {
    "key": {"format": "json"},
    "value": {"fields": {"delta": "long"}},
    "identity": {"message_id": "header.m"},
    "apply": {"mode": "increment", "key": ["key.id"], "add": {"stock": "delta"}},
}
DECIDED: dict[str, dict[str, object]] = {
    **{name: KINDS[name] for name in ("append by business_key", "append by message_id", "upsert, tie conflict")},
    **{name: KINDS[name] for name in ("append, sent_at excepted", "upsert, sent_at excepted")},
    **{name: CHAINS[name] for name in ("contiguous, tie conflict", "contiguous, sent_at excepted")},
    "increment": INCREMENT,
}
"""Every mode in which contents may be in conflict, as keys of a dataset file."""
RIGHT, WRONG, WORSE, OTHER = "right", "wrong", "worse", "other"
"""The content that won, two that lost, and one of which nothing was decided."""
VERSIONS = ((1, 1, 1), (1, 1, 2), (2, 1, 1), (1, 2, 2), (2, 2, 3))
pytestmark = pytest.mark.by_day(
    "append by message_id",
    "upsert, tie conflict",
    "contiguous, sent_at excepted",
    "increment",
    why="each mode goes by day, and excepted fields once",
)


def every_way(log: tuple[Decoded, ...]) -> Iterator[tuple[tuple[Decoded, ...], ...]]:
    """Every order of a log in every split into batches."""
    for order in permutations(log):
        for cuts in product((False, True), repeat=len(log) - 1):
            batches = [[order[0]]]
            for record, cut in zip(order[1:], cuts, strict=True):
                batches += [[record]] if cut else []
                if not cut:
                    batches[-1].append(record)
            yield tuple(map(tuple, batches))


def every_log(dataset: Dataset) -> list[tuple[Decoded, ...]]:
    """Every three records of one key whose contents were decided, at least one of which lost; and some with another
    content. Two are in one partition and have one timestamp."""
    found = []
    for contents in product((RIGHT, WRONG, WORSE, OTHER), repeat=3):
        if not {WRONG, WORSE} & {*contents}:
            continue
        for versions in VERSIONS if dataset.apply.version else ((None, None, None),):
            records = [
                Decoded(("c", "t", 1, number // 2, number % 2), 5 + number // 2, "k", content, version=version)
                for number, (content, version) in enumerate(zip(contents, versions, strict=True))
            ]
            if dataset.excepted:
                records = [replace(record, sent=str(number)) for number, record in enumerate(records)]
            found.append(tuple(records))
    return found


@pytest.mark.by_day("increment", why="the other test draws logs of each mode by day")
@pytest.mark.parametrize("kind", DECIDED)
def test_L1_the_rows_of_every_log_of_three_records_are_the_same_in_every_order_and_split(
    kind: str, plain: SparkSession, dataset: MakeDataset
) -> None:
    made = dataset(**DECIDED[kind])
    logs = every_log(made)
    if made.apply.version:
        logs = random.Random(7).sample(logs, 45 * TIMES)
    given_arrivals = [
        Arrival(f"{log}.{number}", records, batches, exact=False)
        for log, records in enumerate(logs)
        for number, batches in enumerate(every_way(records))
    ]
    versions = {version for versions in VERSIONS for version in versions} if made.apply.version else {None}
    lost = frozenset(("k", version, content) for version in versions for content in (WRONG, WORSE))
    tables = fold(plain, given_arrivals, made, lost=dict.fromkeys((arrival.name for arrival in given_arrivals), lost))
    assert len(given_arrivals) > 1000
    check_rows(given_arrivals, tables, made, dict.fromkeys((arrival.name for arrival in given_arrivals), lost))
    again = []
    for arrival, table in zip(given_arrivals, tables, strict=True):
        conflicts = [row for judged in table.judged for row in judged if row[C.VERDICT] == "conflict"]
        contents = {record.content for record in arrival.log}
        if any(content_of(row) in (WRONG, WORSE) for row in conflicts) or (conflicts and OTHER not in contents):
            again.append((arrival.batches, conflicts))
        if not made.apply.version and {RIGHT, OTHER} <= contents and not conflicts:
            again.append((arrival.batches, "nothing was decided of the other content"))
    assert again == []


@pytest.mark.parametrize("kind", DECIDED)
def test_L1_the_rows_of_odd_logs_are_a_function_of_the_records_and_the_decisions(
    kind: str, plain: SparkSession, dataset: MakeDataset
) -> None:
    made, drawings = dataset(**DECIDED[kind]), list[Any]()

    @settings(max_examples=1)
    @given(drawn=cases(30))
    def draw(drawn: list[tuple[list[int], int]]) -> None:
        varied(drawn)
        drawings.append(drawn)

    draw()
    found, lost = list[Arrival](), dict[str, Lost]()
    for number, (numbers, seed) in enumerate(drawings[-1]):
        log = log_of(numbers, made)
        contents = sorted({(record.key, record.version, record.content) for record in log if record.usable}, key=str)
        beaten = frozenset(random.Random(seed).sample(contents, (len(contents) + 1) // 2))
        for arrival in arrivals(str(number), log, seed):
            found.append(arrival)
            lost[arrival.name] = beaten
    check_rows(found, fold(plain, found, made, lost=lost), made, lost)


def check_rows(given_arrivals: list[Arrival], tables: list[Table], made: Dataset, lost: Mapping[str, Lost]) -> None:
    """Rows are the oracle's; every record that makes no row is shown with its own timestamp."""
    wrong, stamped = [], []
    for arrival, table in zip(given_arrivals, tables, strict=True):
        expected = expected_rows(
            table.published(arrival), replace(rules_of(made), lost=frozenset(lost[arrival.name])), made
        )
        found = sorted((order_of(row)[1:], row[CONTENT], row[S.STATE]) for row in table.rows.values())  # type: ignore[index]
        if found != expected:
            wrong.append((arrival.batches, lost[arrival.name], expected, found))
        own = {record.order for record in arrival.log}
        passive = [row for judged in table.judged for row in judged if not row[U.ACTION]]
        stamped += [row for row in passive if order_of(row) not in own]
    assert wrong[:1] == []
    assert stamped[:1] == []


def expected_rows(records: list[Decoded], rules: oracle.Rules, made: Dataset) -> list[tuple[Any, ...]]:
    if made.apply.HOLDS:
        heads, held = oracle.chain(records, rules)
        rows = [(head, oracle.state(head)) for head in heads.values()] + [(record, "held") for record in held.values()]
    else:
        entry = made.apply.mode == "increment"
        rows = [(row, "entry" if entry else oracle.state(row)) for row in oracle.rows(records, rules).values()]
    return sorted((row.position, row.whole, state) for row, state in rows)


def content_of(row: Row) -> str:
    """What a judged record says, but for what does not count."""
    return str(row[CONTENT]).rstrip("012")
