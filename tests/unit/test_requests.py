"""A decision is made as it was shown, or not at all; and which batches wait for one. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import Release, Skip, log_of, record
from onefold.errors import UsageError
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.landing.plan import ObjectsPlan, PinnedObject, put_plan, take_plan
from onefold.operations.decision_requests import Request, Shown, carry, foresee
from onefold.operations.stuck_batches import judged, stuck_batches
from onefold.quality.documents import CheckResult, GateResult
from onefold.upsert.documents import Upserted

MakeDataset = Callable[..., Dataset]
NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
RED = CheckResult(
    id="duplicate_rate", title="duplicate rate", by="spark", status="failed", observed="0.5", expected="at most 0.4"
)


@pytest.fixture
def dataset(dataset: MakeDataset) -> Dataset:
    return dataset()


def landed(lake: Lake, dataset: Dataset, name: str = "0.jsonl") -> str:
    """A batch that was taken up and landed."""
    plan = ObjectsPlan(source=dataset.source_id, place="e", objects=[PinnedObject(name=name, size=3, etag="e")])
    put_plan(lake, plan)
    take_plan(lake, dataset.name, plan)
    made = Manifest(batch=plan.batch, source=plan.source, attempt="cafe", objects=[], layout="kcat")
    lake.put_first(lake_keys.manifest(plan.source, plan.batch), made)
    return plan.batch


def judge(lake: Lake, dataset: Dataset, batch: str, *, green: bool, skippable: bool = True, digest: str = "") -> None:
    lake.put(lake_keys.latest(dataset, batch), Upserted(batch=batch, attempt="cafe"))
    gate: dict[str, Any] = {"branch": "b", "head": 2, "base": 1, "staging": "s", "code": "c", "judged": NOON}
    checks = [] if green else [RED.model_copy(update={"digest": digest})]
    result = GateResult(batch=batch, attempt="cafe", green=green, checks=checks, skippable=skippable, **gate)
    lake.put(lake_keys.attempt(dataset, batch, "cafe", "gate"), result)


def test_what_was_shown_is_recorded_once_under_the_name_of_the_approver(lake: Lake, dataset: Dataset) -> None:
    batch = landed(lake, dataset)
    request = Request(batch=batch, decision="skip", reason="test data")
    made = foresee(lake, dataset, request, "not approved yet")
    assert made
    assert log_of(lake, dataset.name, batch) == [], "to look writes nothing"
    shown = Shown(batch=made.batch, number=made.number)

    decided = carry(lake, dataset, request, "ada", shown)

    assert (decided.kind, decided.who.name, decided.reason) == ("skip", "ada", "test data")
    assert carry(lake, dataset, request, "ada", shown) == decided, "a second try finds it"
    assert log_of(lake, dataset.name, batch) == [decided]


def test_a_decision_made_meanwhile_is_kept(lake: Lake, dataset: Dataset) -> None:
    batch = landed(lake, dataset)
    request = Request(batch=batch, decision="discard", reason="a bad export")
    record(lake, Skip(dataset=dataset.name, batch=batch, number=1, by="noa", reason="no", at=NOON))
    made = foresee(lake, dataset, request, "not approved yet")
    assert made
    shown = Shown(batch=made.batch, number=made.number)
    again = Skip(dataset=dataset.name, batch=batch, number=2, by="mia", reason="no", at=NOON)
    record(lake, again)

    with pytest.raises(UsageError, match="is not any more what was shown and approved"):
        carry(lake, dataset, request, "ada", shown)

    assert log_of(lake, dataset.name, batch)[-1] == again


def test_waivers_are_of_releases(lake: Lake, dataset: Dataset) -> None:
    request = Request(batch=landed(lake, dataset), decision="skip", reason="test data", waivers=("duplicate rate=0.5",))
    with pytest.raises(UsageError, match="waivers belong to a release; a skip has none"):
        foresee(lake, dataset, request, "not approved yet")


@pytest.mark.parametrize("word", ["duplicate_rate=0.5", "duplicate rate=0.5"], ids=["id", "title"])
def test_a_waiver_names_a_check_by_id_or_title(lake: Lake, dataset: Dataset, word: str) -> None:
    batch = landed(lake, dataset)
    judge(lake, dataset, batch, green=False)
    request = Request(batch=batch, decision="release", reason="known", waivers=(word,))
    made = foresee(lake, dataset, request, "ada")
    assert isinstance(made, Release)
    assert [waiver.words for waiver in made.waivers] == ["duplicate_rate=0.5"]
    record(lake, made)
    again = request.model_copy(update={"waivers": ("duplicate rate=0.5",)})
    assert foresee(lake, dataset, again, "noa") == made, "the same decision, whichever name it is asked for by"


def test_a_release_is_recorded_with_the_records_that_were_shown_only(lake: Lake, dataset: Dataset) -> None:
    """Between the look and the answer the batch was judged again: as many duplicates, of other identities."""
    batch = landed(lake, dataset)
    judge(lake, dataset, batch, green=False, digest="0a")
    request = Request(batch=batch, decision="release", reason="known", waivers=("duplicate_rate=0.5",))
    made = foresee(lake, dataset, request, "not approved yet")
    assert made
    shown = Shown.model_validate_json(Shown.of(made).model_dump_json())
    assert [waiver.digest for waiver in shown.waivers] == ["0a"]
    judge(lake, dataset, batch, green=False, digest="0b")
    with pytest.raises(UsageError, match="is not any more what was shown and approved"):
        carry(lake, dataset, request, "ada", shown)
    assert log_of(lake, dataset.name, batch) == []
    judge(lake, dataset, batch, green=False, digest="0a")
    assert carry(lake, dataset, request, "ada", shown).who.name == "ada"
    assert carry(lake, dataset, request, "ada", shown).number == 1, "a second try finds it"


def test_a_release_can_be_made_again_where_its_waivers_do_not_hold(lake: Lake, dataset: Dataset) -> None:
    batch = landed(lake, dataset)
    judge(lake, dataset, batch, green=False, digest="0a")
    request = Request(batch=batch, decision="release", reason="known", waivers=("duplicate_rate=0.5",))
    first = foresee(lake, dataset, request, "ada")
    assert isinstance(first, Release)
    record(lake, first)
    judge(lake, dataset, batch, green=False, digest="0b")
    second = foresee(lake, dataset, request, "ada")
    assert isinstance(second, Release)
    assert (second.number, [waiver.digest for waiver in second.in_force]) == (2, ["0b"])


def test_a_waiver_of_no_check_is_refused_with_the_nearest_id(lake: Lake, dataset: Dataset) -> None:
    batch = landed(lake, dataset)
    judge(lake, dataset, batch, green=False)
    request = Request(batch=batch, decision="release", reason="known", waivers=("duplicates rate=0.5",))
    with pytest.raises(
        UsageError, match=r"no check 'duplicates rate' here \(did you mean duplicate_rate\?\)"
    ) as raised:
        foresee(lake, dataset, request, "ada")
    assert raised.value.exit_code == 2
    assert log_of(lake, dataset.name, batch) == []


def test_a_batch_without_anything_to_discard_comes_to_nothing(lake: Lake, dataset: Dataset) -> None:
    assert foresee(lake, dataset, Request(batch=landed(lake, dataset), decision="discard", reason="no"), "x") is None


def test_red_batches_wait_at_once_and_unfinished_ones_after_a_while(lake: Lake, dataset: Dataset) -> None:
    red, green, begun = (landed(lake, dataset, name) for name in ("0.jsonl", "1.jsonl", "2.jsonl"))
    judge(lake, dataset, red, green=False)
    judge(lake, dataset, green, green=True)

    [waits] = stuck_batches(lake, dataset, timedelta(days=1))
    assert (waits.batch, waits.since, waits.why) == (
        red,
        NOON,
        ["duplicate rate: found 0.5, wanted at most 0.4 [duplicate_rate]"],
    )
    assert "is red and undecided since 2026-03-09 12:00 UTC" in waits.sentence
    old = {batch.batch: batch for batch in stuck_batches(lake, dataset, timedelta(0))}
    assert sorted(old) == sorted([red, green, begun])
    assert "is unfinished since" in old[green].sentence


def test_what_has_no_records_of_its_own_is_not_advised_to_be_skipped(lake: Lake, dataset: Dataset) -> None:
    batch = landed(lake, dataset)
    advised = []
    for skippable in (True, False):
        judge(lake, dataset, batch, green=False, skippable=skippable)
        [waits] = stuck_batches(lake, dataset, timedelta(days=1))
        gate = judged(lake, dataset, batch)
        assert gate
        advised += ["onefold skip" in sentence for sentence in (waits.sentence, str(gate.error(dataset.name, "here")))]
    assert advised == [True, True, False, False]


def test_a_decided_red_batch_is_not_stuck_until_it_is_left_unfinished(lake: Lake, dataset: Dataset) -> None:
    batch = landed(lake, dataset)
    judge(lake, dataset, batch, green=False)
    record(lake, Skip(dataset=dataset.name, batch=batch, number=1, by="mia", reason="test data", at=NOON))

    assert stuck_batches(lake, dataset, timedelta(days=1)) == []
    [left] = stuck_batches(lake, dataset, timedelta(0))
    assert (left.batch, left.why) == (batch, [])
