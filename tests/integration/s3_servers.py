"""Real S3 servers on this machine, each until its context ends: moto (in memory) and versitygw (on disk)."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from deploy.stack import s3
from deploy.stack.go_program import NoProgramError
from deploy.stack.moto import server
from sample.broker import HOST, free_ports

KEY, SECRET = "test", "test-secret"
START_SECONDS = 30


@contextmanager
def moto() -> Iterator[str]:
    """Its address."""
    serving = server(port=0)
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{serving.port}"
    finally:
        serving.shutdown()
        thread.join()
        serving.server_close()


@contextmanager
def versitygw() -> Iterator[str]:
    """Its address; the test is skipped, with the reason, where it cannot be built."""
    try:
        program = s3.versitygw()
    except NoProgramError as error:
        pytest.skip(str(error))
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="onefold-s3-") as folder:
        given = os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        words = [str(program), "--port", f"{HOST}:{port}", "--health", "/health", "--quiet", "posix", folder]
        with subprocess.Popen(words, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + START_SECONDS
                while not s3.answers(port):
                    assert process.poll() is None, "versitygw ended while starting"
                    assert time.monotonic() < deadline, "versitygw does not answer"
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
