"""A real MariaDB server in a folder of its own, from the machine's own packages, that writes a log of changes by row.

with MariaDb() as server:
    server.create("shop")
    connection = server.connect("shop")
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import pymysql
import pytest

from sample.broker import HOST, free_ports

START_SECONDS = 60
STOP_SECONDS = 30


class MariaDb:
    """A server with one user, who has a password and may do all."""

    user = "onefold"

    def __init__(self) -> None:
        self.password = secrets.token_urlsafe(12)
        (self.port,) = free_ports(1)

    def __enter__(self) -> Self:
        if shutil.which("mariadbd") is None:
            pytest.skip("no MariaDB server here; install it with: sudo apt-get install mariadb-server")
        # MariaDB refuses root, and its user has to reach the folder.
        account = "mysql" if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="onefold-mariadb-"))
        if account:
            shutil.chown(self._folder, account)
        data, first = self._folder / "data", self._folder / "first.sql"
        words = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db"]
        subprocess.run(words, check=True, capture_output=True, user=account, cwd=self._folder)
        first.write_text(
            f"CREATE USER {self.user}@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO {self.user}@'%';\n"
        )
        first.chmod(0o644)  # the folder is closed to other users
        words = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--port={self.port}", f"--bind-address={HOST}"]
        words += [f"--socket={self._folder / 'socket'}", f"--init-file={first}", "--innodb-flush-log-at-trx-commit=0"]
        words += ["--server-id=7", "--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL"]
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, user=account, cwd=self._folder)
        self._await()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(STOP_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def create(self, database: str) -> None:
        """A new database."""
        with self.connect(None) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {database}")

    def connect(self, database: str | None) -> Any:
        """A connection whose transactions lock the rows that they change, and no gaps between them."""
        connection = pymysql.connect(
            host=HOST, port=self.port, user=self.user, password=self.password, database=database
        )
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return connection

    def _await(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect(None).close()
            except pymysql.err.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self._folder / "server.log").read_text()) from None
                time.sleep(0.1)
            else:
                return
