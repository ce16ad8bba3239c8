"""What must be true of any branch: keys, order, actions, columns, sums, the quarantine.

Plain Spark counts it: no library is between the count and the judgement. Great Expectations looks for repeated keys and
nulls once more.
"""

from __future__ import annotations

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path
from onefold.quality.checks.check import Measurement, RowExpectation, exactly
from onefold.quality.checks.facts import BranchFacts


def unique_keys(facts: BranchFacts) -> Measurement:
    """Keys of the batch that have several rows on the branch."""
    return exactly(facts.counts.repeated_keys, 0)


def nulls(facts: BranchFacts) -> Measurement:
    """Rows without their key or a part of their version, and live ones without a column of their key."""
    return exactly(facts.counts.nulls, 0)


def regressions(facts: BranchFacts) -> Measurement:
    """Rows that went back in version and order."""
    return exactly(facts.counts.regressions, 0)


def actions(facts: BranchFacts) -> Measurement:
    """Actions that are not on the branch as they were meant."""
    return exactly(facts.counts.unapplied, 0)


def row_count(facts: BranchFacts) -> Measurement:
    """Rows of the batch's buckets, on the branch and as the actions make them of the base's."""
    return exactly(facts.counts.rows_after, facts.counts.rows_before + facts.counts.added)


def columns(facts: BranchFacts) -> Measurement:
    """Columns that only the base or only the branch has."""
    return exactly(facts.counts.unknown_columns, 0)


def sums(facts: BranchFacts) -> Measurement | None:
    """Keys whose sum did not move as their entries."""
    unequal = facts.counts.unequal_sums
    return None if unequal is None else exactly(unequal, 0)


def quarantine(facts: BranchFacts) -> Measurement:
    """Entries of the quarantine, and the batch's records that belong there."""
    return exactly(facts.counts.quarantined, facts.counts.rejected)


def forgotten(facts: BranchFacts) -> Measurement | None:
    """Rows that are left of forgotten keys."""
    left = facts.counts.forgotten
    return None if left is None else exactly(left, 0)


def unique_key_digest(dataset: Dataset) -> list[RowExpectation]:
    """The key's digest is unique. Asked where columns do not say all of a key, such as a position, or are what a
    function makes the key of.

    By induction: the base was unique, so no key of the actions twice on the branch means no key twice at all.
    """
    if _has_column_for_each_part(dataset) and _columns_are_key(dataset):
        return []
    return [RowExpectation("expect_column_values_to_be_unique", {"column": "key_digest"})]


def unique_key_columns(dataset: Dataset) -> list[RowExpectation]:
    """The columns of the key are unique, where they are all of it."""
    keys = tuple(dataset.row_key_columns)
    if not _has_column_for_each_part(dataset):
        return []
    if len(keys) == 1:
        return [RowExpectation("expect_column_values_to_be_unique", {"column": keys[0]}, keys)]
    kwargs = {"column_list": list(keys), "ignore_row_if": "never"}
    return [RowExpectation("expect_compound_columns_to_be_unique", kwargs, keys)]


def key_not_null(dataset: Dataset) -> list[RowExpectation]:
    """No column of the key is null."""
    return [
        RowExpectation("expect_column_values_to_not_be_null", {"column": key}, (key,))
        for key in dataset.row_key_columns
    ]


def _has_column_for_each_part(dataset: Dataset) -> bool:
    return bool(dataset.row_key_columns) and len(dataset.row_key_columns) == len(dataset.row_key_names)


def _columns_are_key(dataset: Dataset) -> bool:
    """Whether a key's columns are the key. In mode append `lower(id)` may be the same where `id` is not; elsewhere the
    table has what a function makes as a column of its own."""
    trees = [tree for tree in dataset.key_expressions if tree != dataset.within]
    return bool(dataset.apply.key) or all(isinstance(tree, Path) for tree in trees)
