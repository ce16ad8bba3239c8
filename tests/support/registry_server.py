"""A schema registry as a process: Apicurio's, in memory, which answers Confluent's API and its own.

with RegistryServer() as registry:
    Settings(registry={"registry_default": {"url": registry.url}})
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from onefold.spark.jars import jars
from sample.broker import HOST, free_ports

START_SECONDS = 60
STOP_SECONDS = 20
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class RegistryServer:
    """A registry without schemas. It may be stopped and started again between, and has none then."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://{HOST}:{self.port}/apis/ccompat/v7"
        self._folder = tempfile.TemporaryDirectory(prefix="onefold-registry-")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        folder = Path(self._folder.name)
        with tarfile.open(jars("registry")[0]) as packed:
            packed.extractall(folder, filter="data")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()

    def start(self) -> None:
        """Begin to answer."""
        folder = Path(self._folder.name)
        [runner] = folder.glob("*-runner.jar")
        words = ["java", *JVM_OPTIONS, f"-Dquarkus.http.port={self.port}", f"-Dquarkus.http.host={HOST}"]
        with (folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen([*words, "-jar", str(runner)], cwd=folder, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "server.log").read_text())
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            self.ask("/subjects")
        except (URLError, OSError):
            return False
        return True

    def stop(self) -> None:
        """Answer no more."""
        if self._process:
            self._process.terminate()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """Register a schema, by Confluent's API; its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        found: int = self.ask(f"/subjects/{subject}/versions", {"schema": text, **more})["id"]
        return found

    def delete(self, subject: str) -> None:
        """Delete a subject with its schemas."""
        self.ask(f"/subjects/{subject}", method="DELETE")

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """What the registry says."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = Request(self.url + path, data, headers, method=method)
        try:
            with urlopen(request, timeout=10) as answer:
                return json.loads(answer.read() or b"null")
        except HTTPError as error:
            raise AssertionError(f"{error.code}: {error.read()[:500]!r}") from None
