"""Who writes and who reads topics: producers, open transactions, consumer groups.

Asked by kafka-python: librdkafka has none of DescribeProducers, ListTransactions and DescribeTransactions (KIP-664),
and its admin client may end the process when it asks a group's coordinator. All of it is optional: what cannot be
asked is reported with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from onefold.instants import stamped
from onefold.kafka import cluster
from onefold.kafka.condition import (
    Activity,
    GroupCondition,
    ProducerCondition,
    TransactionCondition,
    Where,
)
from onefold.kafka.connection import ClientSettings, python_settings

logging.getLogger("kafka").addHandler(logging.NullHandler())  # what it logs says nothing more than its errors do

_WAITS = {"request_timeout_ms": int(cluster.SECONDS * 1000), "bootstrap_timeout_ms": int(cluster.SECONDS * 1000)}


def activity_of(settings: ClientSettings, partitions: Sequence[Where], *, groups: bool = True) -> Activity:
    """Producers, transactions and groups (unless `groups` is False) of partitions, as far as the brokers show them."""
    try:
        client = KafkaAdminClient(**(python_settings(settings) | _WAITS))
    except Exception as error:  # whatever it is: nothing rests on this client
        return Activity(refused=dict.fromkeys(("producers", "transactions", "groups"), _reason(error)))
    refused: dict[str, str] = {}

    def asked(what: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            refused[what] = _reason(error)
            return None

    try:
        producers = asked("producers", lambda: _producers(client, partitions))
        transactions = asked("transactions", lambda: _transactions(client, producers or ()))
        if any(producer.open_from is not None for producer in producers or ()):
            # What was ended between the two answers is not open, though no coordinator knows it any more.
            producers = asked("producers", lambda: _producers(client, partitions))
        readers = asked("groups", lambda: _groups(client, partitions)) if groups else None
        readers = asked("settings of groups", lambda: _with_settings(client, readers or ())) or readers
    finally:
        client.close()
    return Activity(producers, transactions, readers, refused)


def _producers(client: Any, partitions: Iterable[Where]) -> tuple[ProducerCondition, ...]:
    answer = client.describe_producers([TopicPartition(*where) for where in partitions])
    found = [
        ProducerCondition(
            topic=where.topic,
            partition=where.partition,
            id=producer.producer_id,
            epoch=producer.producer_epoch,
            newest=stamped(producer.last_timestamp),
            open_from=producer.current_transaction_start_offset
            if producer.current_transaction_start_offset >= 0
            else None,
        )
        for where, state in answer.items()
        for producer in state.active_producers
    ]
    return tuple(sorted(found, key=lambda producer: (producer.topic, producer.partition, producer.id)))


def _transactions(client: Any, producers: Iterable[ProducerCondition]) -> tuple[TransactionCondition, ...]:
    """The transactions that are open on the partitions."""
    wanted = sorted({producer.id for producer in producers if producer.open_from is not None})
    if not wanted:
        return ()
    listed = [
        transaction for each in client.list_transactions(producer_id_filters=wanted).values() for transaction in each
    ]
    answer = client.describe_transactions(sorted(transaction.transactional_id for transaction in listed))
    return tuple(
        TransactionCondition(
            id=name,
            producer=transaction.producer_id,
            state=str(transaction.state.value),
            timeout=timedelta(milliseconds=transaction.transaction_timeout_ms),
            since=stamped(transaction.transaction_start_time_ms),
            holds=frozenset((where.topic, where.partition) for where in transaction.topic_partitions),
        )
        for name, transaction in sorted(answer.items())
    )


def _groups(client: Any, partitions: Sequence[Where]) -> tuple[GroupCondition, ...]:
    """The groups that have committed an offset of the partitions, or that read their topics now."""
    topics = {topic for topic, _ in partitions}
    listed = {
        group["group_id"]: group for group in client.list_groups() if group.get("protocol_type") in ("consumer", "")
    }
    if not listed or not partitions:
        return ()
    described = client.describe_groups(sorted(listed))
    asked = [TopicPartition(*where) for where in partitions]
    offsets = client.list_group_offsets(dict.fromkeys(sorted(listed), asked))
    found = []
    for name in sorted(listed):
        members = [member for member in described.get(name, {}).get("members", ()) if _topics_of(member) & topics]
        positions = offsets.get(name, {}).items()
        committed = {(where.topic, where.partition): at.offset for where, at in positions if at.offset >= 0}
        if members or committed:
            clients = tuple(sorted({str(member["client_id"]) for member in members}))
            found.append(GroupCondition(name, str(listed[name].get("group_state") or ""), clients, committed))
    return tuple(found)


def _with_settings(client: Any, groups: Sequence[GroupCondition]) -> tuple[GroupCondition, ...]:
    """The groups, those of the new protocol with what the brokers hold for them."""
    held = (
        {group["group_id"] for group in client.list_groups() if group.get("group_type") == "consumer"} if groups else ()
    )
    wanted = [ConfigResource(ConfigResourceType.GROUP, group.name) for group in groups if group.name in held]
    answer = client.describe_configs(wanted, config_filter="all")["group"] if wanted else {}

    def span(group: str, name: str) -> timedelta | None:
        value = answer.get(group, {}).get(name, {}).get("value")
        return timedelta(milliseconds=int(value)) if value else None

    return tuple(
        replace(
            group,
            session=span(group.name, "consumer.session.timeout.ms"),
            heartbeat=span(group.name, "consumer.heartbeat.interval.ms"),
        )
        for group in groups
    )


def _topics_of(member: dict[str, Any]) -> set[str]:
    """The topics that a member has subscribed to or is assigned."""
    subscribed = member.get("member_metadata") or {}
    assigned = member.get("member_assignment") or {}
    topics = set(subscribed.get("topics") or ()) if isinstance(subscribed, dict) else set()
    if isinstance(assigned, dict):
        topics |= {assignment["topic"] for assignment in assigned.get("assigned_partitions") or ()}
    return topics


def _reason(error: BaseException) -> str:
    """One line that names the error; kafka-python's own text may hold a whole answer."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__.removesuffix('Error')}: {text[0][:160]}" if text else type(error).__name__
