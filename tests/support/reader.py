"""An independent consumer: reads topics from their beginning to their end and prints each record's position and value.

`python -m tests.support.reader SERVERS TOPIC…` knows nothing of Onefold; what it prints is the oracle.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition


def read_all(servers: str, topics: list[str]) -> None:
    config = {"bootstrap.servers": servers, "group.id": "independent", "enable.auto.commit": False}
    consumer = Consumer(config | {"isolation.level": "read_committed", "enable.partition.eof": True})
    found = consumer.list_topics(timeout=30).topics
    open_ = {(topic, number) for topic in topics for number in found[topic].partitions}
    consumer.assign([TopicPartition(topic, number, 0) for topic, number in open_])
    while open_:
        message = consumer.poll(30)
        assert message is not None, "the broker does not answer"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            open_.discard((message.topic(), message.partition()))
            continue
        value = message.value()
        record = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        record |= {"timestamp": message.timestamp()[1], "value": value.decode() if value is not None else None}
        print(json.dumps(record))
    consumer.close()


def what_is_there(servers: str, *topics: str) -> list[dict[str, Any]]:
    """The committed records of some topics, as another process reads them."""
    command = [sys.executable, "-m", "tests.support.reader", servers, *topics]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    read_all(sys.argv[1], sys.argv[2:])
