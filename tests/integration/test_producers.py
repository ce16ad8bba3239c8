"""Why it is there twice: real producers on a real broker, on a line that fails; what they know of it is the oracle.

One broker for all of it, one batch of its log's segments, and one of what a consumer group has exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka.record.memory_records import MemoryRecords

from onefold.dataset import Dataset
from onefold.dedup.documents import Session
from onefold.diagnosis import Facts, diagnose, gather
from onefold.kafka.batch_records import parse
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.report import causes
from onefold.report.document import Report, describe
from onefold.report.ledger import rows_of, verdicts_of
from tests.support import senders
from tests.support.senders import BATCH, Killed, Line, Sender
from tests.support.sequence_rule import Sent, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly(
        reason="what producers and brokers do changes with their releases; the shipped sample has their copies by day"
    ),
]


KILLED = {
    # whether it commits (or aborts), whether the coordinator has answered, whether its producer goes on
    "successor": (True, True, False),
    "unanswered": (True, False, False),
    "survivor": (True, False, True),
    "aborting": (False, True, False),
    "aborting-survivor": (False, False, True),
}


@dataclass
class Tried:
    """What real producers did, and what they and a consumer saw of it."""

    idempotent: Sender
    waiting: Sender
    in_flight: Sender
    held_up: Sender
    held_up_idempotent: Sender
    overtaken: Sender
    not_overtaken: Sender
    restarted: tuple[Sender, Sender]
    fenced: tuple[Sender, Sender]
    killed: dict[str, Killed]
    faults: dict[str, int]
    written: dict[str, dict[int, str]]
    """By topic: message ids by offset, of every record that a consumer sees."""
    committed: dict[str, dict[int, str]]
    exported: list[tuple[str, int, int]]
    folder: Path

    def copies(self, topic: str) -> dict[int, int]:
        """Offsets of messages that stand further to the front as well, with the offset where they stand first."""
        first: dict[str, int] = {}
        log = sorted(self.written[topic].items())
        return {offset: first[id_] for offset, id_ in log if first.setdefault(id_, offset) != offset}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    folder = tmp_path_factory.mktemp("producers")
    with Line.open(folder / "broker.log") as line:
        faults: dict[str, int] = {}

        def faulty(of: Callable[[Line], Any]) -> Any:
            before = line.proxy.lost + line.proxy.spoiled + line.proxy.held
            done = of(line)
            faults[of.__name__] = line.proxy.lost + line.proxy.spoiled + line.proxy.held - before
            return done

        plain = [
            faulty(of)
            for of in (
                senders.lost_to_an_idempotent_one,
                senders.lost_to_one_that_waits,
                senders.lost_with_many_in_flight,
                senders.held_up,
                senders.held_up_of_an_idempotent_one,
                senders.overtaken,
                senders.overtaking_refused,
            )
        ]
        restarted, fenced = faulty(senders.restarted), senders.fenced(line)
        exported = senders.exported_by_a_group(line, folder / "exported")
        killed = {
            name: senders.killed(line, name, commits=commits, answered=answered, survives=survives)
            for name, (commits, answered, survives) in KILLED.items()
        }
        topics = [*(sender.topic for sender in plain), "restarted", "fenced", *killed]
        yield Tried(
            *plain,
            restarted=restarted,
            fenced=fenced,
            killed=killed,
            faults=faults,
            written={topic: line.read(topic, "read_uncommitted") for topic in topics},
            committed={topic: line.read(topic, "read_committed") for topic in topics},
            exported=exported,
            folder=line.copy(topics, folder / "segments"),
        )


@dataclass
class Result:
    """What Onefold reports of the streams."""

    report: Report
    facts: Facts
    verdicts: list[dict[str, Any]]
    rows: list[dict[str, Any]]

    def of(self, topic: str) -> dict[int, str]:
        """Verdict and reason by offset."""
        return {row["offset"]: f"{row['verdict']}/{row['reason']}" for row in self.verdicts if row["topic"] == topic}

    def offsets(self, topic: str, verdict: str) -> set[int]:
        return {offset for offset, outcome in self.of(topic).items() if outcome.split("/")[0] == verdict}

    def survivors(self, topic: str) -> dict[int, int]:
        """The survivor's offset of each of its duplicates."""
        found = [row for row in self.verdicts if row["topic"] == topic and row["verdict"] == "duplicate"]
        assert {row["survivor"]["topic"] for row in found} <= {topic}
        return {row["offset"]: row["survivor"]["offset"] for row in found}

    def sessions(self, topic: str) -> list[Session]:
        assert self.report.producers
        of = [session for session in self.report.producers.listed if session.partition == f"c/{topic}/1/0"]
        return sorted(of, key=lambda session: session.start)


def outcomes(session: Session) -> dict[str, int]:
    return {name: count for name, count in session.outcomes.items() if count}


@pytest.fixture(scope="module")
def folded(
    tmp_path_factory: pytest.TempPathFactory,
    session_on: Callable[[Lake], SparkSession],
    lake_in: Callable[[Path], Lake],
    dataset: Callable[..., Dataset],
) -> Callable[[str, Path], Result]:
    """Folds an export of a layout, as one batch."""

    def fold(layout: str, folder: Path) -> Result:
        lake = lake_in(tmp_path_factory.mktemp("lake"))
        mine = dataset(
            layout,
            source={"exports": {"path": str(folder), "layout": layout, "origin": {"cluster": "c", "incarnation": 1}}},
            identity={
                "message_id": "header.message-id",
                "producer": {"name": "header.producer", "sequence": "long(header.sequence)"},
            },
        )
        done = run_batch(lake, mine, plan_batch(lake, mine), InSession(lake, session_on(lake)))
        assert done.red is None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("onefold.diagnosis.landed_segments.PARTITIONS", 20)  # all that were tried
            facts = gather(lake, mine)
        return Result(
            describe(lake, mine, done.batch),
            facts,
            verdicts_of(lake, mine, done.batch)[0],
            rows_of(lake, mine),
        )

    return fold


@pytest.fixture(scope="module")
def result(tried: Tried, folded: Callable[[str, Path], Result]) -> Result:
    return folded("segments", tried.folder)


def test_lost_acknowledgements_of_an_idempotent_producer_leave_no_trace(tried: Tried, result: Result) -> None:
    sender = tried.idempotent
    assert tried.faults["lost_to_an_idempotent_one"] == 3
    assert {id_: offset for offset, id_ in tried.written["idempotent"].items()} == sender.acknowledged
    assert sorted(sender.acknowledged, key=sender.acknowledged.__getitem__) == sender.sent
    assert Counter(result.of("idempotent").values()) == {"applied/insert": 20}
    [session] = result.sessions("idempotent")
    assert (session.lowest, session.highest, outcomes(session)) == (0, 19, {"accepted": 20})


def test_a_batch_whose_acknowledgement_is_lost_is_written_again_without_idempotence(
    tried: Tried, result: Result
) -> None:
    copies = tried.copies("waiting")
    assert len(copies) == tried.faults["lost_to_one_that_waits"] * BATCH == 10
    assert result.survivors("waiting") == copies
    assert Counter(result.of("waiting").values()) == {"applied/insert": 20, "duplicate/message_id": 10}
    assert result.sessions("waiting") == []  # no producer id, no name
    # The acknowledged offset is that of the last copy: the earlier copies were not acknowledged.
    assert {
        offset: tried.waiting.acknowledged[id_] for offset, id_ in tried.written["waiting"].items() if offset < BATCH
    } == {offset: offset + 2 * BATCH for offset in range(BATCH)}


def test_what_is_in_flight_with_it_is_written_again_as_well_and_breaks_the_order(tried: Tried, result: Result) -> None:
    copies = tried.copies("in-flight")
    assert tried.faults["lost_with_many_in_flight"] == 1
    assert len(copies) >= BATCH
    assert result.survivors("in-flight") == copies
    reasons = {"applied/insert": 20, "duplicate/producer": len(copies)}
    assert Counter(result.of("in-flight").values()) == reasons
    [session] = result.sessions("in-flight")
    assert (session.producer, session.epoch) == ("till-1", -1)
    assert outcomes(session) == {"accepted": 20, "repeat": len(copies)}
    assert session.first_anomaly
    assert session.first_anomaly.offset == min(copies)


def test_a_request_that_arrives_behind_its_own_repeat_is_written_again_without_idempotence(
    tried: Tried, result: Result
) -> None:
    sender, copies = tried.held_up, tried.copies("held-up")
    assert tried.faults["held_up"] == 1
    assert [sender.acknowledged[id_] for id_ in sender.sent] == list(range(20)), "the repeat was acknowledged"
    assert copies == {20 + number: number for number in range(BATCH)}
    assert result.survivors("held-up") == copies
    assert Counter(result.of("held-up").values()) == {"applied/insert": 20, "duplicate/message_id": BATCH}


def test_a_broker_knows_a_request_that_arrives_behind_its_own_repeat_by_its_sequence(
    tried: Tried, result: Result
) -> None:
    sender = tried.held_up_idempotent
    assert tried.faults["held_up_of_an_idempotent_one"] == 1
    assert [sender.acknowledged[id_] for id_ in sender.sent] == list(range(20))
    assert Counter(result.of("held-up-idempotent").values()) == {"applied/insert": 20}
    [session] = result.sessions("held-up-idempotent")
    assert outcomes(session) == {"accepted": 20}


def test_a_batch_that_is_overtaken_is_a_gap_and_a_repeat_and_no_duplicate(tried: Tried, result: Result) -> None:
    sender = tried.overtaken
    assert tried.faults["overtaken"] == 1
    assert tried.copies("overtaken") == {}
    late = [
        id_
        for n, id_ in enumerate(sender.sent)
        if any(sender.acknowledged[id_] > sender.acknowledged[x] for x in sender.sent[n:])
    ]
    assert late == sender.sent[BATCH : 2 * BATCH]
    assert Counter(result.of("overtaken").values()) == {"applied/insert": 20}
    [session] = result.sessions("overtaken")
    assert outcomes(session) == {"accepted": 14, "gap": 1, "repeat": len(late)}
    assert session.missing == len(late)
    assert session.first_anomaly
    assert (session.first_anomaly.offset, session.first_anomaly.outcome) == (BATCH, "gap")


def test_idempotence_keeps_the_order_of_what_is_in_flight(tried: Tried, result: Result) -> None:
    sender = tried.not_overtaken
    assert tried.faults["overtaking_refused"] == 1
    assert [sender.acknowledged[id_] for id_ in sender.sent] == list(range(20))
    [session] = result.sessions("not-overtaken")
    assert (session.lowest, outcomes(session)) == (0, {"accepted": 20})


def test_a_restart_is_a_new_session_whose_messages_only_their_ids_tell(tried: Tried, result: Result) -> None:
    first, second = tried.restarted
    assert first.acknowledged == {}, "it has heard of nothing"
    assert [second.acknowledged[id_] for id_ in second.sent] == sorted(second.acknowledged.values())
    copies = tried.copies("restarted")
    assert BATCH <= len(copies) <= len(first.sent)
    assert result.survivors("restarted") == copies
    assert Counter(result.of("restarted").values()) == {"applied/insert": 15, "duplicate/message_id": len(copies)}
    before, after = result.sessions("restarted")
    assert before.producer != after.producer
    assert (before.lowest, after.lowest) == (0, 0)
    assert outcomes(before) == {"accepted": len(copies)}
    assert outcomes(after) == {"accepted": len(second.acknowledged)}


def test_what_a_zombie_had_open_is_aborted_and_its_successor_begins_an_epoch_at_0(tried: Tried, result: Result) -> None:
    first, second = tried.fenced
    assert len(first.acknowledged) == 10, "the broker had acknowledged all of it"
    assert result.offsets("fenced", "aborted") == set(first.acknowledged.values())
    assert result.offsets("fenced", "applied") == set(second.acknowledged.values()) == set(tried.committed["fenced"])
    assert len(result.offsets("fenced", "control")) == 3  # one aborts, two commit
    zombie, heir = result.sessions("fenced")
    assert zombie.producer == heir.producer
    assert zombie.epoch < heir.epoch
    assert (heir.lowest, heir.highest) == (0, len(second.acknowledged) - 1)
    assert [outcomes(session) for session in (zombie, heir)] == [{"accepted": 10}, {"accepted": 15}]


@pytest.mark.parametrize("name", KILLED)
def test_a_coordinator_that_is_killed_at_the_end_commits_or_aborts_all_of_it(
    tried: Tried, result: Result, name: str
) -> None:
    """The state in its log when it died decides; a transaction that was open still is ended by who comes next."""
    transaction, (commits, answered, survives) = tried.killed[name], KILLED[name]
    applied = result.offsets(name, "applied")
    assert applied == set(tried.committed[name])
    everything = set(transaction.sender.acknowledged.values())
    assert len(everything) == 10
    assert result.offsets(name, "aborted") == everything - applied
    word = "Commit" if commits else "Abort"
    assert transaction.state in {f"Prepare{word}", f"Complete{word}", *(() if answered else ("Ongoing",))}
    assert transaction.heard == survives
    assert applied == (everything if commits and (transaction.state != "Ongoing" or survives) else set())
    assert [outcomes(session) for session in result.sessions(name)] == [{"accepted": 10}]


def test_every_row_is_what_a_consumer_of_committed_records_sees_once(tried: Tried, result: Result) -> None:
    seen = {id_ for log in tried.committed.values() for id_ in log.values()}
    assert sorted(row["id"] for row in result.rows) == sorted(seen)


def test_the_causes_are_what_was_done(tried: Tried, result: Result) -> None:
    assert {cause.cause: cause.records for cause in result.report.causes} == {
        causes.UNKNOWN_SENDER: len(tried.copies("waiting")) + len(tried.copies("held-up")),
        causes.LOST_ACKNOWLEDGEMENT: len(tried.copies("in-flight")),
        causes.RESTARTED: len(tried.copies("restarted")),
    }


def test_the_doctor_tells_of_the_landed_segments_who_wrote_them_and_of_the_table_the_same_causes(
    tried: Tried, result: Result
) -> None:
    found = diagnose(result.facts)
    writers = {writer.topic: writer for writer in found.writers}
    assert set(writers) == set(tried.written)
    plain = ("waiting", "in-flight", "held-up", "overtaken")
    for topic, summary in writers.items():
        assert summary.records == len(tried.written[topic])
        assert summary.without_id == (summary.batches if topic in plain else 0)
        assert summary.transactional == (summary.batches if topic in ("fenced", *tried.killed) else 0)
    assert (writers["restarted"].producers, writers["fenced"].producers, writers["fenced"].epochs) == (2, 1, 2)
    rules = {(finding.rule, place) for finding in found.findings for place in finding.places}
    assert {place for rule, place in rules if rule == "idempotence"} == {f"producers of {topic}" for topic in plain}
    assert {place for rule, place in rules if rule == "restarted_producers"} == {"producers of restarted"}
    assert not {rule for rule, _ in rules} & {"raised_epochs", "undecided_transactions", "unseen_batches"}
    assert result.facts.landed.causes() == result.report.causes


def test_the_rule_gives_what_a_broker_that_keeps_its_state_gives_of_the_same_log(tried: Tried, result: Result) -> None:
    for topic in tried.written:
        found = Counter(name for session in result.sessions(topic) for name in Counter(session.outcomes).elements())
        wanted = Counter(outcome for _, outcome, _ in expected(log_of(tried.folder / f"{topic}-0")))
        assert found == wanted, topic


def test_L2_what_another_reader_counts_in_the_segments_is_what_the_report_accounts_for(
    tried: Tried, result: Result
) -> None:
    """kafka-python reads the bytes once more, markers included: a verdict each, and the account of each partition."""
    total = 0
    for topic in tried.written:
        offsets: list[int] = []
        for segment in (tried.folder / f"{topic}-0").glob("*.log"):
            batches = MemoryRecords(segment.read_bytes())
            while batches.has_next():
                offsets += [record.offset for record in batches.next_batch()]
        total += len(offsets)
        assert Counter(row["offset"] for row in result.verdicts if row["topic"] == topic) == Counter(offsets)
        [account] = [account for account in result.report.accounts if account.topic_partition.topic == topic]
        start, end, distinct = min(offsets), max(offsets) + 1, len(set(offsets))
        assert (account.start, account.end, account.distinct) == (start, end, distinct)
        assert (sum(account.explained.values()), account.unexplained) == (end - start - distinct, [])
    assert result.report.landed == total


def log_of(folder: Path) -> list[Sent]:
    """Every record and marker of a partition, with its producer as the log or the headers have it."""
    rows = [
        row
        for segment in sorted(folder.glob("*.log"))
        for part in parse(segment.read_bytes())
        for row in part.to_pylist()
    ]
    found: list[Sent] = []
    for row in rows:
        headers = {header["key"]: header["value"] for header in row["headers"]}
        if row["sequence"] is not None:
            found.append((row["offset"], str(row["producer_id"]), row["producer_epoch"], row["sequence"]))
        elif "producer" in headers:
            found.append((row["offset"], headers["producer"], -1, int(headers["sequence"])))
        else:
            found.append((row["offset"], None, 0, 0))
    return found


def test_what_a_group_exports_again_after_a_rebalance_are_duplicates_by_position(
    tried: Tried, folded: Callable[[str, Path], Result], tmp_path: Path
) -> None:
    written = Counter((partition, offset) for _, partition, offset in tried.exported)
    assert set(written) == {(partition, offset) for partition in (0, 1) for offset in range(20)}
    again = written.total() - len(written)
    assert again >= 12, "what the first had written before the second came"
    result = folded("kcat", tried.folder.parent / "exported")
    counted = Counter(f"{row['verdict']}/{row['reason']}" for row in result.verdicts)
    assert counted == {"applied/insert": 40, "duplicate/position": again}
    positions = Counter((row["partition"], row["offset"]) for row in result.verdicts)
    assert positions == written
    assert {cause.cause: cause.records for cause in result.report.causes} == {causes.EXPORTED_TWICE: again}
