"""Real S3 servers on this machine, each a process until its context ends: moto (in memory) and versitygw (on disk)."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from deploy.stack import s3
from deploy.stack.go_program import NoProgramError
from sample.broker import HOST, free_ports

PROJECT = Path(__file__).parents[2]
KEY, SECRET = "test", "test-secret"
START_SECONDS = 30


@contextmanager
def moto() -> Iterator[str]:
    """Its address."""
    (port,) = free_ports(1)
    with _served(s3.moto_command(port), port) as address:
        yield address


@contextmanager
def versitygw(users: Path | None = None) -> Iterator[str]:
    """Its address; the test is skipped, with the reason, where it cannot be built. A folder of `users` lets it have
    more than the administrator."""
    try:
        program = s3.versitygw()
    except NoProgramError as error:
        pytest.skip(str(error))
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="onefold-s3-") as folder:
        own = ["--iam-dir", str(users)] if users else []
        words = [str(program), "--port", f"{HOST}:{port}", "--health", "/health", "--quiet", *own, "posix", folder]
        with _served(words, port) as address:
            yield address


@contextmanager
def _served(words: list[str], port: int) -> Iterator[str]:
    given = os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, cwd=PROJECT, env=given, stdout=quiet, stderr=quiet) as process:
        try:
            deadline = time.monotonic() + START_SECONDS
            while not s3.answers(port):
                assert process.poll() is None, f"{words} ended while starting"
                assert time.monotonic() < deadline, f"{words} does not answer"
                time.sleep(0.05)
            yield f"http://{HOST}:{port}"
        finally:
            process.terminate()


SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {"moto": moto, "versitygw": versitygw}


def environment(endpoint: str) -> dict[str, str]:
    """What leads boto3, pyarrow and Spark to a server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
