"""A Postgres server from the machine's own packages: its programs, its first start, its command."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import psycopg2  # type: ignore[import-untyped]

from sample.broker import HOST


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`, of the newest version; None if there is none."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    found = shutil.which("initdb")
    return debian[-1] if debian else Path(found).parent if found else None


def account() -> str | None:
    """The account that runs it: `postgres` if we are root, which it refuses to be; else None, our own account."""
    return "postgres" if os.geteuid() == 0 else None


def usable() -> bool:
    """Whether a server can run here: its programs exist, and an account that may run them."""
    try:
        pwd.getpwnam(account() or pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:
        return False
    return programs() is not None


def initialise(folder: Path, user: str, password: str) -> None:
    """Make the server's folder `data` below a folder that only its owner reads, with one user with a password.

    Raises:
        subprocess.CalledProcessError: initdb failed, with its output.
    """
    found = programs()
    assert found
    if owner := account():
        shutil.chown(folder, owner)
    secret = folder / "password"
    secret.write_text(password)
    secret.chmod(0o644)  # the folder is closed to other users
    words = [str(found / "initdb"), "-D", str(folder / "data"), "-U", user, "--auth=scram-sha-256"]
    words += [f"--pwfile={secret}", "--no-sync"]
    subprocess.run(words, check=True, capture_output=True, text=True, user=account(), cwd=folder)
    secret.unlink()


def command(folder: Path, port: int) -> list[str]:
    """The server on `data` below the folder, on the loopback address only."""
    found = programs()
    assert found
    own = ["-p", str(port), "-c", f"listen_addresses={HOST}", "-c", "unix_socket_directories=", "-c", "fsync=off"]
    return [str(found / "postgres"), "-D", str(folder / "data"), *own]


def connect(port: int, user: str, password: str, database: str = "postgres") -> psycopg2.extensions.connection:
    """A connection; an OperationalError if nothing answers yet."""
    return psycopg2.connect(host=HOST, port=port, user=user, password=password, dbname=database, connect_timeout=5)
