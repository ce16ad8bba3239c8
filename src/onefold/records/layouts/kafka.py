"""Live topics: read by Spark's Kafka source in exact ranges, landed as Parquet, one row a record, as Kafka had it.

| column of the landing | type | |
| --- | --- | --- |
| `cluster`, `topic` | string | |
| `incarnation`, `partition` | int | |
| `offset` | long | |
| `timestamp` | long | milliseconds since 1970; -1: none |
| `timestamp_type` | int | 0 create time, 1 log append time |
| `key`, `value` | binary | null is null |
| `headers` | array<struct<key: string, value: binary>> | in their order; null: none |
"""

from __future__ import annotations

import json
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.landing.cuts import OffsetRange
from onefold.landing.earlier_landings import EarlierLanding
from onefold.offsets import Range, TopicPartition
from onefold.records import envelope as E
from onefold.records.landed_objects import count_rows, literal, object_name
from onefold.records.layouts import LandedBatch, LayoutReader
from onefold.spark.offset_ranges import ranges_by

LANDED = (
    "cluster string, topic string, incarnation int, partition int, offset long, timestamp long, timestamp_type int, "
    "key binary, value binary, headers array<struct<key:string,value:binary>>"
)
_BULK = {
    "max.poll.records": "20000",
    "max.partition.fetch.bytes": str(8 << 20),
    "fetch.min.bytes": str(1 << 20),
    "fetch.max.wait.ms": "50",  # at the end of a range there is less than that
    "receive.buffer.bytes": str(1 << 20),
}
"""The client reads much at once: about half the time of its defaults, which serve consumers that wait for records."""
_WRITTEN = {
    "compression": "zstd",
    "parquet.enable.dictionary": "false",
    **{f"parquet.enable.dictionary#{name}": "true" for name in ("cluster", "topic", "incarnation", "partition")},
    **{f"parquet.column.statistics.enabled#{name}": "false" for name in ("key", "value")},
}
"""Payloads rarely repeat, and no query asks for the largest: a dictionary and bounds cost as much as writing them."""
_WHERE = ["cluster", "topic", "incarnation", "partition"]
_TASK = 500_000
"""Records that one task reads, at most."""


SILENCE = 60.0
"""Seconds without an answer after which a read is given up; what is slow, but answers, is waited for."""


def write_topics(
    session: SparkSession, ranges: list[OffsetRange], earlier: list[EarlierLanding], client: dict[str, str], uri: str
) -> dict[str, list[Range]]:
    """Write the committed records of exact ranges as Parquet below `uri`; fails where an offset is lost.

    `earlier` are parts of other landings, whose offsets the log does not hold any more; `client` are settings of the
    JVM's client.
    Returns the offsets that were written, by TopicPartition.key, as the objects have them: their position columns
    are read again.
    """
    reads = [_read_ranges(session, group, client) for group in _rounds(ranges)]
    reads += [_landed_again(session, landing) for landing in earlier]
    reduce(DataFrame.unionByName, reads).write.options(**_WRITTEN).parquet(uri)
    written = ranges_by(session.read.schema(LANDED).parquet(*literal([uri])), _WHERE, "offset")
    return {
        TopicPartition(cluster=cluster, topic=topic, incarnation=incarnation, partition=partition).key: offsets
        for (cluster, topic, incarnation, partition), offsets in written.items()
    }


def _rounds(ranges: list[OffsetRange]) -> list[list[OffsetRange]]:
    """Ranges grouped so that a group names each partition once, as Spark's source wants it."""
    rounds: list[list[OffsetRange]] = []
    for range_ in ranges:
        free = (group for group in rounds if all(range_.topic_partition != other.topic_partition for other in group))
        group = next(free, None)
        if group is None:
            rounds.append([range_])
        else:
            group.append(range_)
    return rounds


def _read_ranges(session: SparkSession, ranges: list[OffsetRange], client: dict[str, str]) -> DataFrame:
    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for range_ in ranges:
        topic, partition = range_.topic_partition.topic, range_.topic_partition.partition
        partitions.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = range_.start
        ends.setdefault(topic, {})[str(partition)] = range_.end
    reader = session.read.format("kafka").options(
        **{f"kafka.{name}": value for name, value in (_BULK | client).items()}
    )
    rows = reader.options(
        assign=json.dumps(partitions),
        startingOffsets=json.dumps(starts),
        endingOffsets=json.dumps(ends),
        includeHeaders="true",
        failOnDataLoss="true",
        maxRecordsPerPartition=str(_TASK),
        groupIdPrefix="onefold",
        **{
            "kafka.isolation.level": "read_committed",
            "kafka.request.timeout.ms": f"{SILENCE * 500:.0f}",
            "kafka.default.api.timeout.ms": f"{SILENCE * 1000:.0f}",
            "kafkaConsumer.pollTimeoutMs": f"{SILENCE * 1000:.0f}",
        },
    ).load()
    which = {range_.topic_partition.topic: range_.topic_partition for range_ in ranges}
    return rows.select(
        F.lit(next(iter(which.values())).cluster).alias("cluster"),
        "topic",
        _by_topic(which).alias("incarnation"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp"),
        F.col("timestampType").alias("timestamp_type"),
        "key",
        "value",
        "headers",
    )


def _landed_again(session: SparkSession, landing: EarlierLanding) -> DataFrame:
    """The records of some ranges of another landing."""
    rows = session.read.schema(LANDED).parquet(*literal(landing.uris))
    return rows.where(reduce(Column.__or__, (_within(range_) for range_ in landing.ranges)))


def _within(range_: OffsetRange) -> Column:
    where = range_.topic_partition
    partition = (F.col("topic") == where.topic) & (F.col("partition") == where.partition)
    incarnation = (F.col("cluster") == where.cluster) & (F.col("incarnation") == where.incarnation)
    return partition & incarnation & (F.col("offset") >= range_.start) & (F.col("offset") < range_.end)


def _by_topic(which: dict[str, TopicPartition]) -> Column:
    words = [word for topic, where in which.items() for word in (F.lit(topic), F.lit(where.incarnation))]
    return F.create_map(*words)[F.col("topic")]


def read_topics(session: SparkSession, objects: list[tuple[str, str]]) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of landed topics; `objects` are (name, URI)."""
    reader = session.read.schema(LANDED)
    rows = reader.parquet(*literal(uri for _, uri in objects)) if objects else session.createDataFrame([], LANDED)
    name = object_name(F.col("_metadata.file_path"), objects) if objects else F.lit(None).cast("string")
    return rows.select(
        F.when(F.col("timestamp") >= 0, F.col("timestamp")).alias(E.TIMESTAMP),
        F.col("cluster").alias(E.CLUSTER),
        F.col("topic").alias(E.TOPIC),
        F.col("incarnation").alias(E.INCARNATION),
        F.col("partition").alias(E.PARTITION),
        F.col("offset").alias(E.OFFSET),
        F.col("key").alias(E.KEY_BYTES),
        F.col("value").alias(E.VALUE_BYTES),
        F.coalesce(F.col("headers"), F.array().cast(E.HEADERS_TYPE)).alias(E.HEADERS),
        name.alias(E.OBJECT),
        F.lit(None).cast("int").alias(E.LINE),
        F.lit(None).cast("string").alias(E.UNREADABLE),
        *E.not_shown(),
    )


def _read(batch: LandedBatch) -> DataFrame:
    return read_topics(batch.session, batch.uris)


def _count(batch: LandedBatch) -> int:
    return count_rows(batch.session, [uri for _, uri in batch.values])


READER = LayoutReader(_read, _count)
