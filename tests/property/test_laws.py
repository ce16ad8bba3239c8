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
    "conflict": {"inconsistent_position", "same_version", "same_identity", "incomparable_version", "earlier_delivery"},
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
    "upsert, tie first, sent_at excepted",
    why="two ties and excepted fields go by day; test_ties has tie last, and tests/spark/test_filters.py hides rows",
)


@dataclass(frozen=True, slots=True)
class Folded:
    """Many logs, each in several arrivals, and the table of each arrival."""

    dataset: Dataset
    arrivals: list[Arrival]
    tables: list[Table]

    @property
    def pairs(self) -> list[tuple[Arrival, Table]]:
        return list(zip(self.arrivals, self.tables, strict=True))


@pytest.fixture(scope="module", params=KINDS)
def folded(request: pytest.FixtureRequest, plain: SparkSession, dataset: MakeDataset) -> Folded:
    """One fold for all the laws about its result: planning its jobs takes most of the time."""
    made, drawings = dataset(**KINDS[request.param]), []

    @settings(max_examples=1)
    @given(drawn=cases(60))
    def draw(drawn: Cases) -> None:
        varied(drawn)
        drawings.append(drawn)

    draw()
    all_arrivals = _list_arrivals(drawings[-1], made)
    return Folded(made, all_arrivals, fold(plain, all_arrivals, made))


def test_L1_rows_are_a_function_of_the_set(folded: Folded) -> None:
    """In any split, order, overlap and repetition the rows are the oracle's, which knows no batches. A batch with
    versions that do not compare is red and changes nothing."""
    rules = rules_of(folded.dataset)
    wrong = [
        (arrival, expected, found)
        for arrival, table in folded.pairs
        if (expected := _expect_rows(arrival, table, rules)) != (found := _read_rows(table))
    ]
    _assert_none(wrong)


def test_L2_every_record_gets_one_verdict_of_the_list(folded: Folded) -> None:
    """Each position has as many verdicts as records, and each reason is a reason of its verdict."""
    wrong = []
    for arrival, table in folded.pairs:
        for batch, judged in zip(arrival.batches, table.judged, strict=True):
            landed, decided = Counter(record.order for record in batch), Counter(order_of(row) for row in judged)
            unknown = [row for row in judged if row[C.REASON] not in VERDICTS.get(row[C.VERDICT], ())]
            if landed != decided or unknown:
                wrong.append((arrival, landed, (decided, unknown)))
    _assert_none(wrong)


def test_a_position_that_is_received_again_never_has_another_content(folded: Folded) -> None:
    """The logs have one content for each position: whatever its row is now, copies of it do not conflict."""
    wrong = []
    for arrival, table in folded.pairs:
        conflicts = [row for judged in table.judged for row in judged if row[C.REASON] == Reason.INCONSISTENT_POSITION]
        if conflicts:
            wrong.append((arrival, "one content for each position", conflicts))
    _assert_none(wrong)


def test_L3_a_key_changes_once_in_a_batch_and_has_one_row(folded: Folded) -> None:
    """A batch has one action for a key; `fold` asserts that inserts find no row and updates find one."""
    wrong = []
    for arrival, table in folded.pairs:
        for judged in table.judged:
            keys = Counter(row[C.KEY] for row in judged if row[U.ACTION])
            if any(count > 1 for count in keys.values()):
                wrong.append((arrival, "one action for each key", keys))
    _assert_none(wrong)


def test_L4_no_batch_moves_a_row_back(folded: Folded) -> None:
    """A row that an action writes beats the row before it, by the oracle's pairwise rule. An exception is a row whose
    message has an earlier delivery."""
    rules, wrong = rules_of(folded.dataset), []
    for arrival, table in folded.pairs:
        records = {record.order: record for record in arrival.log}
        current: dict[bytes, Decoded] = {}
        for number, judged in enumerate(table.judged):
            acts = (row for row in judged if row[U.ACTION] and row[U.ACTION] != Action.UNPLACE)
            for row in acts if number not in table.refused else ():
                new, old = records[order_of(row)], current.get(row[C.KEY])  # type: ignore[index]
                if old is not None and row[U.ACTION] != Action.LOWER and not rules.beats(new, old):
                    wrong.append((arrival, old, new))
                current[row[C.KEY]] = new
    _assert_none(wrong)


def test_L7_the_look_up_does_not_depend_on_row_order_or_partitions(folded: Folded, plain: SparkSession) -> None:
    """The same batches with reversed rows in other partitions get the same verdicts and actions, row by row."""
    names = (CASE, C.ORDER, C.VERDICT, C.REASON, U.SCOPE, U.OTHER, U.WON, U.ACTION)
    backwards = [
        Arrival(arrival.name, arrival.log, tuple(batch[::-1] for batch in arrival.batches), arrival.exact)
        for arrival in reversed(folded.arrivals)
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
    _assert_none(wrong)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=1)
@given(drawn=cases(30))
def test_L7_verdicts_of_a_batch_do_not_follow_row_order_or_partitions(
    plain: SparkSession, dataset: MakeDataset, kind: str, drawn: Cases
) -> None:
    """The same records, shuffled, in one partition and in seven, get the same verdicts: the oracle's."""
    varied(drawn)
    made = dataset(**KINDS[kind])
    batches = {str(n): log_of(log, made) * 2 + log_of(log, made)[:2] for n, (log, _) in enumerate(drawn)}
    rows = identified(plain, [(case, record, False) for case, batch in batches.items() for record in batch], made)
    frames = [
        rows.coalesce(1),
        rows.repartition(7),
        rows.orderBy(F.xxhash64(C.ORDER, CASE)),
        rows.orderBy(*(F.col(name).desc() for name in E.TOTAL_ORDER)),
    ]
    expected = {
        case: Counter(
            (record.order, *verdict)
            for record, verdict in zip(batch, oracle.verdicts(batch, rules_of(made)), strict=True)
        )
        for case, batch in batches.items()
    }
    for frame in frames:
        found: dict[str, Counter[Any]] = {case: Counter() for case in batches}
        for row in judge_batch(frame, made, within=(CASE,)).toArrow().to_pylist():
            found[row[CASE]][(order_of(row), row[C.VERDICT], row[C.REASON], order_of(row, C.WINNER))] += 1
        _assert_none(
            [(batches[case], expected[case], found[case]) for case in batches if expected[case] != found[case]]
        )


@pytest.mark.parametrize(
    "kind",
    [
        *("append by business_key", "upsert, tie last", "upsert, tie first"),
        *("append, sent_at excepted", "upsert, sent_at excepted"),
    ],
)
@settings(max_examples=1)
@given(drawn=cases(30))
def test_L7_of_two_contents_at_one_position_the_smaller_wins_in_any_row_order(
    plain: SparkSession, dataset: MakeDataset, kind: str, drawn: Cases
) -> None:
    """`fold_positions` and the windows after it give the oracle's survivors, conflicts and winners."""
    varied(drawn)
    made, rules = dataset(**KINDS[kind]), rules_of(dataset(**KINDS[kind]))
    batches = {str(n): with_second_contents(log_of(log, made), seed) for n, (log, seed) in enumerate(drawn)}
    staged = [(case, record, False) for case, batch in batches.items() for record in batch]
    # A position has no case: here its cluster carries the case.
    rows = identified(plain, staged, made).withColumn(E.CLUSTER, F.concat(E.CLUSTER, F.lit("/"), CASE))
    expected = {
        case: (
            {key_of(case, record): (record.order, record.whole) for record in oracle.rows(batch, rules).values()},
            Counter(
                (record.order, record.whole, *verdict)
                for record, verdict in zip(batch, oracle.verdicts(batch, rules), strict=True)
            ),
        )
        for case, batch in batches.items()
    }
    for frame in (rows.coalesce(1), rows.orderBy(F.col(CONTENT).desc()), rows.repartition(5)):
        judged = judge_batch(fold_positions(frame), made, within=(CASE,)).toArrow().to_pylist()
        wrong = []
        for case, batch in batches.items():
            of_case = [row for row in judged if row[CASE] == case]
            survivors = {row[C.KEY]: (order_of(row), row[CONTENT]) for row in of_case if row[C.SURVIVOR]}
            names = (CONTENT, C.VERDICT, C.REASON)
            found = Counter((order_of(row), *(row[name] for name in names), order_of(row, C.WINNER)) for row in of_case)
            if (survivors, found) != expected[case]:
                wrong.append((batch, expected[case], (survivors, found)))
        _assert_none(wrong)


def _list_arrivals(drawn: Cases, dataset: Dataset) -> list[Arrival]:
    return [arrival for n, (log, seed) in enumerate(drawn) for arrival in arrivals(str(n), log_of(log, dataset), seed)]


def _expect_rows(arrival: Arrival, table: Table, rules: Rules) -> dict[bytes, Any]:
    records = table.published(arrival)
    usable = [record for record in records if record.usable]
    return {
        key_of(arrival.name, record): (
            *(record.order, record.whole, record.version, record.message_id, oracle.state(record)),
            rules.placeless(record, usable),
        )
        for record in oracle.rows(records, rules).values()
    }


def _read_rows(table: Table) -> dict[bytes, Any]:
    return {key: _select_columns(row) for key, row in table.rows.items()}


def _select_columns(row: Row) -> tuple[Any, ...]:
    columns = order_of(row), row[CONTENT], row.get(C.VERSION), row.get(C.MESSAGE_ID), row[S.STATE]
    return *columns, bool(row.get(C.PLACELESS))


def _assert_none(wrong: Iterable[tuple[Any, Any, Any]]) -> None:
    """Fail with the smallest of the wrong cases."""
    smallest = min(wrong, key=lambda case: len(repr(case[0])), default=None)
    if smallest is not None:
        given_, expected, found = smallest
        pytest.fail(f"{len(list(wrong))} wrong; the smallest:\n{given_}\nexpected {expected}\nfound    {found}")
