"""`mask: {column: hash | hmac | hide}`: no value of a masked column is in what a batch leaves for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.masks import HIDDEN, Mask, digest, masks_of
from onefold.decisions import Skip
from onefold.errors import RepeatedKeysError, SumOverflowError
from onefold.generation import settle
from onefold.lake import Lake
from onefold.maintenance.uniqueness import prove_unique
from onefold.operations.decision_requests import Request
from onefold.operations.stuck_batches import judged
from onefold.orchestration.approval import body_of
from onefold.proof.prove import prove
from onefold.quality.branch_facts import count_rows
from onefold.quality.branch_rows import changed_rows
from onefold.report import describe
from onefold.report.page import render
from onefold.tables.names import state_table
from onefold.upsert.documents import Upserted
from tests.support.pipeline import Sent, accept, accounts, chained, export, increments, moved, run, tampered

SUITE = """\
expectations:
  - type: expect_column_values_to_be_in_set
    kwargs: {column: owner, value_set: [x]}
"""
SECRET = "Quux"


def test_masked_values_are_in_no_report_example_error_or_approval(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    quality = {"suite": "owners.yaml", "max_conflicts": 0, "max_rejected_rate": 1.0}
    made = accounts(dataset, mask={"owner": "hash", "id": "hash"}, quality=quality)
    lake.settings.expectations_folder.mkdir()
    (lake.settings.expectations_folder / "owners.yaml").write_text(SUITE)
    key, ann, bob = f"{SECRET}-1", f"Ann {SECRET}", f"Bob {SECRET}"
    ended = run(
        session,
        lake,
        made,
        export(
            tmp_path / "export",
            [
                Sent(0, 0, 0, key, 1, "m0", {"owner": ann, "credit": "1.00"}),
                Sent(0, 1, 1, key, 1, "m0", {"owner": bob, "credit": "2.00"}),
                Sent(0, 2, 2, key, 2, "m2", {"owner": ann, "credit": f"much, found {SECRET}"}),
                Sent(0, 3, 3, key, 3, "m3", f"no JSON {SECRET}"),
                Sent(0, 4, 4, key, 4, "m4", {"credit": "1.00"}),
            ],
        ),
    )
    assert ended.red
    gate = judged(lake, made, ended.batch)
    assert gate
    shown = gate.examples
    assert [[side["fields"] for side in (at["record"], at["other"])] for at in shown["conflicts"]] == [
        [
            {"id": digest(key), "owner": digest(ann), "credit": "1.00"},
            {"id": digest(key), "owner": digest(bob), "credit": "2.00"},
        ]
    ]
    assert [(at["reason"], at["detail"], at["value"]) for at in shown["rejected"]] == [
        ("wrong_type", "credit: wanted decimal(18,2)?", HIDDEN),
        ("undecodable", None, HIDDEN),
        ("missing_field", "owner is absent", HIDDEN),
    ]
    [asked] = [check for check in gate.checks if check.by == "suite"]
    assert (asked.observed, asked.detail) == ("1 of 1 unexpected", digest(bob))
    request = Request(batch=ended.batch, decision="skip", reason="test data")
    decision = {"dataset": made.name, "batch": ended.batch, "number": 1, "by": "mia", "reason": "test data"}
    body = body_of(made, request, Skip(**decision, at=datetime.now(UTC)), gate)  # type: ignore[arg-type]
    pages = [lake.storage.read(lake_keys.report(made.name, ended.batch, ending)) or b"" for ending in ("html", "json")]
    texts = [gate.model_dump_json(), str(ended.red), body, *(page.decode() for page in pages)]
    assert [SECRET in text for text in texts] == [False] * 5
    assert HIDDEN in texts[3]


@pytest.mark.nightly(
    reason="masked values are in no report, example, error or approval by day, and masked keys in no proof"
)
def test_masked_keys_are_in_no_held_check_accepted_gap_or_error_of_a_duplicate_key(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    mask, key = {"id": "hash"}, f"{SECRET}-1"
    made, strict = chained(dataset, mask=mask), chained(dataset, mask=mask, quality={"max_held": 0})
    first = [Sent(0, n, 10 + n, key, version, f"m{n}", {"owner": "o"}) for n, version in enumerate((1, 3))]
    assert run(session, lake, made, export(tmp_path / "0", first)).published
    ended = run(session, lake, strict, export(tmp_path / "1", [Sent(0, 2, 12, key, 5, "m2", {"owner": "o"})]))
    assert ended.red
    named = f'{{"id": "{digest(key)}"}}'
    examples = f"(first: version 3 of {named}, version 5 of {named})"
    assert ended.red.failed == (f"records held: found 2 {examples}, wanted at most 0 [held_records]",)

    gap = accept(session, lake, made, key, 3)
    assert gap.published
    report = describe(lake, made, gap.batch)
    assert report.accepts
    assert report.accepts.key == {"id": digest(key)}
    assert (SECRET in report.model_dump_json(), SECRET in render(report)) == (False, False)

    session.table(state_table(made)).where("_state = 'live'").writeTo(state_table(made)).append()
    with pytest.raises(RepeatedKeysError) as raised:
        prove_unique(session, lake, made)
    assert raised.value.keys == (named,)


@pytest.mark.nightly(reason="masked values and masked identities go by day")
def test_masked_keys_are_in_no_proof_and_no_key_that_the_gate_found_twice(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    key = f"{SECRET}-1"
    made = accounts(dataset, mask={"id": "hash"})
    done = run(session, lake, made, export(tmp_path / "first", [Sent(0, 0, 0, key, 1, "m0", {"owner": "o"})]))
    assert done.published
    upserted = lake.get(lake_keys.latest(made, done.batch), Upserted)
    assert upserted
    changed = changed_rows(session, made, upserted)

    assert count_rows(session, made, upserted, changed.union(changed)).failing_keys == [{"id": digest(key)}]

    tampered(session, lake, made, "UPDATE {t} SET owner = 'z'")
    [shown] = prove(session, lake, made).shown
    assert (shown.kind, shown.columns) == ("other_content", {"id": digest(key)})


def test_a_masked_key_is_in_no_error_of_a_sum_that_does_not_fit(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    made = increments(dataset, {"delta": "long"}, {"stock": "delta"}, mask={"id": "hash"})
    too_much = [moved(number, SECRET, f"m{number}", 2**63 - 1) for number in (1, 2)]

    with pytest.raises(SumOverflowError) as raised:
        run(session, lake, made, export(tmp_path / "first", too_much))

    assert raised.value.keys == (f'{{"id": "{digest(SECRET)}"}}',)


SPELLED_SUITE = """\
expectations:
  - type: expect_column_values_to_be_in_set
    kwargs: {column: MESSAGE, value_set: [x]}
  - type: expect_column_values_to_be_in_set
    kwargs: {column: id, value_set: [x], row_condition: "message != 'x'"}
  - type: expect_column_most_common_value_to_be_in_set
    kwargs: {column: Message, value_set: [x]}
"""


@pytest.mark.by_day("hmac", why="unit tests go over each kind of mask")
@pytest.mark.parametrize("mask", Mask)
def test_s5_a_masked_identity_is_in_no_report_check_or_plan_of_spark(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, mask: Mask
) -> None:
    lake = Lake(lake.settings.model_copy(update={"mask_key": SecretStr("sixteen letters!")}))
    lake.settings.expectations_folder.mkdir()
    (lake.settings.expectations_folder / "spelled.yaml").write_text(SPELLED_SUITE)
    secret = f"Quux{mask}"
    made = dataset(
        "entries",
        value={"fields": {"id": "string", "message": "string"}},
        identity={"message_id": "message", "business_key": ["id"]},
        quality={"max_conflicts": 0, "suite": "spelled.yaml"},
        mask={"message": mask},
    )
    log = [Sent(0, n, n, "k", 1, "m", {"id": named, "message": secret}) for n, named in enumerate("ab")]

    done = run(session, lake, settle(lake, made), export(tmp_path / "first", log))

    assert done.red
    report = describe(lake, settle(lake, made), done.batch)
    [shown] = report.examples["reused"]
    masks = masks_of(settle(lake, made))
    masked_secret = masks.show(secret, mask)
    assert (shown["identity"], shown["record"]["fields"]) == (masked_secret, {"id": "b", "message": masked_secret})
    of_suite = [check for check in report.checks if check.by == "suite"]
    assert [(check.observed, check.detail) for check in of_suite] == [
        ("2 of 2 unexpected", f"{masked_secret}, {masked_secret}"),
        ("2 of 2 unexpected", ", ".join(masks.show(name, mask) for name in ("a", "b"))),
        (masks.show([secret], mask), ""),
    ]
    texts = [report.model_dump_json(), render(report), *plans_of(session)]
    assert [text for text in texts if secret in text] == []


def plans_of(session: SparkSession) -> list[str]:
    """The plans of every query so far, as the event log and the UI have them."""
    queries = session._jsparkSession.sharedState().statusStore().executionsList()  # type: ignore[attr-defined]
    return [queries.apply(number).physicalPlanDescription() for number in range(queries.size())]
