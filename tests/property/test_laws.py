"""The laws, for both modes, every deciding level and every tie, over hundreds of small tables at a time.

The functions under test are the pure ones (`judge_batch`, `judge`); the oracle is `tests.support.oracle`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.positions import fold_positions
from onefold.dedup.survivors import judge_batch
from onefold.records import envelope as E
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.vocabulary import Action, Reason
from tests.support import oracle
from tests.support.fold import CASE, CONTENT, Row, Table, fold, identified, key_of, multiset, order_of
from tests.support.generate import (
    KINDS,
    Arrival,
    arrivals,
    cases,
    log_of,
    rules_of,
    varied,
    with_second_contents,
)
from tests.support.oracle import Decoded, Rules

Cases = list[tuple[list[int], int]]
MakeDataset = Callable[..., Dataset]
VERDICTS = {
    "applied": {"insert", "update", "replace", "delete", "hide"},
    "duplicate": {"position", "producer", "message_id", "business_key", "key_version", "late_copy"},
    "superseded": {"in_batch", "stored", "same_version", "backwards"},
    "conflict": {"inconsistent_position", "same_version", "same_identity", "incomparable_version"},
    "rejected": {"undecodable", "null_identity"},
    "filtered": {"filter"},
}
pytestmark = pytest.mark.by_day(
    "append by position",
    "append by producer",
    "append by message_id",
    "append by business_key",
    "append, sent_at excepted",
    "upsert, tie conflict",
    "upsert, tie last",
    "upsert, rows hidden",
    "upsert, tie first, sent_at excepted",
    why="each tie and excepted fields go by day, apart or together",
)


@dataclass(frozen=True, slots=True)
class Folded:
    """Many logs, each in the ways in which it may arrive, and the tables that became of them."""

    dataset: Dataset
    arrivals: list[Arrival]
    tables: list[Table]

    @property
    def pairs(self) -> list[tuple[Arrival, Table]]:
        return list(zip(self.arrivals, self.tables, strict=True))


@pytest.fixture(scope="module", params=KINDS)
def folded(request: pytest.FixtureRequest, plain: SparkSession, dataset: MakeDataset) -> Folded:
    """One fold, for all the laws that look at what became of it: planning its jobs is what takes the time."""
    made, drawings = dataset(**KINDS[request.param]), []

    @settings(max_examples=1)
    @given(drawn=cases(120))
    def draw(drawn: Cases) -> None:
        varied(drawn)
        drawings.append(drawn)

    draw()
    all_arrivals = _arrivals(drawings[-1], made)
    return Folded(made, all_arrivals, fold(plain, all_arrivals, made))


def test_L1_rows_are_a_function_of_the_set(folded: Folded) -> None:
    """Whatever the split, order, overlap and repetition: the rows are the oracle's, which knows no batches. A batch of
    versions that do not compare is red and changes nothing."""
    rules = rules_of(folded.dataset)
    wrong = [
        (arrival, expected, found)
        for arrival, table in folded.pairs
        if (expected := _expected(arrival, table, rules)) != (found := _found(table))
    ]
    _none_wrong(wrong)


def test_L2_every_record_gets_one_verdict_of_the_list(folded: Folded) -> None:
    """As many verdicts as records, position by position, each with a reason that its verdict knows."""
    wrong = []
    for arrival, table in folded.pairs:
        for batch, judged in zip(arrival.batches, table.judged, strict=True):
            landed, given_to = Counter(one.order for one in batch), Counter(order_of(row) for row in judged)
            unknown = [row for row in judged if row[C.REASON] not in VERDICTS.get(row[C.VERDICT], ())]
            if landed != given_to or unknown:
                wrong.append((arrival, landed, (given_to, unknown)))
    _none_wrong(wrong)


def test_a_position_that_comes_again_is_never_told_to_have_had_another_record(folded: Folded) -> None:
    """The logs have one content a position: whatever the table has made of it, its copies do not clash."""
    wrong = []
    for arrival, table in folded.pairs:
        clashes = [row for judged in table.judged for row in judged if row[C.REASON] == Reason.INCONSISTENT_POSITION]
        if clashes:
            wrong.append((arrival, "one content a position", clashes))
    _none_wrong(wrong)


def test_L3_a_key_changes_once_a_batch_and_stands_once(folded: Folded) -> None:
    """One action a key and batch; inserts meet no row, updates meet one (`fold` asserts that)."""
    wrong = []
    for arrival, table in folded.pairs:
        for judged in table.judged:
            keys = Counter(row[C.KEY] for row in judged if row[U.ACTION])
            if any(count > 1 for count in keys.values()):
                wrong.append((arrival, "one action a key", keys))
    _none_wrong(wrong)


def test_L4_no_batch_moves_a_row_back(folded: Folded) -> None:
    """What an action puts in a row's place beats what stood there, by the oracle's pairwise rule."""
    rules, wrong = rules_of(folded.dataset), []
    for arrival, table in folded.pairs:
        records = {one.order: one for one in arrival.log}
        standing: dict[bytes, Decoded] = {}
        for number, judged in enumerate(table.judged):
            acts = (row for row in judged if row[U.ACTION] and row[U.ACTION] != Action.UNPLACE)
            for row in acts if number not in table.refused else ():
                new, old = records[order_of(row)], standing.get(row[C.KEY])  # type: ignore[index]
                if old is not None and not rules.beats(new, old):
                    wrong.append((arrival, old, new))
                standing[row[C.KEY]] = new
    _none_wrong(wrong)


def test_L7_the_look_up_does_not_follow_row_order_or_partitions(folded: Folded, plain: SparkSession) -> None:
    """The same batches, from reversed rows in other partitions: the same verdicts and actions, row by row."""
    names = (CASE, C.ORDER, C.VERDICT, C.REASON, U.SCOPE, U.OTHER, U.WON, U.ACTION)
    backwards = [
        Arrival(one.name, one.log, tuple(batch[::-1] for batch in one.batches), one.exact)
        for one in reversed(folded.arrivals)
    ]
    plain.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        tables = fold(plain, backwards, folded.dataset)
    finally:
        plain.conf.set("spark.sql.shuffle.partitions", "2")
    others = {arrival.name: table for arrival, table in zip(backwards, tables, strict=True)}
    wrong = []
    for arrival, table in folded.pairs:
        first = [multiset(judged, *names) for judged in table.judged]
        second = [multiset(judged, *names) for judged in others[arrival.name].judged]
        if first != second:
            wrong.append((arrival, first, second))
    _none_wrong(wrong)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=1)
@given(drawn=cases(60))
def test_L7_verdicts_of_a_batch_do_not_follow_row_order_or_partitions(
    plain: SparkSession, dataset: MakeDataset, kind: str, drawn: Cases
) -> None:
    """The same records shuffled, in one partition and in seven: the same verdicts, and they are the oracle's."""
    varied(drawn)
    made = dataset(**KINDS[kind])
    batches = {str(n): log_of(log, made) * 2 + log_of(log, made)[:2] for n, (log, _) in enumerate(drawn)}
    rows = identified(plain, [(case, one, False) for case, batch in batches.items() for one in batch], made)
    ways = [
        rows.coalesce(1),
        rows.repartition(7),
        rows.orderBy(F.xxhash64(C.ORDER, CASE)),
        rows.orderBy(*(F.col(name).desc() for name in E.TOTAL_ORDER)),
    ]
    expected = {
        case: Counter(
            (one.order, *verdict) for one, verdict in zip(batch, oracle.verdicts(batch, rules_of(made)), strict=True)
        )
        for case, batch in batches.items()
    }
    for way in ways:
        found: dict[str, Counter[Any]] = {case: Counter() for case in batches}
        for row in judge_batch(way, made, within=(CASE,)).toArrow().to_pylist():
            found[row[CASE]][(order_of(row), row[C.VERDICT], row[C.REASON], order_of(row, C.WINNER))] += 1
        _none_wrong([(batches[case], expected[case], found[case]) for case in batches if expected[case] != found[case]])


@pytest.mark.parametrize(
    "kind",
    [
        *("append by business_key", "upsert, tie last", "upsert, tie first"),
        *("append, sent_at excepted", "upsert, sent_at excepted"),
    ],
)
@settings(max_examples=1)
@given(drawn=cases(60))
def test_L7_of_two_contents_at_one_position_the_smaller_stands_in_any_row_order(
    plain: SparkSession, dataset: MakeDataset, kind: str, drawn: Cases
) -> None:
    """`fold_positions` and the windows behind it give the oracle's survivors, conflicts and winners."""
    varied(drawn)
    made, rules = dataset(**KINDS[kind]), rules_of(dataset(**KINDS[kind]))
    batches = {str(n): with_second_contents(log_of(log, made), seed) for n, (log, seed) in enumerate(drawn)}
    staged = [(case, one, False) for case, batch in batches.items() for one in batch]
    # A position knows no case: its cluster carries it here.
    rows = identified(plain, staged, made).withColumn(E.CLUSTER, F.concat(E.CLUSTER, F.lit("/"), CASE))
    expected = {
        case: (
            {key_of(case, one): (one.order, one.whole) for one in oracle.survivors(batch, rules).values()},
            Counter(
                (one.order, one.whole, *verdict)
                for one, verdict in zip(batch, oracle.verdicts(batch, rules), strict=True)
            ),
        )
        for case, batch in batches.items()
    }
    for way in (rows.coalesce(1), rows.orderBy(F.col(CONTENT).desc()), rows.repartition(5)):
        judged = judge_batch(fold_positions(way), made, within=(CASE,)).toArrow().to_pylist()
        wrong = []
        for case, batch in batches.items():
            mine = [row for row in judged if row[CASE] == case]
            survivors = {row[C.KEY]: (order_of(row), row[CONTENT]) for row in mine if row[C.SURVIVOR]}
            told = (CONTENT, C.VERDICT, C.REASON)
            found = Counter((order_of(row), *(row[name] for name in told), order_of(row, C.WINNER)) for row in mine)
            if (survivors, found) != expected[case]:
                wrong.append((batch, expected[case], (survivors, found)))
        _none_wrong(wrong)


def _arrivals(drawn: Cases, dataset: Dataset) -> list[Arrival]:
    return [one for n, (log, seed) in enumerate(drawn) for one in arrivals(str(n), log_of(log, dataset), seed)]


def _expected(arrival: Arrival, table: Table, rules: Rules) -> dict[bytes, Any]:
    records = table.published(arrival)
    usable = [record for record in records if record.usable]
    return {
        key_of(arrival.name, one): (
            *(one.order, one.whole, one.version, one.message_id, oracle.state(one)),
            rules.placeless(one, usable),
        )
        for one in oracle.rows(records, rules).values()
    }


def _found(table: Table) -> dict[bytes, Any]:
    return {key: _columns(row) for key, row in table.rows.items()}


def _columns(row: Row) -> tuple[Any, ...]:
    told = order_of(row), row[CONTENT], row.get(C.VERSION), row.get(C.MESSAGE_ID), row[S.STATE]
    return *told, bool(row.get(C.PLACELESS))


def _none_wrong(wrong: Iterable[tuple[Any, Any, Any]]) -> None:
    """Show the smallest of the cases that went wrong, whole."""
    smallest = min(wrong, key=lambda one: len(repr(one[0])), default=None)
    if smallest is not None:
        given_, expected, found = smallest
        pytest.fail(f"{len(list(wrong))} wrong; the smallest:\n{given_}\nexpected {expected}\nfound    {found}")
