"""Produce the stories of payments and orders into an existing broker: `python -m sample.produce HOST:PORT`.

Transactions are real. Where `sample.stage` loses an acknowledgement, the batch is sent again as the retry would
send it: the same bytes at new offsets. Topics that hold records already are left as they are.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sample import orders, payments
from sample.stage import QUIET, SECONDS, Config, produce
from sample.story import PARTITIONS, Chapter, LostAcknowledgements, Send, Transaction

STORIES = (
    ((payments.ACCOUNTS, payments.ENTRIES), payments.story),
    (orders.TOPICS, orders.story),
)
"""The topics of each story, and its chapters."""
KEPT = {"retention.ms": "-1", "cleanup.policy": "delete"}
"""The messages have old timestamps."""


def produce_stories(bootstrap: str) -> list[str]:
    """Create missing topics and fill empty ones; return the filled topics."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    there = admin.list_topics(timeout=SECONDS).topics
    filled: list[str] = []
    for topics, story in STORIES:
        for name in set(topics) - set(there):
            new = NewTopic(name, num_partitions=PARTITIONS, config=KEPT)
            admin.create_topics([new])[name].result(SECONDS)
        if any(_length(bootstrap, name) for name in set(topics) & set(there)):
            continue
        for chapter in story():
            _play(bootstrap, chapter)
        filled += topics
    return filled


def _play(bootstrap: str, chapter: Chapter) -> None:
    def producer(own: Config) -> Producer:
        return Producer({**QUIET, "bootstrap.servers": bootstrap, "linger.ms": 20, **own})

    for step in chapter.steps:
        match step:
            case Send(messages):
                produce(producer({"enable.idempotence": True}), messages)
            case LostAcknowledgements(messages, times):
                for _ in range(times + 1):
                    produce(producer({"enable.idempotence": False, "acks": "all"}), messages)
            case Transaction(messages, commit):
                transactional = producer({"transactional.id": "sample"})
                transactional.init_transactions(SECONDS)
                transactional.begin_transaction()
                produce(transactional, messages)
                if commit:
                    transactional.commit_transaction(SECONDS)
                else:
                    transactional.abort_transaction(SECONDS)


def _length(bootstrap: str, topic: str) -> int:
    consumer = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "sample", "enable.auto.commit": False})
    try:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(high for _, high in (consumer.get_watermark_offsets(place, timeout=SECONDS) for place in places))
    finally:
        consumer.close()


if __name__ == "__main__":
    done = produce_stories(sys.argv[1])
    print(f"filled: {', '.join(done) or 'nothing, there are records already'}")
