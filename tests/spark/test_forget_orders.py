"""L1 by brute force: small sets of records with a forget mark in between, in every order and split, in every mode.

Each key is one case: its records are sent in some order. Each record is in a batch that is published before the mark,
in one that is landed before and published after it, or in one that is landed after it. All cases share the batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.plan import find_plan
from onefold.operations.forget import forget
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.run import run_batch
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of
from tests.support import oracle
from tests.support.pipeline import Sent, accounts, chained, entries, export, increments, run

MakeDataset = Callable[..., Dataset]
QUALITY = {"max_rejected_rate": 1.0, "max_conflicts": 100_000, "max_duplicate_rate": 1.0, "min_records": 0}
HOLES = {"kind": "transactional", "longest": 1_000_000}
SOURCE = {"exports": {"path": "exports", "layout": "kcat", "origin": {"cluster": "c"}, "holes": HOLES}}
BEFORE, WAITING, AFTER, LATER = "before", "waiting", "after", "later"
SLOTS = (BEFORE, WAITING, AFTER, LATER)
LANDED = (BEFORE, WAITING)
RUN_AFTER = (AFTER, WAITING, LATER)

LEFT_OUT = "c"
"""The message that the filter of mode `filtered` excludes."""

Kind = tuple[int, str]
"""Version and message id."""


def list_cases(kinds: list[Kind], size: int) -> Iterator[tuple[tuple[Kind, ...], tuple[str, ...]]]:
    """Every sequence of records, in every split."""
    yield from itertools.product(itertools.product(kinds, repeat=size), itertools.product(SLOTS, repeat=size))


MODES: dict[str, tuple[list[Kind], int]] = {
    "newer": ([(1, "a"), (1, "b"), (2, "a"), (2, "b")], 2),
    "contiguous": ([(1, "a"), (2, "b"), (3, "c")], 3),
    "append": ([(0, "a"), (0, "b")], 2),
    "increment": ([(0, "a"), (0, "b")], 2),
    "log": ([(0, "a"), (0, "b")], 2),  # the version is the offset: a retry is known by its message id alone
    "filtered": ([(1, "a"), (2, LEFT_OUT), (3, "a")], 2),  # later the filter is removed
}


def dataset_of(mode: str, dataset: MakeDataset) -> Dataset:
    match mode:
        case "newer":
            return accounts(dataset, tie="last", quality=QUALITY)
        case "contiguous":
            return chained(dataset, quality=QUALITY)
        case "append":
            return entries(dataset, quality=QUALITY)
        case "log":
            return of_log(dataset)
        case "filtered":
            return accounts(
                dataset,
                tie="last",
                quality=QUALITY | {"max_filtered_newer": 100_000},
                source=SOURCE | {"filter": f"owner <> '2{LEFT_OUT}'"},
            )
        case _:
            return increments(dataset, {"delta": "decimal(9,2)"}, {"stock": "delta"}, quality=QUALITY)


def of_log(dataset: MakeDataset) -> Dataset:
    """Accounts whose version is the offset."""
    return dataset(
        "accounts",
        key={"format": "json"},
        value={"fields": {"owner": "string"}},
        identity={"message_id": "header.m"},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}},
        quality=QUALITY,
    )


def sent(mode: str, offset: int, key: str, kind: Kind) -> Sent:
    """A record: its content follows from its key, version and message."""
    version, message = (offset, kind[1]) if mode == "log" else kind
    value: dict[str, Any] = {"id": key, "owner": f"{kind[0]}{message}", "credit": "1.00", "delta": "1.50"}
    name = f"{key}-{message}" if mode != "append" else f"{key}-{message}-{offset}"
    return Sent(0, offset, offset, key, version, name, value)


@pytest.mark.nightly(reason="test_forget.py holds each rule of a mark by day, and histories forget keys")
@pytest.mark.parametrize("mode", MODES)
def test_L1_what_a_mark_removes_depends_only_on_the_records_and_the_mark_in_every_order_and_split(
    mode: str, session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = dataset_of(mode, dataset)
    batches: dict[str, list[Sent]] = {slot: [] for slot in SLOTS}
    cases: dict[str, list[tuple[Sent, str]]] = {}
    offset = 0
    for number, (kinds, slots) in enumerate(list_cases(*MODES[mode])):
        key = f"w{number}"
        for kind, slot in zip(kinds, slots, strict=True):
            record = sent(mode, offset, key, kind)
            cases.setdefault(key, []).append((record, slot))
            batches[slot].append(record)
            offset += 1
    assert run(session, lake, made, export(tmp_path / BEFORE, batches[BEFORE])).published
    waiting = plan_batch(lake, made, export=str(export(tmp_path / WAITING, batches[WAITING])))
    land_batch(lake, made, waiting.batch)
    forgotten = [key for number, key in enumerate(cases) if number % 5]  # the other keys stay
    erases = mode == "filtered"  # only the landing knows the filtered records
    mark, _ = forget(lake, made, [{"id": key} for key in forgotten], None, "mia", "asked to", erases=erases)
    assert mark
    done = run_batch(lake, made, find_plan(lake, made, mark.batch), InSession(lake, session))
    assert (done.red, bool(done.published)) == (None, True)
    assert not rows(lake, made).keys() & set(forgotten)
    for slot in RUN_AFTER:
        plan = (
            waiting if slot == WAITING else plan_batch(lake, made, export=str(export(tmp_path / slot, batches[slot])))
        )
        assert run_batch(lake, made, plan, InSession(lake, session)).published

    expected = expect_rows(mode, made, cases, set(forgotten))
    assert mode == "append" or expected.keys() & set(forgotten), "some records are newer than the mark"
    assert rows(lake, made) == expected
    assert prove(session, lake, made).differences == {}
    target = {"table": made.target.table, "buckets": made.target.buckets % 3 + 1}
    unfiltered = {"source": SOURCE, "quality": QUALITY} if made.source.filter else {}
    again = Dataset.model_validate(made.model_dump(by_alias=True) | {"target": target} | unfiltered)
    assert rebuild(lake, again, InSession(lake, session)).swapped
    assert rows(lake, again) == expect_rows(mode, again, cases, set(forgotten))
    assert prove(session, lake, again).differences == {}


def rows(lake: Lake, made: Dataset) -> dict[str, Any]:
    return {row["id"]: row.get("owner", row.get("stock", row.get("credit"))) for row in rows_of(lake, made)}


def expect_rows(
    mode: str, made: Dataset, cases: dict[str, list[tuple[Sent, str]]], forgotten: set[str]
) -> dict[str, Any]:
    of_rows = "upsert" if made.apply.version else "append"
    rules = oracle.Rules(of_rows, tie="last", by_delivery=made.versions_by_delivery)
    expected: dict[str, Any] = {}
    for key, records in cases.items():
        if mode == "increment":
            expected |= _sum(key, records, key in forgotten)
            continue
        decoded = [(slot, record.decoded(made)) for record, slot in records]
        mark = oracle.forget(key, [record for slot, record in decoded if slot in LANDED], rules)
        left = [record for _, record in decoded if key not in forgotten or not mark.takes(record)]
        if made.source.filter:
            left = [record for record in left if record.message_id != f"{key}-{LEFT_OUT}"]
        if mode == "contiguous":
            begins = [] if mark.highest is None or key not in forgotten else [(key, mark.highest + 1)]
            winners, _ = oracle.chain(left, rules, accepted=begins)
        else:
            winners = oracle.rows(left, rules)
        values = {record.offset: record.value for record, _ in records}
        for row in winners.values():
            value = values[row.position[-1]]
            assert isinstance(value, dict)
            expected[key] = value["owner" if made.apply.version else "credit"]
    return expected


def _sum(key: str, records: list[tuple[Sent, str]], is_forgotten: bool) -> dict[str, str]:
    """A message that was landed before the mark is never added again; every other message is added once."""
    barred = {record.message_id for record, slot in records if is_forgotten and slot in LANDED}
    messages = {record.message_id for record, _ in records} - barred
    return {key: f"{Decimal('1.50') * len(messages):.2f}"} if messages else {}
