"""`make stack` and `make stack-down`: the compose file's services as processes, and the sample through all of them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import boto3
import psutil  # type: ignore[import-untyped]
import pytest

from deploy.stack.compose import MARK, PROJECT, published_ports, read_compose
from deploy.stack.processes import alive
from deploy.stack.spark import ran_on, read_status
from deploy.stack.stack import Stack
from sample import orders
from sample.broker import HOST, free_ports
from tests.support.jvm import short_lived

pytestmark = [
    pytest.mark.kafka, pytest.mark.s3, pytest.mark.airflow, pytest.mark.process, pytest.mark.timeout(1500),
]  # fmt: skip


def call(what: str, folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """What `make stack` and `make stack-down` call."""
    command = [sys.executable, "-m", "deploy.stack", what, "--folder", str(folder), *words]
    given = os.environ | short_lived() | environ
    return subprocess.run(command, cwd=PROJECT, env=given, capture_output=True, text=True, check=False, timeout=1400)


def other_ports() -> list[str]:
    """A free port for each that the file publishes."""
    usual = list(published_ports().values())
    return [f"--port={port}={free}" for port, free in zip(usual, free_ports(len(usual)), strict=True)]


def marked(folder: Path) -> list[psutil.Process]:
    """Every process that was started for a folder's stack and runs."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and alive(process):
                found.append(process)
        except psutil.Error:
            continue
    return found


def command_lines(processes: list[psutil.Process]) -> list[str]:
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # readers of DAG files come and go
            found.append(" ".join(process.cmdline()))
    return found


def with_children(processes: list[psutil.Process]) -> set[psutil.Process]:
    found = set(processes)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found.update(process.children(recursive=True))
    return found


def listening(ports: list[int]) -> list[int]:
    found = []
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                found.append(port)
    return found


@dataclass(frozen=True, slots=True)
class Up:
    """A stack that is up, and what its start said."""

    said: str
    stack: Stack


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("stack") / ".stack"
    done = call("up", folder, *other_ports())
    try:
        logs = "".join(log.read_text(errors="replace")[-2000:] for log in folder.glob("logs/*.log"))
        assert done.returncode == 0, done.stdout + done.stderr + logs
        yield Up(done.stdout, Stack(folder, print))
    finally:
        if folder.exists():
            call("down", folder)


@pytest.mark.nightly
def test_the_scheduler_publishes_what_the_sample_says(up: Up) -> None:
    command = [sys.executable, "-c", "from onefold.cli import main; main()", "show", "orders", "--json"]
    given = {key: value for key, value in os.environ.items() if not key.startswith(("ONEFOLD", "AWS"))}
    shell = ["sh", "-c", '. "$0" && exec "$@"', str(up.stack.folder / "environment"), *command]
    done = subprocess.run(shell, env=given, capture_output=True, text=True, check=True)
    found = {row["order_id"]: row for row in json.loads(done.stdout)}
    wanted = orders.rows()
    assert len(wanted) > 50
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        row = found[name]
        assert (row["revision"], row["status"], row["customer"]["id"]) == (
            value["revision"], value["status"], value["customer"]["id"],
        )  # fmt: skip
        assert [Decimal(line["price"]) for line in row["lines"]] == [Decimal(line["price"]) for line in value["lines"]]
    tasks = ("plan", "land", "dedup", "upsert", "gate", "publish", "report")
    assert [task for task in tasks if f"orders: {task}: success" not in up.said] == []
    assert f"published    {len(wanted)} rows of orders" in up.said
    assert f"Airflow      {up.stack.url}  user admin, password {up.stack.secrets['AIRFLOW_ADMIN_PASSWORD']}" in up.said


@pytest.mark.nightly
def test_what_was_landed_and_published_lies_in_the_bucket(up: Up) -> None:
    given = up.stack.environment
    client = boto3.client(
        "s3",
        endpoint_url=given["AWS_ENDPOINT_URL"],
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        region_name=given["AWS_DEFAULT_REGION"],
    )
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix="onefold/")
    keys = [object_["Key"].removeprefix("onefold/") for page in pages for object_ in page.get("Contents", [])]
    batch = re.search(r"/onefold/reports/orders/(\S+)", up.said)
    assert batch
    assert f"reports/orders/{batch[1]}.html" in keys
    for pattern in (r"sources/.+/landed/.+", r"warehouse/.+\.parquet"):
        assert [key for key in keys if re.fullmatch(pattern, key)], pattern


@pytest.mark.nightly
def test_the_steps_ran_on_both_workers_of_the_cluster(up: Up) -> None:
    status = read_status(up.stack.ports["spark-master", 8080])
    assert status
    assert status["aliveworkers"] == 2
    ran = [application["name"] for application in status["completedapps"] if application["state"] == "FINISHED"]
    for step in ("land", "dedup", "upsert", "gate"):
        assert [name for name in ran if re.search(rf"\b{step}\b", name)], (step, ran)
    assert ran_on(up.stack.folder / "data") == ["spark-worker-1", "spark-worker-2"]


@pytest.mark.nightly
def test_secrets_are_in_a_file_of_the_owners_and_on_no_command_line(up: Up) -> None:
    for name in (".env", "environment"):
        assert stat.S_IMODE((up.stack.folder / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(up.stack.folder.stat().st_mode) == 0o700
    lines = command_lines(marked(up.stack.folder))
    assert len(lines) > 6
    for secret in up.stack.secrets.values():
        assert len(secret) > 40
        assert [line for line in lines if secret in line] == []


@pytest.mark.nightly
def test_a_stack_that_runs_is_not_started_twice(up: Up) -> None:
    before = {name: process.pid for name, process in up.stack.files.standing().items() if process}
    done = call("up", up.stack.folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"The stack in {up.stack.folder} runs already.\n")
    assert up.stack.url in done.stdout
    assert {name: process.pid for name, process in up.stack.files.standing().items() if process} == before
    once = {name for name, service in read_compose().items() if service["restart"] == "no"}
    assert set(before) == set(up.stack.services) - once


@pytest.mark.nightly
def test_the_end_leaves_nothing_behind(up: Up) -> None:
    """The last test of this file that needs the stack: processes, ports and folders are gone; a second end says so."""
    folder, ports = up.stack.folder, list(up.stack.ports.values())
    server = folder / "data" / "postgres"
    data = server.resolve() if server.exists() else folder
    found = [*marked(folder), *(process for process in up.stack.files.standing().values() if process)]
    everybody = with_children(found)
    assert len(listening(ports)) > 8
    os.kill(
        next(process.pid for name, process in up.stack.files.standing().items() if process and "worker-2" in name),
        signal.SIGKILL,
    )
    dead = call("up", folder)
    assert dead.returncode == 1
    assert dead.stderr.startswith(f"spark-worker-2 of the stack in {folder} ended, see {folder / 'logs'}. Nothing was")
    done = call("down", folder)
    assert done.returncode == 0, done.stderr
    assert [process for process in everybody if alive(process)] == []
    assert marked(folder) == []
    assert listening(ports) == []
    assert not folder.exists()
    assert not data.exists()
    again = call("down", folder)
    assert (again.returncode, again.stdout) == (0, f"There is no stack in {folder}.\n")


def test_a_port_that_is_taken_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        done = call("up", tmp_path / ".stack", *other_ports()[:2], f"--port=8080={port}")
    assert done.returncode == 1
    assert (
        f"port {port}, which airflow-api-server wants, cannot be had: Address already in use. Nothing was started."
        in done.stderr
    )
    assert "make stack PORTS=8080=<port>" in done.stderr
    assert not (tmp_path / ".stack").exists()


def test_a_machine_without_java_is_reported_before_anything_starts(tmp_path: Path) -> None:
    done = call("up", tmp_path / ".stack", *other_ports(), JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "Onefold needs Java 17 or 21 for Spark" in done.stderr
    assert "Nothing was started" in done.stderr
    assert not (tmp_path / ".stack").exists()


def test_a_service_that_dies_while_starting_shows_its_log_and_takes_the_others_with_it(tmp_path: Path) -> None:
    done = call("up", tmp_path / ".stack", *other_ports(), SPARK_DAEMON_JAVA_OPTS="-agentlib:nonesuch")
    assert done.returncode == 1
    assert "spark-master ended with code 1. The last lines of its log:" in done.stderr
    assert "Could not find agent library nonesuch" in done.stderr
    assert "starting kafka" in done.stdout
    assert marked(tmp_path / ".stack") == []
    assert not (tmp_path / ".stack").exists()
