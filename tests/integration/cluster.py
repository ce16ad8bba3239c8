"""A real Spark cluster on this machine: a standalone master and workers, from pyspark's own jars."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

HOST = "127.0.0.1"
START_SECONDS = 90


class Cluster:
    """A master and workers of one core each; what their executors say lies below `folder/<worker>/app-…`."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder, self.workers = folder, workers
        self.port, self.page = _free_ports()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        own = ["--port", str(self.port), "--webui-port", str(self.page)]
        self._start("master", "org.apache.spark.deploy.master.Master", *own)
        try:
            self._await(0)
            for number in range(self.workers):
                place = self.folder / f"worker-{number}"
                own = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(place), self.master]
                self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *own)
            self._await(self.workers)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(30)

    def executors(self) -> list[str]:
        """The workers that ran an executor, by name."""
        return sorted({found.parts[-4] for found in self.folder.glob("worker-*/app-*/*/stderr")})

    def _start(self, name: str, *words: str) -> None:
        home = _spark_home()
        given = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": HOST}
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), *words[:1], "--host", HOST, *words[1:]]
            self._processes.append(subprocess.Popen(command, env=os.environ | given, stdout=log, stderr=log))

    def _await(self, workers: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://{HOST}:{self.page}/json/", timeout=5) as answer:
                    told: dict[str, Any] = json.load(answer)
                if told["aliveworkers"] == workers:
                    return
            except OSError:
                pass
            if time.monotonic() > deadline or any(one.poll() is not None for one in self._processes):
                raise RuntimeError("\n".join(log.read_text()[-2000:] for log in self.folder.glob("*.log")))
            time.sleep(0.1)


def python_without_onefold(folder: Path) -> Path:
    """A Python with this environment's packages but not with what is installed editably: onefold comes by Spark."""
    packages = Path(importlib.util.find_spec("pyspark").origin).parents[1]  # type: ignore[union-attr,arg-type]
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{packages}"\nexec "{sys.executable}" -S "$@"\n')
    script.chmod(0o755)
    return script


def _spark_home() -> Path:
    return Path(importlib.util.find_spec("pyspark").origin).parent  # type: ignore[union-attr,arg-type]


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind((HOST, 0))
        return int(one.getsockname()[1]), int(two.getsockname()[1])
