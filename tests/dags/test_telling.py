"""What people and monitoring learn of a batch: messages and figures."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def messages(probe: Any) -> Any:
    """The message about a task, by how it ended."""
    return probe("messages")


def test_a_red_gate_and_a_loss_are_reported_with_batch_checks_values_and_the_reports_page(messages: Any) -> None:
    red, loss = messages["red"], messages["loss"]

    assert (red["subject"], red["batch"]) == ("accounts: the gate is red", "b_1")
    assert loss["subject"] == "accounts: records are lost"
    for message in (red, loss):
        assert "Batch b_1 was not published; readers see the table as it was before." in message["text"]
        assert "- conflicts: found 1, wanted at most 0" in message["text"]
        assert message["text"].endswith("/onefold/reports/accounts/b_1")
        assert "onefold release accounts b_1" in message["text"]
    assert "bring it and run the batch again" in loss["text"]


def test_any_other_failure_is_reported_with_its_own_sentence(messages: Any) -> None:
    assert messages["lost"]["subject"] == "accounts: task dedup failed"
    assert "the Spark process of dedup ended without leaving a result" in messages["lost"]["text"]
    assert "Its last lines:\n  no more memory\n  <end>" in messages["lost"]["text"]
    assert "Its last lines:<br>  no more memory<br>  &lt;end&gt;</p>" in messages["lost"]["html"]
    assert messages["lost"]["text"].endswith("/onefold/reports/accounts/b_1")
    assert "\na & b\n" in messages["other"]["text"]
    assert "ended without saying why" in messages["killed"]["text"]
    assert messages["killed"]["text"].endswith("/onefold/datasets/accounts"), "no batch is known"


def test_a_dag_for_all_datasets_reports_the_dataset_at_fault(messages: Any) -> None:
    assert messages["maintain"]["subject"] == "accounts: task accounts.maintain failed"
    assert messages["maintain"]["text"].endswith("/onefold/datasets/accounts"), "it has no batch, so no report"
    assert messages["decide"]["subject"] == "orders: task dedup failed"


def test_what_others_wrote_is_text_in_a_message(messages: Any) -> None:
    assert "<li>status: found &lt;b&gt;{{ 7 * 7 }}&lt;/b&gt;</li>" in messages["red"]["html"]
    assert "<p>a &amp; b</p>" in messages["other"]["html"]


def test_the_figures_of_a_batch_are_its_records_by_what_became_of_them_and_seconds_once_it_is_published(
    probe: Any,
) -> None:
    found = probe("figures")
    records = {
        "landed": 13,
        "applied": 6,
        "rejected": 1,
        "duplicates.position": 3,
        "duplicates.producer": 0,
        "duplicates.message_id": 0,
        "duplicates.business_key": 0,
        "duplicates.key_version": 1,
        "conflicts": 3,
        "unexplained": 7,
        "red": 0,
        "held": 0,
    }

    assert {name: value for name, value in found["again"].items() if name != "log"} == records
    assert {name: value for name, value in found["published"].items() if name != "log"} == records | {
        "lag": 90,
        "age": 120,
    }
