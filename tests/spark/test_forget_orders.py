"""L1 by brute force: small sets of records with a forget mark in between, in every order and split, in every mode.

A key is a world of its own: its records are sent in some order, each in a batch that is published before the mark, one
that is landed before and published behind it, or one that is landed behind it. All worlds go through the same batches.
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
"""The message that the filter of the mode `filtered` leaves out."""

Kind = tuple[int, str]
"""Version and message id."""


def worlds(kinds: list[Kind], size: int) -> Iterator[tuple[tuple[Kind, ...], tuple[str, ...]]]:
    """Every sequence of records, in every split."""
    yield from itertools.product(itertools.product(kinds, repeat=size), itertools.product(SLOTS, repeat=size))


MODES: dict[str, tuple[list[Kind], int]] = {
    "newer": ([(1, "a"), (1, "b"), (2, "a"), (2, "b")], 2),
    "contiguous": ([(1, "a"), (2, "b"), (3, "c")], 3),
    "append": ([(0, "a"), (0, "b")], 2),
    "increment": ([(0, "a"), (0, "b")], 2),
    "log": ([(0, "a"), (0, "b")], 2),  # the version is the offset: a retry is known by its message id alone
    "filtered": ([(1, "a"), (2, LEFT_OUT), (3, "a")], 2),  # and then the filter is taken away
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
    said: dict[str, Any] = {"id": key, "owner": f"{kind[0]}{message}", "credit": "1.00", "delta": "1.50"}
    name = f"{key}-{message}" if mode != "append" else f"{key}-{message}-{offset}"
    return Sent(0, offset, offset, key, version, name, said)


@pytest.mark.nightly(reason="test_forget.py holds each rule of a mark by day, and histories forget keys")
@pytest.mark.parametrize("mode", MODES)
def test_L1_what_a_mark_takes_out_follows_from_the_records_and_the_mark_in_every_order_and_split(
    mode: str, session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = dataset_of(mode, dataset)
    batches: dict[str, list[Sent]] = {slot: [] for slot in SLOTS}
    of_world: dict[str, list[tuple[Sent, str]]] = {}
    offset = 0
    for number, (kinds, slots) in enumerate(worlds(*MODES[mode])):
        key = f"w{number}"
        for kind, slot in zip(kinds, slots, strict=True):
            record = sent(mode, offset, key, kind)
            of_world.setdefault(key, []).append((record, slot))
            batches[slot].append(record)
            offset += 1
    assert run(session, lake, made, export(tmp_path / BEFORE, batches[BEFORE])).published
    waiting = plan_batch(lake, made, export=str(export(tmp_path / WAITING, batches[WAITING])))
    land_batch(lake, made, waiting.batch)
    asked = [key for number, key in enumerate(of_world) if number % 5]  # the other worlds go on as they were
    erases = mode == "filtered"  # what was filtered is known to the landing alone
    mark, _ = forget(lake, made, [{"id": key} for key in asked], None, "mia", "asked to", erases=erases)
    assert mark
    done = run_batch(lake, made, find_plan(lake, made, mark.batch), InSession(lake, session))
    assert (done.red, bool(done.published)) == (None, True)
    assert not rows(lake, made).keys() & set(asked)
    for slot in RUN_AFTER:
        plan = (
            waiting if slot == WAITING else plan_batch(lake, made, export=str(export(tmp_path / slot, batches[slot])))
        )
        assert run_batch(lake, made, plan, InSession(lake, session)).published

    wanted = expected(mode, made, of_world, set(asked))
    assert mode == "append" or wanted.keys() & set(asked), "some records are newer than the mark"
    assert rows(lake, made) == wanted
    assert prove(session, lake, made).differences == {}
    target = {"table": made.target.table, "buckets": made.target.buckets % 3 + 1}
    unfiltered = {"source": SOURCE, "quality": QUALITY} if made.source.filter else {}
    again = Dataset.model_validate(made.model_dump(by_alias=True) | {"target": target} | unfiltered)
    assert rebuild(lake, again, InSession(lake, session)).swapped
    assert rows(lake, again) == expected(mode, again, of_world, set(asked))
    assert prove(session, lake, again).differences == {}


def rows(lake: Lake, made: Dataset) -> dict[str, Any]:
    return {row["id"]: row.get("owner", row.get("stock", row.get("credit"))) for row in rows_of(lake, made)}


def expected(mode: str, made: Dataset, of_world: dict[str, list[tuple[Sent, str]]], asked: set[str]) -> dict[str, Any]:
    rules = oracle.Rules("upsert" if made.apply.version else "append", tie="last")
    wanted: dict[str, Any] = {}
    for key, records in of_world.items():
        if mode == "increment":
            wanted |= _sum(key, records, key in asked)
            continue
        decoded = [(slot, record.decoded(made)) for record, slot in records]
        mark = oracle.forget(key, [one for slot, one in decoded if slot in LANDED], rules)
        left = [one for _, one in decoded if key not in asked or not mark.takes(one)]
        if made.source.filter:
            left = [record for record in left if record.message_id != f"{key}-{LEFT_OUT}"]
        if mode == "contiguous":
            begins = [] if mark.highest is None or key not in asked else [(key, mark.highest + 1)]
            found, _ = oracle.chain(left, rules, accepted=begins)
        else:
            found = oracle.rows(left, rules)
        said = {record.offset: record.value for record, _ in records}
        for row in found.values():
            value = said[row.position[-1]]
            assert isinstance(value, dict)
            wanted[key] = value["owner" if made.apply.version else "credit"]
    return wanted


def _sum(key: str, records: list[tuple[Sent, str]], is_asked: bool) -> dict[str, str]:
    """A message that was landed before the mark is never added again; others are, once."""
    barred = {record.message_id for record, slot in records if is_asked and slot in LANDED}
    messages = {record.message_id for record, _ in records} - barred
    return {key: f"{Decimal('1.50') * len(messages):.2f}"} if messages else {}
