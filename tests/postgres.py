"""A real Postgres server in a folder of its own, from the machine's own packages.

with Postgres() as server:
    uri = server.database("catalog")
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psycopg2
from psycopg2 import sql

HOST = "127.0.0.1"
START_SECONDS = 60
STOP_SECONDS = 30


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`, of the newest version; None where there is none."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    found = shutil.which("initdb")
    return debian[-1] if debian else Path(found).parent if found else None


class Postgres:
    """A server with one user, who has a password; databases are made by name."""

    def __init__(self) -> None:
        self.password = secrets.token_urlsafe(12)
        with socket.socket() as one:
            one.bind((HOST, 0))
            self.port = int(one.getsockname()[1])

    def __enter__(self) -> Self:
        found = programs()
        assert found
        self._folder = Path(tempfile.mkdtemp(prefix="onefold-postgres-"))
        user = "postgres" if os.geteuid() == 0 else None  # it refuses to be root
        if user:
            shutil.chown(self._folder, user)
        data, secret = self._folder / "data", self._folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)  # below a folder that only its owner reads
        made = [str(found / "initdb"), "-D", str(data), "-U", "onefold", "--auth=scram-sha-256", f"--pwfile={secret}"]
        subprocess.run([*made, "--no-sync"], check=True, capture_output=True, user=user, cwd=self._folder)
        own = ["-p", str(self.port), "-k", str(self._folder), "-c", f"listen_addresses={HOST}", "-c", "fsync=off"]
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(found / "postgres"), "-D", str(data), *own], stdout=log, stderr=log, user=user, cwd=self._folder
            )
        self._await()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)  # does not wait for clients
        self._process.wait(STOP_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def database(self, name: str) -> str:
        """A new database; its URI."""
        with_server = self._connect()
        with_server.autocommit = True
        with with_server.cursor() as cursor:
            cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with_server.close()
        return f"postgresql+psycopg2://onefold:{self.password}@{HOST}:{self.port}/{name}"

    def _connect(self) -> psycopg2.extensions.connection:
        return psycopg2.connect(
            host=HOST, port=self.port, user="onefold", password=self.password, dbname="postgres", connect_timeout=5
        )

    def _await(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self._connect().close()
            except psycopg2.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self._folder / "server.log").read_text()) from None
                time.sleep(0.05)
            else:
                return
