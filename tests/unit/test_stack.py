"""The stack without containers against docker-compose.yaml: the same services, environments and commands, all here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from deploy.stack.compose import (
    APART,
    LISTENS,
    PROJECT,
    image_environment,
    published_ports,
    secret_names,
    services_here,
)
from deploy.stack.s3 import version

FOLDER = Path("/somewhere/.stack")
PORTS = {place: 20000 + n for n, place in enumerate((name, port) for name, own in LISTENS.items() for port in own)}
SECRETS = {name: f"made-{number}" for number, name in enumerate(secret_names())}


@pytest.fixture(scope="module")
def file() -> dict[str, dict[str, Any]]:
    from ruamel.yaml import YAML

    loaded: dict[str, Any] = YAML(typ="safe").load((PROJECT / "docker-compose.yaml").read_text())
    services: dict[str, dict[str, Any]] = loaded["services"]
    return services


SERVICES = {service.name: service for service in services_here(FOLDER, PORTS, SECRETS, {})}


def test_every_service_of_the_file_is_one_here_or_named_with_its_reason(file: dict[str, dict[str, Any]]) -> None:
    assert set(SERVICES) == set(file) - set(APART)
    assert set(APART) == {"topics"}
    assert file["topics"]["profiles"] == file["sample"]["profiles"], "what makes them here runs where they are wanted"


def test_every_variable_of_the_file_is_one_here(file: dict[str, dict[str, Any]]) -> None:
    for name, service in SERVICES.items():
        assert set(file[name].get("environment", {})) <= set(service.environment), name
    only_here = set(SERVICES["airflow-scheduler"].environment) - set(file["airflow-scheduler"]["environment"])
    more = {name for name in only_here if name.startswith(("AIRFLOW", "ONEFOLD", "AWS", "SPARK"))}
    assert more == {
        "AIRFLOW_HOME", "ONEFOLD_HOME", "ONEFOLD_JARS", "SPARK_HOME",  # the image's
        "AIRFLOW__API__HOST", "AIRFLOW__API__BASE_URL", "SPARK_LOCAL_IP", "SPARK_DAEMON_MEMORY",  # one machine's
    }  # fmt: skip


def test_the_images_environment_is_that_of_the_dockerfile() -> None:
    (block,) = re.findall(r"^ENV (.+?)(?<!\\)\n", (PROJECT / "deploy/Dockerfile").read_text(), re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"(\w+)=", block)) == set(image_environment(FOLDER))


def test_no_address_or_path_of_a_container_is_left() -> None:
    hosts = "|".join(map(re.escape, LISTENS))
    for name, service in SERVICES.items():
        said = [*service.command, *(value for key, value in service.environment.items() if _of_the_file(key))]
        for words in said:
            assert not re.search(rf"(?://|@)(?:{hosts}):|^(?:{hosts})$", words), f"{name}: {words}"
            assert not re.search(r"(?<![\w.])/opt/|/var/lib/kafka|^/objects", words), f"{name}: {words}"
            assert not re.search(r"\$\{|:\?", words), f"{name}: {words}"
            for port in re.findall(r"(?::|^)(\d{4,5})\b", words):
                assert int(port) in PORTS.values(), f"{name}: {words}"


def _of_the_file(variable: str) -> bool:
    return variable.startswith(("AIRFLOW__", "AIRFLOW_CONN", "AWS_", "KAFKA_", "ONEFOLD_"))


def test_every_port_that_the_file_knows_is_one_here(file: dict[str, dict[str, Any]]) -> None:
    assert set(published_ports()) <= set(PORTS)
    assert set(published_ports().values()) == {8080, 8082, 9094}
    said = {
        name: json.dumps([service.get("command", []), service.get("environment", {})]) for name, service in file.items()
    }
    for name, port in PORTS:
        inside = re.search(rf"[:= \"]{port}\b", said[name])
        assert inside or (name, port) == ("postgres", 5432), "listed, but the file says no such port"


def test_services_lead_to_each_other() -> None:
    given = SERVICES["airflow-scheduler"].environment
    here = {place: f"127.0.0.1:{port}" for place, port in PORTS.items()}
    master = f"spark://{here['spark-master', 7077]}"
    assert given["ONEFOLD_SPARK_MASTER"] == json.loads(given["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == master
    assert SERVICES["spark-worker-1"].command[-1] == SERVICES["spark-worker-2"].command[-1] == master
    kafka = SERVICES["kafka"].environment
    inside, outside = kafka["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert json.loads(given["ONEFOLD_KAFKA"])["kafka_default"]["bootstrap.servers"] == inside.removeprefix(
        "PLAINTEXT://"
    )
    assert outside == f"HOST://{here['kafka', 9094]}"
    assert kafka["KAFKA_LISTENERS"].count("127.0.0.1") == 3, "on the loopback address only"
    assert given["AWS_ENDPOINT_URL"] == f"http://{here['s3', 7070]}"
    assert here["s3", 7070] in SERVICES["s3"].command
    wanted = f"postgresql+psycopg2://catalog:{SECRETS['CATALOG_PASSWORD']}@{here['postgres', 5432]}/catalog"
    assert given["ONEFOLD_CATALOG"] == wanted
    assert SERVICES["airflow-api-server"].command[-4:] == (
        "--port",
        str(PORTS["airflow-api-server", 8080]),
        "--workers",
        "1",
    )


def test_secrets_are_in_no_command() -> None:
    for name, service in SERVICES.items():
        assert not [word for word in service.command for secret in SECRETS.values() if secret in word], name


def test_the_callers_own_settings_lead_no_service_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONEFOLD_DATASETS", "AIRFLOW__CORE__UNIT_TEST_MODE", "AWS_PROFILE", "PGHOST", "KAFKA_OPTS"):
        monkeypatch.setenv(name, "elsewhere")
    for service in services_here(FOLDER, PORTS, SECRETS, {}):
        assert "elsewhere" not in service.environment.values(), service.name


def test_the_s3_server_is_the_images() -> None:
    assert f"versity/versitygw:{version()}" in (PROJECT / "deploy/s3/Dockerfile").read_text()
