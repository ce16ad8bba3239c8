"""A real worker of Kafka Connect with Debezium's connectors, as a process.

with ConnectWorker(broker.bootstrap, connectors) as worker:
    worker.stop()    # it stores its offsets
    worker.start()
    worker.kill()    # as a crash: what was sent since it was started is sent again
    worker.start()
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from onefold.spark.jars import jars
from sample.broker import HOST, free_ports

START_SECONDS = 120
STOP_SECONDS = 30
JVM_OPTIONS = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
FLUSH_SECONDS = 3_600
"""How often a worker stores its offsets: no test is as long, so it stores them where it stops, and only there."""
SETTINGS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.flush.interval.ms": f"{FLUSH_SECONDS * 1000}",
    "topic.creation.enable": "true",
}
Connector = Mapping[str, str]


class ConnectWorker:
    """A standalone worker. Its offsets are in a file, so that it goes on where it was when it is started again."""

    def __init__(self, servers: str, connectors: Mapping[str, Connector]) -> None:
        self._servers, self._connectors = servers, connectors
        self._folder = tempfile.TemporaryDirectory(prefix="onefold-connect-")
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self.stop()
        self._folder.cleanup()

    @property
    def _offsets(self) -> Path:
        return Path(self._folder.name) / "offsets"

    @property
    def log(self) -> Path:
        """What the worker writes."""
        return Path(self._folder.name) / "worker.log"

    def start(self) -> None:
        """Start it, and wait until all tasks run."""
        folder = Path(self._folder.name)
        own = {"bootstrap.servers": self._servers, "offset.storage.file.filename": str(self._offsets)}
        own["listeners"] = f"http://{HOST}:{self.port}"
        _write(folder / "worker.properties", SETTINGS | own)
        files = []
        for name, connector in self._connectors.items():
            files.append(folder / f"{name}.properties")
            _write(files[-1], {"name": name, "tasks.max": "1", **connector})
        words = ["java", *JVM_OPTIONS, "-cp", os.pathsep.join(map(str, jars("debezium")))]
        words += ["org.apache.kafka.connect.cli.ConnectStandalone", str(folder / "worker.properties")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([*words, *map(str, files)], cwd=folder, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not all(map(self._runs, self._connectors)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(self.log.read_text()[-5_000:])
            time.sleep(0.3)

    def stop(self) -> None:
        """End it in order: it stores the offsets of what it sent."""
        assert self._process
        self._process.terminate()
        self._process.wait(STOP_SECONDS)
        self._process = None

    def kill(self, *, lose_offsets: bool = False) -> None:
        """End it at once, as a crash does. Without its offsets it begins with a snapshot when it is started again."""
        assert self._process
        self._process.kill()
        self._process.wait(STOP_SECONDS)
        self._process = None
        if lose_offsets:
            self._offsets.unlink()

    def _runs(self, name: str) -> bool:
        try:
            with urlopen(f"http://{HOST}:{self.port}/connectors/{name}/status", timeout=5) as answer:
                status: dict[str, Any] = json.load(answer)
        except (HTTPError, URLError, OSError):
            return False
        if failed := [task for task in status["tasks"] if task["state"] == "FAILED"]:
            raise RuntimeError(failed[0]["trace"])
        return bool(status["tasks"]) and all(task["state"] == "RUNNING" for task in status["tasks"])


def _write(file: Path, settings: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
