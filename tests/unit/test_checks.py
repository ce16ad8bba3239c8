"""The gate's checks on literal facts, and what their table promises: stable ids, one home, a page of docs. No Spark."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from onefold.dataset import Dataset
from onefold.landing.manifest import SegmentDamage
from onefold.offsets import TopicPartition
from onefold.quality import checks
from onefold.quality.checks import CHECKS, Behind, BranchFacts, Check, RowCounts, id_of, title_of
from onefold.quality.documents import CheckResult, apply_check
from onefold.upsert.coverage import PartitionAccount
from onefold.upsert.documents import Upserted
from onefold.vocabulary import LOST

PROJECT = Path(__file__).parents[2]
HOME = Path(checks.__file__).parent
MakeDataset = Callable[..., Dataset]
NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
UPSERT = {"apply": {"mode": "upsert", "key": ["id"], "version": {"from": "offset"}}, "identity": {}}
CHAIN = {
    "apply": {"mode": "upsert", "key": ["id"], "version": {"from": "n", "guard": "contiguous"}},
    "identity": {},
    "value": {"fields": {"id": "string", "n": "long"}},
}
INCREMENT = {
    "apply": {"mode": "increment", "key": ["id"], "add": {"total": "n"}},
    "identity": {"message_id": "header.m"},
    "value": {"fields": {"id": "string", "n": "long"}},
}
LIMITS = {"max_rejected_rate": 0.2, "max_duplicate_rate": 0.2, "max_conflicts": 1, "min_records": 10}
RELEASED = {
    "unique_keys", "no_nulls", "no_regressions", "actions_applied", "row_count", "same_columns", "sums_of_entries",
    "quarantine_complete", "nothing_forgotten_left", "unique_key_digest", "unique_key_columns", "key_not_null",
    "verdicts_given", "unexplained_offsets", "nothing_lost", "consistent_positions", "comparable_versions", "conflicts",
    "duplicate_rate", "rejected_rate", "mostly_rejected", "rejected_deletes", "filtered_newer", "freshness",
    "held_age", "held_records", "backwards_rate", "timestamp_ahead", "undamaged_segments", "coverage_gaps",
    "compacted_deletes", "silent_partitions", "new_topics", "shared_keys", "missed_deletes",
    "sequence_restarts", "identities_over_days",
    "positions_compared", "nothing_applied", "stale_rows",
}  # fmt: skip
"""Ids that recorded waivers may have: none may be renamed, or taken away."""
ALSO_SOMETHING_ELSE = {"conflicts", "freshness"}
"""Examples of a report, a metric and a chart; an alert."""


# What they find


def facts(dataset: Dataset, *, counts: dict[str, Any] | None = None, **more: Any) -> BranchFacts:
    """Of a sound batch of 20 records, all inserted; and what is otherwise, of the attempt or of the facts."""
    counted: dict[str, Any] = {
        "rows_before": 5, "rows_after": 25, "added": 20, "verdicts": 20, "repeated_keys": 0, "nulls": 0,
        "regressions": 0, "unapplied": 0, "unknown_columns": 0, "unequal_sums": None, "quarantined": 0, "rejected": 0,
        "forgotten": None, "failing_keys": [],
    }  # fmt: skip
    of_attempt = {name: more.pop(name) for name in list(more) if name in Upserted.model_fields}
    attempt = {"batch": "b", "attempt": "a", "landed": 20, "counts": {"applied": {"insert": 20}}}
    given: dict[str, Any] = {
        "dataset": dataset, "upserted": Upserted.model_validate(attempt | of_attempt),
        "counts": RowCounts(**counted | (counts or {})), "landed": 20, "bare": False, "edge": None,
        "interval_end": None, "newest_before": None, "oldest_behind": None, "gone": (), "held_back": {},
        "judged": NOON, "held": None, "oldest_held": None, "first_held": [], "rejected_deletes": [], "backwards": [],
        "ahead": [], "damage": [], "conflicts": [], "filtered_newer": 0, "first_filtered": [],
        "missed_deletes": 0, "first_missed": [], "first_late_repeats": [],
        "first_late": [], "first_earlier": [], "stale_rows": 0, "first_stale": [],
    }  # fmt: skip
    return BranchFacts(**given | more)


def find(check: str, of: BranchFacts) -> CheckResult:
    result = apply_check(CHECKS[check], of)
    assert result is not None, f"{check} does not apply"
    return result


def of_partition(**more: Any) -> list[PartitionAccount]:
    account: dict[str, Any] = {"partition": "c/t/1/0", "start": 0, "end": 20, "distinct": 18, "quarantined": 0}
    return [PartitionAccount.model_validate(account | {"explained": {}, "unexplained": []} | more)]


@pytest.mark.parametrize(
    ("check", "counts", "observed", "expected"),
    [
        ("unique_keys", {"repeated_keys": 2}, "2", "0"),
        ("no_nulls", {"nulls": 1}, "1", "0"),
        ("no_regressions", {"regressions": 1}, "1", "0"),
        ("actions_applied", {"unapplied": -1}, "-1", "0"),
        ("row_count", {"rows_after": 24}, "24", "25"),
        ("same_columns", {"unknown_columns": 2}, "2", "0"),
        ("sums_of_entries", {"unequal_sums": 3}, "3", "0"),
        ("quarantine_complete", {"rejected": 2, "quarantined": 1}, "1", "2"),
        ("nothing_forgotten_left", {"forgotten": 4}, "4", "0"),
        ("verdicts_given", {"verdicts": 1_019}, "1,019", "20"),
    ],
)
def test_a_count_that_breaks_a_law_fails_and_cannot_be_waived(
    dataset: MakeDataset, check: str, counts: dict[str, int], observed: str, expected: str
) -> None:
    result = find(check, facts(dataset(), counts=counts))
    assert (result.status, result.observed, result.expected) == ("failed", observed, expected)
    assert (result.id, result.severity, result.waivable, result.by) == (check, "blocking", False, "spark")
    assert result.law == CHECKS[check].law != ""


def test_a_sound_batch_passes_every_check_that_applies(dataset: MakeDataset) -> None:
    sound = facts(dataset(quality=LIMITS))
    results = {check.id: result for check in CHECKS.values() if (result := apply_check(check, sound))}
    assert {result.status for result in results.values()} == {"passed"}
    assert sorted(results) == sorted(
        ["unique_keys", "no_nulls", "no_regressions", "actions_applied", "row_count", "same_columns",
         "quarantine_complete", "verdicts_given", "unexplained_offsets", "nothing_lost", "coverage_gaps",
         "consistent_positions",
         "comparable_versions", "conflicts", "duplicate_rate", "rejected_rate"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("attempt", "title", "expected"),
    [
        ({}, "records landed = verdicts given", "20"),
        ({"woken": 3}, "records landed (and woken) = verdicts given", "23"),
        ({"replays": "b0"}, "records replayed = verdicts given", "20"),
        ({"replays": "b0", "woken": 3}, "records replayed (and woken) = verdicts given", "23"),
    ],
)
def test_verdicts_are_counted_against_what_the_batch_is_made_of(
    dataset: MakeDataset, attempt: dict[str, Any], title: str, expected: str
) -> None:
    result = find("verdicts_given", facts(dataset(), **attempt))
    assert (result.title, result.id, result.expected) == (title, "verdicts_given", expected)


def test_unexplained_offsets_are_named(dataset: MakeDataset) -> None:
    result = find("unexplained_offsets", facts(dataset(), accounts=of_partition(unexplained=[(3, 5)])))
    assert (result.status, result.observed, result.expected) == ("failed", "2", "at most 0")
    assert result.first == ["t, partition 0: [3, 5)"]
    assert find("unexplained_offsets", facts(dataset(), accounts=of_partition())).first == []


def test_a_run_of_offsets_that_is_too_long_for_markers_names_the_option(dataset: MakeDataset) -> None:
    exports = {"path": "e", "layout": "kcat", "origin": {"cluster": "c"}, "holes": "transactional"}
    made = dataset(source={"exports": exports})
    result = find("unexplained_offsets", facts(made, accounts=of_partition(unexplained=[(3, 5), (10, 1000)])))
    assert "source.exports.holes: {kind: transactional, longest: 990}" in result.way_out
    assert find("unexplained_offsets", facts(made, accounts=of_partition(unexplained=[(3, 5)]))).way_out == ""


@pytest.mark.parametrize(
    ("lost", "unexplained", "severity"),
    [
        ([], [], "blocking"),
        ([(3, 5)], [(4, 6)], "blocking"),
        ([(3, 5)], [(5, 6)], "warning"),
        ([(3, 5)], [], "warning"),
    ],
)
def test_s1_damage_in_a_segment_is_red_unless_others_have_what_is_missing(
    dataset: MakeDataset, lost: list[tuple[int, int]], unexplained: list[tuple[int, int]], severity: str
) -> None:
    damage = SegmentDamage(topic_partition=TopicPartition.of("c/t/1/0"), places=["s.log: bytes 1 to 2: x"], lost=lost)
    result = find(
        "undamaged_segments", facts(dataset(), damage=[damage], accounts=of_partition(unexplained=unexplained))
    )
    assert (result.status, result.observed, result.severity, result.waivable) == ("failed", "1", severity, True)
    assert result.first == ["s.log: bytes 1 to 2: x"]


@pytest.mark.parametrize(("loss", "severity"), [("refused", "blocking"), ("tolerated", "warning")])
def test_a_loss_before_landing_blocks_unless_it_is_tolerated(dataset: MakeDataset, loss: str, severity: str) -> None:
    accounts = of_partition(explained={next(iter(LOST)): 4})
    result = find("nothing_lost", facts(dataset(quality={"loss": loss}), accounts=accounts))
    assert (result.status, result.observed, result.severity, result.waivable) == ("failed", "4", severity, True)


def test_compacted_offsets_that_a_mode_needs_are_named_as_lost(dataset: MakeDataset) -> None:
    accounts = of_partition(explained={"compacted": 6}, needed=[(3, 5)])
    lost = find("nothing_lost", facts(dataset(), accounts=accounts))
    assert (lost.status, lost.observed, lost.waivable) == ("failed", "2", True)
    assert lost.first == ["t, partition 0: [3, 5) compacted"]
    assert "mode append needs every record: raise the topic's min.compaction.lag.ms" in lost.way_out
    assert "their rows are still live" in find("nothing_lost", facts(dataset(**UPSERT), accounts=accounts)).way_out
    tolerated = find("nothing_lost", facts(dataset(quality={"loss": "tolerated"}), accounts=accounts))
    assert (tolerated.status, tolerated.red) == ("failed", False)


def gap(start: int, end: int, hours: float | None) -> dict[str, Any]:
    """A gap; what comes after it is so many hours old at noon."""
    later = None if hours is None else int((NOON - timedelta(hours=hours)).timestamp() * 1000)
    return {"partition": "c/t/1/0", "start": start, "end": end, "later": later}


@pytest.mark.parametrize(
    ("limit", "gaps", "severity", "status"),
    [
        (None, [gap(3, 5, 900)], "warning", "failed"),
        ("2h", [gap(3, 5, 1)], "warning", "failed"),
        ("2h", [gap(3, 5, 3)], "blocking", "failed"),
        ("2h", [gap(3, 5, 1), gap(9, 10, 3)], "blocking", "failed"),
        ("2h", [gap(3, 5, None)], "warning", "failed"),
        ("2h", [], "warning", "passed"),
    ],
)
def test_a_gap_of_the_coverage_warns_and_blocks_once_what_follows_is_old(
    dataset: MakeDataset, limit: str | None, gaps: list[dict[str, Any]], severity: str, status: str
) -> None:
    quality = {"max_gap_age": limit} if limit else {}
    result = find("coverage_gaps", facts(dataset(quality=quality), gaps=gaps))
    assert (result.severity, result.status, result.waivable) == (severity, status, True)
    assert result.observed == str(sum(gap["end"] - gap["start"] for gap in gaps))
    assert result.first[:1] == (["t, partition 0: [3, 5)"] if gaps else [])


def test_a_decision_and_a_replay_bring_nothing_that_could_be_missing(dataset: MakeDataset) -> None:
    found = {"gaps": [gap(3, 5, 1)], "silent": ["c/t/1/0"], "known_topics": ["t"], "added_topics": ["u"]}
    checks = ("coverage_gaps", "silent_partitions", "new_topics")
    for of in (facts(dataset(), bare=True, **found), facts(dataset(), replays="b0", **found)):
        assert [apply_check(CHECKS[check], of) for check in checks] == [None] * 3
    assert [find(check, facts(dataset(), **found)).observed for check in checks] == ["2", "1", "1"]


def test_deletes_that_compaction_may_have_taken_warn_where_records_delete(dataset: MakeDataset) -> None:
    accounts = of_partition(maybe_deletes=[(3, 4), (7, 9)])
    result = find("compacted_deletes", facts(dataset(**UPSERT), accounts=accounts))
    assert (result.severity, result.observed) == ("warning", "3")
    assert result.first == ["t, partition 0: [3, 4)", "t, partition 0: [7, 9)"]
    assert apply_check(CHECKS["compacted_deletes"], facts(dataset(**UPSERT), accounts=of_partition())) is None


def test_partitions_that_fell_silent_are_named(dataset: MakeDataset) -> None:
    result = find("silent_partitions", facts(dataset(), silent=["c/t/1/3", "c/u/2/0"]))
    assert (result.severity, result.observed) == ("warning", "2")
    assert result.first == ["t, partition 3", "u, partition 0"]
    assert apply_check(CHECKS["silent_partitions"], facts(dataset())) is None


def test_keys_that_two_topics_share_are_named(dataset: MakeDataset) -> None:
    named = ['key {"id":"7"} of orders and users']
    result = find("shared_keys", facts(dataset(**UPSERT), keys_of_topics=1, first_keys_of_topics=named))
    assert (result.severity, result.observed, result.first) == ("warning", "1", named)
    assert apply_check(CHECKS["shared_keys"], facts(dataset(**UPSERT))) is None


PATTERN = {"source": {"kafka": {"topics": [r"^orders\..*"]}}}
LISTED = {"source": {"kafka": {"topics": ["orders.a", "orders.b"]}}}


@pytest.mark.parametrize(
    ("file", "known", "added", "observed"),
    [
        ({}, ["orders.a"], ["users"], "1"),
        (PATTERN, ["orders.a"], ["orders.b", "orders.c"], "2"),
        ({}, ["orders.a"], [], "0"),
        (LISTED, ["orders.a"], ["orders.b"], None),
        ({}, [], ["orders.a"], None),
    ],
)
def test_a_new_topic_is_red_and_both_topics_are_named(
    dataset: MakeDataset, file: dict[str, Any], known: list[str], added: list[str], observed: str | None
) -> None:
    """Of an export, and of a pattern; a file that lists its topics says which belong to it."""
    result = apply_check(CHECKS["new_topics"], facts(dataset(**file), known_topics=known, added_topics=added))
    assert (result.observed if result else None) == observed
    if result:
        assert (result.red, result.waivable) == (bool(added), True)
        assert result.first == [f"{topic} (the table has records of orders.a)" for topic in added]


@pytest.mark.parametrize(
    ("check", "reason", "observed"),
    [
        ("consistent_positions", "inconsistent_position", "3"),
        ("comparable_versions", "incomparable_version", "3"),
        ("conflicts", "same_version", "3"),
        ("conflicts", "inconsistent_position", "0"),
    ],
)
def test_each_conflict_is_of_one_check(dataset: MakeDataset, check: str, reason: str, observed: str) -> None:
    counts = {"applied": {"insert": 17}, "conflict": {reason: 3}}
    assert find(check, replaced_counts(facts(dataset(quality=LIMITS)), counts)).observed == observed


def replaced_counts(of: BranchFacts, counts: dict[str, dict[str, int]]) -> BranchFacts:
    return replace(of, upserted=of.upserted.model_copy(update={"counts": counts}))


def test_reused_identities_count_with_the_conflicts(dataset: MakeDataset) -> None:
    result = find("conflicts", facts(dataset(quality=LIMITS), findings=2))
    assert (result.title, result.id) == ("conflicts, reused identities included", "conflicts")
    assert (result.status, result.observed, result.expected) == ("failed", "2", "at most 1")


WITHIN = {
    "identity": {"message_id": "header.m", "within": "day(at)"},
    "value": {"fields": {"id": "string", "at": "timestamp"}},
}


def test_identities_in_two_periods_count_with_the_conflicts_and_are_named(dataset: MakeDataset) -> None:
    of = {"level": "period_moved", "identity": '["m1"]', "periods": ["2026-01-01", "2026-01-02"], "records": 2}
    moved = of | {"first": "t-0@1", "last": "t-0@2"}
    made = dataset(**WITHIN, quality=LIMITS)
    result = find("conflicts", facts(made, findings=2, moved=2, reused=[moved]))
    assert (result.title, result.observed) == ("conflicts, identities in two periods included", "2")
    assert result.first == ['{"m": "m1"} is in 2026-01-01 and 2026-01-02 (t-0@1, t-0@2)']
    assert result.way_out.startswith("identity.within: day(at) promises that this never changes for an identity")
    assert "compare" not in result.way_out, "there is no conflict"
    both = find("conflicts", facts(made, findings=3, moved=2, reused=[moved]))
    assert both.title == "conflicts, reused identities and identities in two periods included"
    masked = find(
        "conflicts", facts(dataset(**WITHIN, quality=LIMITS, mask={"at": "hash"}), findings=2, moved=2, reused=[moved])
    )
    assert "2026" not in "".join(masked.first)


def test_a_delete_that_found_no_row_warns_where_deletes_have_a_period(dataset: MakeDataset) -> None:
    made = dataset(**UPSERT | WITHIN)
    result = find("missed_deletes", facts(made, missed_deletes=2, first_missed=["key k at t-0@3", "and 1 more"]))
    assert (result.status, result.severity, result.red, result.observed) == ("failed", "warning", False, "2")
    assert "looks for its row in its own period alone (day(at))" in result.way_out
    assert find("missed_deletes", facts(made)).status == "passed"
    for other in (dataset(**UPSERT), dataset(**WITHIN)):
        assert apply_check(CHECKS["missed_deletes"], facts(other)) is None, "no period, or no deletes"


def test_a_sequence_that_begins_again_warns_where_producers_are_named(dataset: MakeDataset) -> None:
    named = {"producer": {"name": "header.p", "sequence": "header.s"}}
    found = [{"partition": "c/t/1/0", "producer": f"p{n}", "offset": n, "sequence": 1, "highest": 9} for n in range(7)]
    result = find("sequence_restarts", facts(dataset(identity=named), restarts=found))
    assert (result.status, result.severity, result.red, result.observed) == ("failed", "warning", False, "7")
    assert (result.first[0], result.first[-1]) == ("producer p0: 1 at t-0@0, after 9", "and 2 more")
    assert "identity.producer.epoch: header.epoch" in result.way_out
    assert find("sequence_restarts", facts(dataset(identity=named))).status == "passed"
    assert apply_check(CHECKS["sequence_restarts"], facts(dataset())) is None


def test_identities_that_repeat_after_more_than_a_day_warn_where_some_are_declared(dataset: MakeDataset) -> None:
    of = facts(dataset(identity={"message_id": "header.m"}), late_repeats=2, first_late_repeats=["at t-0@3"])
    result = find("identities_over_days", of)
    assert (result.status, result.severity, result.red, result.observed) == ("failed", "warning", False, "2")
    assert (result.expected, result.first) == ("at most 0", ["at t-0@3"])
    assert "epoch" not in result.way_out, "no sequence is declared"
    assert apply_check(CHECKS["identities_over_days"], facts(dataset(**UPSERT))) is None


@pytest.mark.parametrize(
    ("landed", "counts", "rates"),
    [
        (20, {"applied": {"insert": 15}, "duplicate": {"position": 5}}, ("0.25", "0", "blocking")),
        (20, {"applied": {"insert": 15}, "rejected": {"wrong_type": 5}}, ("0", "0.25", "blocking")),
        (9, {"applied": {"insert": 6}, "rejected": {"wrong_type": 3}}, ("0", "0.333333", "warning")),
        # What the dataset does not want counts in none: 4 of 10.
        (
            20,
            {"applied": {"insert": 6}, "rejected": {"null_key": 4}, "filtered": {"filter": 10}},
            ("0", "0.4", "blocking"),
        ),
        (20, {"rejected": {"forgotten": 20}}, ("0", "0", "warning")),
    ],
)
def test_rates_are_of_what_the_dataset_wants(
    dataset: MakeDataset, landed: int, counts: dict[str, dict[str, int]], rates: tuple[str, str, str]
) -> None:
    of = replaced_counts(facts(dataset(quality=LIMITS)), counts)
    of = replace(of, upserted=of.upserted.model_copy(update={"landed": landed}))
    duplicate, rejected = find("duplicate_rate", of), find("rejected_rate", of)
    assert (duplicate.observed, rejected.observed, rejected.severity) == rates
    assert (duplicate.severity, duplicate.waivable, rejected.waivable) == (rates[2], True, True)


@pytest.mark.parametrize(
    ("counts", "observed", "status"),
    [
        ({"applied": {"insert": 4}, "rejected": {"wrong_type": 4}}, "0.5", "passed"),
        ({"applied": {"insert": 3}, "rejected": {"wrong_type": 5}}, "0.625", "failed"),
        ({"held": {"version_gap": 7}, "rejected": {"wrong_type": 1}}, "1", "failed"),
        ({"held": {"version_gap": 8}}, "0", "passed"),
    ],
)
def test_a_small_batch_that_is_mostly_rejected_is_red(
    dataset: MakeDataset, counts: dict[str, dict[str, int]], observed: str, status: str
) -> None:
    of = facts(dataset(quality=LIMITS), landed=8, counts={}, upserted=Upserted(batch="b", attempt="a", landed=8))
    result = find("mostly_rejected", replaced_counts(of, counts))
    assert (result.observed, result.status, result.severity) == (observed, status, "blocking")


def test_a_sum_or_a_chain_allows_no_rejected_record_at_any_size(dataset: MakeDataset) -> None:
    for apply in (CHAIN, INCREMENT):
        of = facts(dataset(**apply, quality={"min_records": 100}))
        of = replaced_counts(of, {"applied": {"add": 19}, "rejected": {"wrong_type": 1}})
        result = find("rejected_rate", of)
        assert (result.status, result.expected, result.severity) == ("failed", "at most 0", "blocking")
        assert apply_check(CHECKS["mostly_rejected"], of) is None


def test_what_a_replay_rejects_again_was_counted_before(dataset: MakeDataset) -> None:
    of = facts(dataset(quality=LIMITS, **UPSERT), replays="b0", refused_deletes=1)
    assert [apply_check(CHECKS[check], of) for check in ("rejected_rate", "mostly_rejected", "rejected_deletes")] == [
        None
    ] * 3


def test_rejected_deletes_are_named_and_say_what_the_file_can_say(dataset: MakeDataset) -> None:
    of = facts(dataset(**UPSERT), refused_deletes=1)
    result = find("rejected_deletes", replace(of, rejected_deletes=["key k at t-0@3"]))
    assert (result.status, result.expected, result.first) == ("failed", "at most 0", ["key k at t-0@3"])
    assert "apply.delete_when: tombstone deletes its key" in result.way_out
    assert apply_check(CHECKS["rejected_deletes"], facts(dataset())) is None, "only a mode that deletes"


COUNTER = {
    "apply": {"mode": "upsert", "key": ["id"], "version": {"from": "n"}},
    "identity": {},
    "value": {"fields": {"id": "string", "n": "long"}},
}


@pytest.mark.parametrize(
    ("counts", "landed", "observed", "status", "severity"),
    [
        ({"applied": {"update": 10}, "superseded": {"backwards": 10}}, 20, "0.5", "passed", "blocking"),
        ({"applied": {"update": 9}, "superseded": {"backwards": 11}}, 20, "0.55", "failed", "blocking"),
        ({"superseded": {"backwards": 9}}, 9, "1", "failed", "warning"),
        ({"applied": {"update": 9}, "superseded": {"stored": 11}}, 20, "0", "passed", "blocking"),
        # What the dataset does not want is no record that the rate is of.
        ({"superseded": {"backwards": 10}, "filtered": {"filter": 10}}, 20, "1", "failed", "blocking"),
    ],
)
def test_a_batch_of_which_most_versions_go_backwards_is_red(
    dataset: MakeDataset, counts: dict[str, dict[str, int]], landed: int, observed: str, status: str, severity: str
) -> None:
    of = replaced_counts(facts(dataset(**COUNTER, quality=LIMITS), landed=landed), counts)
    of = replace(of, upserted=of.upserted.model_copy(update={"landed": landed}))
    result = find("backwards_rate", of)
    assert (result.observed, result.status, result.severity) == (observed, status, severity)
    assert (result.expected, result.waivable) == ("at most 0.5", True)


def test_versions_that_go_backwards_are_named_with_the_way_out(dataset: MakeDataset) -> None:
    of = replaced_counts(facts(dataset(**COUNTER)), {"superseded": {"backwards": 20}})
    result = find("backwards_rate", replace(of, backwards=['key {"id":"a"} at t-0@4, below t-0@2']))
    assert result.first == ['key {"id":"a"} at t-0@4, below t-0@2']
    assert "apply.version.from: [long(header.epoch), n], and run onefold rebuild" in result.way_out
    chained = find("backwards_rate", replaced_counts(facts(dataset(**CHAIN)), {"superseded": {"backwards": 20}}))
    assert "let the source count on" in chained.way_out


def test_late_copies_warn_and_a_limit_is_the_files(dataset: MakeDataset) -> None:
    def late(version: dict[str, str], limit: int = 0, **identity: str) -> CheckResult | None:
        of_file = COUNTER | {"apply": COUNTER["apply"] | {"version": version}, "identity": identity}
        made = dataset(**of_file | {"quality": {"max_late_copies": limit}})
        found = replaced_counts(facts(made), {"duplicate": {"late_copy": 2}})
        return apply_check(CHECKS["late_copies"], replace(found, first_late=["key a at t-0@2, sent before at t-0@0"]))

    for version in (
        {"from": "offset"},
        {"from": "timestamp"},
        {"from": "long(header.v)"},
        {"from": "n", "tie": "last"},
    ):
        result = late(version, message_id="header.m")
        assert result
        assert (result.status, result.severity) == ("failed", "warning")
        assert result.first == ["key a at t-0@2, sent before at t-0@0"]
        assert "take it out of identity" in result.way_out
        within = late(version, 2, message_id="header.m")
        assert within
        assert within.status == "passed"
        assert late(version) is None, "without an identity every delivery is a version"
    assert late({"from": "n"}, message_id="header.m") is None, "a version of the value is the message's"


def test_an_earlier_delivery_is_red_and_not_waivable(dataset: MakeDataset) -> None:
    version = {"from": "offset"}
    made = dataset(
        **COUNTER | {"apply": COUNTER["apply"] | {"version": version}, "identity": {"message_id": "header.m"}}
    )
    result = find("earlier_deliveries", replaced_counts(facts(made), {"conflict": {"earlier_delivery": 1}}))
    assert (result.status, result.severity, result.waivable) == ("failed", "blocking", False)
    assert f"onefold rebuild {made.name} --again" in result.way_out


def test_two_contents_of_a_version_name_what_decides_a_tie(dataset: MakeDataset) -> None:
    def proposed(reason: str, **version: str) -> str:
        made = dataset(**COUNTER | {"apply": COUNTER["apply"] | {"version": {"from": "n", **version}}})
        found = find(
            "comparable_versions" if reason == "incomparable_version" else "conflicts",
            replaced_counts(facts(made), {"conflict": {reason: 1}}),
        )
        return found.way_out

    assert "apply.version.tie: last takes the one at the larger offset (first: the smaller)" in proposed("same_version")
    assert "or a second part tells them apart: [n, timestamp]" in proposed("same_version")
    in_chain = proposed("same_version", guard="contiguous")
    assert ("apply.version.tie: last" in in_chain, "second part" in in_chain) == (True, False)
    assert proposed("same_identity") == proposed("same_version", tie="last") == ""
    apart = proposed("incomparable_version", tie="first")
    assert "tie: first takes the smaller offset, and an offset orders the records of one partition only" in apart
    assert "[n, timestamp], which trusts the producers' clocks" in apart
    assert "count on within a version" in proposed("incomparable_version", tie="first", guard="contiguous")


def test_the_limit_of_versions_that_go_backwards_is_the_files(dataset: MakeDataset) -> None:
    made = dataset(**COUNTER, quality=LIMITS | {"max_backwards_rate": 1.0})
    of = replaced_counts(facts(made), {"superseded": {"backwards": 20}})
    assert (find("backwards_rate", of).status, find("backwards_rate", of).expected) == ("passed", "at most 1")


def test_only_versions_at_exact_positions_go_backwards(dataset: MakeDataset) -> None:
    inexact = {"exports": {"path": "e", "layout": "connect", "origin": {"cluster": "c"}}}
    assert apply_check(CHECKS["backwards_rate"], facts(dataset())) is None
    assert apply_check(CHECKS["backwards_rate"], facts(dataset(**COUNTER, source=inexact))) is None


def test_filtered_records_that_are_newer_are_named_and_the_condition_on_rows_is_proposed(dataset: MakeDataset) -> None:
    def filtered(text: str, **more: Any) -> BranchFacts:
        source = dataset().source.model_dump() | {"filter": text}
        return facts(dataset(**UPSERT | {"source": source} | more), filtered_newer=2)

    result = find("filtered_newer", replace(filtered("id = 'x'"), first_filtered=["key k at t-0@3"]))
    assert (result.status, result.expected, result.first) == ("failed", "at most 0", ["key k at t-0@3"])
    assert "target.where" in result.way_out
    assert result.waivable
    allowed = filtered("key = 'x'", quality={"max_filtered_newer": 2}, key={"format": "string"})
    assert find("filtered_newer", allowed).status == "passed"
    for exempt in ("header.kind = 'x'", "partition = 1 and offset > 3", "topic = 't' or timestamp is null"):
        assert apply_check(CHECKS["filtered_newer"], filtered(exempt)) is None
    assert apply_check(CHECKS["filtered_newer"], facts(dataset(**UPSERT))) is None, "nothing is filtered"
    append = dataset(source=dataset().source.model_dump() | {"filter": "id = 'x'"})
    assert apply_check(CHECKS["filtered_newer"], facts(append)) is None, "nothing of an append has versions"


def stamp(hours: float) -> int:
    """A timestamp so many hours before noon."""
    return int((NOON - timedelta(hours=hours)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("end", "observed"),
    [(1, "7,200"), (3, None), (None, None)],
    ids=["at the live edge", "long ago", "nothing new of the source is read"],
)
def test_freshness_is_asked_at_the_live_edge_only(dataset: MakeDataset, end: int | None, observed: str | None) -> None:
    edge = None if end is None else NOON - timedelta(hours=end)
    of = facts(dataset(quality={"freshness": "1h"}), newest_used=stamp(3), edge=edge)
    result = apply_check(CHECKS["freshness"], of)
    assert (result and (result.observed, result.expected)) == (observed and (observed, "at most 3,600"))


@pytest.mark.parametrize(
    ("used", "before", "observed"),
    [
        (0.5, 9, "1,800"),
        (3, 9, "10,800"),
        (None, 3, "10,800"),
        (None, 0.5, "1,800"),
        (3, 0.5, "1,800"),
        (None, None, None),
    ],
    ids=[
        "of the batch", "of an old batch", "nothing of the batch counts, and the table is old",
        "nothing of the batch counts, and the table is fresh", "late records of a table that is fresh", "no record yet",
    ],
)  # fmt: skip
def test_freshness_is_the_age_of_the_newest_record_that_is_applied_superseded_or_held(
    dataset: MakeDataset, used: float | None, before: float | None, observed: str | None
) -> None:
    """`newest` is that of a record which is filtered or a duplicate: it makes nothing fresh."""
    stamps = {"newest_used": None if used is None else stamp(used), "newest": stamp(0)}
    newest_before = None if before is None else stamp(before)
    of = facts(dataset(quality={"freshness": "1h"}), edge=NOON, newest_before=newest_before, **stamps)
    result = apply_check(CHECKS["freshness"], of)
    assert (result and result.observed) == observed
    if result and result.status == "failed":
        assert "look for a producer or an export that stopped" in result.way_out


def test_freshness_goes_by_the_oldest_record_behind_the_cut(dataset: MakeDataset) -> None:
    """A clock that runs ahead, or an open transaction, holds a record of two hours ago back."""
    given = {"edge": NOON, "newest_used": stamp(0.5)}
    behind = facts(dataset(quality={"freshness": "1h"}), oldest_behind=NOON - timedelta(hours=2), **given)
    result = apply_check(CHECKS["freshness"], behind)
    assert (result and (result.observed, result.status)) == ("7,200", "failed")
    assert "Records since 2026-03-09T10:00:00Z are held back" in result.way_out
    nothing = facts(dataset(quality={"freshness": "1h"}), oldest_behind=NOON - timedelta(hours=2), edge=NOON)
    found = apply_check(CHECKS["freshness"], nothing)
    assert (found and found.observed) == "7,200"
    young = facts(dataset(quality={"freshness": "1h"}), oldest_behind=NOON - timedelta(minutes=6), **given)
    found = apply_check(CHECKS["freshness"], young)
    assert (found and found.observed) == "1,800"


STAMPED = {"value": {"fields": {"id": "string", "at": "timestamp", "day": "date", "n": "long"}}, "identity": {}}


def stamped(*parts: str, **more: Any) -> dict[str, Any]:
    """Keys of a file whose version is made of these parts."""
    return STAMPED | {"apply": {"mode": "upsert", "key": ["id"], "version": {"from": [*parts], **more}}}


@pytest.mark.parametrize(
    ("version", "limit"),
    [
        (stamped("at"), 86_400), (stamped("day", "at"), 86_400), (stamped("at", max_ahead="2h"), 7_200),
        (stamped("timestamp"), 86_400), (stamped("log.timestamp", "offset"), 86_400),
        (stamped("n", "at", max_ahead="1h"), 3_600),
        (stamped("n"), None), (stamped("n", "at"), None), (stamped("offset"), None),
    ],
)  # fmt: skip
def test_a_log_timestamp_ahead_of_the_clock_is_red_where_versions_need_it(
    dataset: MakeDataset, version: dict[str, Any], limit: int | None
) -> None:
    made = dataset(**version)
    if limit is None:
        assert apply_check(CHECKS["timestamp_ahead"], facts(made, newest=1 << 60)) is None
        return
    now = int(NOON.timestamp() * 1000)
    right, wrong = (find("timestamp_ahead", facts(made, newest=now + 1000 * limit + late)) for late in (0, 1))
    assert (right.status, right.expected) == ("passed", f"at most {limit:,}")
    assert (wrong.status, wrong.severity, wrong.waivable) == ("failed", "blocking", True)
    assert "a clock was wrong" in wrong.way_out
    assert find("timestamp_ahead", facts(made, newest=now - 10**9)).observed == "0"
    assert apply_check(CHECKS["timestamp_ahead"], facts(made, newest=None)) is None


def test_held_records_have_a_limit_of_number_and_of_age(dataset: MakeDataset) -> None:
    quality = {"max_held": 2, "max_held_age": "1m"}
    of = facts(dataset(**CHAIN, quality=quality), newest=100_000, held=3, oldest_held=10_000, first_held=["version 3"])
    number, age = find("held_records", of), find("held_age", of)
    assert (number.observed, number.expected, number.first) == ("3", "at most 2", ["version 3"])
    assert (age.observed, age.expected, age.status) == ("90", "at most 60", "failed")
    bare = replace(of, bare=True)
    assert [apply_check(CHECKS[check], bare) for check in ("held_records", "held_age")] == [None, None]


# The table


def test_ids_are_words_that_never_change() -> None:
    assert set(CHECKS) >= RELEASED
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in CHECKS)


def test_each_check_measures_facts_or_expects_something_of_rows() -> None:
    assert [check.id for check in CHECKS.values() if (check.measure is None) == (check.expect is None)] == []


def test_what_guards_a_law_cannot_be_waived() -> None:
    assert [check.id for check in CHECKS.values() if check.law and check.waivable] == []


def test_each_family_is_a_file_whose_functions_are_checks() -> None:
    """As `diagnosis/rules`: a function that no row of the table names would never run."""
    used = {function for check in CHECKS.values() for function in (check.measure, check.expect) if function}
    families = {file.stem for file in HOME.glob("*.py")} - {"__init__", "check", "facts"}
    assert {function.__module__.rpartition(".")[2] for function in used} == families
    for family in families:
        module = getattr(checks, family)
        functions = {
            function for name, function in inspect.getmembers(module, inspect.isfunction)
            if function.__module__ == module.__name__ and not name.startswith("_")
            and str(inspect.signature(function).return_annotation).startswith(("Measurement", "list[RowExpectation]"))
        }  # fmt: skip
        assert functions - used == set(), family


@pytest.mark.parametrize(
    ("word", "id_", "title"),
    [
        ("duplicate_rate", "duplicate_rate", "duplicate rate"),
        ("duplicate rate", "duplicate_rate", "duplicate rate"),
        ("every action stands on the branch", "actions_applied", "every action is on the branch"),
        ("conflicts, reused identities included", "conflicts", "conflicts"),
        ("records replayed (and woken) = verdicts given", "verdicts_given", "records landed = verdicts given"),
        ("id not null", "key_not_null(id)", "id not null"),
        ("key_not_null(id)", "key_not_null(id)", "id not null"),
        ("(id, part) unique", "unique_key_columns(id, part)", "(id, part) unique"),
        ("key digest unique", "unique_key_digest", "key digest unique"),
        ("key_not_null", "key_not_null", "key not null"),
        ('expect_x(value_set=["is unique', 'expect_x(value_set=["is unique', 'expect_x(value_set=["is unique'),
        ("no such check", "no such check", "no such check"),
    ],
)
def test_a_check_is_known_by_its_id_and_by_every_title_it_had(word: str, id_: str, title: str) -> None:
    assert (id_of(word), title_of(word)) == (id_, title)


def test_no_title_is_of_two_checks() -> None:
    titles = [title.format("id") for check in CHECKS.values() for title in check.titles]
    assert len(titles) == len(set(titles))
    assert [id_of(title).partition("(")[0] for title in titles] == [
        check.id for check in CHECKS.values() for _ in check.titles
    ]


def test_no_other_file_spells_an_id_or_a_title_of_a_check() -> None:
    words = {word for check in CHECKS.values() for word in (check.id, *check.titles)} - ALSO_SOMETHING_ELSE
    files = [file for folder in ("src", "spark_jobs", "dags", "plugins") for file in (PROJECT / folder).rglob("*.py")]
    found = [
        (file.relative_to(PROJECT).as_posix(), node.value)
        for file in files
        if HOME not in file.parents
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value in words
    ]
    assert found == []


def test_the_docs_list_each_check() -> None:
    """`docs/checks.md`: id, title, law, severity, waivable, what to do."""
    rows = re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", (PROJECT / "docs" / "checks.md").read_text(), re.MULTILINE)
    listed = {name: [cell.strip() for cell in cells.split(" | ")] for name, cells in rows}
    assert {name: cells[:4] for name, cells in listed.items()} == {
        check.id: [
            check.title.format("*columns*"),
            f"[{check.law}](development.md#the-laws)" if check.law else "–",
            check.severity,
            "yes" if check.waivable else "no",
        ]
        for check in CHECKS.values()
    }
    assert list(listed) == list(CHECKS), "in the order of a report"
    assert all(len(cells) == 5 and cells[4] for cells in listed.values()), "each says what to do"


def test_a_check_that_can_be_waived_says_what_its_value_is_made_of() -> None:
    """Those of which a waiver holds by value alone are named here: each measures a time."""
    docs = (PROJECT / "docs/checks.md").read_text().partition("## What a waiver accepts")[2]
    assert {check.id for check in CHECKS.values() if check.waivable} == set(re.findall(r"`(\w+)`", docs))
    by_value = {check.id for check in CHECKS.values() if check.behind == Behind.MEASUREMENT}
    assert by_value == {"freshness", "timestamp_ahead", "held_age"}
    assert all(check.severity == "warning" for check in CHECKS.values() if check.behind == Behind.WARNING)
    assert all((check.behind is not None) == check.waivable for check in CHECKS.values())
    with pytest.raises(TypeError, match="check new can be waived: say what its value is made of"):
        Check("new", "a new check", measure=lambda _: None)


def test_copies_of_what_is_covered_count_in_no_rate(dataset: MakeDataset) -> None:
    """18 of 20 records were read again: of the two new ones, one is rejected and one is a duplicate."""
    counts = {"duplicate": {"position": 15, "message_id": 1}, "rejected": {"undecodable": 4}}
    made = dataset(quality=LIMITS | {"min_records": 2})
    of = replaced_counts(facts(made, known={"duplicate": 15, "rejected": 3}), counts)
    assert [find(name, of).observed for name in ("duplicate_rate", "rejected_rate")] == ["0.5", "0.5"]
    same = facts(made, known={"duplicate": 20})
    assert find("rejected_rate", replaced_counts(same, {"duplicate": {"position": 20}})).observed == "0"


def test_copies_that_cannot_be_compared_warn(dataset: MakeDataset) -> None:
    result = find("positions_compared", facts(dataset(), known={"duplicate": 4}, not_compared=3))
    assert (result.status, result.severity, result.observed) == ("failed", "warning", "3")
    assert find("positions_compared", facts(dataset(), known={"duplicate": 4})).status == "passed"
    assert apply_check(CHECKS["positions_compared"], facts(dataset())) is None


@pytest.mark.parametrize(
    ("counts", "covered", "status"),
    [
        ({"applied": {"insert": 1}, "filtered": {"filter": 19}}, {}, None),
        ({"filtered": {"filter": 20}}, {}, "failed"),
        ({"superseded": {"stored": 19}, "rejected": {"undecodable": 1}}, {}, "failed"),
        ({"rejected": {"undecodable": 20}}, {}, None),  # red by itself
        ({"duplicate": {"position": 20}}, {"duplicate": 20}, None),
        ({"duplicate": {"position": 19}, "filtered": {"filter": 1}}, {"duplicate": 19}, "failed"),
        ({"skipped": {"decision": 20}}, {}, None),
        ({}, {}, None),
    ],
)
def test_a_batch_that_applies_nothing_warns(
    dataset: MakeDataset, counts: dict[str, dict[str, int]], covered: dict[str, int], status: str | None
) -> None:
    of = replaced_counts(facts(dataset(quality=LIMITS | {"min_records": 100}), known=covered), counts)
    result = apply_check(CHECKS["nothing_applied"], of)
    assert (result and result.status) == status
    if result and status == "failed":
        assert result.severity == "warning"
        assert "20 filtered" in result.first or len(counts) > 1


def test_rows_of_keys_whose_record_is_rejected_are_named_as_stale(dataset: MakeDataset) -> None:
    of = replaced_counts(facts(dataset(**UPSERT)), {"applied": {"insert": 19}, "rejected": {"wrong_type": 1}})
    result = find("stale_rows", replace(of, stale_rows=1, first_stale=['key {"id":"a"}']))
    assert (result.status, result.severity, result.first) == ("failed", "warning", ['key {"id":"a"}'])
    assert apply_check(CHECKS["stale_rows"], facts(dataset(**UPSERT))) is None
