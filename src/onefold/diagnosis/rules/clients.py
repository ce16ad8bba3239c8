"""Producers and consumer groups, as far as the brokers know them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import Finding, Severity, lasting, millis, setting
from onefold.diagnosis.writers import writers_of
from onefold.instants import span_text
from onefold.kafka.condition import Activity, GroupCondition, Opener, PartitionCondition, RecordBatch, TopicCondition
from onefold.report.causes import Change
from onefold.vocabulary import Level

LONGEST = timedelta(minutes=15)
"""transaction.max.timeout.ms where the brokers do not tell it: Kafka's default."""
ENDING = timedelta(minutes=1)
"""What a coordinator may take to end a transaction that is too old: it looks for such every 10 s by default
(transaction.abort.timed.out.transaction.cleanup.interval.ms), and then has its markers written."""
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
SESSION = timedelta(seconds=45)
"""Kafka's default: 10 s, which it had before, was shorter than a passing fault of a network (KIP-735)."""
OWN = "onefold."


def open_transactions(facts: Facts) -> Iterator[Finding]:
    """Open transactions that hold the landing back, and those that no coordinator will end."""
    limits = [broker.config.span("transaction.max.timeout.ms") for broker in facts.brokers]
    longest = max((limit for limit in limits if limit is not None), default=LONGEST)
    activity = facts.cluster.activity if facts.cluster else Activity()
    for topic in facts.topics:
        for partition in topic.partitions:
            if partition.stable >= partition.end:
                continue
            where = f"topic {topic.name}, partition {partition.number}"
            opener = activity.opener((topic.name, partition.number), partition.stable)
            # The record's timestamp is what the producer says; the coordinator has its own clock.
            since = (opener.since if opener else None) or partition.stalled_since
            age = facts.now - since if since else None
            found = f"offsets [{partition.stable}, {partition.end}) are held back by an open transaction"
            found += f" of {opener}" if opener else _opener_in_the_log(facts, topic, partition)
            if age is not None:
                found += f", open for {span_text(max(age, timedelta(0)))}"
            at = f"--topic {topic.name} --partition {partition.number}"
            if unknown := activity.transactions is not None and opener is not None and opener.transaction is None:
                mend = f"kafka-transactions.sh find-hanging {at}, by a user who may DESCRIBE transactional ids"
            else:
                mend = f"kafka-transactions.sh abort {at} --start-offset {partition.stable}"
            if why := _hangs(opener, age, longest, unknown=unknown):
                yield Finding("error", where, found, f"{why}; nothing behind it is landed.", action=mend)
                continue
            why = "Nothing behind it is landed until it ends; its producer's transaction.timeout.ms ends it."
            severity: Severity = "warning" if age is None or age > ENDING else "info"
            yield Finding(severity, where, found, why, Change("transaction.timeout.ms", "60000", "or less"))


def _hangs(opener: Opener | None, age: timedelta | None, longest: timedelta, *, unknown: bool) -> str:
    """Why a transaction will not be ended; empty: it is merely open.

    By its own timeout where a coordinator tells it, else by the longest that brokers allow.
    """
    if age is not None and age <= ENDING:
        return ""
    if opener and opener.forgotten:
        return "It hangs: its coordinator has no transaction open here, and will write no marker"
    if unknown:
        return "No coordinator tells of it: it hangs, or its transactional.id is kept from this user"
    own = opener.transaction.timeout if opener and opener.transaction else None
    limit, name = (longest, "transaction.max.timeout.ms") if own is None else (own, "its own transaction.timeout.ms")
    if age is None or age <= limit + ENDING:
        return ""
    return f"Older than {name}={millis(limit)}: it hangs"


def _opener_in_the_log(facts: Facts, topic: TopicCondition, at: PartitionCondition) -> str:
    """The same by the record batch itself, where the brokers do not tell their producers."""
    where = (topic.name, at.number, at.stable)
    first = next((batch for batch in facts.written if (batch.topic, batch.partition, batch.offset) == where), None)
    return f" of producer {first.producer} (epoch {first.epoch})" if first and first.transactional else ""


def undecided_transactions(facts: Facts) -> Iterator[Finding]:
    """Transactions that no marker ends in the newest landed segments, as far as these were looked at."""
    if facts.cluster:
        return
    begun: dict[tuple[str, int], dict[int, RecordBatch]] = {}
    for batch in facts.record_batches or ():
        of = begun.setdefault((batch.topic, batch.partition), {})
        if batch.control:
            of.pop(batch.producer, None)
        elif batch.transactional:
            of.setdefault(batch.producer, batch)
    for (topic, partition), of in sorted(begun.items()):
        for first in of.values():
            found = f"no marker ends the transaction of producer {first.producer} (epoch {first.epoch})"
            yield Finding(
                "warning",
                f"topic {topic}, partition {partition}",
                f"{found} from offset {first.offset} on",
                "Its records are held, and in no table, until a segment that holds its marker is landed.",
                action="land the segments that follow; where none does, the transaction hangs: abort it",
            )


def groups_behind(facts: Facts) -> Iterator[Finding]:
    """Groups whose committed offset lies outside the log: what lies between was never read by them."""
    there = {
        (topic.name, partition.number): partition
        for topic in facts.topics
        for partition in topic.partitions
        if partition.has_leader
    }
    for group in _groups(facts):
        for where, offset in sorted(group.committed.items()):
            partition = there.get(where)
            if partition is None or partition.start <= offset <= partition.end:
                continue
            if offset < partition.start:
                found = f"{where[0]}-{where[1]}: committed {offset}, the log begins at {partition.start}"
                gone = partition.start - offset
                why = f"{gone} offsets were gone before it read them; it goes on by auto.offset.reset."
                change = Change("retention.ms", note="longer than the group may lag")
            else:
                found = f"{where[0]}-{where[1]}: committed {offset}, the log ends at {partition.end}"
                why = "The log was cut off or created again: by auto.offset.reset records are skipped, or read again."
                change = Change("unclean.leader.election.enable", "false")
            yield Finding("error", _named(group), found, why, change)


def groups_rebalancing(facts: Facts) -> Iterator[Finding]:
    """Groups whose partitions change hands now."""
    for group in _groups(facts):
        if group.state in REBALANCING:
            why = "Partitions change hands: what a member had read and not committed is read again by another."
            change = Change(
                "group.instance.id", note="one of its own per member, and max.poll.interval.ms above a poll's work"
            )
            yield Finding("info", _named(group), f"state {group.state}", why, change)


def group_sessions(facts: Facts) -> Iterator[Finding]:
    """Groups of the new protocol whose members are given up after a short silence."""
    for group in _groups(facts):
        if group.session is None or group.heartbeat is None:
            continue
        wanted = max(SESSION, 3 * group.heartbeat)
        if group.session < wanted:
            found = setting("consumer.session.timeout.ms", millis(group.session), group.session)
            why = f"A pause as long (heartbeats: every {span_text(group.heartbeat)}) is a rebalance: "
            why += "what a member had read and not committed is read again by another."
            yield Finding("warning", _named(group), found, why, lasting("consumer.session.timeout.ms", wanted))


def _groups(facts: Facts) -> Iterator[GroupCondition]:
    """The groups of others: nothing rests on the offsets of Onefold's own."""
    for group in (facts.cluster.activity.groups if facts.cluster else None) or ():
        if not group.name.startswith(OWN):
            yield group


def _named(group: GroupCondition) -> str:
    return f"group {group.name}" + (f" ({', '.join(group.clients)})" if group.clients else "")


def idempotence(facts: Facts) -> Iterator[Finding]:
    """Records that were written without a producer id: by record batches if there are any, else by what is remembered.

    A partition remembers every producer with an id, with the timestamp of its newest batch, for
    producer.id.expiration.ms. So if its newest record is younger than that and none of them has a batch as young, the
    record was written by a producer without an id.
    """
    severity: Severity = "warning" if facts.dataset.deciding is not Level.POSITION else "error"
    why = "A producer without an id writes a record a second time when it retries after a lost acknowledgement."
    if severity == "error":
        why += " By its position this dataset cannot tell."
    change = Change("enable.idempotence", "true", "with acks=all")
    seen = _counted_without_id(facts) if facts.record_batches is not None else _inferred_without_id(facts)
    for topic, found in seen:
        yield Finding(severity, f"producers of {topic}", f"enable.idempotence=false: {found}", why, change)


def _counted_without_id(facts: Facts) -> Iterator[tuple[str, str]]:
    for of in writers_of(facts):
        if of.without_id:
            plain = [batch for batch in facts.written if batch.topic == of.topic and batch.producer < 0]
            age = facts.now - of.since if of.since else timedelta(-1)
            within = f" of the last {span_text(age)}" if age >= timedelta(seconds=1) else ""
            counted = f"{of.without_id} of {of.batches} record batches{within} have no producer id"
            yield of.topic, f"{counted}, {_partitions(batch.partition for batch in plain)}"


def _inferred_without_id(facts: Facts) -> Iterator[tuple[str, str]]:
    plain = sorted(_without_id(facts))
    for topic in dict.fromkeys(topic for topic, _ in plain):
        where = _partitions(number for name, number in plain if name == topic)
        yield topic, f"no producer id behind the newest records, {where}"


def _partitions(numbers: Iterable[int]) -> str:
    return "partition " + ", ".join(str(number) for number in sorted(set(numbers)))


def _without_id(facts: Facts) -> Iterator[tuple[str, int]]:
    producers = facts.cluster.activity.producers if facts.cluster else None
    kept = [broker.config.span("producer.id.expiration.ms") for broker in facts.brokers]
    if producers is None or not kept or None in kept:
        return
    remembered = min(span for span in kept if span is not None)
    for topic in facts.topics:
        for partition in topic.partitions:
            if partition.stamps is None or not timedelta(0) <= facts.now - partition.stamps.newest < remembered / 2:
                continue
            known = [
                p.newest for p in producers if (p.topic, p.partition) == (topic.name, partition.number) and p.newest
            ]
            if all(newest < partition.stamps.newest for newest in known):
                yield topic.name, partition.number


def restarted_producers(facts: Facts) -> Iterator[Finding]:
    """Many producer ids in one partition, none of them transactional: each restart makes a new id."""
    for (topic, partition), sessions in _sessions(facts).items():
        if len(sessions) > 1:
            why = "A producer that starts again gets another id: the broker does not know its earlier batches again."
            change = Change("transactional.id", note="one of its own per producer instance")
            seen = f"{len(sessions)} producer ids without transactions, partition {partition}"
            yield Finding("info", f"producers of {topic}", seen, why, change)


def raised_epochs(facts: Facts) -> Iterator[Finding]:
    """An idempotent producer that has raised its epoch: it gave records up, or the broker forgot it (KIP-360)."""
    for (topic, partition), sessions in _sessions(facts).items():
        if raised := sum(len(epochs) > 1 for epochs in sessions.values()):
            why = "It gave up records that may be written, or the broker forgot it: what is sent again is a new record."
            change = Change("delivery.timeout.ms", note="longer than the longest outage")
            seen = f"{raised} of {len(sessions)} producers raised their epoch, partition {partition}"
            yield Finding("info", f"producers of {topic}", seen, why, change)


def _sessions(facts: Facts) -> dict[tuple[str, int], dict[int, set[int]]]:
    """By partition the epochs of each producer id that writes outside transactions."""
    found: dict[tuple[str, int], dict[int, set[int]]] = {}
    for batch in facts.written:
        if batch.producer >= 0 and not batch.transactional:
            found.setdefault((batch.topic, batch.partition), {}).setdefault(batch.producer, set()).add(batch.epoch)
    return dict(sorted(found.items()))


def unreadable(facts: Facts) -> Iterator[Finding]:
    """What is unknown of producers, transactions and groups."""
    rights = {
        "groups": "DESCRIBE on the groups",
        "settings of groups": "DESCRIBE_CONFIGS on the groups",
        "producers": "READ on the topics",
        "transactions": "DESCRIBE on the transactional ids",
    }
    refused = facts.cluster.activity.refused if facts.cluster else {}
    for what, reason in sorted(refused.items()):
        action = f"grant {rights[what]}" if "uthorization" in reason else ""
        yield Finding("unknown", "cluster", what, f"They could not be asked for ({reason}).", action=action)


def unseen_batches(facts: Facts) -> Iterator[Finding]:
    """Record batches that were not looked at, which tell of each producer whether it is idempotent."""
    shown = facts.cluster or facts.dataset.source.shows_log
    if shown and (facts.record_batches is None or facts.batches_unseen):
        what = "producer ids in the log" if facts.record_batches is None else "producer ids of some partitions"
        why = "Only the headers of record batches tell of every producer"
        why += f": {facts.batches_unseen.rstrip('.')}." if facts.batches_unseen else "; they were not looked at."
        yield Finding("unknown", "topics", what, why)
