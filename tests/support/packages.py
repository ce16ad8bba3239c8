"""Which tests to run for a change in which package: `python -m tests.support.packages upsert` lists their files.

`make test-for PACKAGE=upsert` runs them. The table names files and patterns below `tests/`.
"""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "onefold"
PACKAGES = sorted(
    entry.stem for entry in SOURCE.iterdir() if not entry.name.startswith("__") and (entry.is_dir() or entry.suffix)
)
"""The packages and modules of `src/onefold`."""

_LAWS = (
    "property/*.py",
    "spark/test_histories.py",
    "spark/test_pipeline_orders.py",
    "spark/test_recount.py",
    "spark/test_odd_streams.py",
)
_LAYOUTS = (
    "unit/test_layouts.py",
    "spark/test_added_layout.py",
    "spark/test_kcat.py", "spark/test_connect.py", "spark/test_layouts.py", "spark/test_layout_batches.py",
    "spark/test_segments.py", "spark/test_fuzzed_segments.py", "integration/test_segments.py",
)  # fmt: skip
_LIVE = (
    "integration/test_live_topics.py", "integration/test_looks.py", "integration/test_holes.py",
    "integration/test_topic_histories.py",
    "integration/test_cut_logs.py", "integration/test_bad_brokers.py", "integration/test_token_logins.py",
    "integration/test_takeover.py",
    "integration/test_producers.py", "integration/test_semantics.py", "integration/test_sample_broker.py",
)  # fmt: skip
_S3 = ("integration/test_s3*.py", "integration/test_claims.py", "integration/test_where_it_runs.py")
_COMMANDS = ("unit/test_cli.py", "unit/test_console.py", "process/test_runs.py")

TESTS_OF: dict[str, tuple[str, ...]] = {
    "iceberg": (
        "integration/test_catalog.py", "unit/test_catalogs.py", "unit/test_lease.py", "spark/test_lost_commits.py",
        "process/test_contention.py", "process/test_recovery.py", "integration/test_remote_recovery.py",
        "integration/test_orders.py",
    ),
    "catalog": (
        "unit/test_catalogs.py", "unit/test_lease.py", "integration/test_catalog.py", "integration/test_claims.py",
        "integration/test_where_it_runs.py", "process/test_contention.py", "process/test_secrets.py",
    ),
    "cli": (
        *_COMMANDS, "unit/test_intervals.py", "unit/test_looking.py", "unit/test_config.py", "process/test_init.py",
        "process/test_doctor.py", "process/test_demo.py", "process/test_sample.py", "process/test_reading_docs.py",
        "process/test_bad_inputs.py", "process/test_decisions.py", "unit/test_waiting.py",
    ),
    "dataset": (
        "unit/test_dataset_files.py", "unit/test_expressions.py", "unit/test_names.py", "unit/test_schedule.py",
        "unit/test_types_page.py",
        "unit/test_tree.py", "unit/test_hostile_files.py", "unit/test_export_places.py", "unit/test_patterns.py",
        "spark/test_ties.py", "spark/test_deliveries.py", "property/test_deliveries.py", "spark/test_completeness.py",
        "unit/test_visible.py",
        "unit/test_pinned_generations.py", "unit/test_layouts.py",
        "unit/test_schema_changes.py", "unit/test_columns.py", "unit/test_masks.py", "unit/test_periods.py",
        "spark/test_schema_changes.py", "spark/test_key_columns.py", "spark/test_versions.py",
        "process/test_schema_changes.py",
    ),
    "decisions": (
        "unit/test_decisions.py", "unit/test_deciders.py", "unit/test_approvals.py",
        "unit/test_gaps.py", "unit/test_forget.py",
        "unit/test_requests.py", "unit/test_rolled_back.py", "process/test_rollback.py",
        "spark/test_skips.py", "spark/test_waivers.py", "spark/test_forget.py", "spark/test_forget_orders.py",
        "unit/test_decided_conflicts.py", "property/test_decided.py", "spark/test_decided_conflicts.py",
        "process/test_decisions.py", "process/test_decision_crashes.py",
    ),
    "dedup": (
        *_LAWS, "unit/test_columns.py", "unit/test_code_digest.py", "spark/test_survivors.py",
        "spark/test_positions.py", "spark/test_sequences.py", "spark/test_reuse.py", "spark/test_small.py",
        "spark/test_known_positions.py",
        "spark/test_plans.py", "spark/test_within.py", "spark/test_period_moved.py",
        "spark/test_identities_that_are_none.py", "spark/test_conflicts.py", "spark/test_clearing.py",
        "process/test_sample.py",
    ),
    "diagnosis": ("unit/test_diagnosis.py", "process/test_doctor.py", "integration/test_doctor.py"),
    "draft": (
        "unit/test_draft*.py", "unit/test_foreign_exports.py", "unit/test_newest.py", "unit/test_layouts.py",
        "property/test_drafts.py",
        "process/test_init.py",
        "integration/test_init_live.py", "integration/test_registry.py",
    ),
    "errors": ("unit/test_errors.py", "unit/test_cli.py", "process/test_runs.py", "dags/test_parsing.py"),
    "faults": (
        "unit/test_faults.py", "unit/test_planted_faults.py", "process/test_crashes.py",
        "process/test_decision_crashes.py", "dags/test_killed.py",
    ),
    "folding": (
        *_LAWS, "spark/test_survivors.py", "spark/test_judge.py", "spark/test_chain.py", "spark/test_increment.py",
        "spark/test_versions.py", "spark/test_conflicts.py", "spark/test_compare.py", "spark/test_reuse.py",
        "spark/test_situations.py", "spark/test_filters.py", "spark/test_plans.py", "unit/test_modes.py",
        "spark/test_branch_keys.py",
    ),
    "formats": (
        "unit/test_envelopes.py", "spark/test_debezium.py", "unit/test_cloudevents.py", "spark/test_cloudevents.py",
        "integration/test_debezium_connector.py", "spark/test_other_connectors.py",
        "unit/test_formats.py", "unit/test_wire.py", "unit/test_avro_messages.py", "spark/test_avro.py",
        "unit/test_protobuf_messages.py", "spark/test_protobuf.py",
        "spark/test_registered.py", "unit/test_expansion.py", "spark/test_expansion.py", "unit/test_aiven_lines.py",
        "unit/test_draft_exports.py",
        *_LAYOUTS,
    ),
    "instants": ("unit/test_instants.py", "unit/test_schedule.py", "process/test_bad_inputs.py"),
    "lake": ("unit/test_storage.py", "unit/test_settings.py", "unit/test_generation.py", "process/test_runs.py", *_S3),
    "kafka": (
        *_LIVE, "unit/test_batches.py", "unit/test_transactions.py", "unit/test_segment_scan.py", "unit/test_newest.py",
        "unit/test_connections.py", "unit/test_diagnosis.py",
    ),
    "lake_keys": ("unit/test_storage.py", "unit/test_plan.py", "process/test_maintain.py"),
    "jvm_errors": ("unit/test_errors.py",),
    "generation": (
        "unit/test_generation.py", "unit/test_pinned_generations.py", "unit/test_schema_changes.py",
        "spark/test_schema_changes.py",
    ),
    "landing": (
        *_LIVE, "unit/test_plan.py", "unit/test_plan_kinds.py", "unit/test_cuts.py", "unit/test_batches.py",
        "unit/test_leader_epochs.py", "unit/test_incarnations.py", "unit/test_segment_*.py",
        "unit/test_transactions.py", "unit/test_newest.py", "unit/test_connections.py", "spark/test_incarnations.py",
        "process/test_runs.py", "process/test_tampering.py", "spark/test_erase.py", "process/test_large_plans.py",
        "integration/test_many_partitions.py",
        "integration/test_lost_executors.py",
    ),
    "maintenance": (
        "process/test_maintain.py", "process/test_recovery.py", "process/test_rebuild.py", "spark/test_clearing.py",
        "unit/test_clear.py", "dags/test_housekeeping.py",
        "unit/test_erase.py", "spark/test_erase.py", "process/test_erase.py", "integration/test_remote_recovery.py",
        "dags/test_decide.py",
    ),
    "operations": (
        *_COMMANDS, "unit/test_driver.py", "unit/test_import_walls.py", "process/test_full_disks.py",
        "process/test_rebuild.py", "process/test_erase.py", "process/test_prove.py", "process/test_maintain.py",
        "process/test_decisions.py", "process/test_reds.py", "process/test_replay.py", "process/test_forget.py",
        "unit/test_replay.py", "unit/test_erase.py", "unit/test_forget.py", "unit/test_requests.py",
        "unit/test_decisions.py", "unit/test_intervals.py", "unit/test_gaps.py", "unit/test_own_batch.py",
        "unit/test_rolled_back.py", "process/test_rollback.py",
        "process/test_rebuild_without.py", "spark/test_replay.py", "spark/test_erase.py",
    ),
    "offsets": ("unit/test_offsets.py", "unit/test_replay.py", "unit/test_account.py"),
    "orchestration": ("dags/*.py", "unit/test_approval.py", "unit/test_requests.py", "unit/test_connections.py"),
    "setting_origins": ("unit/test_settings.py", "unit/test_config.py", "process/test_secrets.py"),
    "processes": (
        "unit/test_cli.py", "unit/test_driver.py", "spark/test_session.py", "process/test_secrets.py",
        "dags/test_submission.py", "dags/test_secrets.py",
    ),
    "proof": (
        "spark/test_proof.py", "spark/test_proof_omitted.py", "process/test_prove.py", "process/test_proof_chain.py",
        "spark/test_histories.py", "spark/test_masks.py",
    ),
    "publish": (
        "process/test_crashes.py", "process/test_contention.py", "process/test_runs.py", "unit/test_lease.py",
        "spark/test_lost_commits.py", "spark/test_overtaken.py", "unit/test_rolled_back.py", "process/test_rollback.py",
    ),
    "quality": (
        "process/test_reds.py", "process/test_tampering.py", "unit/test_checks.py", "unit/test_suites.py",
        "spark/test_stale_rows.py",
        "unit/test_account.py", "unit/test_decisions.py", "unit/test_compare.py",
        "spark/test_row_checks.py", "spark/test_period_moved.py", "spark/test_suite_rows.py",
        "spark/test_reader_changes.py", "spark/test_plans.py", "spark/test_increment.py", "spark/test_waivers.py",
        "spark/test_identities_that_are_none.py", "spark/test_freshness.py", "spark/test_branch_keys.py",
    ),
    "records": (
        *_LAYOUTS, "unit/test_text_lines.py", "spark/test_nested.py", "property/test_moves.py",
        "process/test_bad_inputs.py",
    ),
    "report": (
        "unit/test_report_page.py", "unit/test_history.py", "unit/test_looking.py", "unit/test_causes.py",
        "unit/test_held.py", "spark/test_explain.py", "spark/test_explain_taken_out.py", "process/test_red_verdicts.py",
        "process/test_quarantine.py",
        "process/test_changes.py", "process/test_reds.py", "dags/test_report_pages.py",
    ),
    "schemas": ("unit/test_registry_connections.py", "spark/test_registered.py", "integration/test_registry.py"),
    "settings": (
        "unit/test_settings.py", "unit/test_config.py", "unit/test_connections.py", "unit/test_compose.py",
        "process/test_lake_files.py",
    ),
    "spark": (
        "unit/test_driver.py", "spark/test_session.py", "spark/test_small.py", "spark/test_plans.py",
        "spark/test_cut.py", "spark/test_gateway.py", "spark/test_python_tasks.py",
        "integration/test_lost_executors.py",
        "integration/test_where_it_runs.py", "dags/test_submission.py",
        "integration/test_stack.py", "unit/test_stack.py", "unit/test_compose.py", "unit/test_audit.py",
        "process/test_secrets.py", "process/test_local_spark.py",
    ),
    "storage": ("unit/test_storage.py", "process/test_full_disks.py", "process/test_lake_files.py", *_S3),
    "ui": ("unit/test_quality_pages.py", "unit/test_history.py", "dags/test_report_pages.py", "dags/test_services.py"),
    "upsert": (
        *_LAWS, "spark/test_judge.py", "spark/test_chain.py", "spark/test_increment.py", "spark/test_within.py",
        "spark/test_versions.py", "spark/test_conflicts.py", "spark/test_nulls.py", "spark/test_compare.py",
        "spark/test_plans.py", "spark/test_known_positions.py", "unit/test_known_positions.py",
        "spark/test_reuse.py", "spark/test_skips.py", "spark/test_forget.py", "spark/test_forget_orders.py",
        "spark/test_replay.py",
        "spark/test_schema_changes.py", "spark/test_completeness.py", "process/test_completeness.py",
        "unit/test_completeness.py",
        "unit/test_account.py", "unit/test_compare.py", "unit/test_test_runs.py",
        "process/test_crashes.py",
        "process/test_contention.py", "process/test_quarantine.py",
    ),
    "tables": ("unit/test_columns.py", "spark/test_plans.py", "spark/test_key_columns.py", "spark/test_explain.py"),
    "values": (
        "unit/test_value_columns.py",
        "spark/test_decode.py", "spark/test_canonical.py", "spark/test_nested.py", "spark/test_masks.py",
        "spark/test_key_columns.py", "spark/test_situations.py", "spark/test_odd_streams.py", "spark/test_proof.py",
        "unit/test_envelopes.py", "spark/test_debezium.py", "unit/test_cloudevents.py", "spark/test_cloudevents.py",
        "unit/test_expressions.py", "unit/test_value_formats.py", "property/test_decoders.py", "spark/test_avro.py",
        "spark/test_protobuf.py", "spark/test_registered.py", "spark/test_defaults.py", "integration/test_registry.py",
        "process/test_bad_inputs.py",
    ),
    "vocabulary": ("unit/test_vocabulary.py", "unit/test_language.py", "unit/test_report_page.py"),
    "visible": ("unit/test_console.py", "unit/test_cli.py", "unit/test_visible.py", "unit/test_security_page.py"),
}  # fmt: skip
"""The tests of a package: those that fail where it is wrong."""


def files_of(package: str) -> list[str]:
    """The test files of a package, below `tests/`.

    Raises:
        KeyError: there is no such package.
        FileNotFoundError: the table names a file that does not exist.
    """
    found: set[str] = set()
    for pattern in TESTS_OF[package]:
        files = {str(file.relative_to(TESTS)) for file in TESTS.glob(pattern) if file.name.startswith("test_")}
        if not files:
            raise FileNotFoundError(f"{package}: no tests/{pattern}")
        found |= files
    return sorted(found)


def main(words: list[str]) -> int:
    """Print the files of some packages."""
    unknown = [word for word in words if word not in TESTS_OF]
    if unknown or not words:
        print(f"no package {', '.join(unknown) or 'named'} (there are {', '.join(PACKAGES)})", file=sys.stderr)
        return 2
    print("\n".join(sorted({f"tests/{file}" for word in words for file in files_of(word)})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
