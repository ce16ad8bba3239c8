"""Why a duplicate exists, and the setting that prevents it: rules over what a batch's duplicates have in common.

The one table of causes: the report, and the doctor over all published batches, tell of them in these words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from onefold.upsert.documents import Duplicates
from onefold.vocabulary import Reason, Verdict

UNKNOWN = "unknown"
"""What is not known of a duplicate and its survivor."""

DUPLICATE = Verdict.DUPLICATE
"""Jepsen's word for one value at several offsets of a partition. Neither an offset that was read twice nor a message
that an application makes twice is one: the log has them once, or they are two values."""


@dataclass(frozen=True, slots=True)
class Change:
    """A setting by its exact name, and the value that mends what was found."""

    name: str
    value: str = ""
    """Exactly what to set; empty where that is for people to choose."""
    note: str = ""

    def __str__(self) -> str:
        if not self.value:
            return f"{self.name}: {self.note}"
        return f"{self.name}={self.value}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True, slots=True)
class Cause:
    """A way in which duplicates come about."""

    name: str
    tells: str
    prevents: str
    settings: tuple[Change, ...] = ()
    """What prevents it, the most important first."""
    jepsen: str = ""
    """What Jepsen's checks of Kafka call it (`jepsen.tests.kafka`), where they have a word that fits."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A cause, and the duplicates of a batch that it explains."""

    cause: Cause
    groups: list[Duplicates] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many records it explains."""
        return sum(group.records for group in self.groups)

    @property
    def seconds(self) -> tuple[float, float] | None:
        """The least and the most time between such a record and its survivor."""
        spans = [group.seconds for group in self.groups if group.seconds]
        return (min(span[0] for span in spans), max(span[2] for span in spans)) if spans else None

    @property
    def example(self) -> Duplicates:
        """One of them."""
        return self.groups[0]


CAME_TWICE = Cause(
    "read or exported twice",
    "One offset came more than once: exports overlap, a consumer crashed uncommitted, or partitions changed hands.",
    "The export: commit offsets only behind the flush, and name objects by their offsets.",
    (Change("enable.auto.commit", "false"), Change("rotate.schedule.interval.ms", "-1", "Connect's S3 sink")),
)
READ_AGAIN = Cause(
    "read again",
    "An earlier batch held the same offset: a run came again, exports overlap, or a consumer crashed uncommitted.",
    "The export: commit offsets only behind the flush, and export ranges that do not overlap.",
    (Change("enable.auto.commit", "false"), Change("rotate.schedule.interval.ms", "-1", "Connect's S3 sink")),
)
EXPORTED_TWICE = Cause(
    "exported twice",
    "Two objects of the batch hold the same offset: a rebalance, a crash between upload and commit, or copied files.",
    "The export: deterministic object names and rotation, so that a second upload replaces the first.",
    (Change("rotate.schedule.interval.ms", "-1", "Connect's S3 sink"),),
)
WRITTEN_TWICE = Cause(
    "written twice by the exporter",
    "One object holds the same offset more than once: the exporter tried again inside a file.",
    "The exporter: write an object under a new name and move it, or commit with the file.",
)
LOST_ACKNOWLEDGEMENT = Cause(
    "retry after a lost acknowledgement",
    "The broker had the record, the producer did not know, and sent it again under the same sequence.",
    "The producer.",
    (
        Change("enable.idempotence", "true"),
        Change("acks", "all"),
        Change("max.in.flight.requests.per.connection", "5", "or less"),
    ),
    jepsen=DUPLICATE,
)
BROKER_FORGOT = Cause(
    "accepted again by the broker",
    "One producer id, epoch and sequence stand at two offsets: the broker had lost what it knew of the producer.",
    "The broker.",
    (
        Change("unclean.leader.election.enable", "false"),
        Change("min.insync.replicas", "2", "with replication.factor=3"),
        Change("producer.id.expiration.ms", note="above the longest pause of a producer"),
    ),
    jepsen=DUPLICATE,
)
BROKER_FORGOT_NAME = Cause(
    "accepted again under its name",
    "A named producer's sequences came again behind what an earlier batch holds of it, and not above: the broker had "
    "forgotten the producer (a stale snapshot, a long pause), or does not look at sequences.",
    "The broker that deduplicates by name, as Pulsar does.",
    (
        Change("brokerDeduplicationEnabled", "true", "or the namespace's or topic's own deduplication"),
        Change("brokerDeduplicationSnapshotIntervalSeconds", "120", "or less"),
        Change("brokerDeduplicationEntriesInterval", "1000", "or less"),
        Change("brokerDeduplicationProducerInactivityTimeoutMinutes", note="above the longest pause of a producer"),
    ),
    jepsen=DUPLICATE,
)
"""Pulsar's documentation, "Message deduplication": the values are its defaults, but that it is off."""
SENT_AGAIN = Cause(
    "sent again by the client",
    "One session of the producer sent the message twice, each time as a new record: the code around it tried again.",
    "The producer: leave retries to the client library, and give it the time.",
    (Change("delivery.timeout.ms", note="above the longest outage"), Change("retries", "2147483647")),
    jepsen=DUPLICATE,
)
RESTARTED = Cause(
    "sent again after a restart",
    "The same message from another session of the producer: for its new id or epoch the broker took it for new.",
    "The producer: transactions carry the guarantee over a restart.",
    (
        Change("transactional.id", note="stable for each instance"),
        Change("isolation.level", "read_committed", "readers"),
    ),
    jepsen=DUPLICATE,
)
OTHER_PLACE = Cause(
    "sent again to another place",
    "The same message in another partition or topic: a retry after the partitioner chose again, or two routes for one.",
    "The producer: a key for each message, and as many partitions as before while it tries again.",
    (Change("partitioner.ignore.keys", "false"), Change("enable.idempotence", "true")),
)
RECREATED = Cause(
    "loaded again into a new topic",
    "The topic was created again, and filled with messages that the old one held already.",
    "When you fill the topic, begin behind what was read from the old one.",
)
MIRRORED = Cause(
    "mirrored",
    "The same message from another cluster: both the original and its mirror are read.",
    "The dataset: read one of the two.",
)
UNKNOWN_SENDER = Cause(
    "sent again",
    "The same message at another offset: a retry after a lost acknowledgement, or a producer that was restarted (the "
    "source does not show which).",
    "The producer.",
    (Change("enable.idempotence", "true"), Change("acks", "all"), Change("transactional.id", note="over restarts")),
    jepsen=DUPLICATE,
)
APPLICATION = Cause(
    "sent again by the application",
    "The same business key as a message of its own: somebody pressed the button twice, or a job ran again.",
    "The application: keep the message id when it tries again; an outbox table writes each message once.",
)
SAME_VERSION = Cause(
    "the same version again",
    "The application sent one version of the key more than once, each as a message of its own.",
    "The application: send a version once, or keep the message id when it tries again.",
)

_RULES: tuple[tuple[Cause, Callable[[Duplicates], bool]], ...] = (
    (CAME_TWICE, lambda group: group.reason == Reason.POSITION and group.object == UNKNOWN),
    (READ_AGAIN, lambda group: group.reason == Reason.POSITION and group.object == "earlier_batch"),
    (WRITTEN_TWICE, lambda group: group.place == "same_position" and group.object == "same_object"),
    (EXPORTED_TWICE, lambda group: group.reason == Reason.POSITION),
    (APPLICATION, lambda group: group.reason == Reason.BUSINESS_KEY),
    (SAME_VERSION, lambda group: group.reason == Reason.KEY_VERSION),
    (MIRRORED, lambda group: group.place == "other_cluster"),
    (RECREATED, lambda group: group.place == "other_incarnation"),
    (OTHER_PLACE, lambda group: group.place in ("other_partition", "other_topic")),
    (BROKER_FORGOT, lambda group: group.reason == Reason.PRODUCER and group.session == "same_session"),
    (BROKER_FORGOT_NAME, lambda group: group.reason == Reason.PRODUCER and group.session == "same_name_again"),
    (LOST_ACKNOWLEDGEMENT, lambda group: group.reason == Reason.PRODUCER),
    (SENT_AGAIN, lambda group: group.session in ("same_session", "same_name", "same_name_again")),
    (RESTARTED, lambda group: group.session in ("other_epoch", "other_producer")),
)
"""The first that applies; what none explains was sent by somebody whom the source does not show."""


def cause_of(duplicates: Duplicates) -> Cause:
    """The cause of a group of duplicates."""
    return next((cause for cause, applies in _RULES if applies(duplicates)), UNKNOWN_SENDER)


def causes_of(groups: list[Duplicates]) -> list[Explained]:
    """The causes of a batch's duplicates, the most frequent first; their groups the same way."""
    found: dict[str, Explained] = {}
    for group in sorted(groups, key=lambda group: -group.records):
        cause = cause_of(group)
        found.setdefault(cause.name, Explained(cause)).groups.append(group)
    return sorted(found.values(), key=lambda explained: (-explained.records, explained.cause.name))


def untold(counts: Mapping[str, int], known: Iterable[Duplicates]) -> list[Duplicates]:
    """Duplicates counted by reason of which the kinds tell nothing: of these only the reason is known."""
    left = dict(counts)
    for group in known:
        left[group.reason] = left.get(group.reason, 0) - group.records
    unknown = {"scope": UNKNOWN, "place": UNKNOWN, "session": UNKNOWN, "object": UNKNOWN, "record": "", "survivor": ""}
    return [
        Duplicates(reason=reason, records=count, seconds=None, **unknown) for reason, count in left.items() if count > 0
    ]
