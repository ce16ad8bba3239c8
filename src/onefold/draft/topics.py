"""A sample of live topics: the newest committed records of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from onefold.draft.sample import LARGEST, Sample, sample_of
from onefold.errors import ClusterRefusedError, ClusterUnavailableError, NoDraftError, UnknownTopicError
from onefold.kafka.cluster import Cluster, Partition
from onefold.kafka.record import Record
from onefold.offsets import newest_of


def newest_of_topics(name: str, cluster: Cluster, topics: Sequence[str], count: int) -> Sample:
    """About the newest `count` records of topics (names, or patterns that start with ^), for the dataset `name`.

    Raises:
        NoDraftError: they hold no record.
        UnknownTopicError, ClusterUnavailableError, ClusterRefusedError: they cannot be read.
    """
    place = f"{cluster.connection}: {', '.join(topics)}"
    partitions = [(topic.name, number) for topic in cluster.topics(topics) for number in topic.partitions]
    starts, ends = cluster.starts(partitions), cluster.stable_ends(partitions)
    wanted = newest_of({where: (starts[where], ends[where]) for where in partitions}, count)
    sample = sample_of(place, _read(cluster, wanted))
    if not sample.records:
        problem = "no committed record is there" if wanted else "the topic is empty"
        raise NoDraftError(name, place, problem, "Send something first, or name another topic.")
    compacted, policy_unknown = _compacted(cluster, sample.topics)
    return replace(sample, compacted=compacted, policy_unknown=policy_unknown)


def _compacted(cluster: Cluster, topics: Sequence[str]) -> tuple[bool, str]:
    """Whether the brokers compact all topics, and why that is unknown, if it is: a draft can do without."""
    try:
        return all("compact" in cluster.cleanup_policy(topic) for topic in topics), ""
    except ClusterRefusedError:
        return False, "the user lacks DESCRIBE_CONFIGS on the topic"
    except (ClusterUnavailableError, UnknownTopicError):
        return False, "the brokers do not tell it"


def _read(cluster: Cluster, wanted: dict[Partition, tuple[int, int]]) -> Iterator[Record]:
    for where, (start, end) in sorted(wanted.items()):
        left = LARGEST // len(wanted)
        for record in cluster.records(where, start, end):
            yield record
            left -= len(record.value or b"")
            if left < 0:
                break
