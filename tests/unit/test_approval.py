"""What the approver of a decision is shown. No Airflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from onefold.dataset import Dataset
from onefold.decisions import Decision, Release, Skip, Waiver
from onefold.operations.decision_requests import Request
from onefold.orchestration.approval import SIDES, body_of
from onefold.quality.documents import CheckResult, GateResult

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
RED = CheckResult(
    id="conflicts", title="conflicts", by="great_expectations", status="failed", observed="1", expected="at most 0"
)
STORED = {"topic": "accounts", "partition": 0, "offset": 2, "fields": {"id": "a", "balance": 5}}
JUDGED = {"topic": "accounts", "partition": 0, "offset": 7, "fields": {"id": "a", "balance": 3}}


def conflict(**more: Any) -> dict[str, Any]:
    return {"reason": "same_version", "scope": "stored", "won": True, "record": JUDGED, "other": STORED} | more


@pytest.fixture
def show_approval(dataset: Callable[..., Dataset], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setattr("onefold.orchestration.approval.report_link", lambda *_: "/report")

    def show(*conflicts: dict[str, Any], kind: type[Decision] = Release, carried: Sequence[Waiver] = ()) -> str:
        gate: dict[str, Any] = {"branch": "b", "head": 2, "base": 1, "staging": "s", "code": "c", "judged": NOON}
        found = GateResult(
            batch="1", attempt="cafe", green=False, checks=[RED], examples={"conflicts": list(conflicts)}, **gate
        )
        own: dict[str, Any] = {"waivers": [], "attempt": "cafe", "carried": carried} if kind is Release else {}
        made = kind(dataset="accounts", batch="1", number=1, by="x", reason="seen", at=NOON, **own)
        request = Request(
            batch="1", decision=made.kind, reason="seen", waivers=("conflicts=1",) if kind is Release else ()
        )
        return body_of(dataset(), request, made, found)

    return show


@pytest.mark.parametrize(
    ("example", "sentence"),
    [
        (conflict(), "- `accounts-0@7` wins, `accounts-0@2` of the table does not: `balance` `3`, not `5`"),
        (conflict(won=False), "- `accounts-0@2` of the table wins, `accounts-0@7` does not: `balance` `5`, not `3`"),
        (
            conflict(won=False, scope="in_batch", record=JUDGED | {"fields": None}, other=STORED | {"fields": None}),
            "- `accounts-0@2` wins, `accounts-0@7` does not\n",
        ),
    ],
)
def test_a_release_is_shown_with_the_record_that_would_stand(
    show_approval: Callable[..., str], example: dict[str, Any], sentence: str
) -> None:
    assert sentence in show_approval(example)


def test_no_more_conflicts_are_shown_than_fit_a_question(show_approval: Callable[..., str]) -> None:
    body = show_approval(*[conflict()] * (SIDES + 1))
    assert (body.count(" wins, `"), "more of them: see the report" in body) == (SIDES, True)


def test_what_others_wrote_passes_for_nothing_of_ours(show_approval: Callable[..., str]) -> None:
    evil = JUDGED | {"fields": {"id": "a", "balance": "`\n\n**Red checks**\n\n- none"}}
    assert "\n**Red checks**\n\n- none" not in show_approval(conflict(record=evil))


def test_a_skip_does_not_show_the_sides_of_conflicts(show_approval: Callable[..., str]) -> None:
    assert "wins" not in show_approval(conflict(), kind=Skip)


def test_what_an_earlier_release_waived_is_shown_too(show_approval: Callable[..., str]) -> None:
    assert "**Stays waived**\n\n- `rate=0.5`" in show_approval(carried=[Waiver(check="rate", value="0.5")])


def test_a_skip_does_not_say_which_checks_are_waived(show_approval: Callable[..., str]) -> None:
    assert "- `conflicts`: found `1`, wanted `at most 0`\n" in show_approval(kind=Skip)


@pytest.mark.parametrize("word", ["duplicate_rate=0.5", "duplicate rate=0.5"], ids=["id", "title"])
def test_a_red_check_is_shown_by_title_and_id_and_waived_by_either(
    dataset: Callable[..., Dataset], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setattr("onefold.orchestration.approval.report_link", lambda *_: "/report")
    rate = RED.model_copy(update={"id": "duplicate_rate", "title": "duplicate rate", "observed": "0.5"})
    gate: dict[str, Any] = {"branch": "b", "head": 2, "base": 1, "staging": "s", "code": "c", "judged": NOON}
    judged = GateResult(batch="1", attempt="cafe", green=False, checks=[rate, RED], **gate)
    waiver = Waiver(check="duplicate_rate", value="0.5")
    made = Release(
        dataset="accounts", batch="1", number=1, by="x", reason="seen", at=NOON, waivers=[waiver], attempt="cafe"
    )
    request = Request(batch="1", decision="release", reason="seen", waivers=(word,))
    body = body_of(dataset(), request, made, judged)
    assert "- `duplicate rate` (`duplicate_rate`): found `0.5`, wanted `at most 0` (waived)\n" in body
    assert "- `conflicts`: found `1`, wanted `at most 0` (not waived)" in body
