"""`onefold doctor`: every rule by literal facts, one in which it finds something and one in which it does not."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from croniter import croniter
from rich.console import Console

from onefold.cli.doctor import by_hand_table, document, findings_table, writers_table
from onefold.dataset import Dataset
from onefold.diagnosis import Facts, Finding, Landed, diagnose
from onefold.diagnosis.facts import FirstPartitions
from onefold.diagnosis.rules import RULES, brokers, topics
from onefold.diagnosis.schedule import longest_interval
from onefold.instants import millis_from, span_text
from onefold.kafka.condition import (
    Activity,
    BrokerCondition,
    ClusterCondition,
    Config,
    GroupCondition,
    PartitionCondition,
    ProducerCondition,
    RecordBatch,
    Stamps,
    TopicCondition,
    TransactionCondition,
)
from onefold.kafka.inspection import stamps_of
from onefold.quality.documents import CheckResult
from onefold.report.causes import Change
from onefold.upsert.documents import Duplicates

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
GOOD_TOPIC = {
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "86400000",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
}
GOOD_BROKER = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.retention.minutes": "10080",
    "producer.id.expiration.ms": "86400000",
    "transactional.id.expiration.ms": "604800000",
    "transaction.max.timeout.ms": "900000",
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
}
GOOD_PARTITION = PartitionCondition(0, replicas=3, in_sync=3, start=0, end=100, stable=100)
UPSERT = {"mode": "upsert", "key": ["key.account"], "version": {"from": "offset"}}
Keys = dict[str, Any]


def dataset(**keys: Any) -> Dataset:
    """A dataset that leaves nothing to be found; daily, so that a record waits a day and ten minutes."""
    given: Keys = {
        "name": "things",
        "source": {"kafka": {"topics": ["t"]}},
        "schedule": {"cron": "0 0 * * *", "start": "2026-01-01T00:00:00Z"},
        "key": {"format": "json"},
        "value": {"fields": {"id": "string", "v": "long"}},
        "identity": {"message_id": "id"},
        "apply": {"mode": "append"},
        "target": {"table": "live.things", "buckets": 2},
        "quality": {"max_duplicate_rate": 0.3, "freshness": "2d"},
    }
    merged = given | keys
    return Dataset.model_validate({name: value for name, value in merged.items() if value is not None})


def facts(
    *,
    file: Keys | None = None,
    topic: Keys | None = None,
    broker: Keys | None = None,
    partition: PartitionCondition = GOOD_PARTITION,
    landed: Landed | None = None,
    activity: Activity | None = None,
    internal: dict[str, int] | None = None,
    record_batches: tuple[RecordBatch, ...] | None = (),
    unseen: str = "",
    cluster: bool = True,
) -> Facts:
    """Facts in which nothing is wrong but what is given; a setting that is None is absent."""

    def config(good: dict[str, str], given: Keys | None) -> Config:
        return Config({name: value for name, value in (good | (given or {})).items() if value is not None})

    condition = ClusterCondition(
        "c1",
        (BrokerCondition(1, config(GOOD_BROKER, broker)),),
        (TopicCondition("t", "id-1", config(GOOD_TOPIC, topic), (partition,)),),
        {} if internal is None else internal,
        activity or Activity((), (), ()),
    )
    known = condition if cluster else None
    return Facts(dataset(**(file or {})), NOW, landed or Landed(), known, record_batches, unseen)


def published(**reasons: int) -> Landed:
    return Landed(2, {"applied": {"insert": 900}, "duplicate": reasons})


def stamped(newest: datetime, oldest: datetime | None = None, behind: timedelta = timedelta(0)) -> PartitionCondition:
    return replace(GOOD_PARTITION, stamps=Stamps(oldest or newest, newest, behind))


def group(offset: int, name: str = "g", state: str = "Stable", client: str = "app") -> Activity:
    return Activity((), (), (GroupCondition(name, state, (client,), {("t", 0): offset}),))


def silent(session: timedelta, heartbeat: timedelta) -> Activity:
    """A group of the new protocol."""
    [condition] = group(50).groups or ()
    return Activity((), (), (replace(condition, session=session, heartbeat=heartbeat),))


EXPORT = {
    "source": {"exports": {"path": "x/", "layout": "kcat", "origin": {"cluster": "prod"}}},
    "schedule": None,
}
SILENT = CheckResult(
    id="silent_partitions", title="partitions that fell silent", by="spark", severity="warning", status="failed",
    observed="1", first=["t, partition 3"], way_out="look whether its producer stopped",
)  # fmt: skip
STALLED = replace(GOOD_PARTITION, stable=90, stalled_since=NOW - 2 * HOUR)
OPENER = ProducerCondition("t", 0, id=7, epoch=2, newest=NOW, open_from=90)
PLAIN, WITH_ID = RecordBatch("t", 0, 5, producer=-1), RecordBatch("t", 0, 6, producer=7, epoch=0)
IN_TRANSACTION = replace(WITH_ID, transactional=True)
SEGMENTS: Keys = {
    "source": {"exports": {"path": "x/", "layout": "segments", "origin": {"cluster": "prod"}}},
    "schedule": None,
}
OFFSET: Keys = {"apply": UPSERT, "identity": None}
CLOCKS: Keys = {"apply": UPSERT | {"version": {"from": ["timestamp", "offset"]}}, "identity": None}


def grown(file: Keys, first: int, *, certain: bool = True, end: int = 0) -> Facts:
    """A topic that has two partitions now, of which the second ends at an offset, and that had fewer or as many."""
    seen = facts(file=file, landed=Landed(1, partitions={"t": FirstPartitions(first, certain)}))
    assert seen.cluster
    second = replace(GOOD_PARTITION, number=1, end=end, stable=end)
    (topic,) = seen.cluster.topics
    return replace(
        seen, cluster=replace(seen.cluster, topics=(replace(topic, partitions=(*topic.partitions, second)),))
    )


BEHIND = Landed(1, until=NOW - timedelta(days=6, hours=20), ends={("t", 0): 40})

Row = tuple[str, Facts, str, str, str]
FOUND: list[Row] = [
    # rule, facts, severity, words of what is found, what to set or do
    (
        "gone_before_landing",
        facts(partition=replace(GOOD_PARTITION, start=50), landed=Landed(1, ends={("t", 0): 40})),
        "error",
        "offsets [40, 50) are gone, not landed",
        "retention.ms=604800000 (7d)",
    ),
    (
        "lost_before",
        facts(landed=Landed(holes={"retention": 3})),
        "error",
        "3 offsets of kind retention",
        "retention.ms=",
    ),
    (
        "lost_before",
        facts(landed=Landed(holes={"truncated": 3})),
        "error",
        "3 offsets",
        "unclean.leader.election.enable=",
    ),
    ("expiring_backlog", facts(landed=BEHIND), "error", "60 offsets wait", "onefold run things, now"),
    ("leaders", facts(partition=replace(GOOD_PARTITION, has_leader=False)), "error", "no leader: partition 0", "start"),
    (
        "unclean_election",
        facts(topic={"unclean.leader.election.enable": "true"}),
        "error",
        "unclean.leader.election.enable=true",
        "unclean.leader.election.enable=false",
    ),
    (
        "replication",
        facts(partition=replace(GOOD_PARTITION, replicas=1, in_sync=1), topic={"min.insync.replicas": "1"}),
        "error",
        "replication.factor=1",
        "replication.factor=3",
    ),
    (
        "replication",
        facts(partition=replace(GOOD_PARTITION, replicas=2, in_sync=2)),
        "warning",
        "replication.factor=2",
        "replication.factor=3",
    ),
    (
        "in_sync_minimum",
        facts(topic={"min.insync.replicas": "1"}),
        "warning",
        "min.insync.replicas=1 of 3 replicas",
        "min.insync.replicas=2",
    ),
    (
        "in_sync_minimum",
        facts(topic={"min.insync.replicas": "3"}),
        "warning",
        "min.insync.replicas=3 of 3 replicas",
        "min.insync.replicas=2",
    ),
    (
        "in_sync_minimum",
        facts(topic={"min.insync.replicas": "4"}),
        "error",
        "min.insync.replicas=4 of 3 replicas",
        "min.insync.replicas=2",
    ),
    *(
        (
            "in_sync_minimum",
            facts(
                topic={"min.insync.replicas": str(least)}, partition=replace(GOOD_PARTITION, replicas=of, in_sync=of)
            ),
            severity,
            f"min.insync.replicas={least} of {of} replicas",
            mend,
        )
        for of, least, severity, mend in (
            (2, 1, "warning", "min.insync.replicas=2 (with 3 replicas)"),
            (2, 2, "warning", "replication.factor=3"),
            (4, 1, "warning", "min.insync.replicas=3"),
            (4, 2, "info", "min.insync.replicas=3"),
            (4, 4, "warning", "min.insync.replicas=3"),
            (5, 1, "warning", "min.insync.replicas=4"),
            (5, 2, "info", "min.insync.replicas=4"),
            (5, 3, "info", "min.insync.replicas=4"),
            (5, 5, "warning", "min.insync.replicas=4"),
            (5, 6, "error", "min.insync.replicas=4"),
        )
    ),
    (
        "in_sync_now",
        facts(partition=replace(GOOD_PARTITION, in_sync=1)),
        "error",
        "below min.insync.replicas=2",
        "bring",
    ),
    (
        "in_sync_now",
        facts(partition=replace(GOOD_PARTITION, in_sync=2)),
        "warning",
        "out of sync: partition 0",
        "bring",
    ),
    (
        "retention_time",
        facts(topic={"retention.ms": "3600000"}),
        "error",
        "retention.ms=3600000 (1h)",
        "retention.ms=604800000 (7d)",
    ),
    (
        "retention_time",
        facts(topic={"retention.ms": "172800000"}),
        "warning",
        "retention.ms=172800000 (2d)",
        "retention.ms=604800000 (7d)",
    ),
    (
        "retention_time",
        facts(file={"schedule": {"cron": "0 0 1 * *", "start": "2026-01-01T00:00:00Z"}}),
        "error",
        "retention.ms=604800000 (7d)",
        "retention.ms=3024000000 (35d)",
    ),
    (
        "retention_bytes",
        facts(topic={"retention.bytes": "1000"}, partition=replace(GOOD_PARTITION, start=9, oldest=NOW - HOUR)),
        "error",
        "retention.bytes=1000, log of 1h",
        "retention.bytes=-1",
    ),
    ("retention_bytes", facts(topic={"retention.bytes": "1000"}), "info", "retention.bytes=1000", "retention.bytes=-1"),
    (
        "compaction",
        facts(topic={"cleanup.policy": "compact"}),
        "error",
        "cleanup.policy=compact, min.compaction.lag.ms=0",
        "min.compaction.lag.ms=432000000 (5d)",
    ),
    (
        "compaction",
        facts(
            topic={"cleanup.policy": "delete,compact"},
            file={"apply": UPSERT | {"version": {"from": "v"}}, "identity": None},
        ),
        "warning",
        "cleanup.policy=delete,compact",
        "min.compaction.lag.ms=432000000 (5d)",
    ),
    (
        "tombstones",
        facts(
            topic={"cleanup.policy": "compact"}, file={"apply": UPSERT | {"delete_when": "tombstone"}, "identity": None}
        ),
        "error",
        "delete.retention.ms=86400000 (1d)",
        "delete.retention.ms=604800000 (7d)",
    ),
    (
        "open_transactions",
        facts(partition=STALLED),
        "error",
        "offsets [90, 100) are held back by an open transaction, open for 2h",
        "kafka-transactions.sh abort --topic t --partition 0 --start-offset 90",
    ),
    (
        "open_transactions",
        facts(
            partition=STALLED,
            activity=Activity((OPENER,), (TransactionCondition("tx-1", 7, "Ongoing", since=NOW - 12 * HOUR / 60),), ()),
        ),
        "warning",
        "of producer 7 (epoch 2, transactional.id tx-1), open for 12m",
        "transaction.timeout.ms=60000",
    ),
    (
        "open_transactions",
        facts(partition=replace(STALLED, stalled_since=NOW - HOUR / 60)),
        "info",
        "open for 1m",
        "transaction.timeout.ms=60000",
    ),
    (
        "groups_behind",
        facts(partition=replace(GOOD_PARTITION, start=50), activity=group(20)),
        "error",
        "t-0: committed 20, the log begins at 50",
        "retention.ms: longer than the group may lag",
    ),
    (
        "groups_behind",
        facts(activity=group(101)),
        "error",
        "t-0: committed 101, the log ends at 100",
        "unclean.leader.election.enable=false",
    ),
    (
        "groups_rebalancing",
        facts(activity=group(100, state="PreparingRebalance")),
        "info",
        "state PreparingRebalance",
        "group.instance.id: one",
    ),
    (
        "group_sessions",
        facts(activity=silent(timedelta(seconds=44), timedelta(seconds=5))),
        "warning",
        "consumer.session.timeout.ms=44000 (44s)",
        "consumer.session.timeout.ms=45000",
    ),
    (
        "group_sessions",
        facts(activity=silent(timedelta(seconds=50), timedelta(seconds=20))),
        "warning",
        "consumer.session.timeout.ms=50000 (50s)",
        "consumer.session.timeout.ms=60000",
    ),
    (
        "idempotence",
        facts(record_batches=None, partition=stamped(NOW - HOUR)),
        "warning",
        "no producer id behind the newest records, partition 0",
        "enable.idempotence=true",
    ),
    (
        "idempotence",
        facts(
            record_batches=(replace(PLAIN, newest=NOW - 3 * HOUR), WITH_ID, replace(WITH_ID, control=True), PLAIN),
            file={"identity": None},
        ),
        "error",
        "enable.idempotence=false: 2 of 3 record batches of the last 3h have no producer id, partition 0",
        "enable.idempotence=true (with acks=all)",
    ),
    (
        "restarted_producers",
        facts(record_batches=(WITH_ID, replace(WITH_ID, producer=8))),
        "info",
        "2 producer ids without transactions, partition 0",
        "transactional.id: one",
    ),
    (
        "raised_epochs",
        facts(record_batches=(WITH_ID, replace(WITH_ID, epoch=1))),
        "info",
        "1 of 1 producers raised their epoch, partition 0",
        "delivery.timeout.ms: longer",
    ),
    (
        "undecided_transactions",
        facts(cluster=False, file=SEGMENTS, record_batches=(PLAIN, IN_TRANSACTION, replace(IN_TRANSACTION, offset=9))),
        "warning",
        "no marker ends the transaction of producer 7 (epoch 0) from offset 6 on",
        "land the segments that follow",
    ),
    (
        "duplicates",
        facts(landed=published(position=100)),
        "warning",
        "100 duplicates, read or exported twice (10.0% of 1000 records)",
        "enable.auto.commit=false (and rotate.schedule.interval.ms=-1 (Connect's S3 sink))",
    ),
    (
        "duplicates",
        facts(landed=published(message_id=5)),
        "info",
        "5 duplicates, sent again (",
        "enable.idempotence=true (and acks=all; and transactional.id: over restarts)",
    ),
    (
        "duplicates",
        facts(landed=published(producer=5)),
        "info",
        "5 duplicates, retry after a lost acknowledgement",
        "enable.idempotence=true (and acks=all; and max.in.flight.requests.per.connection=5 (or less))",
    ),
    (
        "duplicates",
        facts(landed=published(business_key=100)),
        "warning",
        "100 duplicates, sent again by the application",
        "The application: keep the message id",
    ),
    (
        "internal_topics",
        facts(internal={"__consumer_offsets": 1}),
        "error",
        "replication factor 1 of __consumer_offsets",
        "offsets.topic.replication.factor=3",
    ),
    (
        "internal_topics",
        facts(broker={"transaction.state.log.replication.factor": "2"}),
        "warning",
        "transaction.state.log.replication.factor=2",
        "transaction.state.log.replication.factor=3",
    ),
    (
        "internal_topics",
        facts(broker={"transaction.state.log.min.isr": "1"}),
        "warning",
        "transaction.state.log.min.isr=1",
        "transaction.state.log.min.isr=2",
    ),
    (
        "offsets_retention",
        facts(broker={"offsets.retention.minutes": "60"}),
        "error",
        "offsets.retention.minutes=60 (1h)",
        "offsets.retention.minutes=10080 (7d)",
    ),
    (
        "offsets_retention",
        facts(file={"schedule": {"cron": "0 0 1 * *", "start": "2026-01-01T00:00:00Z"}}),
        "error",
        "offsets.retention.minutes=10080 (7d)",
        "offsets.retention.minutes=47520 (33d)",
    ),
    (
        "producer_memory",
        facts(broker={"producer.id.expiration.ms": "3600000"}),
        "warning",
        "producer.id.expiration.ms=3600000 (1h)",
        "producer.id.expiration.ms=86400000 (1d)",
    ),
    (
        "producer_memory",
        facts(broker={"transactional.id.expiration.ms": "86400000"}),
        "warning",
        "transactional.id.expiration.ms=86400000 (1d)",
        "transactional.id.expiration.ms=604800000 (7d)",
    ),
    (
        "long_transactions",
        facts(broker={"transaction.max.timeout.ms": "7200000"}),
        "warning",
        "transaction.max.timeout.ms=7200000 (2h)",
        "transaction.max.timeout.ms=900000 (15m)",
    ),
    (
        "unclean_election",
        facts(broker={"unclean.leader.election.enable": "true"}),
        "warning",
        "unclean.leader.election.enable=true",
        "unclean.leader.election.enable=false",
    ),
    (
        "topic_creation",
        facts(broker={"auto.create.topics.enable": "true"}),
        "warning",
        "auto.create.topics.enable=true",
        "auto.create.topics.enable=false",
    ),
    (
        "version_of_arrival",
        facts(
            cluster=False,
            record_batches=(replace(WITH_ID, append_time=True),),
            file=SEGMENTS | {"apply": UPSERT | {"version": {"from": "timestamp"}}, "identity": None},
        ),
        "warning",
        "message.timestamp.type=LogAppendTime",
        "apply.version.from=offset",
    ),
    (
        "version_of_arrival",
        facts(
            topic={"message.timestamp.type": "LogAppendTime"},
            file={"apply": UPSERT | {"version": {"from": "timestamp"}}, "identity": None},
        ),
        "warning",
        "message.timestamp.type=LogAppendTime",
        "apply.version.from=",
    ),
    (
        "already_expired",
        facts(partition=stamped(NOW, oldest=NOW - 8 * DAY)),
        "error",
        "new records of 2026-03-02T12:00Z, retention.ms=604800000 (7d)",
        "message.timestamp.type=LogAppendTime",
    ),
    (
        "future_timestamps",
        facts(topic={"message.timestamp.after.max.ms": "9223372036854775807"}),
        "info",
        "message.timestamp.after.max.ms=9223372036854775807",
        "message.timestamp.after.max.ms=3600000 (1h)",
    ),
    (
        "late_records",
        facts(partition=stamped(NOW, behind=timedelta(minutes=25))),
        "info",
        "records up to 25m older than those before them, schedule.settle is 10m",
        "message.timestamp.type=LogAppendTime",
    ),
    (
        "position_decides",
        facts(file={"identity": None}),
        "warning",
        "identity: no message_id",
        "identity.message_id: an",
    ),
    (
        "loss_tolerated",
        facts(file={"quality": {"loss": "tolerated"}}),
        "warning",
        "quality.loss=tolerated",
        "quality.loss=refused",
    ),
    (
        "warnings_of_the_gate",
        facts(landed=Landed(warned=(SILENT,))),
        "warning",
        "partitions that fell silent: 1 (t, partition 3)",
        "look whether",
    ),
    (
        "objects_left_out",
        replace(facts(cluster=False, file=EXPORT), left_out=("1 object is left out: a.csv",)),
        "warning",
        "1 object is left out: a.csv",
        "",
    ),
    (
        "added_partitions",
        grown(OFFSET, 1),
        "warning",
        "2 partitions, 1 when it was first landed; apply.version.from is the offset",
        "apply.version.from=[timestamp, offset] (with message.timestamp.type=LogAppendTime on the topic, else the "
        "producers' clocks decide; or a version in the value; then onefold rebuild things)",
    ),
    (
        "added_partitions",
        grown({"apply": UPSERT | {"version": {"from": ["offset", "v"]}}, "identity": None}, 1),
        "warning",
        "2 partitions, 1 when it was first landed",
        "apply.version.from=[timestamp, offset]",
    ),
    (
        "added_partitions",
        grown(OFFSET, 1, certain=False, end=5),
        "warning",
        "2 partitions, 1 when it was first landed (or the others were empty)",
        "apply.version.from=[timestamp, offset]",
    ),
    (
        "version_of_arrival",
        facts(topic={"message.timestamp.type": "LogAppendTime"}, file=CLOCKS),
        "warning",
        "message.timestamp.type=LogAppendTime",
        "apply.version.from: a version that the producer sets",
    ),
    ("no_schedule", facts(file={"schedule": None}), "info", "schedule: none", "schedule: "),
    (
        "stale",
        facts(landed=Landed(newest=millis_from(NOW - 49 * HOUR))),
        "error",
        "newest record of",
        "onefold batches",
    ),
    ("no_freshness", facts(file={"quality": {}}), "info", "quality.freshness: none", "quality.freshness=49h"),
    (
        "no_duplicate_rate",
        facts(file={"quality": {}}, landed=published(position=100)),
        "info",
        "quality.max_duplicate_rate: none",
        "quality.max_duplicate_rate=0.20",
    ),
    ("unreadable", facts(topic={"retention.ms": None}), "unknown", "retention.ms", ""),
    ("unreadable", facts(broker={"offsets.retention.minutes": None}), "unknown", "offsets.retention.minutes", ""),
    (
        "unreadable",
        facts(activity=Activity(refused={"groups": "GroupAuthorizationFailed: no"})),
        "unknown",
        "groups",
        "grant DESCRIBE on the groups",
    ),
    ("unseen_batches", facts(record_batches=None), "unknown", "producer ids in the log", ""),
    (
        "unseen_batches",
        facts(cluster=False, file=SEGMENTS, record_batches=None, unseen="no segment has been landed yet"),
        "unknown",
        "producer ids in the log",
        "",
    ),
    ("unseen_batches", facts(unseen="t, partition 0: refused"), "unknown", "producer ids of some partitions", ""),
    ("export", facts(cluster=False, file=EXPORT), "unknown", "replication, retention", "onefold doctor"),
]

QUIET: list[tuple[str, Facts]] = [
    ("nothing is wrong", facts()),
    ("the newest record is as new as the file wants it", facts(landed=Landed(newest=millis_from(NOW - 47 * HOUR)))),
    ("as many partitions as ever, under the offset", grown(OFFSET, 2)),
    ("partitions that may have been there, and are empty", grown(OFFSET, 1, certain=False)),
    ("partitions that were added, under a version that begins with the timestamp", grown(CLOCKS, 1)),
    ("partitions that were added to a topic whose messages are rows", grown({}, 1)),
    ("partitions of a topic that was not landed", replace(grown(OFFSET, 1), landed=Landed())),
    *(
        (
            f"one copy of {of} may be away",
            facts(
                topic={"min.insync.replicas": str(of - 1)}, partition=replace(GOOD_PARTITION, replicas=of, in_sync=of)
            ),
        )
        for of in (4, 5)
    ),
    ("retention and compaction are off", facts(topic={"retention.ms": "-1"})),
    ("retention is exactly what is needed", facts(topic={"retention.ms": str(4 * 86_400_000 + 600_000)})),
    ("compaction lags far enough", facts(topic={"cleanup.policy": "compact", "min.compaction.lag.ms": "432000000"})),
    (
        "compaction of a topic whose version is the offset",
        facts(topic={"cleanup.policy": "compact"}, file={"apply": UPSERT, "identity": None}),
    ),
    (
        "tombstones of a topic that is not compacted",
        facts(file={"apply": UPSERT | {"delete_when": "tombstone"}, "identity": None}),
    ),
    (
        "a log of limited size that goes back far",
        facts(topic={"retention.bytes": "9"}, partition=replace(GOOD_PARTITION, start=9, oldest=NOW - 9 * DAY)),
    ),
    ("landed long ago, and nothing new since", facts(landed=replace(BEHIND, ends={("t", 0): 100}))),
    ("landed a day ago", facts(landed=replace(BEHIND, until=NOW - DAY))),
    (
        "landed up to the log's start",
        facts(partition=replace(GOOD_PARTITION, start=40), landed=replace(BEHIND, until=NOW)),
    ),
    ("holes that explain themselves", facts(landed=Landed(holes={"log_gap": 9, "control": 3, "compacted": 2}))),
    ("no duplicates", facts(landed=published(position=0))),
    ("a group at both ends of the log", facts(partition=replace(GOOD_PARTITION, start=50), activity=group(50))),
    ("a group at the end", facts(activity=group(100))),
    ("Onefold's own group", facts(partition=replace(GOOD_PARTITION, start=50), activity=group(20, "onefold.t-1234"))),
    ("idempotent record batches", facts(record_batches=(WITH_ID, WITH_ID))),
    (
        "transactional producers that restarted",
        facts(record_batches=(IN_TRANSACTION, replace(IN_TRANSACTION, producer=8), replace(IN_TRANSACTION, epoch=1))),
    ),
    ("a marker without an id of its own", facts(record_batches=(replace(PLAIN, control=True),))),
    (
        "timestamps of arrival that the topic's setting does not tell of any more",
        facts(
            record_batches=(replace(WITH_ID, append_time=True),),
            file={"apply": UPSERT | {"version": {"from": "timestamp"}}, "identity": None},
        ),
    ),
    (
        "internal topics of three replicas",
        facts(
            internal={"__consumer_offsets": 3, "__transaction_state": 3},
            broker={"offsets.topic.replication.factor": "1"},
        ),
    ),
    (
        "timestamps of arrival, under a version of the producer's",
        facts(
            topic={"message.timestamp.type": "LogAppendTime"},
            file={"apply": UPSERT | {"version": {"from": "v"}}, "identity": None},
        ),
    ),
    (
        "a version that is the producer's timestamp",
        facts(file={"apply": UPSERT | {"version": {"from": "timestamp"}}, "identity": None}),
    ),
    (
        "records as late as settle allows",
        facts(partition=stamped(NOW, oldest=NOW - 7 * DAY, behind=timedelta(minutes=10))),
    ),
]


def run_rule(rule: str, seen: Facts) -> list[Finding]:
    return [finding for function in RULES if function.__name__ == rule for finding in function(seen)]


@pytest.mark.parametrize(("rule", "seen", "severity", "found", "change"), FOUND, ids=[row[0] for row in FOUND])
def test_a_rule_finds_what_it_is_for(rule: str, seen: Facts, severity: str, found: str, change: str) -> None:
    findings = run_rule(rule, seen)
    assert [(finding.severity, found in finding.found) for finding in findings] == [(severity, True)], findings
    mend = findings[0].change or findings[0].action
    assert str(mend).startswith(change) if change else not mend
    assert findings[0].why.endswith(".")


@pytest.mark.parametrize("seen", [row[1] for row in QUIET], ids=[row[0] for row in QUIET])
def test_nothing_is_found_where_nothing_is_wrong(seen: Facts) -> None:
    assert diagnose(seen).findings == ()


def test_every_rule_is_tried() -> None:
    assert {rule.__name__ for rule in RULES} == {row[0] for row in FOUND}


def test_a_transaction_is_undecided_until_its_producers_marker_and_its_next_one_is_another() -> None:
    marker, other = replace(IN_TRANSACTION, offset=8, control=True), replace(IN_TRANSACTION, producer=8, offset=7)

    def find_undecided(*batches: RecordBatch) -> list[str]:
        seen = facts(cluster=False, file=SEGMENTS, record_batches=batches)
        return [finding.found.split(" of ")[1] for finding in run_rule("undecided_transactions", seen)]

    assert find_undecided(IN_TRANSACTION, other, marker) == ["producer 8 (epoch 0) from offset 7 on"]
    assert find_undecided(IN_TRANSACTION, marker) == []
    assert find_undecided(marker, replace(IN_TRANSACTION, offset=9)) == ["producer 7 (epoch 0) from offset 9 on"]


def test_an_open_transaction_is_named_by_its_record_batch_where_no_producer_is_reported() -> None:
    first = replace(IN_TRANSACTION, offset=STALLED.stable)
    seen = facts(partition=STALLED, record_batches=(IN_TRANSACTION, first), activity=Activity(refused={}))
    [finding] = run_rule("open_transactions", seen)
    assert finding.found.startswith(
        "offsets [90, 100) are held back by an open transaction of producer 7 (epoch 0), open"
    )


MINUTE = timedelta(minutes=1)
OF_TX = TransactionCondition("tx-1", 7, "Ongoing", timeout=10 * MINUTE, holds=frozenset({("t", 0)}))


@pytest.mark.parametrize(
    ("transactions", "age", "severity", "why"),
    [
        ((OF_TX,), 12 * MINUTE, "error", "Older than its own transaction.timeout.ms=600000: it hangs"),
        ((OF_TX,), 10.5 * MINUTE, "warning", "Nothing behind it is landed until it ends"),  # it is being ended
        ((OF_TX,), 9 * MINUTE, "warning", "Nothing behind it is landed until it ends"),
        ((replace(OF_TX, timeout=HOUR),), 17 * MINUTE, "warning", "Nothing behind it is landed until it ends"),
        (
            (replace(OF_TX, timeout=None),),
            17 * MINUTE,
            "error",
            "Older than transaction.max.timeout.ms=900000: it hangs",
        ),
        ((replace(OF_TX, state="PrepareCommit"),), 9 * MINUTE, "warning", "Nothing behind it is landed until it ends"),
        (
            (replace(OF_TX, state="CompleteCommit"),),
            2 * MINUTE,
            "error",
            "It hangs: its coordinator has no transaction",
        ),
        ((replace(OF_TX, state="Empty"),), 0.5 * MINUTE, "info", "Nothing behind it is landed until it ends"),
        ((replace(OF_TX, holds=frozenset({("t", 1)})),), 2 * MINUTE, "error", "It hangs: its coordinator has no"),
        ((replace(OF_TX, producer=8),), 2 * MINUTE, "error", "No coordinator tells of it: it hangs, or"),
        ((), 2 * MINUTE, "error", "No coordinator tells of it: it hangs, or"),
        ((), 0.5 * MINUTE, "info", "Nothing behind it is landed until it ends"),
        (None, 12 * MINUTE, "warning", "Nothing behind it is landed until it ends"),
        (None, 17 * MINUTE, "error", "Older than transaction.max.timeout.ms=900000: it hangs"),
    ],
)
def test_a_transaction_hangs_behind_its_own_timeout_or_if_no_coordinator_will_end_it(
    transactions: tuple[TransactionCondition, ...] | None, age: timedelta, severity: str, why: str
) -> None:
    begun = NOW - age
    known = None if transactions is None else tuple(replace(transaction, since=begun) for transaction in transactions)
    seen = facts(partition=replace(STALLED, stalled_since=begun), activity=Activity((OPENER,), known, ()))
    [finding] = run_rule("open_transactions", seen)
    assert (finding.severity, finding.why[: len(why)], bool(finding.action)) == (severity, why, severity == "error")
    if finding.action:
        command = "find-hanging" if why.startswith("No coordinator") else "abort"
        assert finding.action.startswith(f"kafka-transactions.sh {command} --topic t --partition 0")


def test_the_age_of_a_transaction_that_its_coordinator_has_forgotten_is_not_that_of_its_next_one() -> None:
    later = replace(OF_TX, since=NOW, holds=frozenset({("t", 1)}))
    [finding] = run_rule("open_transactions", facts(partition=STALLED, activity=Activity((OPENER,), (later,), ())))
    assert (finding.severity, finding.found.endswith("transactional.id tx-1), open for 2h")) == ("error", True)


def test_writers_are_counted_by_topic_without_the_brokers_markers() -> None:
    batches = (
        replace(PLAIN, records=3, codec="lz4", newest=NOW - HOUR),
        replace(WITH_ID, newest=NOW - 2 * HOUR, append_time=True),
        replace(WITH_ID, epoch=1, partition=1),
        replace(IN_TRANSACTION, producer=8),
        replace(IN_TRANSACTION, producer=9, control=True, codec="zstd"),
        replace(WITH_ID, topic="a"),
    )
    done = diagnose(facts(record_batches=batches))
    assert [writer.topic for writer in done.writers] == ["a", "t"]
    assert document(done)["writers"][1] == {
        "topic": "t",
        "partitions": 2,
        "batches": 4,
        "records": 6,
        "without_id": 1,
        "transactional": 1,
        "producers": 2,
        "epochs": 3,
        "codecs": {"lz4": 1, "none": 3},
        "append_time": 1,
        "since": "2026-03-10T10:00:00+00:00",
    }


def test_newest_records_by_a_remembered_producer_are_idempotent() -> None:
    """By what the partition remembers, where no record batch was looked at."""
    remembered = replace(OPENER, open_from=None, newest=NOW - HOUR)
    seen = facts(record_batches=None, partition=stamped(NOW - HOUR), activity=Activity((remembered,), (), ()))
    assert run_rule("idempotence", seen) == []
    older = replace(remembered, newest=NOW - HOUR - timedelta(milliseconds=1))
    seen = facts(record_batches=None, partition=stamped(NOW - HOUR), activity=Activity((older,), (), ()))
    assert len(run_rule("idempotence", seen)) == 1
    unknown = facts(record_batches=None, partition=stamped(NOW - HOUR), activity=Activity())
    assert run_rule("idempotence", unknown) == [], "an unknown state of producers is no finding"
    forgotten = facts(record_batches=None, partition=stamped(NOW - 2 * DAY))
    assert run_rule("idempotence", forgotten) == [], "its producer may be forgotten"


def test_duplicates_are_reported_by_their_cause_and_the_others_by_their_reason() -> None:
    kind = Duplicates(
        reason="message_id",
        scope="in_batch",
        place="same_partition",
        session="other_producer",
        object="same_object",
        records=3,
        seconds=None,
        record="t-0@9",
        survivor="t-0@2",
    )
    seen = facts(landed=replace(published(message_id=5), kinds=(kind,)))
    assert [
        (finding.found.split(" (")[0], finding.change and finding.change.name)
        for finding in run_rule("duplicates", seen)
    ] == [
        ("3 duplicates, sent again after a restart", "transactional.id"),
        ("2 duplicates, sent again", "enable.idempotence"),
    ]


def test_the_worst_comes_first_and_equal_findings_are_one() -> None:
    bad = {"retention.ms": "3600000", "min.insync.replicas": "1"}
    seen = facts(file={"quality": {}, "identity": None}, topic=bad)
    assert seen.cluster
    second = replace(seen.cluster.topics[0], name="u")
    seen = replace(seen, cluster=replace(seen.cluster, topics=(*seen.topics, second)))
    found = diagnose(seen).findings
    severities = [finding.finding.severity for finding in found]
    assert severities == ["error", "warning", "warning", "info", "info"]
    assert [finding.rule for finding in found[:3]] == ["retention_time", "in_sync_minimum", "position_decides"]
    assert found[0].places == ("topic t", "topic u")


def test_an_export_is_diagnosed_by_its_file_and_data_and_the_rest_is_unknown() -> None:
    seen = facts(cluster=False, file=EXPORT, landed=published(position=100))
    done = diagnose(seen)
    rules = ["duplicates", "no_schedule", "export"]
    assert [finding.rule for finding in done.findings] == rules
    assert {setting.name for setting in done.by_hand if setting.of in ("topic", "broker")} == {
        "replication.factor", "min.insync.replicas", "unclean.leader.election.enable", "retention.ms",
        "cleanup.policy", "message.timestamp.type", "offsets.retention.minutes", "producer.id.expiration.ms",
        "transactional.id.expiration.ms", "transaction.max.timeout.ms",
    }  # fmt: skip
    assert {setting.of for setting in diagnose(facts()).by_hand} == {"producer", "consumer"}
    assert {setting.name for setting in diagnose(facts()).by_hand} == {
        "acks", "enable.idempotence", "max.in.flight.requests.per.connection", "retries", "retry.backoff.ms",
        "delivery.timeout.ms", "transactional.id", "transaction.timeout.ms", "isolation.level",
        "enable.auto.commit", "auto.offset.reset", "session.timeout.ms", "heartbeat.interval.ms",
        "max.poll.interval.ms",
    }  # fmt: skip


def test_a_topic_whose_settings_are_refused_is_unknown_not_wrong() -> None:
    seen = facts()
    assert seen.cluster
    refused = Config(refused="Broker: Topic authorization failed")
    unreadable = tuple(replace(topic, config=refused) for topic in seen.topics)
    done = diagnose(replace(seen, cluster=replace(seen.cluster, topics=unreadable))).findings
    assert [(finding.finding.severity, finding.rule) for finding in done] == [("unknown", "unreadable")]
    assert done[0].finding.found == ", ".join(topics.READ)
    assert "Topic authorization failed" in done[0].finding.why
    assert done[0].finding.action == "grant DESCRIBE_CONFIGS on the topic"


def test_every_setting_that_a_rule_reads_is_missed_when_it_is_absent() -> None:
    """The lists of what is read are those of the rules' own source."""
    import inspect

    from onefold.diagnosis.rules import loss, retention, stamps

    def settings_in(*modules: Any) -> set[str]:
        source = "".join(inspect.getsource(module) for module in modules)
        return {name for name in {**GOOD_TOPIC, **GOOD_BROKER} if f'"{name}"' in source}

    of_topics = settings_in(topics, retention, stamps, loss) & set(GOOD_TOPIC)
    assert of_topics | {"cleanup.policy"} == set(topics.READ) == set(GOOD_TOPIC)
    assert settings_in(brokers) == set(brokers.READ) == set(GOOD_BROKER)


@pytest.mark.parametrize(
    ("cron", "longest"),
    [
        ("0 * * * *", HOUR),
        ("*/7 * * * *", timedelta(minutes=7)),
        ("0 0 * * *", DAY),
        ("30 6,18 * * *", 12 * HOUR),
        ("0 9-17 * * 1-5", timedelta(days=2, hours=16)),
        ("*/5 9-17 * * 1", timedelta(days=6, hours=15, minutes=5)),
        ("0 0 1 * *", timedelta(days=31)),
        ("* * * 1-11 *", timedelta(days=31, minutes=1)),
        ("0 3 29 2 *", timedelta(days=1461)),
        ("0 0 1,15 * 1", timedelta(days=7)),
    ],
)
def test_the_longest_interval_of_a_schedule(cron: str, longest: timedelta) -> None:
    assert longest_interval(cron) == longest


@pytest.mark.parametrize("cron", ["13 */5 * * *", "5 4 */3 * *", "17 2,9 1-7 * 3", "0 22 * 6 1-5"])
def test_the_longest_interval_is_that_of_walking_through_the_years(cron: str) -> None:
    steps = croniter(cron, datetime(2024, 1, 1, tzinfo=UTC))
    at, longest = steps.get_next(datetime), timedelta(0)
    while at < datetime(2029, 1, 1, tzinfo=UTC):
        after = steps.get_next(datetime)
        longest, at = max(longest, after - at), after
    assert longest_interval(cron) == longest


def test_a_span_is_written_with_its_two_largest_units() -> None:
    texts = {
        timedelta(0): "0s",
        timedelta(milliseconds=5): "5ms",
        DAY + timedelta(minutes=10): "1d 10m",
        7 * DAY: "7d",
    }
    assert {span: span_text(span) for span in texts} == texts
    assert span_text(timedelta(days=1, hours=2, minutes=3)) == "1d 2h"


def test_stamps_tell_how_far_a_record_is_behind_one_before_it() -> None:
    stamps = stamps_of([1_000, None, 5_000, 2_000, 6_000, 4_500])
    assert stamps
    assert (stamps.oldest.timestamp(), stamps.newest.timestamp(), stamps.behind) == (1, 6, timedelta(seconds=3))
    assert stamps_of([]) is stamps_of([None]) is None


def test_timestamps_of_another_unit_are_reported_too() -> None:
    stamps = stamps_of([1_767_225_600_000_000_000, 1_767_225_600_000_000, 1_767_225_600_000])
    assert stamps
    assert (stamps.oldest.year, stamps.newest.year) == (2026, 9999)
    assert stamps.behind == stamps.newest - stamps.oldest


@pytest.mark.parametrize("width", [100, 140])
def test_the_tables_are_readable_at_a_width(width: int) -> None:
    bad = {"retention.ms": "3600000"}
    seen = facts(file={"quality": {}, "identity": None}, topic=bad, partition=STALLED, record_batches=(PLAIN, WITH_ID))
    done = diagnose(seen)
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    console.print(findings_table("things", done))
    console.print(writers_table(done))
    console.print(by_hand_table(done))
    lines = out.getvalue().splitlines()
    assert max(len(line) for line in lines) <= width
    said = out.getvalue()
    for name in [setting.name for setting in done.by_hand] + [
        "retention.ms=604800000 (7d)",
        "retention.ms=3600000 (1h)",
    ]:
        assert any(name in line for line in lines), name
    assert said.index("error") < said.index("warning") < said.index("info")


def test_the_document_has_a_shape_that_scripts_may_rely_on() -> None:
    done = document(diagnose(facts(topic={"retention.ms": "3600000"}, partition=STALLED)))
    first, second = done["findings"]
    assert first == {
        "severity": "error",
        "rule": "retention_time",
        "where": ["topic t"],
        "found": "retention.ms=3600000 (1h)",
        "why": "A record may wait 1d 10m (longest interval and settle), so records expire before they are landed.",
        "set": {"name": "retention.ms", "value": "604800000", "note": "7d"},
        "do": None,
    }
    assert (second["set"], second["do"][:27]) == (None, "kafka-transactions.sh abort")
    assert set(done["by_hand"][0]) == {"of", "setting", "default", "wanted", "why"}


def test_what_has_no_setting_is_an_action_and_never_both() -> None:
    for _, seen, *_ in FOUND:
        for diagnosed in diagnose(seen).findings:
            assert not (diagnosed.finding.change and diagnosed.finding.action)
            assert diagnosed.finding.change is None or isinstance(diagnosed.finding.change, Change)
