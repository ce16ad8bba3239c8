"""The gate: every check of a branch, generated and the user's, and what they say together."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path
from onefold.dataset.masks import HIDDEN, digest, masked
from onefold.decisions import Skip, log_of, standing
from onefold.decisions.marks import marks_named
from onefold.dedup.reuse import identity_text
from onefold.dedup.staging import has_payload
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.plan import find_plan
from onefold.offsets import size
from onefold.quality.chains import first_held, held_rows
from onefold.quality.documents import BLOCKING, WARNING, Check, GateResult
from onefold.quality.expectations import Outcome, expect
from onefold.quality.facts import EXAMPLES, BranchFacts, changed_rows, facts_of, key_columns, live_rows, written_rows
from onefold.quality.suites import Expectation, load_suite
from onefold.quality.waivers import under
from onefold.records import envelope as E
from onefold.records.read import count_landed
from onefold.spark.concurrently import at_once
from onefold.spark.flat_structs import read_flat
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.counts import refused_delete
from onefold.upsert.coverage import name_unexplained
from onefold.upsert.documents import Upserted
from onefold.upsert.forgotten import forgotten_keys
from onefold.upsert.state import read_state
from onefold.vocabulary import OUTCOMES, Reason, RowState, Scope, Verdict, outcome_of

UNEXPLAINED, LOST = "no unexplained offset", "offsets gone before they were landed"
"""The checks that are red because records are missing."""
DELETES = "rejected deletes"
INCOMPARABLE = "no versions that cannot be compared"
HALF = 0.5
"""Of a batch of which a larger share is rejected little is usable, however few its records are."""
FEW = 3
"""Fields that the gate proposes to leave out of the comparison, at most."""
NAMED = 5
"""Unexplained ranges that the gate's check names; the accounts have them all."""


def judge_branch(session: SparkSession, lake: Lake, dataset: Dataset, upserted: Upserted) -> GateResult:
    """Run every check on an attempt's branch, and obey what was decided of the batch.

    A skipped batch changes no row, so the user's suite, which speaks of rows, is not asked.
    """
    log = log_of(lake, dataset.name, upserted.batch)
    decision = standing(log)
    suite = None if isinstance(decision, Skip) else load_suite(lake.settings.expectations_folder, dataset)
    expectations = suite.expectations if suite else []
    changed = changed_rows(session, dataset, upserted).persist()
    try:
        gone = forgotten_keys(marks_named(lake, dataset.name, upserted.carried_out).values())
        facts, of_rows = at_once(
            session,
            partial(facts_of, session, dataset, upserted, changed, gone),
            partial(row_checks, dataset, changed),
        )
        manifest = manifest_of(lake, dataset, upserted.batch)
        landed = 0 if upserted.unreadable else count_landed(session, lake, dataset, manifest)
        examples = examples_of(session, dataset, upserted)
        held, oldest = held_rows(session, dataset, upserted.head) if dataset.chained else (0, None)
        deletes = _first_deletes(session, dataset, upserted) if upserted.refused_deletes else []
        found = [
            *_spark_checks(facts),
            *of_rows,
            *_account_checks(lake, dataset, upserted, facts, landed, examples["conflicts"], deletes),
            # What an accepted gap leaves waiting is no fault of it, nor of keys that are forgotten.
            *([] if manifest.bare else _held_checks(session, dataset, upserted, held, oldest)),
            *_suite_checks(session, dataset, upserted, expectations),
        ]
        checks = under(found, decision)
    finally:
        changed.unpersist()
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
        loss=any(check.red and check.status == "failed" and check.name in (UNEXPLAINED, LOST) for check in checks),
        skippable=not manifest.bare and manifest.replays is None,
        facts={"landed": landed, "rows_before": facts.rows_before, "rows_after": facts.rows_after}
        | ({"held": held} if dataset.chained else {}),
        examples={"failing_keys": facts.failing_keys, **examples},
        judged=datetime.now(UTC),
    )


def _spark_checks(facts: BranchFacts) -> list[Check]:
    """The laws again, in plain Spark: no library between the count and the verdict."""
    asked = [
        ("every key at most once (plain Spark)", "L3", facts.repeated_keys, 0),
        ("no null key or version", "L4", facts.nulls, 0),
        ("no row went back in version and order", "L4", facts.regressions, 0),
        ("every action stands on the branch", "L5", facts.unapplied, 0),
        ("rows after = rows before + inserted", "L2", facts.rows_after, facts.rows_before + facts.added),
        ("columns as published", "L1", facts.unknown_columns, 0),
        *([] if facts.unequal_sums is None else [("sums moved as their entries", "L1", facts.unequal_sums, 0)]),
        ("rejected records quarantined", "L6", facts.quarantined, facts.rejected),
        *([] if facts.forgotten is None else [("no row of a forgotten key is left", "L1", facts.forgotten, 0)]),
    ]
    return [
        Check(
            name=name,
            by="spark",
            law=law,
            status="passed" if found == wanted else "failed",
            observed=str(found),
            expected=str(wanted),
            waivable=False,
        )
        for name, law, found, wanted in asked
    ]


def row_checks(dataset: Dataset, changed: DataFrame) -> list[Check]:
    """Uniqueness and nulls by Great Expectations, on the branch's live rows of the batch's keys.

    By induction: the base was unique, so no key of the actions twice on the branch means no key twice at all. Where
    columns do not say all of a key, such as a position, or are what a function makes it of, its digest is asked, too.
    """
    keys = key_columns(dataset)
    digest = F.hex(C.KEY).alias("key_digest")
    rows = changed.where(F.col(U.STATE) == RowState.LIVE).select(digest, *keys)
    wanted: list[tuple[str, str, str, dict[str, Any]]] = []
    named = bool(keys) and len(keys) == len(dataset.row_key_names)
    if not named or not _as_they_stand(dataset):
        wanted.append(("key digest unique", "L3", "expect_column_values_to_be_unique", {"column": "key_digest"}))
    if named and len(keys) > 1:
        kwargs = {"column_list": keys, "ignore_row_if": "never"}
        wanted.append((f"({', '.join(keys)}) unique", "L3", "expect_compound_columns_to_be_unique", kwargs))
    elif named:
        wanted.append((f"{keys[0]} unique", "L3", "expect_column_values_to_be_unique", {"column": keys[0]}))
    wanted += [(f"{key} not null", "", "expect_column_values_to_not_be_null", {"column": key}) for key in keys]
    outcomes = expect(rows, [(type_, kwargs) for _, _, type_, kwargs in wanted], dataset.masked)
    return [
        _check(name, "great_expectations", outcome, law=law, waivable=not law)
        for (name, law, _, _), outcome in zip(wanted, outcomes, strict=True)
    ]


def _as_they_stand(dataset: Dataset) -> bool:
    """Whether a key's columns are the key. In mode append `lower(id)` may be the same where `id` is not; elsewhere the
    table has what a function makes as a column of its own."""
    trees = [tree for tree in dataset.key_expressions if tree != dataset.within]
    return dataset.apply.mode != "append" or all(isinstance(tree, Path) for tree in trees)


def _account_checks(
    lake: Lake,
    dataset: Dataset,
    upserted: Upserted,
    facts: BranchFacts,
    landed: int,
    shown: list[dict[str, Any]],
    deletes: list[str],
) -> list[Check]:
    """Conservation, holes, rates, conflicts, freshness: Great Expectations over the batch's one line of account.

    `shown`: some of its conflicts, as `examples_of` gives them; `deletes`: some rejected deletes.
    """
    quality, counts = dataset.quality, upserted.counts
    found = {outcome_of(verdict, reason): count for verdict, some in counts.items() for reason, count in some.items()}
    unwanted = sum(count for outcome, count in found.items() if not outcome.wanted)
    fresh = upserted.landed + upserted.replayed - upserted.covered - unwanted
    rejected = sum(count for outcome, count in found.items() if outcome.quarantined)
    duplicates = sum(counts.get(Verdict.DUPLICATE, {}).values()) - upserted.covered
    held = sum(counts.get(Verdict.HELD, {}).values())
    conflicts = counts.get(Verdict.CONFLICT, {})
    laws = (Reason.INCONSISTENT_POSITION, Reason.INCOMPARABLE_VERSION)
    inconsistent, incomparable = (conflicts.get(reason, 0) for reason in laws)
    rates = WARNING if fresh < quality.min_records else BLOCKING
    # A sum or a chain needs every record, of a small batch, too.
    complete = quality.max_rejected_rate is None and not dataset.max_rejected_rate
    line: dict[str, tuple[str, str, float, float | None, str, bool]] = {
        # name: (title, law, value, at most / exactly, severity, waivable)
        "verdicts": (
            f"records {'replayed' if upserted.replays else 'landed'}{' (and woken)' if upserted.woken else ''} = "
            "verdicts given",
            "L2",
            facts.verdicts,
            landed + upserted.woken,
            BLOCKING,
            False,
        ),
        "unexplained": (
            UNEXPLAINED,
            "L2",
            sum(size(one.unexplained) for one in upserted.accounts),
            0,
            BLOCKING,
            False,
        ),
        "lost": (
            LOST,
            "",
            sum(one.lost for one in upserted.accounts),
            0,
            BLOCKING if refuses_loss(dataset) else WARNING,
            True,
        ),
        "inconsistent": ("no position with two contents", "L1", inconsistent, 0, BLOCKING, False),
        "incomparable": (INCOMPARABLE, "L4", incomparable, 0, BLOCKING, False),
        "conflicts": (
            "conflicts, reused identities included" if upserted.findings else "conflicts",
            "",
            sum(conflicts.values()) - inconsistent - incomparable + upserted.findings,
            quality.max_conflicts,
            BLOCKING,
            True,
        ),
        "duplicate_rate": (
            "duplicate rate",
            "",
            duplicates / fresh if fresh else 0.0,
            quality.max_duplicate_rate,
            rates,
            True,
        ),
        "rejected_rate": (
            "rejected rate",
            "",
            rejected / fresh if fresh else 0.0,
            None if upserted.replays else dataset.max_rejected_rate,  # what is rejected again was counted before
            BLOCKING if complete else rates,
            True,
        ),
    }
    if rates == WARNING and not complete and not upserted.replays:
        line["unusable"] = (
            "rejected records, of a batch of any size",
            "",
            _unusable(rejected, fresh, held),
            max(HALF, dataset.max_rejected_rate),
            BLOCKING,
            True,
        )
    if dataset.apply.mode == "upsert" and not upserted.replays:
        line["deletes"] = (DELETES, "", upserted.refused_deletes, quality.max_rejected_deletes or 0, BLOCKING, True)
    age = _age_at_live_edge(lake, dataset, upserted)
    if age is not None:
        wanted_age = quality.freshness.total_seconds() if quality.freshness else None
        line["age"] = ("age of the newest record, seconds", "", age, wanted_age, BLOCKING, True)
    asked = {name: row for name, row in line.items() if row[3] is not None}
    frame = pd.DataFrame({name: [float(row[2])] for name, row in asked.items()})
    exact = {"verdicts"}
    wanted = [
        (
            "expect_column_values_to_be_between",
            {
                "column": name,
                "max_value": float(row[3] or 0),
                "min_value": float(row[3] or 0) if name in exact else None,
            },
        )
        for name, row in asked.items()
    ]
    first = {"unexplained": name_unexplained(upserted.accounts, NAMED), "deletes": deletes}
    checks = []
    for (name, (title, law, value, limit, severity, waivable)), outcome in zip(
        asked.items(), expect(frame, wanted), strict=True
    ):
        observed = Outcome(outcome.status, _figure(value), outcome.detail if outcome.status == "errored" else "")
        expected = _figure(limit or 0) if law == "L2" and limit else f"at most {_figure(limit or 0)}"
        checks.append(
            _check(
                title,
                "great_expectations",
                observed,
                law=law,
                severity=severity,
                expected=expected,
                first=first.get(name, []) if outcome.status == "failed" else [],
                waivable=waivable,
                way_out=_way_out(dataset, name, shown),
            )
        )
    return checks


def _unusable(rejected: int, fresh: int, held: int) -> float:
    """The share of a batch's records that is rejected; all of it where the others only wait."""
    if rejected and rejected + held >= fresh:
        return 1.0
    return rejected / fresh if fresh else 0.0


def _way_out(dataset: Dataset, name: str, shown: list[dict[str, Any]]) -> str:
    """What a dataset file can say so that a check is not red again; nothing where it can say nothing."""
    if name == "incomparable":
        return (
            "an offset orders the records of one partition only: declare a version of the value, or [timestamp, "
            f"offset], which trusts the producers' clocks, and run onefold rebuild {dataset.name}"
        )
    if name == "deletes" and dataset.apply.delete_when is None:
        return (
            "say what a null value means: apply.delete_when: tombstone deletes its key (every part of apply.key is "
            "then one of the Kafka key, as key.id), never ignores it"
        )
    if name == "deletes" and dataset.apply.delete_when != "tombstone":
        return (
            "a null value is taken for the tombstone behind a delete only where the table has that delete; publish an "
            "earlier batch that is missing and run this one again, or write apply.delete_when: never where nulls mean "
            "nothing"
        )
    if name != "conflicts":
        return ""
    return "; or ".join(way for way in (compare_proposal(dataset, shown), _other_way_out(dataset)) if way)


def _other_way_out(dataset: Dataset) -> str:
    version = dataset.apply.version
    if version and version.tie == "conflict" and not dataset.chained:
        return (
            "of several contents of one version apply.version.tie: last takes the one at the larger offset (first: the "
            "smaller); or declare a version that tells them apart, such as [version, timestamp]"
        )
    if not version and dataset.identity.business_key:
        return "a wider identity.business_key keeps contents apart that are two things"
    return ""


def compare_proposal(dataset: Dataset, shown: list[dict[str, Any]]) -> str:
    """Which fields a dataset file can leave out of the comparison: those in which the two contents of each conflict
    that is shown differ. Nothing where they are many, where they decide, or where a content is not known."""
    conflicts = [one for one in shown if one["reason"] in (Reason.SAME_IDENTITY, Reason.SAME_VERSION)]
    sides = [(one["record"].get("fields"), one["other"].get("fields")) for one in conflicts]
    if not sides or any(_says_nothing(dataset, side) for both in sides for side in both):
        return ""
    names = {name for record, other in sides for name in record if record[name] != other.get(name)} - dataset.excepted
    if not 0 < len(names) <= FEW or not names <= dataset.fields.keys() - dataset.bound_fields.keys():
        return ""
    given = ", ".join(name for name in dataset.fields if name in names)
    declared = ", ".join(name for name in dataset.fields if name in names | dataset.excepted)
    return (
        f"the contents that are shown differ in {given} only: if that does not make them two things, declare "
        f"apply.compare: {{except: [{declared}]}}"
    )


def _says_nothing(dataset: Dataset, fields: dict[str, Any] | None) -> bool:
    """Whether a side of a conflict is not known, or is a tombstone."""
    return fields is None or all(
        value is None or name not in dataset.fields or name in dataset.keyed_fields for name, value in fields.items()
    )


def _held_checks(
    session: SparkSession, dataset: Dataset, upserted: Upserted, held: int, oldest: int | None
) -> list[Check]:
    """Guard contiguous: how many records wait for a version, and how long the oldest has, as the data tells time."""
    quality = dataset.quality
    asked: list[tuple[str, float, float]] = []
    if quality.max_held_age and oldest is not None and upserted.newest is not None:
        waited = max(0.0, (upserted.newest - oldest) / 1000)
        asked.append(("age of the oldest held record, seconds", waited, quality.max_held_age.total_seconds()))
    if quality.max_held is not None:
        asked.append(("records held", held, quality.max_held))
    if not asked:
        return []
    frame = pd.DataFrame({f"n{number}": [float(value)] for number, (_, value, _) in enumerate(asked)})
    wanted = [
        ("expect_column_values_to_be_between", {"column": f"n{number}", "max_value": float(limit)})
        for number, (_, _, limit) in enumerate(asked)
    ]
    outcomes = expect(frame, wanted)
    red = any(one.status == "failed" for one in outcomes)
    first = first_held(session, dataset, upserted.head, key_columns(dataset)) if red else []
    return [
        _check(
            name,
            "great_expectations",
            Outcome(one.status, _figure(value), one.detail if one.status == "errored" else ""),
            expected=f"at most {_figure(limit)}",
            first=first if one.status == "failed" else [],
        )
        for (name, value, limit), one in zip(asked, outcomes, strict=True)
    ]


def refuses_loss(dataset: Dataset) -> bool:
    """Whether records that were gone before they were landed make a batch red."""
    return dataset.quality.loss == "refused"


def _figure(value: float) -> str:
    """Plain, whatever its size; a rate with six digits at most."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _age_at_live_edge(lake: Lake, dataset: Dataset, upserted: Upserted) -> float | None:
    """Seconds between the end of a just finished interval and its newest record; None away from the live edge."""
    interval = find_plan(lake, dataset, upserted.batch).interval
    limit = dataset.quality.freshness
    newest = upserted.newest
    if interval is None or limit is None or newest is None or datetime.now(UTC) - interval.end > 2 * limit:
        return None
    return max(0.0, interval.end.timestamp() - newest / 1000)


def _suite_checks(
    session: SparkSession, dataset: Dataset, upserted: Upserted, expectations: list[Expectation]
) -> list[Check]:
    checks: list[Check] = []
    for over in ("changed", "table"):
        asked = [one for one in expectations if one.over == over]
        if not asked:
            continue
        of_batch = over == "changed"
        rows = written_rows(session, dataset, upserted) if of_batch else read_state(session, dataset, upserted.head)
        rows = live_rows(rows, dataset)
        try:
            asking = [(one.type, one.kwargs) for one in asked]
            outcomes = expect(rows.persist() if of_batch else rows, asking, dataset.masked)
        finally:
            rows.unpersist()
        for one, outcome in zip(asked, outcomes, strict=True):
            arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in one.kwargs.items())
            name = f"{one.type}({arguments})"
            checks.append(_check(name, "suite", outcome, severity=one.meta.severity, expected=f"over {over} rows"))
    return checks


def _check(name: str, by: str, outcome: Outcome, **more: Any) -> Check:
    return Check(name=name, by=by, status=outcome.status, observed=outcome.observed, detail=outcome.detail, **more)


def examples_of(session: SparkSession, dataset: Dataset, upserted: Upserted) -> dict[str, list[dict[str, Any]]]:
    """Some rejected records with their text, and some conflicts with both sides."""
    return {
        "rejected": _rejected(session, dataset, upserted) if Verdict.REJECTED in upserted.counts else [],
        "conflicts": _conflicts(session, dataset, upserted) if Verdict.CONFLICT in upserted.counts else [],
        "reused": _reused(session, dataset, upserted) if upserted.reused else [],
    }


def _first_deletes(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[str]:
    """Some rejected deletes by key and position, and how many more there are."""
    at = [F.col(f"{C.ORDER}.{name}") for name in ("topic", "partition", "offset")]
    text = F.substring(F.col(C.RAW_KEY).cast("string"), 1, 80)
    key = F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit("0x"), F.hex(F.substring(C.RAW_KEY, 1, 40))))
    place = F.coalesce(F.concat(at[0], F.lit("-"), at[1], F.lit("@"), at[2]), F.concat_ws(":", E.OBJECT, E.LINE))
    shown = F.lit(HIDDEN) if dataset.mask else F.coalesce(key, F.lit("null"))
    rows = read_flat(session, upserted.actions).where(refused_delete(dataset)).orderBy(*at, E.OBJECT, E.LINE)
    found = [f"key {row[0]} at {row[1]}" for row in rows.select(shown, place).limit(NAMED).collect()]
    more = upserted.refused_deletes - len(found)
    return [*found, f"and {more} more"] if more else found


def _rejected(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[dict[str, Any]]:
    actions = read_flat(session, upserted.actions)
    at = [F.col(f"{C.ORDER}.{name}").alias(name) for name in ("topic", "partition", "offset")]
    place = [*at, F.col(E.OBJECT).alias("object"), F.col(E.LINE).alias("line"), F.col(C.REASON).alias("reason")]
    text = F.substring(F.col(C.RAW_VALUE).cast("string"), 1, 300)
    order = [F.col(f"{C.ORDER}.{name}") for name in ("topic", "partition", "offset")]
    rejected = actions.where(F.expr(C.REFUSED)).orderBy(*order).limit(EXAMPLES)
    detail, value = (
        F.col(C.DETAIL),
        F.coalesce(F.when(F.is_valid_utf8(text), text), F.hex(F.substring(C.RAW_VALUE, 1, 100))),
    )
    if dataset.mask:  # which part of a text is a masked column's value, nobody can tell
        bare = F.regexp_replace(detail, r"(?s), found .*", "")
        plain = [one.reason for one in OUTCOMES.values() if one.quarantined and one.plain]
        detail = F.when(F.col(C.REASON).isin(*plain), bare)
        value = F.when(value.isNotNull(), F.lit(HIDDEN))
    rejected = rejected.select(*place, detail.alias("detail"), value.alias("value"))
    return [row.asDict() for row in rejected.collect()]


def _conflicts(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[dict[str, Any]]:
    """Both sides of each conflict: the record judged, and the one that stands (in the batch or in the base).

    The two may have one position and one timestamp, and two deletes one hash: the one that lost has no key then. Of the
    base, payload is read only of files that may hold the keys that are shown (L8).
    """
    staged = read_flat(session, upserted.staging)
    conflicts = (
        read_flat(session, upserted.actions)
        .where(F.col(C.VERDICT) == Verdict.CONFLICT)
        .select(C.KEY, C.ORDER, C.HASH, C.REASON, U.SCOPE, U.OTHER, U.WON)
        .orderBy(C.ORDER, C.HASH, C.KEY)
        .limit(EXAMPLES)
    )
    shown = conflicts.collect()
    kinds = f"_number int, _judged {conflicts.schema.simpleString()}"
    judged = session.createDataFrame(list(enumerate(shown)), kinds)
    keys = list({bytes(row[C.KEY]) for row in shown if row[C.KEY]})
    base = read_state(session, dataset, upserted.base, upserted.within).where(F.col(C.KEY).isin(keys))
    key, other = F.col(f"_judged.{C.KEY}"), F.col(f"_judged.{U.OTHER}")
    told_by = (C.KEY, C.ORDER, C.HASH)
    itself = reduce(Column.__and__, (F.col(f"_judged.{one}").eqNullSafe(F.col(one)) for one in told_by))
    at_other = F.col(C.ORDER) == other
    beaten = key.isNull() & F.col(C.KEY).isNotNull()  # what stands at its position may have lost to its own key
    sides = {
        "record": (staged.where(has_payload()), itself),
        "in_batch": (staged, at_other & (beaten | (F.col(C.SURVIVOR) & (F.col(C.KEY) == key)))),
        "stored": (base, at_other & (F.col(C.KEY) == key)),
    }
    rows = judged
    for name, (there, met) in sides.items():
        own = [one for one in (*told_by, C.SURVIVOR) if one in there.columns]
        found = judged.join(there.select(*own, _fields(dataset).alias(name)), met).groupBy("_number")
        rows = rows.join(found.agg(F.min(name).alias(name)), "_number", "left")
    return [
        {
            "reason": one[C.REASON],
            "scope": one[U.SCOPE],
            "won": one[U.WON],
            "record": _side(dataset, one[C.ORDER], row.record),
            "other": _side(dataset, one[U.OTHER], row.stored if one[U.SCOPE] == Scope.STORED else row.in_batch),
        }
        for one, row in zip(shown, rows.orderBy("_number").collect(), strict=True)
    ]


def _reused(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[dict[str, Any]]:
    """The first and the last record of each reused identity, as the two sides of a conflict are shown."""
    staged = read_flat(session, upserted.staging).where(F.col(C.KEY).isNotNull())
    record = F.struct(F.col(C.ORDER).alias("order"), _fields(dataset).alias("fields"))
    found = []
    for level in dict.fromkeys(one.level for one in upserted.reused):
        identity, hidden = identity_text(level), any(map(dataset.masks, dataset.level_expressions(level)))
        rows = staged.where(identity.isin([one.identity for one in upserted.reused if one.level == level]))
        sides = rows.groupBy(identity.alias("identity")).agg(
            F.max_by(record, C.ORDER).alias("last"), F.min_by(record, C.ORDER).alias("first")
        )
        found += [
            {
                "reason": "identity_reused",
                "level": level,
                "identity": digest(row.identity) if hidden else row.identity,
                "scope": Scope.IN_BATCH,
                "won": False,
                "record": _side(dataset, row["last"].order, row["last"].fields),
                "other": _side(dataset, row["first"].order, row["first"].fields),
            }
            for row in sides.orderBy("identity").collect()
        ]
    return found


def _fields(dataset: Dataset) -> Column:
    names = [name for name, _ in dataset.key_columns] + list(dataset.fields)
    return F.to_json(F.struct(*names), {"ignoreNullFields": "false"})


def _side(dataset: Dataset, order: Any, fields: str | None) -> dict[str, Any]:
    place = {name: order[name] for name in ("topic", "partition", "offset")} if order else {}
    return {**place, "fields": masked(dataset, json.loads(fields, parse_float=str)) if fields else None}
