"""A real Postgres server in a folder of its own, from the machine's own packages.

with Postgres() as server:
    uri = server.database("catalog")
"""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psycopg2
from psycopg2 import sql

from deploy.stack.postgres import account, command, connect, initialise
from sample.broker import HOST, free_ports

START_SECONDS = 60
STOP_SECONDS = 30


class Postgres:
    """A server with one user, who has a password; databases are made by name. `settings`: the server's own."""

    def __init__(self, **settings: str) -> None:
        self._settings = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.password = secrets.token_urlsafe(12)
        (self.port,) = free_ports(1)

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="onefold-postgres-"))
        initialise(self._folder, "onefold", self.password)
        words = [*command(self._folder, self.port), *self._settings]
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, user=account(), cwd=self._folder)
        self._await()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)  # does not wait for clients
        self._process.wait(STOP_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def database(self, name: str) -> str:
        """A new database; its URI."""
        self._do("CREATE DATABASE {}", name)
        return f"postgresql+psycopg2://onefold:{self.password}@{HOST}:{self.port}/{name}"

    def drop(self, name: str) -> None:
        """A database is lost, even if clients have it open."""
        self._do("DROP DATABASE {} WITH (FORCE)", name)

    def database_of(self, user: str, password: str, name: str) -> str:
        """A new database that belongs to a new user; its URI, without the password."""
        self._do("CREATE ROLE {} LOGIN PASSWORD {}", user, sql.Literal(password))
        self._do("CREATE DATABASE {} OWNER {}", name, sql.Identifier(user))
        return f"postgresql+psycopg2://{user}@{HOST}:{self.port}/{name}"

    def _do(self, statement: str, name: str, *more: sql.Composable) -> None:
        with_server = self._connect()
        with_server.autocommit = True
        with with_server.cursor() as cursor:
            cursor.execute(sql.SQL(statement).format(sql.Identifier(name), *more))
        with_server.close()

    def _connect(self) -> psycopg2.extensions.connection:
        return connect(self.port, "onefold", self.password)

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
