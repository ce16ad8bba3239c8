"""Landing a live topic side by side: Onefold's step, and plain Python consumers that write JSON lines.

    python -m benchmarks.landing [--rows 5000000] [--rounds 3]

A local broker has `rows` records of about 150 bytes in four partitions. Onefold lands them as shipped: exact ranges,
read by Spark, Parquet, checksums, manifest; its session is open before the clock starts. The consumers read record by
record and write position, timestamp, key and value, as a script would. There are two: kafka-python, which is pure
Python, and confluent-kafka, whose protocol is in C and runs on another core than the interpreter.

Every job is a process of its own, in turn; medians and ratios are printed, and each job's peak memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import track

from benchmarks.side_by_side import Found, jvm_peak, peak_of, print_medians, run_job

JOBS = ("onefold", "kafka_python", "confluent")
PARTITIONS = 4
DATASET = """
name: bench
source: {kafka: {topics: [bench]}}
value: {fields: {id: string}}
apply: {mode: append}
target: {table: bench.rows, buckets: 8}
"""


def produce(servers: str, rows: int) -> None:
    """Fill the topic."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("bench", PARTITIONS, 1)])["bench"].result(30)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    filler = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor"
    for number in track(range(rows), description=f"producing {rows:,} records"):
        value = f'{{"id":"m-{number:010d}","account":"a-{number % 99991}","note":"{filler}"}}'
        while True:
            try:
                producer.produce("bench", value, key=f"k-{number % 9973}", partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def onefold(folder: Path, servers: str) -> dict[str, float]:
    """The landing step as shipped."""
    from onefold.dataset import load_dataset
    from onefold.lake import Lake
    from onefold.landing.land import land_batch, plan_batch
    from onefold.records.layouts.kafka import write_topics
    from onefold.settings import Settings
    from onefold.spark.session import open_session

    kafka: dict[str, dict[str, str | int | float | bool]] = {"kafka_default": {"bootstrap.servers": servers}}
    with tempfile.TemporaryDirectory(dir=folder) as own:
        lake = Lake(Settings(home=folder, lake=f"{own}/lake", kafka=kafka))
        session = open_session(lake, "bench")
        session.range(10).count()
        dataset = load_dataset(folder / "bench.yaml")
        begin = time.perf_counter()
        plan = plan_batch(lake, dataset)
        manifest = land_batch(lake, dataset, plan.batch, None, partial(write_topics, session))
        seconds = time.perf_counter() - begin
        uris = [lake.storage.uri_of(object_.key) for object_ in manifest.objects]
        return {"seconds": seconds, "peak_mb": jvm_peak(session), "records": session.read.parquet(*uris).count()}


def kafka_python(folder: Path, servers: str) -> dict[str, float]:
    """A loop over the consumer, one JSON line per record."""
    from kafka import KafkaConsumer, TopicPartition

    topic = [TopicPartition("bench", number) for number in range(PARTITIONS)]
    with _written(folder) as write:
        reader = KafkaConsumer(
            bootstrap_servers=servers, isolation_level="read_committed", enable_auto_commit=False, group_id=None
        )
        reader.assign(topic)
        reader.seek_to_beginning(*topic)
        ends = reader.end_offsets(topic)
        while any(reader.position(partition) < ends[partition] for partition in topic):
            for messages in reader.poll(1000).values():
                for message in messages:
                    write(message.partition, message.offset, message.timestamp, message.key, message.value)
        took = write.end()
        reader.close()
    return took


def confluent(folder: Path, servers: str) -> dict[str, float]:
    """A loop over `poll`, one JSON line per record."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    config = {"bootstrap.servers": servers, "group.id": "plain", "enable.partition.eof": True}
    open_ = set(range(PARTITIONS))
    with _written(folder) as write:
        reader = Consumer(config | {"isolation.level": "read_committed", "enable.auto.commit": False})
        reader.assign([TopicPartition("bench", number, 0) for number in open_])
        while open_:
            message = reader.poll(30)
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                open_.discard(message.partition())
                continue
            write(message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value())
        took = write.end()
        reader.close()
    return took


@dataclass
class Lines:
    """A file of JSON lines; the clock starts with it."""

    file: TextIO
    begin: float = field(default_factory=time.perf_counter)
    records: int = 0

    def __call__(self, partition: int, offset: int, ts: int, key: bytes, value: bytes) -> None:
        record = {"partition": partition, "offset": offset, "ts": ts, "key": key.decode(), "value": value.decode()}
        self.file.write(json.dumps(record) + "\n")
        self.records += 1

    def end(self) -> dict[str, float]:
        """The measurement."""
        self.file.flush()
        return {"seconds": time.perf_counter() - self.begin, "peak_mb": peak_of(), "records": self.records}


@contextmanager
def _written(folder: Path) -> Iterator[Lines]:
    with tempfile.TemporaryDirectory(dir=folder) as own, (Path(own) / "out.jsonl").open("w") as file:
        yield Lines(file)


def main() -> int:
    """Produce once, run every job `rounds` times in turn, print medians and ratios."""
    from sample.broker import Broker

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000, help="records in the topic")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each job")
    for name, kind in (("job", str), ("servers", str), ("folder", Path)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        print(json.dumps(globals()[args.job](args.folder, args.servers)))
        return 0
    console = Console()
    with tempfile.TemporaryDirectory(prefix="onefold-bench-") as scratch, Broker() as broker:
        folder = Path(scratch)
        (folder / "bench.yaml").write_text(DATASET)
        produce(broker.bootstrap, args.rows)
        found: Found = {job: [] for job in JOBS}
        for number in range(args.rounds):
            for job in JOBS:
                found[job].append(run_job("benchmarks.landing", job, folder, "--servers", broker.bootstrap))
                console.print(f"round {number + 1}: {job:<12} {found[job][-1]['seconds']:8.1f} s")
    if {run["records"] for runs in found.values() for run in runs} != {args.rows}:
        console.print("a job did not read every record")
        return 1
    print_medians(console, found, "onefold", "records", "records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
