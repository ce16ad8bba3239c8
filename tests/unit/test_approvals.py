"""What was asked in a run of Airflow, and who has answered: kept in the lake, and obeyed from there."""

from __future__ import annotations

import pytest

from onefold import lake_keys
from onefold.decisions import Decider
from onefold.decisions.approvals import answer, approval_of, ask
from onefold.errors import UsageError
from onefold.lake import Lake

ADA = Decider(id="7", name="Ada", how="airflow", host="worker-1")
RUN, ASKED = "onefold_decide/manual__2026-03-09T12:00:00+00:00", {"request": {"batch": "b"}}


def test_s8_what_was_approved_is_obeyed_with_who_has_approved_it(lake: Lake) -> None:
    ask(lake, "d", RUN, ASKED)
    answer(lake, "d", RUN, ADA, approved=True)
    assert approval_of(lake, "d", RUN) == (ASKED, ADA)


@pytest.mark.parametrize(("who", "approved"), [(ADA, False), (None, False), (None, True)])
def test_s8_rejected_or_without_a_user_nothing_is_approved(lake: Lake, who: Decider | None, approved: bool) -> None:
    ask(lake, "d", RUN, ASKED)
    answer(lake, "d", RUN, who, approved=approved)
    with pytest.raises(UsageError, match="the lake has no answer of a user"):
        approval_of(lake, "d", RUN)


def test_s8_a_question_without_an_answer_and_a_run_without_a_question_approve_nothing(lake: Lake) -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match="it was not approved"):
            approval_of(lake, "d", RUN)
        ask(lake, "d", RUN, ASKED)


def test_asked_again_in_the_same_run_the_earlier_answer_counts_no_more(lake: Lake) -> None:
    ask(lake, "d", RUN, ASKED)
    answer(lake, "d", RUN, ADA, approved=True)
    ask(lake, "d", RUN, ASKED)
    with pytest.raises(UsageError, match="it was not approved"):
        approval_of(lake, "d", RUN)


def test_each_run_and_dataset_has_an_answer_of_its_own(lake: Lake) -> None:
    ask(lake, "d", RUN, ASKED)
    answer(lake, "d", RUN, ADA, approved=True)
    keys = {lake_keys.approval("d", RUN), lake_keys.approval("d", f"{RUN}_2"), lake_keys.approval("e", RUN)}
    assert len(keys) == 3
    for dataset, run in (("d", f"{RUN}_2"), ("e", RUN)):
        with pytest.raises(UsageError, match="it was not approved"):
            approval_of(lake, dataset, run)
