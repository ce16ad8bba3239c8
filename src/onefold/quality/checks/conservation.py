"""Every record has a verdict, and every offset is a record or explained (L2); and what was lost before landing."""

from __future__ import annotations

from onefold.dataset import Dataset
from onefold.offsets import Range, TopicPartition, meet, merged, size
from onefold.quality.checks.check import BLOCKING, WARNING, Measurement, exactly
from onefold.quality.checks.completeness import name_first, name_range
from onefold.quality.checks.facts import BranchFacts
from onefold.upsert.coverage import name_unexplained
from onefold.vocabulary import Reason, Verdict

NAMED = 5
"""Unexplained ranges that the check names; the accounts have them all."""


def verdicts(facts: BranchFacts) -> Measurement:
    """Verdicts of the attempt, and records that it landed or replays and held ones that it wakes."""
    records = "records replayed" if facts.upserted.replays else "records landed"
    woken = " (and woken)" if facts.upserted.woken else ""
    title = f"{records}{woken} = verdicts given"
    return exactly(facts.counts.verdicts, facts.landed + facts.upserted.woken, title)


def unexplained_offsets(facts: BranchFacts) -> Measurement:
    """Offsets between landed ones that are neither a record nor explained."""
    accounts = facts.upserted.accounts
    missing = sum(size(account.unexplained) for account in accounts)
    return Measurement(missing, 0, first=name_unexplained(accounts, NAMED), way_out=_way_out_of_long_holes(facts))


def _way_out_of_long_holes(facts: BranchFacts) -> str:
    """What `holes: transactional` can say of more offsets in a row than it explains; else nothing."""
    longest = facts.dataset.source.longest_hole
    runs = [end - start for account in facts.upserted.accounts for start, end in account.unexplained]
    if longest is None or max(runs, default=0) <= longest:
        return ""
    return (
        f"source.exports.holes: transactional explains {longest} missing offsets in a row, and {max(runs)} are "
        "missing. If they are records of aborted transactions, declare source.exports.holes: "
        f"{{kind: transactional, longest: {max(runs)}}}; else export them again and run that folder"
    )


def damaged_places(facts: BranchFacts) -> Measurement | None:
    """Places in landed segments that are no record batch: a warning where other segments have all that is missing for
    them. Where nothing is missing it is unknown what was there."""
    if not facts.damage:
        return None
    missing: dict[str, list[Range]] = {}
    for account in facts.upserted.accounts:
        missing.setdefault(account.partition, []).extend(account.unexplained)
    bad = [
        damage
        for damage in facts.damage
        if not damage.lost or meet(damage.lost, merged(missing.get(damage.topic_partition.key, [])))
    ]
    places = [place for damage in bad or facts.damage for place in damage.places]
    way_out = "copy the segment again, or from another replica, and run that; release the batch if no copy is better"
    severity = BLOCKING if bad else WARNING
    return Measurement(len(places), 0, severity=severity, first=places[:NAMED], way_out=way_out if bad else "")


def lost_offsets(facts: BranchFacts) -> Measurement:
    """Offsets that were gone before they were landed: a warning where the dataset tolerates loss."""
    refused = facts.dataset.quality.loss == "refused"
    accounts = facts.upserted.accounts
    needed = [f"{name_range(account.partition, range_)} compacted" for account in accounts for range_ in account.needed]
    return Measurement(
        sum(account.lost for account in accounts),
        0,
        severity=BLOCKING if refused else WARNING,
        first=name_first(needed),
        way_out=_way_out_of_compaction(facts.dataset) if needed else "",
    )


def _way_out_of_compaction(dataset: Dataset) -> str:
    if dataset.apply.NEEDS_EVERY_RECORD:
        return (
            f"compaction removed records before they were landed, and {dataset.apply.words} needs every record: raise "
            "the topic's min.compaction.lag.ms above the longest time that a record waits to be landed"
        )
    return (
        "tombstones may have been removed before they were landed, and their rows are still live: land the topic more "
        "often than its delete.retention.ms, and compare the keys with the source before the check is waived"
    )


def topics_gone(facts: BranchFacts) -> Measurement | None:
    """Partitions of live topics that are gone: what they held after they were seen last is not known."""
    if facts.dataset.source.kafka is None:
        return None
    refused = facts.dataset.quality.loss == "refused"
    return Measurement(
        len(facts.gone),
        0,
        severity=BLOCKING if refused else WARNING,
        first=[str(TopicPartition.of(key)) for key in facts.gone][:NAMED],
        way_out="a topic was deleted, or created again. What it held when a run saw it last is landed, or counted as "
        "gone before it was landed; what came after that, no one can know. Waive the check if that is all right: it is "
        "not asked again",
    )


def held_back(facts: BranchFacts) -> Measurement | None:
    """Partitions with records of the interval that an open transaction or a clock that runs ahead has held back."""
    if facts.dataset.source.kafka is None or facts.interval_end is None:
        return None
    waiting = sorted(facts.held_back.items())
    return Measurement(
        len(waiting),
        0,
        first=[f"{TopicPartition.of(key)}: since {since:%Y-%m-%dT%H:%M:%SZ}" for key, since in waiting[:NAMED]],
        way_out="the next interval has these records; until then the table is complete only up to the first of these "
        "instants. An open transaction (onefold doctor names it) has to be ended, a clock that runs ahead corrected",
    )


def positions(facts: BranchFacts) -> Measurement:
    """Records whose position has another content, too."""
    return Measurement(_conflicts(facts, Reason.INCONSISTENT_POSITION), 0)


def not_compared(facts: BranchFacts) -> Measurement | None:
    """Offsets that were read again and of which the table keeps no content, so that another record would not show."""
    return Measurement(facts.upserted.not_compared, 0) if facts.upserted.known else None


def versions(facts: BranchFacts) -> Measurement:
    """Records that do not compare with another record of their key: by their versions, or by their offsets in a tie."""
    dataset, version = facts.dataset, facts.dataset.apply.version
    why, way_out = "an offset orders the records of one partition only", "declare a version of the value, or {}"
    parts = ["timestamp", "offset"]
    if version and dataset.ties_by_offset:
        larger = "larger" if version.tie == "last" else "smaller"
        why = f"apply.version.tie: {version.tie} takes the {larger} offset, and {why}"
        way_out, parts = "declare a second part of the version, such as {}", [version.named, "timestamp"]
    if version and version.by_connector:
        why = "the connector's position is of another server, or of a new replication slot"
        way_out = "declare apply.version: {{from: offset}}"
    clocks = f"[{', '.join(parts)}], which trusts the producers' clocks"
    way_out = "let the source count on within a version" if dataset.apply.HOLDS else way_out.format(clocks)
    return Measurement(
        _conflicts(facts, Reason.INCOMPARABLE_VERSION),
        0,
        way_out=f"{why}: {way_out}, and run onefold rebuild {dataset.name}",
    )


def late_copies(facts: BranchFacts) -> Measurement | None:
    """Messages that were sent again after another message of their key, where the delivery decides the version. They
    change no row. Where an id is made of content, they are new messages, and here it shows."""
    if not facts.dataset.versions_by_delivery:
        return None
    way_out = (
        "a message that is sent again counts once, as its first delivery. Where the id is not that of one message (it "
        "is made of the content, or names a thing), take it out of identity, so that every delivery is a version, and "
        f"run onefold rebuild {facts.dataset.name}; where a source sends again, declare quality.max_late_copies"
    )
    count = facts.upserted.counts.get(Verdict.DUPLICATE, {}).get(Reason.LATE_COPY, 0)
    return Measurement(count, facts.dataset.quality.max_late_copies, first=facts.first_late, way_out=way_out)


def earlier_deliveries(facts: BranchFacts) -> Measurement | None:
    """Earlier deliveries of messages that rows show, after which another message is the row, whose content the table
    does not have."""
    if not facts.dataset.versions_by_delivery:
        return None
    way_out = (
        "the message that the row shows was delivered before another message of its key, whose content the table does "
        f"not keep: fold everything landed again, in the log's order: onefold rebuild {facts.dataset.name} --again"
    )
    return Measurement(_conflicts(facts, Reason.EARLIER_DELIVERY), 0, first=facts.first_earlier, way_out=way_out)


def _conflicts(facts: BranchFacts, reason: Reason) -> int:
    return facts.upserted.counts.get(Verdict.CONFLICT, {}).get(reason, 0)
