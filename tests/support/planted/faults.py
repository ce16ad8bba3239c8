"""The faults: each breaks a law, a reason, an exit code or the recovery of a fault point, and names the test for it.

A fault replaces one function, named without its module. It imports what it needs when it is called: this module is
read at the start of every process of a test.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.planted.reasons import REASONS, lost

Replace = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A function, its replacement, and the test that must then fail."""

    breaks: str
    function: str
    what: str
    test: str
    replace: Replace


CRASHES = "tests/process/test_crashes.py::test_killed_there_and_run_again_it_ends_as_undisturbed"
DECISIONS = "tests/process/test_decision_crashes.py::test_killed_there_the_same_command_ends_it_once"
ROLLBACKS = "tests/process/test_rebuild.py::test_a_rollback_that_is_killed_is_on_record_and_the_same_command_ends_it"
ERASE_LANDING = (
    "tests/unit/test_erase.py::test_L6_killed_anywhere_every_manifest_names_objects_that_are_there_"
    "and_the_same_call_ends_it"
)
FORGET = "tests/spark/test_forget.py"
ERASE_TABLES = "tests/spark/test_erase.py::test_L6_killed_anywhere_the_same_command_ends_it"
CLAIMS = "tests/integration/test_claims.py::test_what_a_killed_driver_has_claimed_is_carried_out"
LAWS = "tests/property/test_laws.py"
BRANCH_KEYS = (
    "tests/spark/test_branch_keys.py::"
    "test_L4_a_row_of_a_newer_version_is_not_repeated_does_not_go_back_and_is_as_it_was_meant"
)
CLI = "tests/unit/test_cli.py::test_an_error_of_an_operation_is_one_sentence_and_its_exit_code"


def _is_killed_run() -> bool:
    """Whether a fault point kills this process; it does not kill the run after it."""
    return bool(os.environ.get("ONEFOLD_FAULT"))


# Laws


def _search_what_is_torn(_: Any) -> Any:
    return lambda scan, header: False


def _order_without_a_record(_: Any) -> Any:
    def deciding_order(order: Any, tie: str) -> Any:
        from pyspark.sql import functions as F

        names = ("cluster", "topic", "incarnation", "partition", "offset", "timestamp")
        return F.struct(*(order[name] for name in names)) if tie in ("first", "last") else order

    return deciding_order


def _keep_no_look(_: Any) -> Any:
    return lambda lake, source, before, look: look


def _count_no_messages(_: Any) -> Any:
    return lambda upserted: False


def _refuse_no_column(_: Any) -> Any:
    return lambda condition: []


def _see_no_placeholder(_: Any) -> Any:
    return lambda self, value: False


def _keep_what_was_made(_: Any) -> Any:
    return lambda value, made: made


def _count_no_lines(_: Any) -> Any:
    def plain_lines(data: bytes) -> Any:
        import msgspec

        from onefold.formats import kcat

        try:
            return kcat._decode_all(b"[%b]" % data.replace(b"}\n{", b"},\n{"))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    return plain_lines


def _take_what_is_no_text(_: Any) -> Any:
    return lambda name, value, text, encoding: None if value is None else (text or str(value).encode())


def _overlook_what_is_put_aside(_: Any) -> Any:
    def encoder(self: Any, name: str, declared: Any) -> Any:
        from onefold.formats.structured_json import written

        plain = self._plain(name, declared)
        return lambda message, size: written(plain(message))

    return encoder


def _see_nothing(_: Any) -> Any:
    return lambda before, seen, now: dict(before.offsets) if before else {}


def _take_all_topics(_: Any) -> Any:
    from onefold.landing.plan import taken_plans

    return lambda lake, dataset: taken_plans(lake, dataset.name)


def _wait_for_nothing(_: Any) -> Any:
    return lambda self, instant, held: {}


def _name_no_damage(_: Any) -> Any:
    return lambda index: []


def _drop_updates(original: Any) -> Any:
    def judge(*args: Any, **more: Any) -> Any:
        from pyspark.sql import functions as F

        from onefold.tables import actions as U

        judged = original(*args, **more)
        return judged.withColumn(U.ACTION, F.when(F.col(U.ACTION) != "update", F.col(U.ACTION)))

    return judge


def _drop_verdicts_of_duplicates(original: Any) -> Any:
    def append_verdicts(actions: Any, *args: Any) -> None:
        original(actions.where("_verdict <> 'duplicate'"), *args)

    return append_verdicts


def _pass_uniqueness(original: Any) -> Any:
    def judge_branch(*args: Any) -> Any:
        result = original(*args)
        checks = [
            check.model_copy(update={"status": "passed"}) if check.law == "L3" else check for check in result.checks
        ]
        return result.model_copy(update={"checks": checks, "green": not any(check.red for check in checks)})

    return judge_branch


def _never(column: str, value: object) -> Replace:
    """Of a key the gate counts nothing in a column."""

    def replace(original: Any) -> Any:
        def faults_by_key(*args: Any) -> Any:
            from pyspark.sql import functions as F

            return original(*args).withColumn(column, F.lit(value))

        return faults_by_key

    return replace


def _update_by_older(original: Any) -> Any:
    def judge(*args: Any, **more: Any) -> Any:
        from pyspark.sql import functions as F

        from onefold.tables import actions as U
        from onefold.tables import staging as C

        judged = original(*args, **more)
        older = (F.col(C.VERDICT) == "superseded") & (F.col(C.REASON) == "stored")
        return judged.withColumn(U.ACTION, F.when(older, "update").otherwise(F.col(U.ACTION)))

    return judge


def _publish_from_anywhere(original: Any) -> Any:
    def publish(self: Any, branch: str, head: int, base: int) -> None:
        self.table = self._catalog.load_table(self.identifier)
        original(self, branch, head, self.main.snapshot)

    return publish


def _quarantine_without_bytes(original: Any) -> Any:
    def quarantine_struct(*args: Any) -> Any:
        from pyspark.sql import functions as F

        return original(*args).withField("value", F.lit(None).cast("binary"))

    return quarantine_struct


def _order_by_task(original: Any) -> Any:
    def judge_batch(records: Any, *args: Any, **more: Any) -> Any:
        from pyspark.sql import functions as F

        from onefold.tables import staging as C

        stamp = F.col(C.ORDER)["timestamp"] + F.spark_partition_id()
        return original(records.withColumn(C.ORDER, F.col(C.ORDER).withField("timestamp", stamp)), *args, **more)

    return judge_batch


def _read_every_bucket(original: Any) -> Any:
    del original
    return lambda *args: []


def _explain_any_hole(original: Any) -> Any:
    def leaves(self: Any, missing: Any, damaged: Any) -> Any:
        from dataclasses import replace

        return original(replace(self, longest=None), missing, damaged)

    return leaves


def _accept_any_holes(original: Any) -> Any:
    del original
    return lambda dataset: None


def _nothing_compacted_is_needed(original: Any) -> Any:
    del original
    return lambda *_args: {}


def _no_gaps(original: Any) -> Any:
    del original
    return lambda *_args: []


def _no_topic_is_new(original: Any) -> Any:
    del original
    return lambda _facts: None


def _every_tombstone_stays(original: Any) -> Any:
    del original
    return lambda *_args: []


# Checks


def _take_every_record_for_used(original: Any) -> Any:
    def count_actions(*args: Any) -> Any:
        from dataclasses import replace

        counted = original(*args)
        return replace(counted, newest_used=counted.newest)

    return count_actions


def _take_all_for_passed(original: Any) -> Any:
    del original

    class Everything(list):  # type: ignore[type-arg]
        def __contains__(self, digest: object) -> bool:
            return True

    return lambda *args: Everything()


# Reasons


def _count_no_rejected_delete(original: Any) -> Any:
    def refused_delete(dataset: Any) -> Any:
        return original(dataset) & (original(dataset) != original(dataset))

    return refused_delete


def _take_any_row_for_a_later_one(original: Any) -> Any:
    def _made_later(order: Any, dataset: Any) -> Any:
        del dataset
        return order.isNotNull()

    return _made_later


def _find_nothing_behind(original: Any) -> Any:
    def lies_behind(*args: Any) -> Any:
        return original(*args) & (original(*args) != original(*args))

    return lies_behind


def _allow_any_time(original: Any) -> Any:
    del original
    return lambda dataset: []


def _hide_nothing(_original: Any) -> Any:
    def is_hidden(_dataset: Any) -> Any:
        from pyspark.sql import functions as F

        return F.lit(False)

    return is_hidden


def _search_no_periods(original: Any) -> Any:
    del original
    return lambda dataset: dataset.narrow


def _search_no_narrow_identities(original: Any) -> Any:
    return lambda dataset: tuple(level for level in original(dataset) if level not in dataset.narrow)


def _keep_base64(original: Any) -> Any:
    del original
    return lambda data: data


def _find_no_restart(original: Any) -> Any:
    del original
    return lambda *args: []


def _repeat_in_time(original: Any) -> Any:
    def repeats_late() -> Any:
        return original() & (original() != original())

    return repeats_late


def _miss_no_delete(original: Any) -> Any:
    del original
    return lambda *args: None


def _compare_no_filtered_record(_original: Any) -> Any:
    return lambda *_args: (0, [])


def _filter_deletes_like_rows(_original: Any) -> Any:
    def filtered_by(dataset: Any) -> Any:
        from pyspark.sql import functions as F

        from onefold.dataset.expressions import parse
        from onefold.values.expressions import compile_expression
        from onefold.values.rejection import Compiled

        wanted = compile_expression(parse(dataset.source.filter))
        return Compiled(~F.coalesce(wanted.value, F.lit(False)), wanted.failed)

    return filtered_by


def _compare_offsets_of_partitions(original: Any) -> Any:
    def partition_of(order: Any) -> Any:
        from pyspark.sql import functions as F

        return original(order.withField("partition", F.lit(0)))

    return partition_of


def _tie_by_the_clock(original: Any) -> Any:
    del original
    return lambda order, tie: order


def _keep_every_place(original: Any) -> Any:
    def spans_partitions(*args: Any) -> Any:
        return original(*args) & (original(*args) != original(*args))

    return spans_partitions


def _take_copies_for_versions(original: Any) -> Any:
    def with_copies(*args: Any) -> Any:
        from pyspark.sql import functions as F

        marked = original(*args)
        return marked.withColumn("_copy", F.lit(False)) if "_copy" in marked.columns else marked

    return with_copies


def _know_no_message(original: Any) -> Any:
    def with_messages(staged: Any, known: Any, dataset: Any) -> Any:
        return original(staged, known.limit(0), dataset)

    return with_messages


def _lower_nothing(original: Any) -> Any:
    def with_lowered(*args: Any, **more: Any) -> Any:
        from pyspark.sql import functions as F

        found = original(*args, **more)
        return found.withColumn("_lowered", F.when(F.lit(False), F.col("_lowered")))

    return with_lowered


def _take_no_row(original: Any) -> Any:
    del original

    def takes_row() -> Any:
        from pyspark.sql import functions as F

        return F.lit(False)

    return takes_row


def _let_the_key_win(original: Any) -> Any:
    del original
    return lambda dataset: []


def _read_what_was_changed(original: Any) -> Any:
    def read_record(lake: Any, dataset: Any, name: str, digest: str = "", generation: str | None = None) -> Any:
        del digest
        return original(lake, dataset, name, generation=generation)

    return read_record


# Exit codes


def _swallow(code: int) -> Replace:
    def replace(original: Any) -> Any:
        def run_command(*args: Any, **more: Any) -> int:
            ended = original(*args, **more)
            return (1 if code != 1 else 0) if ended == code else int(ended)

        return run_command

    return replace


# Behind the fault points of a run


def _take_plans_before_they_are_landed(original: Any) -> Any:
    def taken_plans(lake: Any, dataset: str) -> Any:
        from onefold.landing.plan import read_plan

        listed = [info.key for info in lake.storage.list("sources/") if "/plans/" in info.key]
        taken = original(lake, dataset)
        known = {plan.batch for plan in taken}
        return [*taken, *(plan for key in listed if (plan := read_plan(lake, key)) and plan.batch not in known)]

    return taken_plans


def _undo_nothing(original: Any) -> Any:
    del original
    return lambda log: None


def _obey_what_was_undone(original: Any) -> Any:
    def standing(log: Any) -> Any:
        return original([decision for decision in log if decision.kind not in ("rolled_back", "again")])

    return standing


def _refuse_a_plan_that_exists(original: Any) -> Any:
    def put_plan(lake: Any, plan: Any) -> Any:
        from onefold.errors import UsageError
        from onefold.landing.plan import plan_key, plan_name

        if lake.storage.stat(plan_key(plan.source, plan_name(plan))):
            raise UsageError("it is planned already")
        return original(lake, plan)

    return put_plan


def _forget_what_is_landed(original: Any) -> Any:
    del original
    return lambda *args: []


def _stage_under_the_batch(original: Any) -> Any:
    def _stage(session: Any, dataset: Any, manifest: Any, attempt: str, *args: Any) -> Any:
        del attempt
        return original(session, dataset, manifest, manifest.batch.rpartition("_")[2], *args)

    return _stage


def _find_staging_without_positions(original: Any) -> Any:
    def run(session: Any, lake: Any, dataset: Any, batch: str, *args: Any, **more: Any) -> Any:
        from onefold.dedup.documents import staged_key

        found = lake.storage.stat(staged_key(lake, dataset, batch))
        staged = original(session, lake, dataset, batch, *args, **more)
        return staged if found is None else _put(lake, dataset, staged)

    def _put(lake: Any, dataset: Any, staged: Any) -> Any:
        from onefold.dedup.documents import staged_key

        less = staged.model_copy(update={"partitions": {}})
        lake.put(staged_key(lake, dataset, staged.batch), less)
        return less

    return run


def _share_an_attempt(original: Any) -> Any:
    def run(self: Any, step: str, dataset: Any, batch: str, attempt: str | None = None) -> Any:
        shared = batch.rpartition("_")[2] if step == "upsert" else attempt
        return original(self, step, dataset, batch, shared)

    return run


def _displace_on_main(original: Any) -> Any:
    def _displace(session: Any, dataset: Any, upserted: Any, leaving: Any) -> None:
        original(session, dataset, upserted.model_copy(update={"branch": "main"}), leaving)

    return _displace


def _go_on_with_a_left_branch(original: Any) -> Any:
    def cut_branch(self: Any, name: str, base: int) -> None:
        left = next((branch for branch in self.branches() if branch.startswith("attempt_")), None)
        original(self, name, self.ref(left).snapshot if left else base)

    return cut_branch


def _wait_once_upserted(original: Any) -> Any:
    def waits_for_a_person(lake: Any, dataset: Any, batch: str) -> bool:
        from onefold import lake_keys

        return original(lake, dataset, batch) or lake.storage.stat(lake_keys.latest(dataset, batch)) is not None

    return waits_for_a_person


def _wait_once_judged(original: Any) -> Any:
    def waits_for_a_person(lake: Any, dataset: Any, batch: str) -> bool:
        from onefold.operations.stuck_batches import judged

        return original(lake, dataset, batch) or judged(lake, dataset, batch) is not None

    return waits_for_a_person


def _publish_by_record_alone(original: Any) -> Any:
    def unfinished(lake: Any, dataset: Any) -> Any:
        from onefold import lake_keys
        from onefold.upsert.documents import Upserted

        def recorded(batch: str) -> bool:
            latest = lake.get(lake_keys.latest(dataset, batch), Upserted)
            return latest is not None and lake.storage.stat(lake_keys.record(dataset, latest.attempt)) is not None

        return [plan for plan in original(lake, dataset) if not recorded(plan.batch)]

    return unfinished


def _forget_the_newest_record(original: Any) -> Any:
    def chain(lake: Any, dataset: Any, head: str, generation: str | None = None) -> Any:
        records = list(original(lake, dataset, head, generation))
        # Of the run behind the kill only, which is a process: the test itself has to see what is published.
        forgets = sys.argv[0].endswith("onefold") and not _is_killed_run() and len(records) > 1
        return iter(records[1:] if forgets else records)

    return chain


# Behind the fault points of rebuild, rollback, decisions, erasures and claims


def _begin_no_rebuild_twice(original: Any) -> Any:
    def begin_rebuild(lake: Any, dataset: Any) -> Any:
        from onefold import lake_keys

        begun = lake.storage.stat(lake_keys.rebuild(dataset)) is not None
        return () if begun else original(lake, dataset)

    return begin_rebuild


def _fold_nothing_more(original: Any) -> Any:
    def _as_they_come(lake: Any, dataset: Any) -> Any:
        return original(lake, dataset) if _is_killed_run() else iter(())

    return _as_they_come


def _move_once_per_decision(original: Any) -> Any:
    def _move(lake: Any, dataset: Any, *args: Any) -> None:
        from onefold import lake_keys

        if not any("-rollback-" in info.key for info in lake.storage.list(lake_keys.decisions(dataset.name))):
            original(lake, dataset, *args)

    return _move


def _carry_no_record(original: Any) -> Any:
    def _carry(self: Any, to: Any, base: int) -> None:
        from onefold.iceberg.commits import ROOT, Head

        original(self, Head(to.snapshot, ROOT), base)

    return _carry


def _record_at_once(original: Any) -> Any:
    def record(lake: Any, decision: Any) -> None:
        from onefold import lake_keys

        if os.environ.get("ONEFOLD_FAULT") == "before_decision":
            key = f"{lake_keys.decisions(decision.dataset)}{decision.batch}/{decision.number:04d}.json"
            lake.storage.write(key, decision.model_dump_json(indent=1).encode())
        original(lake, decision)

    return record


def _release_again(original: Any) -> Any:
    del original
    return lambda *args: False


def _drop_only_what_exists(original: Any) -> Any:
    def drop_table(lake: Any, name: str) -> None:
        from onefold.iceberg.connection import open_catalog

        open_catalog(lake).load_table(tuple(name.split(".")[1:]))
        original(lake, name)

    return drop_table


def _overlook_open_erasures(original: Any) -> Any:
    def decide(*args: Any) -> Any:
        made = original(*args)
        return made.model_copy(update={"name": f"{made.name}-again"})

    return decide


def _put_no_object_twice(original: Any) -> Any:
    def _put(lake: Any, was: Any, file: Any) -> Any:
        folder = was.key.rpartition("/")[0]
        if any("/erased-" in info.key for info in lake.storage.list(f"{folder}/")):
            raise FileExistsError(folder)
        return original(lake, was, file)

    return _put


def _name_no_new_object(original: Any) -> Any:
    del original
    return lambda object_, swaps: object_


def _remove_only_what_was_named(original: Any) -> Any:
    def _settle(lake: Any, source: str) -> None:
        from onefold import lake_keys
        from onefold.landing import erase

        documents = [lake.get(info.key, erase.Erased) for info in lake.storage.list(lake_keys.erased(source))]
        swaps = {swap.was.key for document in documents if document for swap in document.objects}
        if any(object_.key in swaps for manifest in erase.manifests(lake, source) for object_ in manifest.objects):
            original(lake, source)

    return _settle


def _compare_no_version(original: Any) -> Any:
    del original

    def not_greater(*args: Any) -> Any:
        from pyspark.sql import functions as F

        return lambda highest: F.lit(False)

    return not_greater


def _know_no_identity(original: Any) -> Any:
    del original

    def message_digest(*args: Any) -> Any:
        from pyspark.sql import functions as F

        return F.lit(None).cast("binary")

    return message_digest


def _land_nothing_before(original: Any) -> Any:
    del original
    return lambda mark, staged: []


def _link_nothing(original: Any) -> Any:
    del original
    return lambda mark: iter(())


def _read_no_landing(original: Any) -> Any:
    del original
    return lambda lake, dataset: []


def _leave_the_tables(original: Any) -> Any:
    def erase(self: Any, dataset: Any, positions: Any) -> list[str]:
        from onefold import lake_keys

        done = self.lake.storage.list(lake_keys.erased(dataset.source_id))
        return [] if next(iter(done), None) else original(self, dataset, positions)

    return erase


def _end_no_erasure(original: Any) -> Any:
    def end(lake: Any, erasure: Any, *args: Any) -> Any:
        original(lake, erasure, *args)
        return erasure.model_copy(update={"name": f"{erasure.name}-again"})

    return end


def _find_no_newer(original: Any) -> Any:
    del original
    return lambda *args: (0, [])


def _name_no_key_of_others(original: Any) -> Any:
    del original

    def _left_by_file_or_decision() -> Any:
        from pyspark.sql import functions as F

        return F.lit(False)

    return _left_by_file_or_decision


def _put_my_own_claim(original: Any) -> Any:
    def claim(self: Any, place: str, data: bytes) -> bytes:
        original(self, place, data)
        return data

    return claim


def _put_whatever_is_there(original: Any) -> Any:
    def _put_claimed(self: Any, claims: Any, key: str, data: bytes) -> bool:
        if _is_killed_run():
            return bool(original(self, claims, key, data))
        claims.drop(self.uri_of(key))
        self.write(key, data)
        return True

    return _put_claimed


def _decide_nothing(original: Any) -> Any:
    del original
    return lambda records, dataset, lost: records


def _take_out_silently(original: Any) -> Any:
    del original
    return lambda lake, dataset, batches, by, reason: None


def _without_digests(original: Any) -> Any:
    del original
    return lambda session, lake, dataset, upserted, checks: list(checks)


def _compare_no_positions(original: Any) -> Any:
    del original

    def compare(*args: Any) -> dict[int, Any]:
        del args
        return {}

    return compare


def _take_no_part_out(original: Any) -> Any:
    def known_positions(*args: Any) -> Any:
        from dataclasses import replace

        return replace(original(*args), apart={})

    return known_positions


def _leave_nothing(original: Any) -> Any:
    del original

    def leave_quarantine(*args: Any) -> None:
        del args

    return leave_quarantine


KNOWN = "tests/spark/test_known_positions.py"
FAULTS: dict[str, Fault] = {
    "a topic that was created again is read as copies": Fault(
        "L1", "position_contents._compare", "No position is compared with what was processed there.",
        f"{KNOWN}::test_a_topic_that_was_created_again_is_red_though_its_offsets_are_covered", _compare_no_positions,
    ),
    "a covered record with another identity is folded": Fault(
        "L1", "known_positions", "Covered records with other headers take part in the fold.",
        f"{KNOWN}::test_L1_a_covered_record_with_other_headers_takes_no_part_in_the_fold", _take_no_part_out,
    ),
    "what is covered stays in quarantine": Fault(
        "L6", "leave_quarantine", "No entry leaves the quarantine.",
        f"{KNOWN}::test_what_decodes_at_a_quarantined_position_leaves_the_quarantine", _leave_nothing,
    ),
    "rows follow the batches": Fault(
        "L1", "judge_by", "A record that beats the table's row does not replace it.",
        f"{LAWS}::test_L1_rows_are_a_function_of_the_set[append by business_key]", _drop_updates,
    ),
    "a value becomes records": Fault(
        "L1", "Scan._end_here", "What a batch claims that is not written to its end is searched for other batches.",
        "tests/unit/test_segment_scan.py::test_s1_a_forged_batch_in_a_torn_batch_is_only_a_value", _search_what_is_torn,
    ),
    "a column refuses no value": Fault(
        "L6", "columns._where", "What a column of values cannot hold is null, and goes no exact way.",
        "tests/unit/test_value_columns.py::test_at_each_edge_a_value_is_read_as_a_proof_reads_it", _refuse_no_column,
    ),
    "a placeholder is a value": Fault(
        "L1", "_Fast._may_lack_a_value", "A value that the connector did not have is read fast, as any text.",
        "tests/unit/test_envelopes.py::test_a_value_that_the_connector_did_not_have_is_named", _see_no_placeholder,
    ),
    "a map loses an entry": Fault(
        "L7", "_each_key_once", "Of a key that a map has twice one entry is written.",
        "tests/unit/test_formats.py::test_a_key_that_a_map_has_twice_is_written_twice", _keep_what_was_made,
    ),
    "a line is two records": Fault(
        "L2", "kcat._plain_lines", "A line of two objects, among others, is two records.",
        "tests/unit/test_text_lines.py::test_an_odd_line_changes_none_of_its_neighbours", _count_no_lines,
    ),
    "a member of a line is not unpacked": Fault(
        "L6", "aiven._plain_bytes", "Base64 is taken as it is.",
        "tests/unit/test_aiven_lines.py::test_base64_is_unpacked_only_where_the_dataset_file_says_so",
        _take_what_is_no_text,
    ),
    "a field of another type is absent": Fault(
        "L6", "_Messages.encoder", "What Protobuf's decoder puts aside is overlooked.",
        "tests/unit/test_protobuf_messages.py::test_a_refusal_names_the_field_and_what_it_is",
        _overlook_what_is_put_aside,
    ),
    "damage is a rejected record alone": Fault(
        "L2", "log_segments._damaged_places", "A landing names no damaged place of its segments.",
        "tests/unit/test_segment_landing.py::test_a_replica_that_is_whole_takes_the_damage_back", _name_no_damage,
    ),
    "a record that is not there decides a tie": Fault(
        "L6", "deciding_order", "Where there is no record, its place is one of nulls, and equals another such place.",
        "tests/spark/test_ties.py::"
        "test_L6_a_record_that_cannot_be_read_stays_rejected_whatever_decides_ties[last-contiguous]",
        _order_without_a_record,
    ),
    "a changed commit record counts": Fault(
        "L2", "read_record", "A commit record is read whatever its digest is.",
        "tests/process/test_proof_chain.py::test_s8_no_batch_goes_on_from_a_record_that_was_changed",
        _read_what_was_changed,
    ),
    "what was seen is forgotten": Fault(
        "L6", "keep_look", "What a run has seen of a live source is not kept.",
        "tests/unit/test_cuts.py::test_a_log_that_is_gone_is_planned_up_to_where_it_was_seen_and_named_once",
        _keep_no_look,
    ),
    "cuts go by timestamps alone": Fault(
        "L6", "cuts._floors", "A cut does not go by what was seen before it.",
        "tests/unit/test_cuts.py::test_what_was_seen_before_an_instant_lies_before_its_cut_whatever_the_timestamps_say",
        _see_nothing,
    ),
    "batches of any topic belong to a dataset": Fault(
        "L1", "own_plans", "Batches of topics that the file does not name are taken up.",
        "tests/integration/test_looks.py::test_batches_of_a_topic_that_the_file_does_not_name_are_left_alone",
        _take_all_topics,
    ),
    "an interval waits for no transaction": Fault(
        "L6", "LiveLogs._held_back", "An interval is planned while an open transaction holds its records back.",
        "tests/integration/test_looks.py::test_an_interval_that_an_open_transaction_holds_back_is_not_planned_yet",
        _wait_for_nothing,
    ),
    "a duplicate has no verdict": Fault(
        "L2", "append_verdicts", "Duplicates get no row in the verdict table.",
        "tests/process/test_runs.py::test_explain_tells_every_record_of_a_key_in_order", _drop_verdicts_of_duplicates,
    ),
    "a file that never came is markers": Fault(
        "L2", "_Declared.leaves", "Any number of missing offsets in a row is explained by markers.",
        "tests/unit/test_account.py::test_more_missing_offsets_in_a_row_than_declared_are_unexplained",
        _explain_any_hole,
    ),
    "compaction explains holes in every mode": Fault(
        "L2", "_check_holes", "No mode refuses `holes: compacted`.",
        "tests/unit/test_dataset_files.py::test_a_mode_that_needs_every_record_refuses_holes_of_compaction",
        _accept_any_holes,
    ),
    "what compaction took is never needed": Fault(
        "L2", "coverage._compacted", "No compacted offset is a loss, or may have been a delete.",
        "tests/unit/test_completeness.py::test_a_compacted_hole_of_a_live_topic_is_a_loss_where_the_rows_need_it",
        _nothing_compacted_is_needed,
    ),
    "every tombstone stays in the log": Fault(
        "L2", "compaction.maybe_deletes", "No tombstone is removed before it is landed.",
        "tests/unit/test_completeness.py::test_a_tombstone_may_be_gone_where_its_neighbours_and_an_earlier_landing_are_old",
        _every_tombstone_stays,
    ),
    "no offset is missing between batches": Fault(
        "L2", "gaps_of", "The coverage has no gaps.",
        "tests/unit/test_completeness.py::test_offsets_between_two_batches_are_a_gap_with_the_age_of_what_follows",
        _no_gaps,
    ),
    "an export of another topic is folded": Fault(
        "L6", "completeness.new_topics", "No topic is new to a table.",
        "tests/unit/test_checks.py::test_a_new_topic_is_red_and_both_topics_are_named", _no_topic_is_new,
    ),
    "the gate does not ask for uniqueness": Fault(
        "L3", "judge_branch", "Every check of uniqueness passes.",
        "tests/process/test_tampering.py::test_a_merge_gone_wrong_is_red[a key twice]", _pass_uniqueness,
    ),
    "the gate sees no key twice": Fault(
        "L3", "Folding.faults_by_key", "A key with two rows is not counted.", BRANCH_KEYS, _never("repeated", False),
    ),
    "the gate sees no row go back": Fault(
        "L4", "Folding.faults_by_key", "A row that went back is not counted.", BRANCH_KEYS, _never("regressions", 0),
    ),
    "the gate sees no action that is not applied": Fault(
        "L5", "Folding.faults_by_key", "A row of another record than was meant is not counted.", BRANCH_KEYS,
        _never("unapplied", 0),
    ),
    "an older version wins": Fault(
        "L4", "judge_by", "A superseded record replaces the table's row.",
        f"{LAWS}::test_L4_no_batch_moves_a_row_back[upsert, tie conflict]", _update_by_older,
    ),
    "a publication from any base": Fault(
        "L5", "BranchedTable.publish", "A publication does not require the base that upsert recorded.",
        "tests/integration/test_catalog.py::test_main_moves_only_from_the_base", _publish_from_anywhere,
    ),
    "the quarantine keeps no bytes": Fault(
        "L6", "quarantine_struct", "A rejected record loses its value.",
        "tests/process/test_quarantine.py::test_a_rejected_record_is_a_row_with_position_bytes_and_reason",
        _quarantine_without_bytes,
    ),
    "the order follows the tasks": Fault(
        "L7", "judge_batch", "The total order depends on the task that holds a record.",
        f"{LAWS}::test_L7_verdicts_of_a_batch_do_not_follow_row_order_or_partitions[append by business_key]",
        _order_by_task,
    ),
    "the merge reads every bucket": Fault(
        "L8", "merge._where", "The merge is not restricted to the batch's buckets.",
        "tests/spark/test_plans.py::test_L8_look_up_and_merge_read_only_buckets_that_the_batch_has", _read_every_bucket,
    ),
    "any record makes a table fresh": Fault(
        "exit code 3", "count_actions", "A filtered, rejected or duplicate record counts for freshness.",
        "tests/spark/test_freshness.py::test_a_plain_run_is_red_where_only_what_does_not_count_is_new",
        _take_every_record_for_used,
    ),
    "older rows have passed whatever is asked": Fault(
        "exit code 3", "passed_before", "Every expectation of a suite counts as passed by the rows that are there.",
        "tests/spark/test_suite_rows.py::test_a_new_expectation_looks_at_the_whole_table_until_all_rows_have_passed",
        _take_all_for_passed,
    ),
    "rejected deletes are not counted": Fault(
        "rejected/null_value", "refused_delete", "A rejected delete is only a share of the rejected rate.",
        "tests/spark/test_nulls.py::test_a_null_of_a_live_row_is_red_whatever_the_rate_and_names_its_key",
        _count_no_rejected_delete,
    ),
    "any row explains a null": Fault(
        "control/tombstone", "nulls._made_later", "A null value is a tombstone wherever its key has a row.",
        "tests/spark/test_nulls.py::test_a_null_of_a_live_row_is_red_whatever_the_rate_and_names_its_key",
        _take_any_row_for_a_later_one,
    ),
    "a row that leaves stays": Fault(
        "applied/hide", "upsert.is_hidden", "No row is hidden.",
        "tests/spark/test_filters.py::test_a_row_that_no_longer_satisfies_the_condition_is_hidden_until_a_newer_version_does",
        _hide_nothing,
    ),
    "an identity has one period": Fault(
        "period_moved", "searched_levels", "No identity is looked for in two periods.",
        "tests/spark/test_period_moved.py::test_a_retry_behind_midnight_is_red_and_named_and_keeps_its_verdict",
        _search_no_periods,
    ),
    "an identity is of one message": Fault(
        "identity_reused", "searched_levels", "No narrow identity is looked for under two messages.",
        "tests/spark/test_reuse.py::test_a_reused_identity_is_gated_shown_side_by_side_and_changes_no_verdict",
        _search_no_narrow_identities,
    ),
    "deletes miss no row": Fault(
        "applied/delete", "missed_deletes.missed_deletes", "No delete is looked for that found no row in its period.",
        "tests/spark/test_period_moved.py::test_a_delete_finds_its_row_in_the_table_and_one_before_its_row_only_warns",
        _miss_no_delete,
    ),
    "a key keeps its Base64": Fault(
        "L1", "arrow_functions.with_decimals", "Decimals in keys stay the Base64 that the connector wrote.",
        "tests/spark/test_debezium.py"
        "::test_a_key_stays_the_same_when_the_connector_writes_its_decimals_in_another_way[key]",
        _keep_base64,
    ),
    "no sequence begins again": Fault(
        "duplicate/producer", "restarts.restarts_in", "A sequence that begins again is not found.",
        "tests/spark/test_identities_that_are_none.py::test_a_batch_warns_of_it_by_name_and_position_and_says_what_to_declare",
        _find_no_restart,
    ),
    "an identity may repeat for ever": Fault(
        "duplicate/message_id", "repeats_late", "No repetition is counted as late.",
        "tests/spark/test_identities_that_are_none.py"
        "::test_an_identity_that_repeats_after_more_than_a_day_warns_within_a_batch_and_against_the_table",
        _repeat_in_time,
    ),
    "filtered versions are not compared": Fault(
        "filtered/filter", "first_records.filtered_newer", "No filtered record is newer than a row.",
        "tests/spark/test_filters.py::test_a_newer_version_that_the_filter_leaves_out_is_red_and_named",
        _compare_no_filtered_record,
    ),
    "a proof overlooks filtered versions": Fault(
        "filtered/filter", "omitted._filtered_newer", "A proof names no filtered record that is newer than a row.",
        "tests/spark/test_proof_omitted.py::test_what_was_not_looked_at_is_counted_and_named", _find_no_newer,
    ),
    "what is taken out has no key": Fault(
        "L2", "_left_by_file_or_decision", "A filtered, skipped or rejected record belongs to no key.",
        "tests/spark/test_explain_taken_out.py::"
        "test_a_key_has_its_filtered_skipped_and_rejected_records_with_verdict_position_and_batch",
        _name_no_key_of_others,
    ),
    "a filter leaves deletes out": Fault(
        "filtered/filter", "decode._filtered_by", "A delete without the field that the filter reads is filtered.",
        "tests/spark/test_filters.py::test_a_delete_without_the_field_that_the_filter_reads_deletes",
        _filter_deletes_like_rows,
    ),
    "offsets of all partitions compare": Fault(
        "conflict/incomparable_version", "positions.partition_of", "All partitions of a topic count as one.",
        "tests/spark/test_situations.py::test_an_offset_orders_the_records_of_one_partition_only[at once]",
        _compare_offsets_of_partitions,
    ),
    "ties go by the clock": Fault(
        "superseded/same_version", "deciding_order", "`tie: last` takes the record of the larger timestamp.",
        "tests/spark/test_ties.py::test_the_larger_or_smaller_offset_is_the_row_whatever_the_clocks_say",
        _tie_by_the_clock,
    ),
    "a copy elsewhere leaves the row its place": Fault(
        "conflict/incomparable_version", "spans_partitions",
        "In a tie the table's row compares with records of other partitions.",
        "tests/spark/test_ties.py::test_a_row_with_a_copy_in_another_partition_is_placeless_until_its_next_version",
        _keep_every_place,
    ),
    "what is sent again is newer": Fault(
        "duplicate/late_copy", "with_copies", "Every delivery is a message.",
        "tests/spark/test_deliveries.py::test_in_one_batch_a_message_counts_once", _take_copies_for_versions,
    ),
    "the table knows no message": Fault(
        "duplicate/late_copy", "deliveries.with_messages", "No record is looked up in the ledger of messages.",
        "tests/spark/test_deliveries.py::test_in_later_batches_the_ledger_knows_it", _know_no_message,
    ),
    "the gate does not count the ledger": Fault(
        "L2", "_only_adds_messages", "The ledger may gain and lose messages of other batches.",
        "tests/spark/test_deliveries.py::test_a_ledger_that_gains_or_loses_a_message_of_another_batch_is_red",
        _count_no_messages,
    ),
    "an earlier delivery leaves the row": Fault(
        "conflict/earlier_delivery", "with_lowered", "No row is lowered.",
        "tests/spark/test_deliveries.py::test_an_earlier_delivery_lowers_the_row_or_is_red_and_a_rebuild_of_the_log_is_right",
        _lower_nothing,
    ),
    "an earlier delivery leaves a chain's row": Fault(
        "conflict/earlier_delivery", "takes_row",
        "A row of a chain keeps the position of its later delivery.",
        "tests/property/test_deliveries.py::test_L1_the_row_is_the_message_that_was_first_sent_last_or_the_batch_is_red"
        "[a chain that goes on]",
        _take_no_row,
    ),
    "a counter that begins again is late": Fault(
        "superseded/backwards", "lies_behind", "No record lies later in its partition than the version that beats it.",
        "tests/spark/test_situations.py::test_a_source_restored_from_a_backup_is_red", _find_nothing_behind,
    ),
    "a time from the future is a version": Fault(
        "rejected/version_ahead", "ahead_of_log", "A version may be any time after its log timestamp.",
        "tests/spark/test_situations.py::test_a_time_from_the_future_does_not_freeze_its_key[at once]", _allow_any_time,
    ),
    "a mark knows no version": Fault(
        "rejected/forgotten", "not_greater", "No version is compared with the highest of a forgotten key.",
        f"{FORGET}::test_L1_copies_late_records_and_a_rebuild_bring_nothing_forgotten_back",
        _compare_no_version,
    ),
    "a mark knows no identity": Fault(
        "rejected/forgotten", "message_digest", "A forgotten key has no message ids.",
        f"{FORGET}::test_L1_under_a_version_from_the_log_a_retry_is_known_by_its_message_id", _know_no_identity,
    ),
    "a mark looks at nothing that was landed before": Fault(
        "rejected/forgotten", "marks_met.landed_before", "No record was landed before a mark.",
        f"{FORGET}::test_L1_copies_late_records_and_a_rebuild_bring_nothing_forgotten_back",
        _land_nothing_before,
    ),
    "a chain begins again after a mark": Fault(
        "rejected/forgotten", "accepted_gaps._links_after", "A mark is no link for the next version of its key.",
        f"{FORGET}::test_contiguous_forgets_held_records_and_the_mark_takes_the_place_of_their_versions", _link_nothing,
    ),
    "an erasure reads no landing": Fault(
        "rejected/forgotten", "landings.landings_of", "An erasure looks at published verdicts only.",
        "tests/spark/test_erase.py::test_L6_killed_anywhere_the_same_command_ends_it",
        _read_no_landing,
    ),
    "the key wins over the field": Fault(
        "rejected/key_mismatch", "decode._mismatch", "A record whose field differs from its key is taken.",
        "tests/spark/test_situations.py::test_a_part_of_the_key_may_be_a_field_too", _let_the_key_win,
    ),
    **{
        f"no record is {verdict}/{reason}": Fault(
            f"{verdict}/{reason}", function, f"The rule of {verdict}/{reason} never holds.", test,
            lost(verdict, reason, function),
        )
        for (verdict, reason), (function, test) in REASONS.items()
    },
    "a waiver is a number": Fault(
        "L1", "with_digests", "A waiver holds by id and value, whatever records are behind it.",
        "tests/spark/test_waivers.py::test_a_conflict_that_was_not_seen_is_red_although_another_was_released",
        _without_digests,
    ),
    "a run publishes what a rebuild took out": Fault(
        "L1", "rolled_back.take_out", "No decision is on record of a batch that a rebuild leaves out.",
        "tests/process/test_rebuild_without.py::test_it_waits_for_an_operator_and_can_be_taken_up_again",
        _take_out_silently,
    ),
    "what lost a conflict may win": Fault(
        "L1", "put_lost_last", "A content that lost a released conflict has its own place in the order.",
        "tests/property/test_decided.py::"
        "test_L1_the_rows_of_every_log_of_three_records_are_the_same_in_every_order_and_split[increment]",
        _decide_nothing,
    ),
    "a run undoes a rollback": Fault(
        "L1", "log.undone", "What a rollback undid waits for no one.",
        "tests/unit/test_rolled_back.py::test_it_waits_and_no_run_nor_rebuild_takes_it_up", _undo_nothing,
    ),
    "an old release counts after a rollback": Fault(
        "L1", "log.standing", "A rollback overrules no decision.",
        "tests/unit/test_rolled_back.py::test_a_rollback_overrules_what_was_decided_before[release]",
        _obey_what_was_undone,
    ),
    "exit code 0 is lost": Fault(
        "exit code 0", "run_command", "Nothing to do ends as an error.",
        "tests/process/test_runs.py::test_nothing_new_ends_with_0_and_no_change", _swallow(0),
    ),
    **{
        f"exit code {code} is lost": Fault(
            f"exit code {code}", "run_command", f"{error} ends with another exit code.", f"{CLI}[{code}]",
            _swallow(code),
        )
        for code, error in (
            (1, "An error of Spark"), (2, "A bad dataset"), (3, "A red gate"), (4, "A loss of data"),
            (5, "A writer that lost every time"), (130, "An interrupted command"),
        )
    },
    "a plan is taken before it is landed": Fault(
        "after_plan", "taken_plans", "What is planned counts as taken up, also where it was never landed.",
        f"{CRASHES}[after_plan]", _take_plans_before_they_are_landed,
    ),
    "a plan cannot be made twice": Fault(
        "before_manifest", "put_plan", "A plan that exists is an error.",
        f"{CRASHES}[before_manifest]", _refuse_a_plan_that_exists,
    ),
    "what is landed is not taken up": Fault(
        "after_land", "unfinished", "A run does not look for batches that are landed and not published.",
        f"{CRASHES}[after_land]", _forget_what_is_landed,
    ),
    "two tries share a staging table": Fault(
        "before_staged", "dedup._stage", "A staging table has its batch's name, not its attempt's.",
        f"{CRASHES}[before_staged]", _stage_under_the_batch,
    ),
    "staging is found without its offsets": Fault(
        "after_dedup", "dedup.run", "Staging that exists is found without the offsets that it holds.",
        f"{CRASHES}[after_dedup]", _find_staging_without_positions,
    ),
    "two tries share an attempt": Fault(
        "before_merge", "InSession.run", "Each try at upsert has the same attempt id.",
        f"{CRASHES}[before_merge]", _share_an_attempt,
    ),
    "rows leave main before the publication": Fault(
        "amid_merge", "merge._displace", "Rows that are displaced are deleted on main, not on the branch.",
        f"{CRASHES}[amid_merge]", _displace_on_main,
    ),
    "a try goes on with a left branch": Fault(
        "after_merge", "BranchedTable.cut_branch", "A new attempt begins at the branch that a killed one has left.",
        f"{CRASHES}[after_merge]", _go_on_with_a_left_branch,
    ),
    "an upserted batch waits for an operator": Fault(
        "after_upsert", "waits_for_a_person", "A batch that was upserted and never judged counts as red.",
        f"{CRASHES}[after_upsert]", _wait_once_upserted,
    ),
    "a green batch waits for an operator": Fault(
        "after_gate", "waits_for_a_person", "A batch that was judged green and not published counts as red.",
        f"{CRASHES}[after_gate]", _wait_once_judged,
    ),
    "a commit record counts as published": Fault(
        "before_commit", "unfinished", "A batch counts as published once its commit record is written.",
        f"{CRASHES}[before_commit]", _publish_by_record_alone,
    ),
    "a publication is forgotten": Fault(
        "after_commit", "commit_record.chain", "The newest commit record is overlooked.",
        f"{CRASHES}[after_commit]", _forget_the_newest_record,
    ),
    "a publication without a report is forgotten": Fault(
        "after_publish", "commit_record.chain", "The newest commit record is overlooked.",
        f"{CRASHES}[after_publish]", _forget_the_newest_record,
    ),
    "a rebuild that has begun is not ended": Fault(
        "before_swap", "begin_rebuild", "A rebuild that has begun leaves nothing to do.",
        "tests/process/test_rebuild.py::test_L1_a_file_that_goes_back_is_folded_again_and_what_was_decided_meanwhile_holds",
        _begin_no_rebuild_twice,
    ),
    "a rebuild folds nothing more": Fault(
        "after_swap", "rebuild._as_they_come", "A rebuild that goes on folds no batch that was landed meanwhile.",
        "tests/process/test_rebuild.py::test_killed_it_goes_on_where_it_was[after_swap]", _fold_nothing_more,
    ),
    "a recorded rollback is not carried out": Fault(
        "before_rollback", "rollback._move", "A rollback that is on record counts as done.", ROLLBACKS,
        _move_once_per_decision,
    ),
    "a rollback loses the commit record": Fault(
        "after_rollback", "BranchedTable._carry", "The snapshot of a rollback names no commit record.", ROLLBACKS,
        _carry_no_record,
    ),
    "a decision is on record before it is made": Fault(
        "before_decision", "log.record", "A killed decision leaves its document.",
        f"{DECISIONS}[release-before_decision]", _record_at_once,
    ),
    "a release is recorded twice": Fault(
        "after_decision", "decide._same", "The same release again is another decision.",
        f"{DECISIONS}[release-after_decision]", _release_again,
    ),
    "a discard drops only what exists": Fault(
        "after_drop", "drop_table", "A table that is gone cannot be dropped.",
        f"{DECISIONS}[discard-after_drop]", _drop_only_what_exists,
    ),
    "an erasure is decided again": Fault(
        "before_forgotten", "erasure_scope.decide", "An erasure that goes on has another name.", ERASE_TABLES,
        _overlook_open_erasures,
    ),
    "an object without payload is put once": Fault(
        "before_erased", "erase._put", "An object that a killed erasure has put is an error.",
        f"{ERASE_LANDING}[before_erased]", _put_no_object_twice,
    ),
    "manifests name the old objects": Fault(
        "before_new_manifest", "erase._newest", "No manifest names the objects without payload.",
        f"{ERASE_LANDING}[before_new_manifest]", _name_no_new_object,
    ),
    "old objects stay": Fault(
        "before_old_objects", "erase._settle", "Objects go only with the manifests that named them.",
        f"{ERASE_LANDING}[before_old_objects]", _remove_only_what_was_named,
    ),
    "tables keep what the landing has lost": Fault(
        "before_tables", "InSession.erase", "Tables are left alone once the landing is done.", ERASE_TABLES,
        _leave_the_tables,
    ),
    "an erasure ends under another name": Fault(
        "before_samples", "erasure_scope.end", "An erasure that goes on ends another one.", ERASE_TABLES,
        _end_no_erasure,
    ),
    "a claim is overruled": Fault(
        "after_claim", "DatabaseClaims.claim", "A driver puts its own bytes where another has claimed.",
        f"{CLAIMS}[sqlite-after_claim]", _put_my_own_claim,
    ),
    "an object that was claimed is put again": Fault(
        "after_claimed_put", "S3Storage._put_claimed", "A driver puts its own bytes where another has put.",
        f"{CLAIMS}[sqlite-after_claimed_put]", _put_whatever_is_there,
    ),
}  # fmt: skip
"""By name; a unit test holds the list against the fault points, the laws, the exit codes and docs/planted-faults.md."""
