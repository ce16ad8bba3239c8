"""A batch that a rollback has undone waits for an operator, and no earlier decision on it counts. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import (
    Again,
    Decider,
    Decision,
    Discard,
    Forget,
    Release,
    RolledBack,
    Skip,
    Undone,
    Waiver,
    check_not_rolled_back,
    log_of,
    record,
    standing,
)
from onefold.errors import RolledBackError, UsageError
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.landing.plan import ObjectsPlan, PinnedObject, put_plan, take_plan
from onefold.offsets import Coverage
from onefold.operations.decide import discard, release, skip, take_up
from onefold.operations.decision_requests import Request, Shown, carry, foresee
from onefold.operations.rebuild import landed_plans
from onefold.operations.run import unfinished
from onefold.operations.stuck_batches import stuck_batches
from onefold.publish.rolled_back import overrule_decisions, restore_decisions, rolled_back
from onefold.report.decisions import decisions_of
from onefold.report.document import describe
from onefold.report.ledger import batches_of
from onefold.report.page import render
from onefold.upsert.commit_record import CommitRecord

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)


@pytest.fixture
def dataset(dataset: Callable[..., Dataset]) -> Dataset:
    return dataset()


@pytest.fixture
def batch(lake: Lake, dataset: Dataset) -> str:
    """A batch that was taken up and landed."""
    return landed(lake, dataset, "0.jsonl")


def landed(lake: Lake, dataset: Dataset, name: str) -> str:
    plan = ObjectsPlan(source=dataset.source_id, place="e", objects=[PinnedObject(name=name, size=3, etag="e")])
    put_plan(lake, plan)
    take_plan(lake, dataset.name, plan)
    manifest = Manifest(batch=plan.batch, source=plan.source, attempt="cafe", objects=[], layout="kcat")
    lake.put_first(lake_keys.manifest(plan.source, plan.batch), manifest)
    return plan.batch


def rollback(dataset: Dataset, *batches: str) -> RolledBack:
    return RolledBack(
        dataset=dataset.name, to="export_a", undone=[*batches], snapshot=1, by="mia", reason="bad rates", at=NOON
    )


def a_skip(dataset: Dataset, batch: str, number: int = 1) -> Skip:
    return Skip(dataset=dataset.name, batch=batch, number=number, by="noa", reason="test data", at=NOON)


def a_release(dataset: Dataset, batch: str) -> Release:
    waivers = [Waiver(check="conflicts", value="1")]
    given = {"by": "noa", "reason": "known", "at": NOON, "attempt": "cafe", "waivers": waivers}
    return Release(dataset=dataset.name, batch=batch, number=1, **given)


def published(dataset: Dataset, batch: str, decision: Skip | Release | Forget | None) -> CommitRecord:
    return CommitRecord(
        name="cafe", parent="root", dataset=dataset.name, generation=dataset.generation, batch=batch, interval=None,
        attempt="cafe", staging="s", verdicts="v", landed=1, counts={}, coverage=Coverage(), written=NOON,
        decision=decision,
    )  # fmt: skip


def kinds(lake: Lake, dataset: Dataset, batch: str) -> list[str]:
    return [decision.kind for decision in log_of(lake, dataset.name, batch)]


@pytest.mark.parametrize("decide", [a_skip, a_release], ids=["skip", "release"])
def test_a_rollback_overrules_what_was_decided_before(
    lake: Lake, dataset: Dataset, batch: str, decide: Callable[[Dataset, str], Decision]
) -> None:
    record(lake, decide(dataset, batch))
    for _ in range(2):
        overrule_decisions(lake, rollback(dataset, batch))
    log = log_of(lake, dataset.name, batch)
    assert [decision.kind for decision in log[1:]] == ["rolled_back"], "once, however often it is repeated"
    assert standing(log) is None
    with pytest.raises(RolledBackError, match=rf"onefold run {dataset.name} --again {batch}") as raised:
        check_not_rolled_back(log)
    assert raised.value.exit_code == 2

    record(lake, Again(dataset=dataset.name, batch=batch, number=3, by="mia", reason="", at=NOON))
    log = log_of(lake, dataset.name, batch)
    check_not_rolled_back(log)
    assert standing(log) is None, "the earlier decision does not count again"


def test_it_waits_and_no_run_nor_rebuild_takes_it_up(lake: Lake, dataset: Dataset, batch: str) -> None:
    other = landed(lake, dataset, "1.jsonl")
    overrule_decisions(lake, rollback(dataset, batch))
    assert [plan.batch for plan in unfinished(lake, dataset)] == [other]
    assert [plan.batch for plan in landed_plans(lake, dataset)] == [other]
    assert [*rolled_back(lake, dataset)] == [batch]
    [waits] = stuck_batches(lake, dataset, timedelta(days=1))
    assert (waits.batch, waits.since, waits.state) == (batch, NOON, "rolled_back")
    assert f"batch {batch} waits for an operator: rolled back to export_a by mia: bad rates" in waits.sentence

    take_up(lake, dataset, batch, "mia")
    assert sorted(plan.batch for plan in unfinished(lake, dataset)) == sorted([batch, other])
    assert (len(landed_plans(lake, dataset)), rolled_back(lake, dataset)) == (2, {})


def test_its_state_is_shown_everywhere(lake: Lake, dataset: Dataset, batch: str) -> None:
    overrule_decisions(lake, rollback(dataset, batch))
    [row] = batches_of(lake, dataset)
    assert (row["state"], row["published"]) == ("rolled_back", False)
    assert row["decision"] == {
        "kind": "rolled_back",
        "by": "mia",
        "who": Decider.earlier("mia").model_dump(),
        "reason": "bad rates",
    }
    report = describe(lake, dataset, batch)
    assert (report.status, report.decision and report.decision.kind) == ("rolled_back", "rolled_back")
    assert any(f"--again {batch}" in sentence for sentence in report.why)
    assert "Rolled back: it waits for an operator" in render(report)
    assert [(row["decision"], row["state"]) for row in decisions_of(lake, dataset)] == [("rolled_back", "waiting")]

    take_up(lake, dataset, batch, "noa", "mended")
    [row] = batches_of(lake, dataset)
    assert "state" not in row
    report = describe(lake, dataset, batch)
    assert (report.status, report.decision and report.decision.who.name) == ("unpublished", "noa")
    assert "Taken up again" in render(report)
    states = [(row["decision"], row["state"]) for row in decisions_of(lake, dataset)]
    assert states == [("rolled_back", "done"), ("again", "done")]


def test_it_is_taken_up_again_once(lake: Lake, dataset: Dataset, batch: str) -> None:
    with pytest.raises(UsageError, match="is not rolled back: there is nothing to take up again") as raised:
        take_up(lake, dataset, batch, "mia")
    assert raised.value.exit_code == 2
    overrule_decisions(lake, rollback(dataset, batch))
    assert take_up(lake, dataset, batch, "mia", dry_run=True).number == 2
    assert kinds(lake, dataset, batch) == ["rolled_back"], "a dry run records nothing"
    decision = take_up(lake, dataset, batch, "mia", " mended ")
    assert (decision.kind, decision.number, decision.reason) == ("again", 2, "mended")
    assert take_up(lake, dataset, batch, "noa") == decision
    assert kinds(lake, dataset, batch) == ["rolled_back", "again"]
    record(lake, a_skip(dataset, batch, 3))
    with pytest.raises(UsageError, match="is not rolled back"):
        take_up(lake, dataset, batch, "mia")


def test_skip_and_discard_decide_it_and_a_release_needs_a_new_judgement(
    lake: Lake, dataset: Dataset, batch: str
) -> None:
    other = landed(lake, dataset, "1.jsonl")
    overrule_decisions(lake, rollback(dataset, batch, other))
    with pytest.raises(RolledBackError, match="--again"):
        release(lake, dataset, batch, ["conflicts=1"], "mia", "known")
    assert skip(lake, dataset, batch, "mia", "not wanted").number == 2
    made = discard(lake, dataset, other, "mia", "run it")
    assert isinstance(made, Discard)
    assert rolled_back(lake, dataset) == {}
    assert {plan.batch for plan in unfinished(lake, dataset)} == {batch, other}


def test_it_is_taken_up_in_airflow_as_it_was_shown(lake: Lake, dataset: Dataset, batch: str) -> None:
    overrule_decisions(lake, rollback(dataset, batch))
    request = Request(batch=batch, decision="again", reason="mended")
    shown = foresee(lake, dataset, request, "not approved yet")
    assert shown
    made = carry(lake, dataset, request, "ada", Shown(batch=batch, number=shown.number))
    assert (made.kind, made.who.name) == ("again", "ada")


def test_a_rollback_that_did_not_move_main_leaves_the_decisions_as_they_were(lake: Lake, dataset: Dataset) -> None:
    """Killed before its commit, or slower than another writer: the batches are published, and a rebuild obeys them."""
    skipped, released, plain, untouched = (landed(lake, dataset, f"{number}.jsonl") for number in range(4))
    decisions = {skipped: a_skip(dataset, skipped), released: a_release(dataset, released), plain: None}
    for decision in filter(None, decisions.values()):
        record(lake, decision)
    overrule_decisions(lake, rollback(dataset, skipped, released, plain))
    records = [published(dataset, batch, decision) for batch, decision in decisions.items()]
    for _ in range(2):
        restore_decisions(lake, dataset, [*records, published(dataset, untouched, None)])
    assert kinds(lake, dataset, skipped) == ["skip", "rolled_back", "skip"]
    assert kinds(lake, dataset, released) == ["release", "rolled_back", "release"]
    assert kinds(lake, dataset, plain) == ["rolled_back", "again"]
    assert kinds(lake, dataset, untouched) == []
    assert standing(log_of(lake, dataset.name, skipped)) == a_skip(dataset, skipped, 3)


def test_a_rollback_of_one_batch_holds_no_other(lake: Lake, dataset: Dataset, batch: str) -> None:
    other = landed(lake, dataset, "1.jsonl")
    record(lake, a_skip(dataset, other))
    overrule_decisions(lake, rollback(dataset, batch))
    assert standing(log_of(lake, dataset.name, other)) == a_skip(dataset, other)
    assert isinstance(log_of(lake, dataset.name, batch)[-1], Undone)
