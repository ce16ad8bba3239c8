"""The gate: every check on a branch, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.decisions import LostContent, Skip, log_of, standing
from onefold.decisions.accepted_gaps import links_of
from onefold.decisions.conflicts import conflicts_named, lost_contents
from onefold.decisions.marks import marks_named
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.quality.branch_facts import contradicted_batches, count_rows, gather_facts
from onefold.quality.branch_rows import changed_rows
from onefold.quality.checks import CHECKS, BranchFacts
from onefold.quality.documents import CheckResult, GateResult, apply_check
from onefold.quality.evidence import with_digests
from onefold.quality.examples import examples_of
from onefold.quality.expectations import check_rows
from onefold.quality.reader_changes import count_reader_changes
from onefold.quality.suites import load_suite
from onefold.quality.user_checks import SuiteResult, check_suite, passed_before
from onefold.quality.waivers import under
from onefold.spark.concurrently import at_once
from onefold.upsert.documents import Upserted
from onefold.upsert.forgotten_keys import forgotten_keys
from onefold.vocabulary import Action


def judge_branch(session: SparkSession, lake: Lake, dataset: Dataset, upserted: Upserted) -> GateResult:
    """Run every check on an attempt's branch, under what was decided of the batch.

    A skipped batch changes no row, so the user's suite, which is about rows, does not run: what all rows had passed
    they still have.
    """
    log = log_of(lake, dataset.name, upserted.batch)
    decision = standing(log)
    suite = None if isinstance(decision, Skip) else load_suite(lake.settings.expectations_folder, dataset)
    manifest = manifest_of(lake, dataset, upserted.batch)
    changed = changed_rows(session, dataset, upserted).persist()
    try:
        forgotten = forgotten_keys(marks_named(lake, dataset.name, upserted.carried_out).values())
        marks = marks_named(lake, dataset.name, upserted.forgotten) if dataset.apply.HOLDS else {}
        links = links_of(dataset, upserted.accepted, marks=marks.values())
        counts, of_rows, readers = at_once(
            session,
            partial(count_rows, session, dataset, upserted, changed, forgotten, links, _lost(lake, dataset, upserted)),
            partial(check_rows, dataset, changed, sum(upserted.changes.values())),
            partial(count_reader_changes, session, dataset, upserted, forgotten),
        )
        examples = examples_of(session, dataset, upserted)
        facts = gather_facts(session, lake, dataset, upserted, counts, examples["conflicts"])
        passed = passed_before(lake, dataset, upserted)
        of_suite = SuiteResult(passed=passed if isinstance(decision, Skip) else ())
        if suite:
            of_suite = check_suite(session, dataset, upserted, suite.expectations, passed)
    finally:
        changed.unpersist()
    generated = with_digests(session, lake, dataset, upserted, generated_checks(facts, of_rows))
    checks = under([*generated, *of_suite.checks], decision)
    return GateResult(
        batch=upserted.batch,
        attempt=upserted.attempt,
        branch=upserted.branch,
        head=upserted.head,
        base=upserted.base,
        staging=upserted.staging,
        code=upserted.code,
        green=not any(check.red for check in checks),
        checks=checks,
        decided=len(log),
        loss=shows_loss(checks),
        skippable=not manifest.bare and manifest.replays is None,
        contradicted=contradicted_batches(session, lake, dataset, upserted),
        facts={"landed": facts.landed, "rows_before": counts.rows_before, "rows_after": counts.rows_after}
        | ({"held": facts.held} if facts.held is not None else {}),
        examples={"failing_keys": counts.failing_keys, **examples},
        readers=readers,
        passed=sorted(of_suite.passed),
        judged=datetime.now(UTC),
    )


def _lost(lake: Lake, dataset: Dataset, upserted: Upserted) -> list[LostContent]:
    """Contents that lost a conflict before the batch, where a row of it was lowered."""
    if Action.LOWER not in upserted.changes or dataset.resolves_ties:
        return []
    before = {attempt: batch for attempt, batch in upserted.conflicts.items() if attempt != upserted.attempt}
    marks = marks_named(lake, dataset.name, upserted.forgotten) if before else {}
    return lost_contents(conflicts_named(lake, dataset.name, before), marks)


def generated_checks(facts: BranchFacts, of_rows: Mapping[str, Sequence[CheckResult]]) -> list[CheckResult]:
    """The results of `CHECKS` in their order. `of_rows`: those of checks that expect something of rows, by id."""
    results: list[CheckResult] = []
    for check in CHECKS.values():
        result = apply_check(check, facts)
        results += [result] if result else of_rows.get(check.id, ())
    return results


def shows_loss(checks: Sequence[CheckResult]) -> bool:
    """Whether a red check says that records are missing."""
    losses = {check.id for check in CHECKS.values() if check.loss}
    return any(check.red and check.status == "failed" and check.id in losses for check in checks)
