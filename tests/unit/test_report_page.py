"""What the report's page says, for batches in every state."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.masks import masked
from onefold.decisions import Discard, Release, Waiver
from onefold.dedup.documents import Anomaly, Producers, Session
from onefold.lake import Lake
from onefold.landing.plan import GapPlan, Interval, put_plan, take_plan
from onefold.quality.documents import CheckResult
from onefold.report import causes as report_causes
from onefold.report import report_batch
from onefold.report.causes import Cause, causes_of
from onefold.report.document import LandedLine, Report
from onefold.report.page import by_partition, bytes_, grouped, instant, interval, render, share, steps_of, thin
from onefold.report.samples import remove_samples
from onefold.upsert.coverage import PartitionAccount
from onefold.upsert.documents import CameAgain, Duplicates, Highest
from onefold.visible import visible
from onefold.vocabulary import LOST, OUTCOMES, HoleKind

VERDICTS_PAGE = Path(__file__).parents[2] / "docs/verdicts.md"
WRITTEN = datetime(2026, 3, 9, 6, 12, 44, tzinfo=UTC)
FIVE = Interval(start=datetime(2026, 3, 9, 5, tzinfo=UTC), end=datetime(2026, 3, 9, 6, tzinfo=UTC))
NIGHT = Interval(start=datetime(2026, 3, 9, 23, tzinfo=UTC), end=datetime(2026, 3, 10, tzinfo=UTC))
EVIL = "<script>alert(1)</script>"
OVERLAPPING = {"transactional": 4, "covered by another batch": 1}
UNIQUE = CheckResult(
    id="unique_key_columns(account_id)", title="account_id unique", by="great_expectations", law="L3", status="passed",
    observed="0 of 57 unexpected", waivable=False,
)  # fmt: skip
VERDICTS = CheckResult(
    id="verdicts_given", title="records landed = verdicts given", by="great_expectations", law="L2", status="passed",
    observed="80", expected="80", waivable=False,
)  # fmt: skip
STATUSES = CheckResult(
    id='expect_column_values_to_be_in_set(column="status")',
    title='expect_column_values_to_be_in_set(column="status")', by="suite", severity="warning",
    status="failed", observed="9 of 57 unexpected", rows=57, over="changed",
    detail="review, review, seized",
)  # fmt: skip
CONFLICTS = CheckResult(
    id="conflicts", title="conflicts", by="great_expectations", status="failed", observed="1", expected="at most 0",
)  # fmt: skip
BROKEN = CheckResult(
    id='expect_column_values_to_match_regex(column="acount_id")',
    title='expect_column_values_to_match_regex(column="acount_id")', by="suite", status="errored",
    detail='column "acount_id" is not in the table',
)  # fmt: skip


def account(partition: int, start: int, end: int, distinct: int, **more: Any) -> PartitionAccount:
    values = {"quarantined": 0, "explained": {}, "unexplained": []} | more
    return PartitionAccount(
        partition=f"sample/payments.accounts/1/{partition}", start=start, end=end, distinct=distinct, **values
    )


def published(**changed: Any) -> Report:
    """The second folder of the kcat sample, behind the first: an overlap, duplicates, no conflict."""
    fields: dict[str, Any] = {
        "dataset": "accounts",
        "description": "The newest state of each account, by version; closed accounts are deleted.",
        "owner": "payments",
        "table": "payments.accounts",
        "mode": "upsert",
        "deciding": "key_version",
        "exact": True,
        "batch": "export_6b0c41d7a9e2",
        "interval": None,
        "attempt": "a41f09c2",
        "status": "published",
        "why": [],
        "snapshot": 4823117063195570012,
        "landed": 80,
        "covered": 16,
        "objects": [
            LandedLine(name="2-overlap/payments.accounts-0-000044.jsonl", size=11521, records=39),
            LandedLine(name="2-overlap/payments.accounts-1-000039.jsonl", size=6464, records=21),
            LandedLine(name="2-overlap/payments.accounts-1-000059.jsonl", size=5886, records=20),
        ],
        "ignored": [],
        "counts": {
            "superseded": {"in_batch": 11, "stored": 6},
            "applied": {"insert": 4, "update": 24, "delete": 3},
            "duplicate": {"position": 21, "message_id": 4, "key_version": 4},
            "rejected": {"missing_field": 1, "undecodable": 2},
        },
        "changes": {"insert": 4, "update": 27},
        "readers": {"inserted": 4, "updated": 21, "deleted": 3},
        "accounts": [
            account(1, 39, 80, 36, quarantined=1, explained={"transactional": 5}),
            account(0, 44, 88, 39, quarantined=2, explained=OVERLAPPING),
        ],
        "checks": [UNIQUE, VERDICTS, STATUSES],
        "examples": {"failing_keys": [], "conflicts": [], "rejected": [REJECTED]},
        "written": WRITTEN,
    }
    return Report(**(fields | changed))


REJECTED = {
    "topic": "payments.accounts", "partition": 0, "offset": 61, "reason": "undecodable",
    "object": "2-overlap/payments.accounts-0-000044.jsonl", "line": None,
    "detail": "the value is not one JSON value", "value": '{"owner":"Ada","status":"act',
}  # fmt: skip
CONFLICT = {
    "reason": "same_version", "scope": "in_batch", "won": False,
    "record": {
        "topic": "payments.accounts", "partition": 1, "offset": 125,
        "fields": {"account_id": "a-25", "owner": "Ada", "status": "seized", "credit_limit": None},
    },
    "other": {
        "topic": "payments.accounts", "partition": 1, "offset": 104,
        "fields": {"account_id": "a-25", "owner": "Ada", "status": "active", "credit_limit": 750.25},
    },
}  # fmt: skip


def red(**changed: Any) -> Report:
    """All of the kcat sample at once: its one conflict stops it, and so does a check that cannot be made."""
    return published(
        **{
            "batch": "export_d2f81c90b7aa",
            "attempt": "7c55e0b1",
            "status": "red",
            "why": [
                "conflicts: found 1, wanted at most 0",
                f"{BROKEN.title}: found {BROKEN.detail}",
                "The published table is untouched; the batch is kept on its branch.",
            ],
            "snapshot": None,
            "landed": 267,
            "covered": 0,
            "counts": {
                "applied": {"insert": 35, "delete": 4},
                "conflict": {"same_version": 1},
                "duplicate": {"key_version": 33, "message_id": 24, "position": 21},
                "rejected": {
                    "missing_field": 4,
                    "null_key": 1,
                    "null_version": 2,
                    "undecodable": 3,
                    "wrong_type": 2,
                },
                "superseded": {"in_batch": 137},
            },
            "changes": {"insert": 39},
            "accounts": [
                account(0, 0, 136, 128, quarantined=6, explained={"transactional": 8}),
                account(1, 0, 126, 118, quarantined=6, explained={"transactional": 8}),
            ],
            "checks": [UNIQUE, STATUSES, VERDICTS, CONFLICTS, BROKEN],
            "examples": {"failing_keys": [], "conflicts": [CONFLICT], "rejected": [REJECTED]},
        }
        | changed
    )


def unpublished(**changed: Any) -> Report:
    """A batch that has been landed, and nothing else."""
    return published(
        **{
            "counts": {},
            "changes": {},
            "readers": None,
            "examples": {},
            "accounts": [],
            "checks": [],
            "covered": 0,
            "status": "unpublished",
            "why": ["The batch has not been upserted yet."],
            "interval": FIVE,
            "batch": "20260309T050000Z-20260309T060000Z_6b0c41d7a9e2",
            "attempt": None,
            "snapshot": None,
            "landed": None,
            "objects": [LandedLine(name="part-0.parquet", size=74_310_000, records=None)],
        }
        | changed
    )


def inexact(**changed: Any) -> Report:
    """The Connect layout: offsets are inferred, so the account is kept by object."""
    place = "4-conflict/topics/payments.entries/partition="
    return published(
        **{
            "exact": False,
            "accounts": [],
            "landed": 19,
            "covered": 0,
            "counts": {"applied": {"insert": 18}, "duplicate": {"message_id": 1}},
            "objects": [
                LandedLine(name=f"{place}0/payments.entries+0+0000000188.json", size=1320, records=10),
                LandedLine(name=f"{place}1/payments.entries+1+0000000139.json", size=1105, records=9),
            ],
            "ignored": ["4-conflict/_SUCCESS"],
        }
        | changed
    )


def render_text(report: Report) -> str:
    """The page as a reader gets it: without tags and style, white space folded, thin spaces as spaces."""
    body = re.sub(r"<style>.*?</style>", "", render(report), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


EVERY = pytest.mark.parametrize("report_of", [published, red, unpublished, inexact])


@EVERY
def test_the_page_needs_nothing_but_itself(report_of: Any) -> None:
    page = render(report_of())
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "@import" not in page
    assert not re.search(r"\ssrc=|url\(", page)
    assert set(re.findall(r'href="([^"#]*)', page)) <= {"", "data:,"}
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page


@EVERY
def test_every_link_inside_the_page_leads_somewhere(report_of: Any) -> None:
    page = render(report_of())
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'\sid="([^"]+)"', page))


@EVERY
def test_the_header_names_the_batch_and_who_owns_it(report_of: Any) -> None:
    report = report_of()
    text = render_text(report)
    for fact in (report.dataset, report.table, report.batch, report.owner, report.description):
        assert fact in text
    assert "Written 2026-03-09 06:12:44 UTC" in text


def test_a_published_batch_says_which_snapshot_holds_it() -> None:
    text = render_text(published())
    assert "Published Readers of payments.accounts see this batch" in text
    assert "snapshot 4823117063195570012 , attempt a41f09c2" in text
    assert "not published" not in text.lower()
    assert "1 warning did not stop it: expect_column_values_to_be_in_set" in text


def test_a_published_batch_whose_last_audit_is_red_says_so() -> None:
    assert "The audit that ran last is red all the same" in render_text(published(checks=[CONFLICTS]))
    assert "red all the same" not in render_text(published())


def test_a_red_batch_says_why_and_that_readers_see_nothing_of_it() -> None:
    text = render_text(red())
    assert "Red: not published, main is untouched" in text
    assert "conflicts: found 1, wanted at most 0" in text
    assert "Nothing below is what readers see" in text
    assert "What would become of each landed record" in text


def test_an_unpublished_batch_shows_what_there_is_and_claims_no_verdicts() -> None:
    text = render_text(unpublished())
    assert "Not published yet The batch has not been upserted yet." in text
    assert "2026-03-09 05:00 to 06:00 UTC" in text
    assert "part-0.parquet 74.3 MB –" in text
    for absent in ("Verdicts", "Duplicates", "Reconciliation", "Checks", "Examples"):
        assert absent not in text


def test_an_export_is_named_where_there_is_no_interval() -> None:
    assert "Interval export" in render_text(published())


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ("new_0f3b", "everything new"),
        ("replay_0f3b", "replay"),
        ("gap_0f3b", "accepted gap"),
        ("forget_0f3b", "forgotten keys"),
    ],
)
def test_a_batch_that_is_no_export_is_not_called_one(batch: str, words: str) -> None:
    text = render_text(published(batch=batch))
    assert f"Interval {words} Owner" in text
    assert "Interval export" not in text


def test_a_note_ends_with_one_period_whether_it_brought_its_own_or_not() -> None:
    text = render_text(published(notes=["Its leader changed", "2 objects are not read."]))
    assert "Its leader changed. 2 objects are not read. " in text
    assert ".." not in text


def test_verdicts_and_reasons_come_with_count_share_and_meaning() -> None:
    text = render_text(red())
    assert "superseded Valid, but a newer version is there. 137 51.3 %" in text
    assert "message_id the same message id at another position 24 9.0 %" in text
    assert "conflict Same identity or version, other content: a person has to look. 1 0.4 %" in text
    drawn = "applied 39, duplicate 78, superseded 137, conflict 1, rejected 12"
    assert f'aria-label="Records by verdict: {drawn}"' in render(red())


def test_what_the_dataset_can_say_of_a_record_has_a_meaning() -> None:
    counts: dict[str, dict[str, int]] = {}
    for verdict, reason in OUTCOMES:
        counts.setdefault(verdict, {})[reason] = 7
    text = render_text(published(counts=counts, landed=7 * len(OUTCOMES)))
    for outcome in OUTCOMES.values():
        assert f"{outcome.reason} {outcome.meaning} 7 " in text
        assert outcome.verdict.meaning in text


def test_duplicates_are_counted_by_reason_the_most_frequent_first() -> None:
    text = render_text(published())
    reasons = text[text.index("Duplicates by reason") :]
    assert reasons.index("position 21") < reasons.index("message_id 4")
    assert "16 of them are at positions that the table had processed before" in reasons
    assert "Why there are duplicates" not in text  # producers are unknown


def test_duplicates_name_their_cause_its_evidence_and_the_setting_that_prevents_it() -> None:
    same = {"scope": "in_batch", "place": "same_partition", "object": "same_object"}
    again = Duplicates(
        reason="producer",
        session="same_name",
        records=3,
        seconds=(0.25, 2, 90),
        record="t-0@8",
        survivor="t-0@4",
        **same,
    )
    pressed = Duplicates(
        reason="business_key", session="unknown", records=9, seconds=None, record="t-0@9", survivor="t-0@1", **same
    )
    text = render_text(published(causes=causes_of([again, pressed])))
    causes = text[text.index("Why there are duplicates") :]
    assert causes.index("sent again by the application 9") < causes.index("retry after a lost acknowledgement 3")
    assert "250 ms to 1.5 min apart; for example t-0@8 of t-0@4" in causes.replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "for example t-0@9 of t-0@1 The application" in causes
    assert causes.count("in Jepsen's words a duplicate") == 1  # two presses of a button are two messages to the log
    assert "enable.idempotence=true acks=all" in causes


def test_what_the_sequence_rule_found_is_shown_session_by_session() -> None:
    session = Session(
        partition="c/t/1/0", producer="<till-7>", epoch=-1, records=9, start=20, end=31, lowest=6, highest=12,
        highest_at=30, outcomes={"accepted": 6, "repeat": 2, "gap": 1, "fenced": 0}, missing=4,
        first_anomaly=Anomaly(offset=23, outcome="repeat", sequence=6, missing=0),
    )  # fmt: skip
    found = Producers(
        sessions=2, outcomes={"accepted": 15, "repeat": 2, "gap": 1, "fenced": 0}, missing=4, listed=[session]
    )
    stale = CameAgain(
        session=session, highest=Highest(partition="c/t/1/0", producer="<till-7>", epoch=-1, sequence=9, offset=9)
    )
    text = render_text(published(producers=found, come_again=[stale], highest=[stale.highest]))
    assert "accepted 15 repeat 2 gap 1 fenced 0 in 2 sessions" in text
    assert "<till-7> c/t/1/0 [20, 31) 6 to 12 9 at 9 2 4 0 repeat at 23" in text
    assert "from offset 20 on it counts from 6 again, though 9 is at offset 9 in an earlier batch" in text
    assert "&lt;till-7&gt;" in render(published(producers=found))
    assert "left out" not in text
    unseen = render_text(published(producers=found, highest=[stale.highest], left_out=1_234))
    assert "the highest sequence of 1 session, and has left out 1 234 so far" in unseen
    assert "[20, 31) 6 to 12 – 2 4 0" in render_text(published(producers=found))


def test_jepsens_words_stand_where_the_documentation_has_them() -> None:
    """Both ways: the page says each of docs/verdicts.md that fits, where it fits, and none of those that do not."""
    table = VERDICTS_PAGE.read_text().partition("| Jepsen |")[2].partition("\n\n")[0]
    here = {row.split(" | ")[0].strip("| "): row.split(" | ")[2] for row in table.splitlines()[2:]}
    fits = {word: set(re.findall(r"`([a-z_/]+)`", text)) for word, text in here.items()}
    at_position = render_text(published(counts={"conflict": {"inconsistent_position": 1}}))
    assert fits["inconsistent offsets"] == {"conflict/inconsistent_position"}
    assert re.search("inconsistent_position [^0-9]+ in Jepsen's words inconsistent offsets 1 ", at_position)
    kinds = [*HoleKind]
    pages = {kind: render_text(published(accounts=[account(0, 0, 10, 9, explained={kind: 1})])) for kind in kinds}
    assert {kind for kind, page in pages.items() if "lost write" in page} == fits["lost write"] == set(LOST)
    assert "unexplained" in here["lost write"]
    assert "lost write" in render_text(red(accounts=[account(0, 0, 10, 9, unexplained=[(1, 2)])]))
    producers = Producers(sessions=1, outcomes={"accepted": 1, "repeat": 1}, missing=0, listed=[])
    assert "overtaken" in here["nonmonotonic send"]
    assert 'overtaken, in Jepsen&#39;s words a nonmonotonic send">repeat' in render(published(producers=producers))
    causes = {cause.jepsen for cause in vars(report_causes).values() if isinstance(cause, Cause)}
    assert causes - {""} == {"duplicate"} <= here.keys()
    silent = {word for word, text in here.items() if text.startswith(("cannot happen", "no word of its own"))}
    assert here.keys() == silent | {"duplicate", "inconsistent offsets", "lost write", "nonmonotonic send"}


def test_the_partition_equation_holds() -> None:
    text = render_text(published())
    assert "payments.accounts-0 sample, incarnation 1 [44, 88) 44 39 2 quarantined 5" in text
    assert "holds 44 = 39 + 5 + 0" in text
    assert "holds 41 = 36 + 5 + 0" in text
    assert "does not hold" not in text
    assert text.index("payments.accounts-0 sample") < text.index("payments.accounts-1 sample")


def test_a_partition_whose_equation_does_not_hold_comes_first() -> None:
    text = render_text(published(accounts=[account(0, 0, 10, 10), account(10, 0, 10, 10), account(2, 5, 20, 12)]))
    assert "does not hold 15 = 12 + 0 + 0" in text
    places = [text.index(f"payments.accounts-{partition} sample") for partition in (2, 0, 10)]
    assert places == sorted(places)


def test_unexplained_offsets_are_named_though_the_equation_holds() -> None:
    text = render_text(red(accounts=[account(0, 100, 110, 6, unexplained=[(101, 103), (107, 109)])]))
    assert "4 [101, 103) [107, 109)" in text
    assert "holds 10 = 6 + 0 + 4" in text
    assert "Offsets are missing for which nothing accounts" in text


def test_records_that_no_verdict_accounts_for_break_the_batchs_equation() -> None:
    assert "landed 80 = Σ verdicts 79 does not hold" in render_text(
        published(counts={"applied": {"insert": 79}, "duplicate": {}})
    )
    assert "landed 80 = Σ verdicts 80 holds" in render_text(published(counts={"applied": {"insert": 80}}))


def test_what_waited_in_the_table_is_counted_next_to_what_landed() -> None:
    chain = {"counts": {"applied": {"insert": 81, "update": 1}}}
    woken = render_text(published(**chain, woken=2, held=5))
    assert "landed and woken 82 = Σ verdicts 82 holds" in woken
    assert re.search(r"Woken 2 .*Held 5 ", woken)
    still = render_text(published(**chain | {"landed": 82}, held=0))
    assert "landed 82 = Σ verdicts 82 holds" in still
    assert re.search(r"Woken 0 .*Held 0 ", still)
    newer = render_text(published())
    assert re.search(r"Rows inserted 4 .*Rows updated 21 .*Rows deleted 3 ", newer)
    assert "Rows inserted" not in render_text(unpublished())
    assert "Held" not in newer


def test_an_inexact_layout_is_accounted_by_object_and_says_why() -> None:
    text = render_text(inexact())
    assert "Reconciliation by object" in text
    assert "offset looks like one that a transaction or compaction took" in text
    assert "payments.entries+0+0000000188.json 1.3 kB 10" in text
    assert "landed 19 = Σ objects 19 holds" in text
    assert "Reconciliation by partition" not in text
    assert "4-conflict/_SUCCESS" in text


def test_checks_stand_red_first_and_an_errored_one_did_not_fail() -> None:
    text = render_text(red())
    section = text[text.index("2 of 5 stop the batch") :]
    parts = [
        "Stops the batch 2",
        "failed conflicts",
        "errored expect",
        "Warnings",
        "warning expect",
        "Passed 2",
    ]
    places = [section.index(part) for part in parts]
    assert places == sorted(places)
    assert "It could not be made: neither passed nor failed. That stops the batch." in section
    assert (
        "passed account_id unique unique_key_columns(account_id) 0 of 57 unexpected – L3 uniqueness Great Expectations"
        in section
    )


def test_a_red_check_that_cannot_be_waived_says_so() -> None:
    lost = VERDICTS.model_copy(update={"status": "failed", "observed": "79"})
    assert "cannot be waived" in render_text(red(checks=[lost]))
    assert "cannot be waived" not in render_text(red())


def test_a_red_check_says_what_the_dataset_file_can_say() -> None:
    proposed = CONFLICTS.model_copy(update={"way_out": "apply.version.tie: last takes the larger offset"})
    assert "In the dataset file: apply.version.tie: last takes the larger offset" in render_text(red(checks=[proposed]))


def test_warnings_alone_are_not_red() -> None:
    assert list(grouped([STATUSES, UNIQUE])) == ["warning", "passed"]


def test_a_conflict_shows_both_records_and_marks_what_differs() -> None:
    text = render_text(red())
    assert "same_version within the batch, differs in status, credit_limit" in text
    assert "payments.accounts-1@104" in text
    assert "payments.accounts-1@125" in text
    assert 'status ≠ "active" "seized"' in text
    assert "credit_limit ≠ 750.25 null" in text
    assert 'owner "Ada" "Ada"' in text
    assert "Other record of the batch would win" in text
    assert "Other record of the batch wins" in render_text(published(examples={"conflicts": [CONFLICT]}))


def test_a_stored_conflict_says_which_record_wins() -> None:
    won, lost = (
        render_text(red(examples={"conflicts": [CONFLICT | {"scope": "stored", "won": won}]})) for won in (True, False)
    )
    assert "against the table" in won
    assert "Judged record would win" in won
    assert "In the table wins" in lost


def test_a_conflict_without_fields_still_names_the_records() -> None:
    bare = {side: CONFLICT[side] | {"fields": None} for side in ("record", "other")}  # type: ignore[operator]
    text = render_text(red(examples={"conflicts": [CONFLICT | bare]}))
    assert "payments.accounts-1@125 against payments.accounts-1@104: the fields were not kept" in text


def test_rejected_records_show_where_why_and_what() -> None:
    text = render_text(red())
    assert "undecodable the value is not one JSON value payments.accounts-0@61" in text
    assert '{"owner":"Ada","status":"act' in text
    assert "(cut)" not in text
    nothing = render_text(red(examples={"rejected": [REJECTED | {"value": None}, REJECTED | {"value": "x" * 300}]}))
    assert "The value is null." in nothing
    assert "… (cut)" in nothing


def test_failing_keys_are_listed() -> None:
    text = render_text(red(examples={"failing_keys": [{"transfer_id": "t-1", "account_id": "a-9"}]}))
    assert "Keys that stand more than once transfer_id account_id t-1 a-9" in text


def test_no_value_becomes_markup() -> None:
    names = ("dataset", "description", "owner", "table", "mode", "deciding", "batch", "attempt")
    side = {"topic": EVIL, "partition": 0, "offset": 1, "fields": {EVIL: EVIL}}
    failed = dict.fromkeys(("id", "title", "by", "law", "observed", "expected", "detail"), EVIL)
    of_partition = {
        "partition": "<script>alert(1)/<script>alert(1)/1/0",
        "explained": {EVIL: 2},
        "unexplained": [(3, 9)],
    }
    page = render(
        red(
            **dict.fromkeys(names, EVIL),
            why=[EVIL, EVIL],
            objects=[LandedLine(name=EVIL, size=1, records=1)],
            ignored=[EVIL],
            counts={EVIL: {EVIL: 267}, 'a"onclick="x': {}, "duplicate": {EVIL: 1}},
            accounts=[account(0, 0, 9, 1).model_copy(update=of_partition)],
            checks=[CheckResult(**failed, status="failed"), CheckResult(**failed, status="errored")],
            examples={
                "rejected": [dict.fromkeys(REJECTED, EVIL)],
                "conflicts": [CONFLICT | {"record": side, "reason": EVIL}],
                "failing_keys": [{EVIL: EVIL}],
            },
        )
    )
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)") > 30
    assert '"onclick' not in page


def test_characters_that_cannot_be_seen_are_spelled_out() -> None:
    assert visible("a\u202eb\u200bc\0") == "a\\u202eb\\u200bc\\u0000"
    assert visible("Grüße, 口座\n\ttwo") == "Grüße, 口座\n\ttwo"
    page = render(red(examples={"rejected": [REJECTED | {"value": "ab\u202e\x1b\ud800"}]}))
    assert "ab\\u202e\\u001b\\ud800" in page
    assert page.encode()


def test_long_lists_are_folded_and_lose_nothing() -> None:
    objects = [LandedLine(name=f"part-{number:04}", size=1, records=1) for number in range(1000)]
    text = render_text(published(objects=objects))
    assert "988 more of 1 000 objects" in text
    assert all(object_.name in text for object_ in objects)


def test_a_batch_without_records_says_none() -> None:
    text = render_text(published(landed=0, covered=0, counts={}, changes={}, accounts=[], objects=[], examples={}))
    assert "None: no record was landed." in text
    assert "landed 0 = Σ verdicts 0 holds" in text


def test_steps_are_done_up_to_where_the_batch_is() -> None:
    states = {
        name: " ".join(state for _, state in steps_of(report))
        for name, report in {"published": published(), "red": red(), "landed": unpublished()}.items()
    }
    assert states == {
        "published": "done done done done done done",
        "red": "done done done done red pending",
        "landed": "done done next pending pending pending",
    }


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (thin(1234567), "1 234 567"),
        (thin(None), "–"),
        (share(1, 3), "33.3 %"),
        (share(1, 100_000), "< 0.1 %"),
        (share(99_999, 100_000), "> 99.9 %"),
        (share(3, 3), "100 %"),
        (share(0, 3), "0 %"),
        (share(0, 0), "–"),
        (bytes_(999), "999 B"),
        (bytes_(74_310), "74.3 kB"),
        (bytes_(999_960), "1.0 MB"),
        (bytes_(3 * 10**18), "3000.0 PB"),
        (instant(WRITTEN), "2026-03-09 06:12:44 UTC"),
        (interval(FIVE), "2026-03-09 05:00 to 06:00 UTC"),
        (interval(NIGHT), "2026-03-09 23:00 to 2026-03-10 00:00 UTC"),
    ],
)
def test_numbers_and_times_are_written_for_people(shown: str, wanted: str) -> None:
    assert shown.replace("\N{NARROW NO-BREAK SPACE}", " ") == wanted


def test_a_decision_is_shown_with_who_why_and_what_it_waives() -> None:
    waivers = [Waiver(check="duplicate rate", value="0.5")]
    said = {"dataset": "accounts", "batch": "b", "number": 1, "by": EVIL, "reason": "a known retry", "at": WRITTEN}
    rate = CheckResult(
        id="duplicate_rate",
        title="duplicate rate",
        by="great_expectations",
        status="failed",
        observed="0.5",
        waived="by mia",
    )
    page = render(published(decision=Release(**said, waivers=waivers, attempt="cafe"), checks=[rate, UNIQUE]))
    assert EVIL not in page
    words = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "Released by &lt;script&gt;alert(1)&lt;/script&gt; on 2026-03-09 06:12:44 UTC: a known retry" in words
    assert "waived: duplicate_rate = 0.5" in words
    assert "Red, and waived by a recorded decision 1" in words
    assert "2 checks, none stops the batch" in words
    discarded = published(status="unpublished", attempt=None, decision=Discard(**said))
    assert "Discarded by" in " ".join(re.sub(r"<[^>]+>", " ", render(discarded)).split())


def test_a_replay_tells_what_it_folds_again_and_has_landed_nothing() -> None:
    made = published(landed=0, replayed=80, replays="export_0123456789ab", batch="replay_6b0c41d7a9e2")
    page = render(made)
    for words in ("records in quarantine since export_0123456789ab", "<span>replayed <b>80</b> = Σ verdicts <b>80</b>"):
        assert words in page
    assert "Landed" not in re.findall(r"<dt>(.*?)</dt>", page)
    assert "replayed" not in render(published())


def test_verdicts_are_shown_of_each_partition_where_there_are_several() -> None:
    counts = {"duplicate": {"position": 2, "message_id": 1}, "applied": {"insert": 4}}
    partitions = {
        "c/t/1/10": counts,
        "c/t/1/9": {"applied": {"insert": 1}},
        "unreadable": {"rejected": {"undecodable": 1}},
    }
    assert [at and at.partition for at, _ in by_partition(published(partitions=partitions))] == [9, 10, None]
    page = render(published(partitions=partitions))
    assert "By partition" in page
    assert "t-10<small>c, incarnation 1</small>" in page
    assert "lines that say no partition" in page
    assert "By partition" not in render(published(partitions={"c/t/1/10": counts}))


def test_each_generation_keeps_its_report_and_an_erasure_empties_all(
    lake: Lake, dataset: Callable[..., Dataset]
) -> None:
    first, rebuilt = dataset(), dataset(target={"table": "tests.things", "buckets": 3})
    plan = put_plan(lake, GapPlan(source=first.source_id, dataset="things", key={"id": "a"}, version=6))
    take_plan(lake, "things", plan)
    keys = [
        *(lake_keys.report_of(made, plan.batch, "json") for made in (first, rebuilt)),
        lake_keys.report("things", plan.batch, "json"),
    ]
    report_batch(lake, first, plan.batch)
    before = lake.storage.read(keys[0])
    report_batch(lake, rebuilt, plan.batch)
    kept, rewritten, newest = (lake.storage.read(key) for key in keys)
    assert before == kept
    assert kept != rewritten == newest
    for key in keys:
        shown = published(examples={"failing_keys": [{"id": "zebra-1"}]})
        lake.put(key, shown)
        lake.storage.write(key.replace(".json", ".html"), render(shown).encode())
        assert b"zebra-1" in render(shown).encode()
    assert remove_samples(lake, first) == 3
    assert not [info.key for info in lake.storage.list("") if b"zebra-1" in (lake.storage.read(info.key) or b"")]
    assert [report and report.examples for report in (lake.get(key, Report) for key in keys)] == [{}] * 3


def test_s6_a_page_has_no_more_rows_than_a_limit_and_says_so() -> None:
    accounts = [account(number, 0, 10, 10) for number in range(5_000)]
    objects = [LandedLine(name=f"o{number}", size=1, records=10) for number in range(100_000)]
    counts = {f"sample/payments.accounts/1/{number}": {"applied": {"insert": 10}} for number in range(5_000)}
    html = render(
        published(accounts=accounts, objects=objects, partitions=counts, ignored=[f"i{n}" for n in range(9_999)])
    )
    assert len(html) < 2_000_000
    assert html.count('<th scope="row">payments.accounts-') == 2_000
    said = unescape(html).replace("\u202f", "")
    for what in ("5000 partitions", "100000 objects", "9999 names"):
        assert f"The first 1000 of {what}: the JSON next to this page has them all." in said
    assert "5000 partitions</td>" in said, "the sums are those of all"


def test_s6_forty_conflicts_of_messages_of_a_megabyte_make_a_small_page_and_document(
    dataset: Callable[..., Dataset],
) -> None:
    fields = {f"f{number}": "string" for number in range(40)}
    wide = dataset("things", value={"fields": fields})
    sides = [{"fields": masked(wide, dict.fromkeys(fields, sign * 900_000))} for sign in "<>"]
    conflicts = [{"reason": "same_version", "record": sides[0], "other": sides[1]} for _ in range(20)]
    report = published(examples={"conflicts": conflicts, "reused": conflicts})
    assert len(report.model_dump_json()) < 3_000_000
    page = render(report)
    assert len(page) < 16_000_000
    assert page.count("900,000 letters") == 20 * 2 * 40
