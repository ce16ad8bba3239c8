"""The rules: pure functions from facts to findings, and the table of them.

A new rule is a function in the file of what it judges, a line in `RULES`, and a row in its test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import Finding
from onefold.diagnosis.rules import (
    brokers,
    clients,
    completeness,
    contract,
    loss,
    partitions,
    retention,
    stamps,
    topics,
)

Rule = Callable[[Facts], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    loss.gone_before_landing,
    loss.lost_before,
    loss.expiring_backlog,
    topics.leaders,
    topics.unclean_election,
    topics.replication,
    topics.in_sync_minimum,
    topics.in_sync_now,
    retention.retention_time,
    retention.retention_bytes,
    retention.compaction,
    retention.tombstones,
    clients.open_transactions,
    clients.undecided_transactions,
    clients.groups_behind,
    clients.groups_rebalancing,
    clients.group_sessions,
    clients.idempotence,
    clients.restarted_producers,
    clients.raised_epochs,
    loss.duplicates,
    completeness.warnings_of_the_gate,
    completeness.objects_left_out,
    brokers.internal_topics,
    brokers.offsets_retention,
    brokers.producer_memory,
    brokers.long_transactions,
    brokers.unclean_election,
    brokers.topic_creation,
    partitions.added_partitions,
    stamps.version_of_arrival,
    stamps.already_expired,
    stamps.future_timestamps,
    stamps.late_records,
    contract.position_decides,
    contract.loss_tolerated,
    contract.no_schedule,
    contract.stale,
    contract.no_freshness,
    contract.no_duplicate_rate,
    topics.unreadable,
    brokers.unreadable,
    clients.unreadable,
    clients.unseen_batches,
    contract.export,
)
"""In the order in which findings of one severity are listed."""
