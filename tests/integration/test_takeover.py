"""Another broker ends what a coordinator had prepared when it died: three real brokers, each leads a partition.

What they send each other goes through proxies, which keep markers on their way: so the coordinator is killed between
PREPARE and COMPLETE, and one partition of three has the markers already. It stays dead.
"""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.landing.manifest import Manifest
from onefold.landing.plan import RangesPlan
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.report.document import describe
from onefold.report.ledger import rows_of, verdicts_of
from sample.proxy import WRITE_MARKERS
from tests.support.logs import kinds
from tests.support.senders import BATCH, Line, Sender, ids, until
from tests.support.topics import Topics, ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.nightly]

TOPIC = "sales"
MARKED, HELD, DIED = 0, 1, 2
"""Partitions: one has its markers when the coordinator dies, those of one are on their way, and one it leads itself."""
PARTITIONS = (MARKED, HELD, DIED)
ENDS = {"committed": "Commit", "aborted": "Abort", "open": "Commit"}
"""Transactions; the last has not been asked to end when the coordinator dies."""
REPLICATED = {
    "inter_broker_listener_name": "PROXIED",
    "min_insync_replicas": 2,
    "offsets_topic_replication_factor": 3,
    "broker_session_timeout_ms": 6_000,
}


@dataclass
class Taken:
    """What was sent, and what coordinators, consumers and disks reported of it."""

    senders: dict[str, Sender]
    halfway: RangesPlan
    before: dict[str, Any]
    dead: Line
    logged: dict[str, str]
    """By transaction: its state in the log on the dead coordinator's disk."""
    after: dict[str, Any]
    heir: Line
    survivors: tuple[Line, Line]
    topics: Topics
    dataset: Dataset

    def sent(self, partition: int, *names: str) -> dict[int, str]:
        """What transactions wrote to a partition, as it was acknowledged to their producers: message ids by offset."""
        of = {id_: self.senders[name].acknowledged[id_] for name in names for id_ in part(name, partition)}
        return {offset: id_ for id_, offset in of.items()}

    def read(self, partition: int, isolation: str) -> dict[int, str]:
        return self.survivors[0].read(TOPIC, isolation, partition)


def part(name: str, partition: int) -> list[str]:
    """The message ids of a transaction that go to a partition."""
    return ids(name, BATCH, BATCH * partition)


def transactions(line: Line) -> dict[str, Any]:
    """The coordinator and the state of each; nothing as long as no coordinator tells."""
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=line.broker.bootstrap)) as client:
        try:
            return dict(client.describe_transactions(list(ENDS)))
        except KafkaError:
            return {}


def states(descriptions: dict[str, Any]) -> dict[str, str]:
    return {name: transaction.state.value for name, transaction in descriptions.items()}


def coordinators(descriptions: dict[str, Any]) -> set[int]:
    return {transaction.coordinator_id for transaction in descriptions.values()}


@pytest.fixture(scope="module")
def taken(
    tmp_path_factory: pytest.TempPathFactory,
    session_on: Callable[[Lake], SparkSession],
    lake_in: Callable[[Path], Lake],
) -> Iterator[Taken]:
    folder, lake = tmp_path_factory.mktemp("takeover"), lake_in(tmp_path_factory.mktemp("lake"))
    with (
        Line.open(folder / "1.log", **REPLICATED) as first,  # the controller, too
        Line.open(folder / "2.log", first, **REPLICATED) as second,
        Line.open(folder / "3.log", second, **REPLICATED) as third,
    ):
        # Where each partition lies, its leader first; the coordinator is the leader of the state's only partition.
        first.topic("__transaction_state", replica_assignment=[[2, 3, 1]], config={"cleanup.policy": "compact"})
        first.topic(TOPIC, 3, replica_assignment=[[3, 1, 2], [1, 2, 3], [2, 3, 1]])
        topics = Topics.on(first.broker.bootstrap, lake, session_on(lake), TOPIC)
        dataset = topics.dataset(value={"fields": {"id": "string"}}, identity={"message_id": "header.message-id"})
        senders = {name: first.sender(TOPIC, transactional_id=name, transaction_timeout_ms=120_000) for name in ENDS}
        for name, sender in senders.items():
            sender.begin()
            for partition in PARTITIONS:
                sender.send(part(name, partition), partition)
        holding = (first.proxy, second.proxy)
        for proxy in holding:
            proxy.hold(1, WRITE_MARKERS)
        assert senders["committed"].commit()
        assert senders["aborted"].abort()
        until(lambda: all(proxy.held for proxy in holding))
        until(lambda: first.end(TOPIC, "read_uncommitted", MARKED) == len(ENDS) * BATCH + 2)
        halfway = plan_batch(topics.lake, dataset)
        assert isinstance(halfway, RangesPlan)
        before = transactions(first)
        second.broker.kill()
        logged = {name: second.transaction(name) for name in ENDS}
        assert senders["open"].commit()
        until(lambda: states(transactions(first)) == {name: f"Complete{end}" for name, end in ENDS.items()})
        after = transactions(first)
        assert first.proxy.release(60, WRITE_MARKERS)  # a marker of the dead one arrives after all
        [heir] = [broker for broker in (first, third) if coordinators(after) == {broker.broker.node}]
        yield Taken(senders, halfway, before, second, logged, after, heir, (first, third), topics, dataset)


def test_another_broker_ends_what_the_dead_coordinator_has_prepared(taken: Taken) -> None:
    prepared = {"committed": "PrepareCommit", "aborted": "PrepareAbort", "open": "Ongoing"}
    assert coordinators(taken.before) == {taken.dead.broker.node}
    assert states(taken.before) == prepared
    assert taken.logged == prepared
    assert taken.dead.broker.process.poll() == -signal.SIGKILL
    assert coordinators(taken.after) == {taken.heir.broker.node} != coordinators(taken.before)
    assert {name: taken.heir.transaction(name) for name in ENDS} == states(taken.after)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_partition_has_all_or_nothing_of_a_transaction(taken: Taken, partition: int) -> None:
    assert taken.read(partition, "read_uncommitted") == taken.sent(partition, *ENDS)
    assert taken.read(partition, "read_committed") == taken.sent(partition, "committed", "open")


def test_the_heir_marks_all_again_and_what_arrives_late_of_the_dead_one_is_refused(taken: Taken) -> None:
    def by(epoch: int, *names: str) -> set[tuple[int, bool, int]]:
        return {(taken.after[name].producer_id, ENDS[name] == "Commit", epoch) for name in names}

    for broker in taken.survivors:
        markers = {partition: set(broker.markers(TOPIC, partition).values()) for partition in PARTITIONS}
        dead, heir = sorted({epoch for _, _, epoch in markers[MARKED]})
        assert markers[MARKED] == by(dead, "committed", "aborted") | by(heir, *ENDS)
        assert markers[HELD] == markers[DIED] == by(heir, *ENDS)


def test_what_was_planned_halfway_and_what_came_later_are_what_a_consumer_of_committed_records_sees(
    taken: Taken,
) -> None:
    """The plan holds two of the transactions in one partition, and nothing of the others."""
    t, mine = taken.topics, taken.dataset
    assert ranges(taken.halfway) == {(TOPIC, MARKED): (0, 2 * BATCH)}
    holes, verdicts = [], []
    for plan in (taken.halfway, None):
        done = run_batch(t.lake, mine, plan or plan_batch(t.lake, mine), InSession(t.lake, t.session))
        assert done.red is None
        manifest = t.lake.get(lake_keys.manifest(mine.source_id, done.batch), Manifest)
        assert manifest
        assert manifest.notes == []
        holes += manifest.holes
        verdicts += verdicts_of(t.lake, mine, done.batch)[0]
        assert [
            account.unexplained for account in describe(t.lake, mine, done.batch).accounts if account.unexplained
        ] == []
    for partition in PARTITIONS:
        committed, aborted = taken.sent(partition, "committed", "open"), taken.sent(partition, "aborted")
        markers = taken.heir.markers(TOPIC, partition)
        there = {verdict["offset"]: verdict["verdict"] for verdict in verdicts if verdict["partition"] == partition}
        assert there == dict.fromkeys(committed, "applied")
        missing = kinds([hole for hole in holes if hole.topic_partition.partition == partition])
        assert missing == dict.fromkeys(aborted, "aborted") | dict.fromkeys(markers, "control")
        assert set(there) | set(missing) == set(range(taken.heir.end(TOPIC, "read_uncommitted", partition)))
    assert len(verdicts) == 2 * len(PARTITIONS) * BATCH
    seen = [id_ for partition in PARTITIONS for id_ in taken.read(partition, "read_committed").values()]
    assert Counter(row["id"] for row in rows_of(t.lake, mine)) == Counter(seen)
