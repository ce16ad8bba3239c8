"""A real Spark cluster on this machine: a standalone master and workers, from pyspark's own jars."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from deploy.stack.spark import ran_on, read_status, spark_class, spark_home
from sample.broker import HOST, free_ports

START_SECONDS = 90


class Cluster:
    """A master and workers of one core each, each on a host of its own: Spark makes no copy of a task where it runs.

    What their executors say lies below `folder/<worker>/app-…`.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder, self.workers = folder, workers
        self.port, self.page = free_ports(2)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        own = ["--port", str(self.port), "--webui-port", str(self.page)]
        self._start("master", HOST, "org.apache.spark.deploy.master.Master", *own)
        try:
            self._await(0)
            for number in range(self.workers):
                place = self.folder / f"worker-{number}"
                own = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(place), self.master]
                host = f"127.0.0.{1 + number}"
                self._start(f"worker-{number}", host, "org.apache.spark.deploy.worker.Worker", *own)
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
        return ran_on(self.folder)

    def _start(self, name: str, host: str, *words: str) -> None:
        given = {"SPARK_HOME": str(spark_home()), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": host}
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [str(spark_class()), *words[:1], "--host", host, *words[1:]]
            self._processes.append(subprocess.Popen(command, env=os.environ | given, stdout=log, stderr=log))

    def _await(self, workers: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            status = read_status(self.page)
            if status and status["aliveworkers"] == workers:
                return
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._processes):
                raise RuntimeError("\n".join(log.read_text()[-2000:] for log in self.folder.glob("*.log")))
            time.sleep(0.1)


def python_without_onefold(folder: Path) -> Path:
    """A Python with this environment's packages but not with what is installed editably: onefold comes by Spark."""
    packages = spark_home().parent
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{packages}"\nexec "{sys.executable}" -S "$@"\n')
    script.chmod(0o755)
    return script
