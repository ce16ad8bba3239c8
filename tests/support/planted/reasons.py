"""A fault for each verdict and reason that is given by a rule: with it the rule never gives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Replace = Callable[[Callable[..., Any]], Callable[..., Any]]
_SPARK = "tests/spark/"
_JUDGED = f"{_SPARK}test_judge.py::"
_SURVIVORS = f"{_SPARK}test_survivors.py::"
_DECODED = f"{_SPARK}test_decode.py::"
_OF_DATABASE = (
    f"{_SPARK}test_debezium.py::test_what_no_record_can_do_is_red_by_name_and_a_connectors_own_records_are_not"
)
_APPEND = f"{_SURVIVORS}test_append_keeps_the_smallest_and_names_the_narrowest_repetition"
_UPSERT = f"{_SURVIVORS}test_upsert_keeps_the_newest_version_and_of_it_the_last"
_UPSERT_AGAINST_ROWS = f"{_JUDGED}test_upsert_against_rows_the_newer_version_wins"
_CHAIN = f"{_SPARK}test_chain.py::test_a_held_record_waits_in_the_table_and_is_explained_when_it_wakes"
_NEXT = f"{_DECODED}test_only_the_next_version_follows_the_one_that_a_record_expects"
_IDENTITY = f"{_DECODED}test_identity_of"
_LOG = f"{_SPARK}test_segments.py::test_each_record_says_what_the_log_says_of_it"

REASONS: dict[tuple[str, str], tuple[str, str]] = {
    ("applied", "insert"): ("judge_by", f"{_JUDGED}test_append_into_an_empty_table_inserts_survivors_only"),
    ("applied", "update"): ("judge_by", _UPSERT_AGAINST_ROWS),
    ("applied", "replace"): ("judge_by", f"{_JUDGED}test_upsert_of_the_stored_version_follows_the_tie"),
    ("applied", "delete"): ("judge_by", f"{_JUDGED}test_upsert_into_an_empty_table"),
    ("applied", "add"): (
        "write_actions",
        f"{_SPARK}test_increment.py::test_a_message_is_added_once_and_a_smaller_one_takes_its_place",
    ),
    ("applied", "folded"): ("_decided", _CHAIN),
    ("duplicate", "position"): ("judge_batch", _APPEND),
    ("duplicate", "producer"): (
        "judge_batch",
        f"{_SPARK}test_identities_that_are_none.py::"
        "test_with_an_epoch_next_to_the_sequence_each_start_counts_for_itself",
    ),
    ("duplicate", "message_id"): ("judge_batch", _APPEND),
    ("duplicate", "business_key"): ("judge_batch", _APPEND),
    ("duplicate", "key_version"): ("judge_batch", _UPSERT),
    ("superseded", "in_batch"): ("judge_batch", _UPSERT),
    ("superseded", "stored"): ("judge_by", _UPSERT_AGAINST_ROWS),
    ("superseded", "same_version"): (
        "judge_batch",
        f"{_SURVIVORS}test_upsert_tie_last_supersedes_and_tie_first_keeps_the_first",
    ),
    ("conflict", "inconsistent_position"): (
        "judge_batch",
        f"{_SURVIVORS}test_the_smaller_hash_of_two_contents_at_one_position_is_used",
    ),
    ("conflict", "same_version"): ("judge_batch", _UPSERT),
    ("conflict", "same_identity"): ("judge_batch", _APPEND),
    ("held", "version_gap"): ("_decided", _CHAIN),
    ("held", "open_transaction"): (
        "judge_batch",
        f"{_SPARK}test_segments.py::test_what_is_open_in_a_segment_between_those_of_a_batch_is_no_loss",
    ),
    ("rejected", "undecodable"): (
        "columns._said",
        f"{_DECODED}test_what_is_not_of_its_declared_type_is_refused_with_a_reason",
    ),
    ("rejected", "schema_not_found"): (
        "columns._said",
        f"{_SPARK}test_registered.py::test_each_message_is_read_by_the_schema_that_it_names",
    ),
    ("rejected", "too_large"): (
        "columns._said",
        f"{_DECODED}test_a_value_of_more_than_16_million_bytes_is_too_large",
    ),
    ("rejected", "missing_field"): (
        "columns._said",
        f"{_DECODED}test_an_absent_field_is_missing_and_an_explicit_null_is_null",
    ),
    ("rejected", "wrong_type"): (
        "columns._said",
        f"{_DECODED}test_what_is_not_of_its_declared_type_is_refused_with_a_reason",
    ),
    ("rejected", "unavailable_value"): (
        "columns._said",
        f"{_SPARK}test_debezium.py::test_a_value_that_the_connector_did_not_have_is_rejected_with_what_to_set",
    ),
    ("rejected", "unknown_schema"): (
        "rejection.rejected",
        f"{_SPARK}test_schema_changes.py::"
        "test_a_record_with_a_field_that_the_file_does_not_name_is_rejected_by_policy_only",
    ),
    ("rejected", "null_key"): ("rejection.rejected", _IDENTITY),
    ("rejected", "null_version"): ("rejection.rejected", _IDENTITY),
    ("rejected", "null_identity"): (
        "rejection.rejected",
        f"{_DECODED}test_a_null_deciding_identity_is_rejected_and_never_matches",
    ),
    ("rejected", "before_first"): ("rejection.rejected", _NEXT),
    ("rejected", "wrong_step"): ("rejection.rejected", _NEXT),
    ("rejected", "forgotten"): (
        "judge_batch",
        f"{_SPARK}test_forget.py::test_L1_copies_late_records_and_a_rebuild_bring_nothing_forgotten_back",
    ),
    ("filtered", "filter"): ("judge_batch", _APPEND),
    ("skipped", "decision"): (
        "judge_batch",
        f"{_SPARK}test_explain_taken_out.py::"
        "test_a_key_has_its_filtered_skipped_and_rejected_records_with_verdict_position_and_batch",
    ),
    ("aborted", "transaction"): ("judge_batch", _LOG),
    ("control", "marker"): ("judge_batch", _LOG),
    ("control", "service"): ("columns._said", f"{_SPARK}test_debezium.py::test_the_table_is_the_databases[bare]"),
    ("control", "truncate"): ("columns._said", _OF_DATABASE),
    ("control", "schema_change"): ("columns._said", _OF_DATABASE),
}
"""By verdict and reason: the function whose result loses it, and the test that must fail then."""


def lost(verdict: str, reason: str, function: str) -> Replace:
    """A function that never gives a verdict with its reason."""
    if function == "columns._said":
        return _not_said(reason)
    return _not_rejected(reason) if function == "rejection.rejected" else _called_otherwise(verdict, reason, function)


def _not_said(reason: str) -> Replace:
    """In Spark's Python workers, which know a fault from their start on."""

    def replace(original: Any) -> Any:
        def said(problem: Any) -> Any:
            return None if problem.reason.value == reason else original(problem)

        return said

    return replace


def _not_rejected(reason: str) -> Replace:
    def replace(original: Any) -> Any:
        def rejected(given: str, detail: Any) -> Any:
            from pyspark.sql import functions as F

            made = original(given, detail)
            return F.when(F.lit(given != reason), made)

        return rejected

    return replace


def _called_otherwise(verdict: str, reason: str, function: str) -> Replace:
    """Records with the verdict get another one; of `write_actions`, in what it is given."""
    other = ("skipped", "decision") if verdict != "skipped" else ("filtered", "filter")

    def renamed(rows: Any) -> Any:
        from pyspark.sql import functions as F

        hit = (F.col("_verdict") == verdict) & (F.col("_reason") == reason)
        words = zip(("_verdict", "_reason"), other, strict=True)
        columns = {name: F.when(hit, F.lit(word)).otherwise(F.col(name)) for name, word in words}
        return rows.withColumns(columns)

    def replace(original: Any) -> Any:
        def called(rows: Any, *args: Any, **more: Any) -> Any:
            if function == "write_actions":
                return original(renamed(rows), *args, **more)
            return renamed(original(rows, *args, **more))

        return called

    return replace
