"""A decision that is a batch of its own is recorded once, and its plan with it. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onefold.dataset import Dataset
from onefold.decisions import OWN_BATCH, AcceptGap, Discard, Forget, Replay, log_of
from onefold.errors import DecidedMeanwhileError
from onefold.lake import Lake
from onefold.landing.plan import ForgetPlan, GapPlan, Plan, ReplayPlan, plan_of
from onefold.operations.own_batch import record_own_batch

SAMPLES: dict[type[Any], tuple[Callable[[str], Plan], dict[str, Any]]] = {
    Replay: (
        lambda source: ReplayPlan(source=source, origin="b", objects=["a"], records=3, code="c"),
        {"origin": "b", "records": 3},
    ),
    AcceptGap: (
        lambda source: GapPlan(source=source, dataset="things", key={"id": "a"}, version=6),
        {"key": {"id": "a"}, "version": 6, "missing": [(4, 6)]},
    ),
    Forget: (
        lambda source: ForgetPlan(source=source, dataset="things", keys=["00"], deleted_before=None, behind="r"),
        {"keys": ["00"], "deleted_before": None, "found": 1, "rows": 1},
    ),
}


def test_each_such_decision_is_tried_here() -> None:
    assert set(SAMPLES) == set(OWN_BATCH)


@pytest.mark.parametrize("kind", OWN_BATCH)
def test_the_first_to_ask_is_on_record_and_the_second_gets_its_decision(
    lake: Lake, dataset: Callable[..., Dataset], monkeypatch: pytest.MonkeyPatch, kind: type[Any]
) -> None:
    things, (make, details) = dataset(), SAMPLES[kind]
    plan = make(things.source_id)
    first = record_own_batch(lake, things, plan, kind, "mia", " it is right ", lambda: details)
    assert (first.who.name, first.reason, first.number, first.batch) == ("mia", "it is right", 1, plan.batch)
    assert plan_of(lake, things.source_id, plan.batch) == plan
    late = iter([[]])  # the log as the second process has read it, before the first wrote
    monkeypatch.setattr("onefold.operations.own_batch.log_of", lambda *words: next(late, log_of(*words)))
    for _ in range(2):
        assert record_own_batch(lake, things, plan, kind, "noa", "me too", lambda: details) == first
    assert log_of(lake, things.name, plan.batch) == [first]


def test_details_of_what_is_on_record_are_not_looked_up_again(lake: Lake, dataset: Callable[..., Dataset]) -> None:
    things, (make, details) = dataset(), SAMPLES[AcceptGap]
    plan = make(things.source_id)
    first = record_own_batch(lake, things, plan, AcceptGap, "mia", "lost", lambda: details)
    assert record_own_batch(lake, things, plan, AcceptGap, "noa", "lost", lambda: {}["nothing"]) == first


def test_a_dry_run_writes_nothing(lake: Lake, dataset: Callable[..., Dataset]) -> None:
    things, (make, details) = dataset(), SAMPLES[Forget]
    record_own_batch(lake, things, make(things.source_id), Forget, "mia", "asked", lambda: details, dry_run=True)
    assert list(lake.storage.list("")) == []


def test_another_decision_that_takes_the_number_is_an_error(
    lake: Lake, dataset: Callable[..., Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    things, (make, details) = dataset(), SAMPLES[Replay]
    plan = make(things.source_id)
    other = record_own_batch(lake, things, plan, Replay, "mia", "", lambda: details)
    discard = Discard(**other.model_dump(include={"dataset", "batch", "number", "who", "reason", "at"}))
    lake.storage.write(f"datasets/things/decisions/{plan.batch}/0001.json", discard.model_dump_json().encode())
    late = iter([[]])
    monkeypatch.setattr("onefold.operations.own_batch.log_of", lambda *words: next(late, log_of(*words)))
    with pytest.raises(DecidedMeanwhileError):
        record_own_batch(lake, things, plan, Replay, "noa", "", lambda: details)
