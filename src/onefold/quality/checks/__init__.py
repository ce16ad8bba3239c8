"""The checks of the gate, by id: plain Python over facts, or expectations over rows as data. Imports no engine.

A new check is a function in the file of its family, and a row in `CHECKS`. A fact that nothing counts yet is a field in
`facts.py`, counted in `onefold.quality.branch_facts`.
"""

from __future__ import annotations

from onefold.quality.checks import completeness, conservation, database, freshness, held, identities, laws, rates
from onefold.quality.checks.check import BLOCKING, WARNING, Behind, Check, Measurement, RowExpectation, figure
from onefold.quality.checks.facts import BranchFacts, RowCounts

__all__ = [
    "BLOCKING",
    "CHECKS",
    "WARNING",
    "Behind",
    "BranchFacts",
    "Check",
    "Measurement",
    "RowCounts",
    "RowExpectation",
    "figure",
    "id_of",
    "title_of",
]

_ROWS = (
    Check("unique_keys", "every key at most once (plain Spark)", law="L3", waivable=False, measure=laws.unique_keys),
    Check("no_nulls", "no null key or version", law="L4", waivable=False, measure=laws.nulls),
    Check(
        "no_regressions", "no row went back in version and order", law="L4", waivable=False, measure=laws.regressions
    ),
    Check(
        "actions_applied",
        "every action is on the branch",
        earlier_titles=("every action stands on the branch",),
        law="L5",
        waivable=False,
        measure=laws.actions,
    ),
    Check("row_count", "rows after = rows before + inserted", law="L2", waivable=False, measure=laws.row_count),
    Check("same_columns", "columns as published", law="L1", waivable=False, measure=laws.columns),
    Check("sums_of_entries", "sums moved as their entries", law="L1", waivable=False, measure=laws.sums),
    Check("quarantine_complete", "rejected records quarantined", law="L6", waivable=False, measure=laws.quarantine),
    Check(
        "nothing_forgotten_left", "no row of a forgotten key is left", law="L1", waivable=False, measure=laws.forgotten
    ),
    Check("unique_key_digest", "key digest unique", law="L3", waivable=False, expect=laws.unique_key_digest),
    Check("unique_key_columns", "{} unique", law="L3", waivable=False, expect=laws.unique_key_columns),
    Check("key_not_null", "{} not null", expect=laws.key_not_null, behind=Behind.NULL_KEYS),
    Check(
        "verdicts_given",
        "records landed = verdicts given",
        variants=(
            "records landed (and woken) = verdicts given",
            "records replayed = verdicts given",
            "records replayed (and woken) = verdicts given",
        ),
        law="L2",
        waivable=False,
        measure=conservation.verdicts,
    ),
    Check(
        "unexplained_offsets",
        "no unexplained offset",
        law="L2",
        waivable=False,
        loss=True,
        measure=conservation.unexplained_offsets,
    ),
    Check(
        "undamaged_segments",
        "damaged places in log segments",
        loss=True,
        measure=conservation.damaged_places,
        behind=Behind.DAMAGED,
    ),
    Check(
        "nothing_lost",
        "offsets gone before they were landed",
        loss=True,
        measure=conservation.lost_offsets,
        behind=Behind.LOST,
    ),
    Check(
        "topic_gone",
        "no topic is gone that had been read",
        loss=True,
        measure=conservation.topics_gone,
        behind=Behind.GONE,
    ),
    Check(
        "held_back",
        "no older record waits behind the interval",
        severity=WARNING,
        measure=conservation.held_back,
        behind=Behind.WARNING,
    ),
    Check(
        "coverage_gaps",
        "offsets that no batch has landed, between others",
        measure=completeness.gaps,
        behind=Behind.GAPS,
    ),
    Check(
        "compacted_deletes",
        "compacted offsets that may have been deletes",
        severity=WARNING,
        measure=completeness.maybe_deletes,
        behind=Behind.WARNING,
    ),
    Check(
        "silent_partitions",
        "partitions that fell silent",
        severity=WARNING,
        measure=completeness.silent_partitions,
        behind=Behind.WARNING,
    ),
    Check(
        "shared_keys",
        "keys that two topics share",
        severity=WARNING,
        measure=completeness.shared_keys,
        behind=Behind.WARNING,
    ),
    Check("new_topics", "topics that are new to the table", measure=completeness.new_topics, behind=Behind.NEW_TOPICS),
    Check(
        "consistent_positions",
        "no position with two contents",
        law="L1",
        waivable=False,
        measure=conservation.positions,
    ),
    Check(
        "positions_compared",
        "positions read again without a kept content",
        severity=WARNING,
        measure=conservation.not_compared,
        behind=Behind.WARNING,
    ),
    Check(
        "comparable_versions",
        "no versions that cannot be compared",
        law="L4",
        waivable=False,
        measure=conservation.versions,
    ),
    Check(
        "late_copies",
        "messages sent again after another one of their key",
        earlier_titles=("no message sent again after another one of its key",),
        severity=WARNING,
        measure=conservation.late_copies,
        behind=Behind.WARNING,
    ),
    Check(
        "earlier_deliveries",
        "no row whose message was delivered before another one",
        law="L1",
        waivable=False,
        measure=conservation.earlier_deliveries,
    ),
    Check(
        "conflicts",
        "conflicts",
        variants=(
            "conflicts, reused identities included",
            "conflicts, identities in two periods included",
            "conflicts, reused identities and identities in two periods included",
        ),
        measure=rates.conflicts,
        behind=Behind.CONFLICTS,
    ),
    Check("truncates", "no table was emptied in the database", measure=database.truncates, behind=Behind.OF_DATABASE),
    Check(
        "schema_changes",
        "no change of the database's schema",
        measure=database.schema_changes,
        behind=Behind.OF_DATABASE,
    ),
    Check(
        "missed_deletes",
        "deletes that found no row in their period",
        severity=WARNING,
        measure=identities.missed_deletes,
        behind=Behind.WARNING,
    ),
    Check(
        "sequence_restarts",
        "producers whose sequence begins again",
        severity=WARNING,
        measure=identities.restarts,
        behind=Behind.WARNING,
    ),
    Check(
        "identities_over_days",
        "records that repeat an identity after more than a day",
        severity=WARNING,
        measure=identities.late_repeats,
        behind=Behind.WARNING,
    ),
    Check("duplicate_rate", "duplicate rate", measure=rates.duplicate_rate, behind=Behind.DUPLICATES),
    Check("rejected_rate", "rejected rate", measure=rates.rejected_rate, behind=Behind.REJECTED),
    Check(
        "mostly_rejected",
        "rejected records, of a batch of any size",
        measure=rates.mostly_rejected,
        behind=Behind.REJECTED,
    ),
    Check("stale_rows", "rows known to be stale", severity=WARNING, measure=rates.stale_rows, behind=Behind.WARNING),
    Check(
        "nothing_applied",
        "records of a batch that applies none",
        severity=WARNING,
        measure=rates.nothing_applied,
        behind=Behind.WARNING,
    ),
    Check("rejected_deletes", "rejected deletes", measure=rates.rejected_deletes, behind=Behind.REJECTED_DELETES),
    Check(
        "backwards_rate", "rate of versions that go backwards", measure=rates.backwards_rate, behind=Behind.BACKWARDS
    ),
    Check(
        "filtered_newer",
        "filtered records that are newer than their row",
        measure=rates.filtered_newer,
        behind=Behind.FILTERED,
    ),
    Check(
        "freshness",
        "age of the newest record that is applied, superseded or held, seconds",
        earlier_titles=("age of the newest record, seconds",),
        measure=freshness.age,
        behind=Behind.MEASUREMENT,
    ),
    Check(
        "timestamp_ahead",
        "newest log timestamp ahead of the clock, seconds",
        measure=freshness.ahead,
        behind=Behind.MEASUREMENT,
    ),
    Check("held_age", "age of the oldest held record, seconds", measure=held.age, behind=Behind.MEASUREMENT),
    Check("held_records", "records held", measure=held.count, behind=Behind.HELD),
)
CHECKS: dict[str, Check] = {check.id: check for check in _ROWS}
"""Every check that the gate makes of its own, in the order of its results. Those of a dataset's suite come after them:
each has what it expects, as `expect_…(column="…")`, as id and title."""
assert len(CHECKS) == len(_ROWS), "each id is of one check"


def id_of(word: str) -> str:
    """The id of the check that a word names: an id, or any title that the check has or had. Other words are given back,
    such as a check of a dataset's suite."""
    for check in CHECKS.values():
        columns = check.columns_of(word)
        if columns is not None:
            return check.id_for(columns)
    return word


def title_of(word: str) -> str:
    """The title of the check that a word names, as `id_of` takes words."""
    name, bracket, columns = id_of(word).partition("(")
    check = CHECKS.get(name)
    return check.title_for(columns.removesuffix(")").split(", ") if bracket else ()) if check else word
