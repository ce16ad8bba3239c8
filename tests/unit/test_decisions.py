"""What may be waived, how decisions are recorded, and that rows do not depend on when a skip came (L1). No Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.decisions import Discard, Release, Skip, Waiver, every_decision, log_of, record, standing
from onefold.decisions.log import pin_skips, pinned_skips
from onefold.dedup.documents import Staged, StagedPartition, TakenOut
from onefold.errors import DecidedMeanwhileError, NotWaivableError, UsageError
from onefold.lake import Lake
from onefold.landing.manifest import LandedObject, Manifest
from onefold.offsets import Coverage, Present, merged
from onefold.operations.decide import check_carried_out
from onefold.publish import Published
from onefold.quality.documents import CheckResult, GateResult
from onefold.quality.waivers import OTHER_RECORDS, still_waived, under, waivers_of, why_not, with_id
from onefold.report.decisions import row_of
from onefold.upsert.decisions_in_force import Obeyed, cover, taken_out_of

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
RATE = CheckResult(
    id="duplicate_rate",
    title="duplicate rate",
    by="great_expectations",
    status="failed",
    observed="0.5",
    expected="at most 0.3",
)
SUITE = CheckResult(
    id='expect_x(column="n=1")', title='expect_x(column="n=1")', by="suite", status="failed", detail="11"
)
PASSED = CheckResult(id="conflicts", title="conflicts", by="great_expectations", status="passed", observed="0")
WARNED = CheckResult(
    id="rejected_rate",
    title="rejected rate",
    by="great_expectations",
    status="failed",
    severity="warning",
    observed="0.9",
)
LAW = CheckResult(
    id="unique_keys",
    title="every key at most once (plain Spark)",
    by="spark",
    law="L3",
    status="failed",
    observed="2",
    expected="0",
    waivable=False,
)
ERRORED = CheckResult(id="expect_y", title="expect_y", by="suite", status="errored", detail="no such column")


def released(*waivers: tuple[str, str], number: int = 1) -> Release:
    named = [Waiver(check=check, value=value) for check, value in waivers]
    return Release(
        dataset="d", batch="b", number=number, by="mia", reason="known", at=NOON, waivers=named, attempt="cafe"
    )


def skipped(number: int = 1, batch: str = "b") -> Skip:
    return Skip(dataset="d", batch=batch, number=number, by="mia", reason="test data", at=NOON)


def discarded(number: int, batch: str = "b") -> Discard:
    return Discard(dataset="d", batch=batch, number=number, by="noa", reason="no", at=NOON)


# What may be waived


def test_a_check_that_failed_and_may_be_judged_can_be_waived() -> None:
    assert [why_not(check) for check in (RATE, SUITE)] == [None, None]


@pytest.mark.parametrize("law", ["L1", "L2", "L3", "L4"])
def test_a_law_cannot(law: str) -> None:
    check = LAW.model_copy(update={"law": law})
    assert why_not(check) == f"it guards law {law}"
    assert under([check], released((LAW.id, "2"))) == [check]
    with pytest.raises(NotWaivableError, match=f"every key at most once \\(plain Spark\\): it guards law {law}"):
        waivers_of("d", "b", [RATE, check], ["duplicate_rate=0.5", "unique_keys=2"])


def test_a_check_that_could_not_be_made_cannot() -> None:
    assert "could not be made" in (why_not(ERRORED) or "")
    assert under([ERRORED], released((ERRORED.id, ERRORED.detail))) == [ERRORED]
    with pytest.raises(NotWaivableError, match="expect_y: it could not be made"):
        waivers_of("d", "b", [ERRORED], [f"expect_y={ERRORED.detail}"])


def test_waivers_name_every_red_check_with_what_it_found() -> None:
    """The name of a user's check may hold the sign between name and value."""
    words = ["duplicate_rate=0.5", 'expect_x(column="n=1")=11']
    assert [waiver.words for waiver in waivers_of("d", "b", [RATE, PASSED, WARNED, SUITE], words)] == words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], 'add --waive "duplicate_rate=0.5"'),
        (["duplicate_rate"], "duplicate_rate found 0.5. A waiver names the value"),
        (["duplicate_rate=0.4"], "duplicate_rate found 0.5. A waiver names the value"),
        (["dupliate_rate=0.5"], "there is no check 'dupliate_rate' here (did you mean duplicate_rate?)"),
        (["duplicate_rate=0.5", "conflicts=0"], "conflicts is not red"),
        (["duplicate_rate=0.5", "rejected_rate=0.9"], "rejected_rate is not red"),
    ],
)
def test_other_words_are_refused_and_say_which_to_use(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        waivers_of("d", "b", [RATE, PASSED, WARNED], words)
    assert said in str(raised.value)
    assert '--waive "duplicate_rate=0.5"' in str(raised.value)


def test_a_release_waives_its_checks_with_its_values_and_no_other() -> None:
    decision = released((RATE.id, "0.5"), (LAW.id, "2"))
    other = RATE.model_copy(update={"observed": "0.6"})
    [rate, worse, suite, law] = under([RATE, other, SUITE, LAW], decision)
    assert (rate.red, rate.waived) == (False, decision.sentence)
    assert [gate.red for gate in (worse, suite, law)] == [True, True, True]
    assert under([RATE], None) == [RATE]
    assert under([PASSED, WARNED], decision) == [PASSED, WARNED], "what is not red needs no waiver"


def test_a_release_does_not_waive_the_same_number_of_other_records() -> None:
    seen, other = (RATE.model_copy(update={"digest": digest}) for digest in ("0a", "0b"))
    [waiver] = waivers_of("d", "b", [seen], ["duplicate_rate=0.5"])
    assert (waiver.digest, waiver.words) == ("0a", "duplicate_rate=0.5")
    decision = released().model_copy(update={"waivers": [waiver]})
    [obeyed], [refused] = under([seen], decision), under([other], decision)
    assert (obeyed.red, obeyed.waived, obeyed.not_waived) == (False, decision.sentence, "")
    assert (refused.red, refused.not_waived) == (True, OTHER_RECORDS)
    assert (still_waived([obeyed], [waiver]), still_waived([refused], [waiver])) == ([waiver], [])


def test_a_waiver_that_was_recorded_without_a_digest_holds_by_id_and_value() -> None:
    earlier = Waiver.model_validate_json('{"check": "duplicate_rate", "value": "0.5"}')
    assert earlier.digest is None
    decision, check = released(("duplicate_rate", "0.5")), RATE.model_copy(update={"digest": "0a"})
    assert not under([check], decision)[0].red
    assert under([check.model_copy(update={"observed": "0.6"})], decision)[0].red


EARLIER_RELEASE = b"""{
 "dataset": "d", "batch": "b", "number": 1, "by": "mia", "reason": "known retries", "at": "2026-03-09T12:00:00Z",
 "kind": "release",
 "waivers": [
  {"check": "duplicate rate", "value": "0.5"},
  {"check": "id not null", "value": "1 of 57 unexpected"},
  {"check": "expect_x(column=\\"n=1\\")", "value": "11"}
 ],
 "carried": [{"check": "conflicts, reused identities included", "value": "1,234"}],
 "attempt": "cafe"
}"""
"""As a release recorded it when a waiver named a check by its title."""
EARLIER_GATE = b"""{
 "batch": "b", "attempt": "cafe", "branch": "b", "head": 2, "base": 1, "staging": "s", "code": "c", "green": false,
 "judged": "2026-03-09T12:00:00Z",
 "checks": [
  {"name": "duplicate rate", "by": "great_expectations", "status": "failed", "observed": "0.5"},
  {"name": "id not null", "by": "great_expectations", "status": "failed", "observed": "1 of 57 unexpected"},
  {"name": "expect_x(column=\\"n=1\\")", "by": "suite", "status": "failed", "detail": "11"},
  {"name": "conflicts, reused identities included", "by": "great_expectations", "status": "failed", "observed":
   "1,234"},
  {"name": "rejected rate", "by": "great_expectations", "status": "failed", "observed": "0.5"},
  {"name": "every action stands on the branch", "by": "spark", "law": "L5", "status": "failed", "observed": "1",
   "waivable": false}
 ]
}"""
"""As a gate left it when checks had no id."""


def test_waivers_that_were_recorded_by_title_hold(lake: Lake) -> None:
    lake.storage.put_if_absent("datasets/d/decisions/b/0001.json", EARLIER_RELEASE)
    [decision] = log_of(lake, "d", "b")
    assert isinstance(decision, Release)
    checks = GateResult.model_validate_json(EARLIER_GATE).checks
    assert [check.id for check in checks] == [
        "duplicate_rate", "key_not_null(id)", SUITE.id, "conflicts", "rejected_rate", "actions_applied",
    ]  # fmt: skip
    obeyed = under(checks, decision)
    assert [check.title for check in obeyed if check.red] == ["rejected rate", "every action stands on the branch"]
    assert [waiver.words for waiver in still_waived(obeyed, decision.in_force)] == [
        "duplicate_rate=0.5", "key_not_null(id)=1 of 57 unexpected", 'expect_x(column="n=1")=11', "conflicts=1,234",
    ]  # fmt: skip
    listed = [waived["check"] for waived in row_of(decision, "waiting")["waived"]]
    assert listed == ["duplicate_rate", "key_not_null(id)", SUITE.id, "conflicts"], "by id, as new ones are"


def test_a_title_can_be_typed_where_an_id_can() -> None:
    words = ["duplicate rate=0.5", 'expect_x(column="n=1")=11']
    by_title = waivers_of("d", "b", [RATE, PASSED, WARNED, SUITE], words)
    assert [waiver.words for waiver in by_title] == ["duplicate_rate=0.5", words[1]]
    assert with_id("records landed = verdicts given=19") == "verdicts_given=19"
    assert with_id("duplicate_rate=0.5") == "duplicate_rate=0.5"


def test_a_skip_waives_what_speaks_of_content_and_no_law() -> None:
    [rate, law, errored] = under([RATE, LAW, ERRORED], skipped())
    assert (rate.red, law.red, errored.red) == (False, True, True)


# The log


def test_decisions_are_kept_in_order_and_the_last_one_counts(lake: Lake) -> None:
    assert (log_of(lake, "d", "b"), standing([])) == ([], None)
    made = [released(("x", "1")), discarded(2), skipped(3)]
    for number, decision in enumerate(made, start=1):
        record(lake, decision)
        assert log_of(lake, "d", "b") == made[:number]
    assert [standing(made[:number]) for number in (1, 2, 3)] == [made[0], None, made[2]]
    record(lake, skipped(batch="another"))
    assert [(decision.batch, decision.number) for decision in every_decision(lake, "d")] == [
        ("another", 1), ("b", 1), ("b", 2), ("b", 3),
    ]  # fmt: skip


def test_the_second_of_two_decisions_at_once_is_refused(lake: Lake) -> None:
    record(lake, skipped())
    with pytest.raises(DecidedMeanwhileError):
        record(lake, released(("x", "1")))
    record(lake, skipped())
    assert log_of(lake, "d", "b") == [skipped()], "a recorded decision is never written over"


def test_what_a_skip_took_out_is_pinned_once_and_counts_while_the_skip_is_in_force(lake: Lake) -> None:
    first, other = (Coverage(partitions={KEY: Present(present=[(0, end)])}) for end in (3, 9))
    record(lake, skipped())
    pin_skips(lake, "d", {"b": first})
    pin_skips(lake, "d", {"b": other})
    assert pinned_skips(lake, "d") == {"b": first}
    assert log_of(lake, "d", "b") == list(every_decision(lake, "d")) == [skipped()]
    record(lake, discarded(2))
    assert pinned_skips(lake, "d") == {}


def test_a_decision_that_came_too_late_is_taken_back(lake: Lake) -> None:
    record(lake, skipped())
    as_it_was = Published(batch="b", attempt="cafe", snapshot=1, record="cafe", counts={}, at=NOON)
    for carried_out in (None, as_it_was.model_copy(update={"decision": skipped()})):
        check_carried_out(lake, skipped(), carried_out)
    assert standing(log_of(lake, "d", "b")) == skipped()
    with pytest.raises(UsageError, match="was published meanwhile, and the decision taken back"):
        check_carried_out(lake, skipped(), as_it_was)
    assert standing(log_of(lake, "d", "b")) is None


# Rows and coverage, whenever a skip comes

KEY = "c/t/1/0"
LANDED = Manifest(batch="b", source="s", attempt="a", objects=[])


class Table:
    """A table as upsert keeps it: which offsets have had their effect, what is covered, what skips took out."""

    def __init__(self) -> None:
        self.rows: set[int] = set()
        self.coverage = Coverage()
        self.skipped: dict[str, Coverage] = {}

    def fold(self, batch: str, offsets: set[int], skip: bool, pinned: dict[str, Coverage]) -> None:
        ranges = merged((offset, offset + 1) for offset in offsets)
        partitions = {KEY: StagedPartition(present=ranges, quarantined=[])} if offsets else {}
        staged = Staged(
            batch=batch, generation="g", code="c", attempt="a", table="t", records=1, partitions=partitions, objects={}
        )
        decision = skipped(batch=batch) if skip else None
        obeyed = Obeyed(decided=int(skip), decision=decision, skipped=self.skipped, pinned=pinned)
        taken = taken_out_of(staged, LANDED, obeyed)
        out = offsets if taken.everything else numbers(taken.partitions.get(KEY, []))
        self.rows |= offsets - out - self.covered()
        own = Coverage(partitions={KEY: Present(present=ranges)} if offsets else {})
        own, self.skipped = cover(own, self.coverage, batch, obeyed)
        self.coverage = self.coverage.with_(own)

    def covered(self) -> set[int]:
        return numbers(self.coverage.partitions.get(KEY, Present()).present)


def numbers(ranges: list[tuple[int, int]]) -> set[int]:
    return {offset for start, end in ranges for offset in range(start, end)}


BATCHES = st.lists(st.tuples(st.sets(st.integers(0, 7)), st.booleans()), min_size=1, max_size=5)


@given(BATCHES, st.randoms(use_true_random=False))
def test_with_what_skips_took_out_on_record_every_order_gives_the_same(
    batches: list[tuple[set[int], bool]], random: object
) -> None:
    """L1: as in a rebuild, or behind a rollback."""
    named = {f"batch {number}": batch for number, batch in enumerate(batches)}
    first = Table()
    for name, (offsets, skip) in named.items():
        first.fold(name, offsets, skip, {})
    # The oracle: an offset counts unless the first batch that held it was skipped.
    owners = {offset: skip for offsets, skip in reversed(batches) for offset in offsets}
    assert first.rows == {offset for offset, skip in owners.items() if not skip}
    assert first.covered() == set(owners)

    again, order = Table(), list(named)
    random.shuffle(order)  # type: ignore[attr-defined]
    for name in order:
        again.fold(name, *named[name], pinned=first.skipped)
    assert (again.rows, again.covered()) == (first.rows, first.covered())
    assert again.skipped == first.skipped


def test_what_waits_for_a_skipped_batch_is_used_if_its_skip_is_discarded() -> None:
    """Behind a rollback the other batch came first: it left out offset 1, and did not cover it (L6)."""
    table = Table()
    table.fold("other", {0, 1}, skip=False, pinned={"b": Coverage(partitions={KEY: Present(present=[(1, 3)])})})
    assert (table.rows, table.covered()) == ({0}, {0})
    assert table.coverage.partitions[KEY].uncovered == [(1, 2)], "landed: it is not missing"
    table.fold("b", {1, 2}, skip=False, pinned={})
    assert (table.rows, table.covered()) == ({0, 1, 2}, {0, 1, 2})


def test_quarantined_and_undecided_offsets_are_taken_out_with_the_others() -> None:
    offsets = StagedPartition(present=[(0, 4)], quarantined=[(4, 6)], undecided=[(6, 8)])
    staged = Staged(
        batch="b", generation="g", code="c", attempt="a", table="t", records=8, partitions={KEY: offsets}, objects={}
    )
    other = Coverage(partitions={KEY: Present(present=[(3, 5), (7, 99)])})
    taken = taken_out_of(staged, LANDED, Obeyed(skipped={"other": other}))
    assert taken.partitions == {KEY: [(3, 5), (7, 8)]}
    assert not taken_out_of(staged, LANDED, Obeyed(skipped={"b": other})), "its own was another decision"


def test_where_positions_are_inferred_whole_objects_are_taken_out() -> None:
    first, two = (LandedObject(name=name, key=name, size=1, sha256=name) for name in ("one", "two"))
    manifest = Manifest(batch="b", source="s", attempt="a", objects=[first, two])
    staged = Staged(
        batch="b",
        generation="g",
        code="c",
        attempt="a",
        table="t",
        records=3,
        partitions={},
        objects={"one": 1, "two": 2},
    )
    before = Coverage(objects={first.digest: 1})
    skip = Obeyed(decided=1, decision=skipped())
    assert taken_out_of(staged, manifest, skip) == TakenOut(everything=True)
    own, took = cover(Coverage(objects={first.digest: 1, two.digest: 2}), before, "b", skip)
    assert (own.objects, took) == ({two.digest: 2}, {"b": Coverage(objects={two.digest: 2})})
    later = taken_out_of(staged, manifest, Obeyed(skipped={"other": took["b"]}))
    assert later == TakenOut(objects=["two"])
    assert later.digest != TakenOut(objects=["one"]).digest
    assert TakenOut().digest == ""


def test_a_skip_leaves_an_object_to_the_batch_that_had_brought_it() -> None:
    """Line 3 was rejected there: it stays to be replayed, whether the skip is on record already or not (L1, L6)."""
    before = Coverage(objects={"O": 5}, refused={"O": [(3, 4)]})
    own = Coverage(objects={"O": 5, "P": 2})
    for pinned in ({}, {"S": Coverage(objects={"P": 2})}):
        added, skips = cover(own, before, "S", Obeyed(decision=skipped(batch="S"), pinned=pinned))
        assert before.with_(added) == Coverage(objects={"O": 5, "P": 2}, refused={"O": [(3, 4)]})
        assert skips == {"S": Coverage(objects={"P": 2})}


def test_a_decision_cannot_leave_its_folder(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"\.\."):
        record(lake, skipped(batch="../../../elsewhere"))
    assert not (tmp_path / "elsewhere").exists()
