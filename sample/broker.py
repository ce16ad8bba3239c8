"""One real Kafka broker (KRaft, standalone) as a child process, from the pinned jars.

    with Broker() as broker:
        Producer({"bootstrap.servers": broker.bootstrap})

`python -m sample.broker` runs one in the foreground until Ctrl-C.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from onefold.spark.jars import jars

HOST = "127.0.0.1"
NODE_ID = 1
START_SECONDS = 90
STOP_SECONDS = 20
# 16 bytes in URL-safe base64, Kafka's form of a UUID; no two of these brokers ever meet.
CLUSTER_ID = "b25lZm9sZC1zYW1wbGUtMQ"
JVM_OPTIONS = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

SINGLE_NODE = {
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": 500,  # the wait of a compacted topic for its cleaner
}


class BrokerNotStartedError(RuntimeError):
    """The broker ended, or did not answer in time; the message has the last lines of its log."""

    def __init__(self, what: str, log: Path) -> None:
        self.what = what
        self.log = log
        super().__init__(f"{what}. The last lines of its log:\n{last_lines(log)}")


def last_lines(log: Path, count: int = 30) -> str:
    """The end of a log file; empty if there is none."""
    lines = log.read_text(errors="replace").splitlines()[-count:] if log.exists() else []
    return "\n".join(lines)


class Broker:
    """A broker between `__enter__` and `__exit__`; its data is gone afterwards.

    `bootstrap` is where clients connect. With `advertise` (a port of this host) the broker listens
    on one more port, `behind`, and its metadata sends the clients of that port to
    `advertise`: the place for a proxy (see `sample.proxy`). With `secure` (properties: mechanisms,
    users, a certificate) it listens with SASL_SSL on `secured`, too. `settings` are properties that replace
    its own, `jvm` more options of its JVM. With `joins` it is another node of that broker's cluster,
    which must be running. It may be killed and started again between.
    """

    def __init__(
        self,
        *,
        advertise: int | None = None,
        secure: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        joins: Broker | None = None,
        log: Path | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        self._advertise, self._secure, self._joins, self._jvm = advertise, secure, joins, jvm
        self._settings = settings or {}
        self._log = log
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = ExitStack()
        port, controller, behind, secured = free_ports(4)
        self.node = NODE_ID if joins is None else joins.node + 1
        self.bootstrap = f"{HOST}:{port}"
        self.behind = behind
        self.secured = f"{HOST}:{secured}"
        self._controller = joins._controller if joins else f"{HOST}:{controller}"

    @property
    def log(self) -> Path:
        """The file with the broker's output."""
        if self._log is None:
            raise RuntimeError("the broker has no log before it is started")
        return self._log

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The broker's own process."""
        if self._process is None:
            raise RuntimeError("the broker is not started")
        return self._process

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onefold-kafka-")))
            self._log = self._log or self._home / "broker.log"
            (self._home / "server.properties").write_text(self._properties(self._home / "data"))
            self._format(self._home / "server.properties")
            stack.callback(self._stop)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self) -> None:
        """Start it on its existing data, and return once it answers."""
        assert self._home is not None, "the broker has no place before it is entered"
        assert self._process is None or self._process.poll() is not None, "the broker is running"
        command = start_command(self._home / "server.properties", *self._jvm)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        self._await_answer()

    def kill(self) -> None:
        """Kill it as a failing machine would."""
        self.process.kill()
        self.process.wait()

    def _properties(self, data: Path) -> str:
        listeners = {"PLAINTEXT": self.bootstrap}
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        if self._advertise is not None:
            listeners["PROXIED"], protocols["PROXIED"] = f"{HOST}:{self.behind}", "PLAINTEXT"
        if self._secure is not None:
            listeners["SECURE"], protocols["SECURE"] = self.secured, "SASL_SSL"
        advertised = listeners | ({"PROXIED": f"{HOST}:{self._advertise}"} if self._advertise is not None else {})
        if self._joins is None:
            listeners["CONTROLLER"] = self._controller
        properties: dict[str, object] = SINGLE_NODE | {
            "process.roles": "broker" if self._joins else "broker,controller",
            "node.id": self.node,
            "controller.quorum.bootstrap.servers": self._controller,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": _pairs(listeners, "://"),
            "advertised.listeners": _pairs(advertised, "://"),
            "listener.security.protocol.map": _pairs(protocols, ":"),
            "log.dirs": data,
            **(self._secure or {}),
            **self._settings,
        }
        return properties_text(properties)

    def _format(self, config: Path) -> None:
        command = format_command(config, *(() if self._joins else ("--standalone",)))
        with self.log.open("wb") as output:
            done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise BrokerNotStartedError("the broker's storage could not be formatted", self.log)

    def _await_answer(self) -> None:
        """Return once the broker answers a metadata request."""
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None:
            if answers(self.bootstrap):
                return
            if time.monotonic() > deadline:
                raise BrokerNotStartedError(f"the broker did not answer within {START_SECONDS} s", self.log)
        code = self.process.returncode
        raise BrokerNotStartedError(f"the broker ended with code {code} while starting", self.log)

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def properties_text(properties: Mapping[str, object]) -> str:
    """A broker's settings in the format of its file."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def format_command(config: Path, *more: str) -> list[str]:
    """The command that formats the storage for a broker with these settings."""
    words = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(config)]
    return [*java(), *words, *more]


def start_command(config: Path, *options: str) -> list[str]:
    """The command that runs a broker with these settings; `options` are more options of the JVM."""
    return [*java(), *options, "kafka.Kafka", str(config)]


def answers(bootstrap: str) -> bool:
    """Whether a broker answers a metadata request; waits a second for it."""
    try:
        AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=1)
    except KafkaException:
        return False
    return True


def _pairs(of: Mapping[str, str], between: str) -> str:
    return ",".join(f"{name}{between}{value}" for name, value in of.items())


def java() -> list[str]:
    """The start of a java command line with the broker's jars on the class path."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        raise RuntimeError("no java found: install Java 17 or 21, or set JAVA_HOME")
    classpath = os.pathsep.join(str(jar) for jar in jars("kafka"))
    return [program, *JVM_OPTIONS, "-Dlog4j2.level=INFO", "-cp", classpath]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nothing listened on a moment ago, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run a broker in the foreground and print its address."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        with Broker() as broker:
            print(broker.bootstrap, flush=True)
            return broker.process.wait()
    except KeyboardInterrupt:
        return 0
    except BrokerNotStartedError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
