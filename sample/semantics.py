"""Runs `docs/semantics.md`: its Python blocks, in their order, on a real broker with real faults.

`python -m sample.semantics` prints each block's heading and what Onefold counted. The blocks use one name, `lesson`.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.in_process import InProcess, InSession
from onefold.operations.run import run_batch
from onefold.report.document import Report, describe
from onefold.report.ledger import rows_of
from onefold.settings import Settings
from sample import kcat
from sample.broker import HOST, Broker
from sample.proxy import LossyProxy

PAGE = Path(__file__).parents[1] / "docs" / "semantics.md"
SECONDS = 60


@dataclass(frozen=True, slots=True)
class Counted:
    """Onefold's counts of a batch: records by verdict and reason, missing offsets by kind, causes, and the rows."""

    verdicts: dict[str, int]
    holes: dict[str, int]
    unexplained: int
    causes: list[str]
    rows: int
    exit_code: int


class Lesson:
    """The tools of the page's blocks: topics, clients behind a lossy proxy, exports, and Onefold itself."""

    def __init__(self, lake: Lake, steps: InSession, broker: Broker, proxy: LossyProxy) -> None:
        kafka = {"kafka_default": {"bootstrap.servers": broker.bootstrap}}
        self.lake = Lake(lake.settings.model_copy(update={"kafka": kafka}))
        self.steps, self.folder = steps, lake.settings.path("exports")
        steps.lake = self.lake
        self._direct, self._proxy = broker.bootstrap, proxy
        self._lossy = f"{HOST}:{proxy.port}"

    def topic(self, name: str) -> str:
        """A new topic of one partition."""
        admin = AdminClient({"bootstrap.servers": self._direct, "log_level": 0})
        admin.create_topics([NewTopic(name, num_partitions=1)])[name].result(SECONDS)
        return name

    def producer(self, **config: Any) -> Producer:
        """A producer whose connection to the broker loses acknowledgements; setting names have _ for Kafka's dots."""
        named = {name.replace("_", "."): value for name, value in config.items()}
        base = {"bootstrap.servers": self._lossy, "linger.ms": 200, "log_level": 0, "retry.backoff.ms": 50}
        return Producer(base | {"reconnect.backoff.ms": 20} | named)

    def lose(self, acknowledgements: int = 1) -> None:
        """Drop the next produce responses: the broker has the records, and their producer does not know it."""
        self._proxy.lose(acknowledgements)

    @property
    def lost(self) -> int:
        """How many acknowledgements were lost so far."""
        return self._proxy.lost

    def consumer(self, group: str, topic: str) -> Consumer:
        """A consumer of a group, from the group's last commit on."""
        config = {"bootstrap.servers": self._direct, "group.id": group, "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer(config | {"auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        return consumer

    def export(self, name: str, messages: Iterable[Message]) -> None:
        """Write a consumer's messages as one file of its topic's export."""
        records = [_record(message) for message in messages]
        kcat.write(self.folder / records[0].topic / f"{name}.jsonl", records)

    def fold(self, topic: str, *, exported: bool = False) -> Counted:
        """Run one batch of a topic, live or from its export, into a table of its own."""
        if not exported:
            self._wait_for_markers(topic)
        dataset = self._dataset(topic, exported)
        done = run_batch(self.lake, dataset, plan_batch(self.lake, dataset), self.steps)
        report = describe(self.lake, dataset, done.batch)
        return _counted(report, len(rows_of(self.lake, dataset)), done.red.exit_code if done.red else 0)

    def _wait_for_markers(self, topic: str) -> None:
        """A commit returns before its marker is written, and until then the transaction is open."""
        admin, where = AdminClient({"bootstrap.servers": self._direct, "log_level": 0}), TopicPartition(topic, 0)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        deadline = time.monotonic() + SECONDS
        while True:
            asked = (admin.list_offsets({where: latest}, isolation_level=level)[where] for level in IsolationLevel)
            if len({future.result(SECONDS).offset for future in asked}) == 1:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"a transaction of {topic} stays open")

    def _dataset(self, topic: str, exported: bool) -> Dataset:
        name = re.sub(r"\W", "_", topic) + ("_exported" if exported else "")
        origin = {"cluster": "lesson", "incarnation": 1}
        exports = {"path": str(self.folder / topic), "layout": "kcat", "origin": origin}
        given = {
            "name": name,
            "source": {"exports": exports} if exported else {"kafka": {"topics": [topic]}},
            "value": {"fields": {"id": "string", "amount": "long"}},
            "identity": {"message_id": "header.message-id", "business_key": ["id"]},
            "apply": {"mode": "append"},
            "target": {"table": f"lesson.{name}", "buckets": 2},
        }
        return Dataset.model_validate(given)


def _counted(report: Report, rows: int, exit_code: int) -> Counted:
    named = (
        (f"{verdict}/{reason}", count)
        for verdict, reasons in report.counts.items()
        for reason, count in reasons.items()
    )
    holes: dict[str, int] = {}
    for account in report.accounts:
        for kind, count in account.explained.items():
            holes[kind] = holes.get(kind, 0) + count
    missing = sum(end - start for account in report.accounts for start, end in account.unexplained)
    return Counted(dict(sorted(named)), holes, missing, [cause.cause.name for cause in report.causes], rows, exit_code)


def _record(message: Message) -> kcat.Record:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers: Any = tuple(message.headers() or ())
    return kcat.Record(topic, partition, offset, message.timestamp()[1], 1, headers, message.key(), message.value())


@contextmanager
def lesson(lake: Lake, steps: InSession) -> Iterator[Lesson]:
    """A local broker behind a proxy, until the context ends."""
    with LossyProxy() as proxy, Broker(advertise=proxy.port) as broker:
        proxy.target = broker.behind
        yield Lesson(lake, steps, broker, proxy)


def teach(page: str, given: Lesson, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Run the page's blocks; return the names that they define."""
    names: dict[str, Any] = {"lesson": given}
    for heading, code in re.findall(r"^(## [^\n]+)$|^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if heading:
            say(heading.removeprefix("## "))
        else:
            before = set(names)
            exec(compile(code, str(PAGE), "exec"), names)
            for name in set(names) - before:
                if isinstance(names[name], Counted):
                    say(f"  {name}: {names[name]}")
    return names


def main() -> int:
    """Run the whole page in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Settings(home=Path(folder), lake="lake"))
        steps = InProcess(lake)
        try:
            with lesson(lake, steps) as given:
                teach(PAGE.read_text(), given, print)
        finally:
            steps.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
