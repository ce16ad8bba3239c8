"""The services of docker-compose.yaml, adapted to this machine: the same services, environments and commands.

Only addresses and paths differ, and programs that an image provides. The compose file is the only list of services.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from deploy.stack.spark import spark_class, spark_home
from sample.broker import HOST

PROJECT = Path(__file__).parents[2]
LISTENS: dict[str, tuple[int, ...]] = {
    "postgres": (5432,),
    "s3": (7070,),
    "kafka": (9092, 9093, 9094),
    "spark-master": (7077, 8080),
    "spark-worker-1": (8081,),
    "spark-worker-2": (8081,),
    "airflow-api-server": (8080,),
}
"""The ports that each service listens on in its container; here each is a port of this machine."""
APART = {"topics": "sample.produce makes the topics that it fills"}
"""Services that are not started here, and why."""
MORE = {
    "airflow-scheduler": ("--skip-serve-logs",),
    "airflow-triggerer": ("--skip-serve-logs",),
}
"""Options for a single machine: the services share a folder of logs, so none has to serve them."""
OTHERS = ("AIRFLOW", "AWS_", "KAFKA_", "ONEFOLD_", "PG", "POSTGRES_", "PYSPARK_")
"""The caller's own variables with these names would misconfigure a service."""
MARK = "STACK_FOLDER"
"""The variable that every process of a stack has."""
Ports = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the file: its command, and the services that start before it."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    once: bool
    after: tuple[str, ...]


def read_compose() -> dict[str, dict[str, Any]]:
    """The file's services by name."""
    loaded: dict[str, Any] = YAML(typ="safe").load((PROJECT / "docker-compose.yaml").read_text())
    services: dict[str, dict[str, Any]] = loaded["services"]
    return {name: service for name, service in services.items() if name not in APART}


def published_ports() -> dict[tuple[str, int], int]:
    """The ports that the file opens to the machine: by service and port in the container."""
    found: dict[tuple[str, int], int] = {}
    for name, service in read_compose().items():
        for mapping in service.get("ports", []):
            _, outside, inside = mapping.split(":")
            found[name, int(inside)] = int(outside)
    return found


def secret_names() -> list[str]:
    """The secrets that the file needs, in the order of `.env.example`."""
    return re.findall(r"^(\w+)=", (PROJECT / ".env.example").read_text(), re.MULTILINE)


def services_here(folder: Path, ports: Ports, secrets: Mapping[str, str], own: Mapping[str, str]) -> list[Service]:
    """Every service of the file, for this machine; `own` are variables that replace the file's."""
    found = []
    for name, service in read_compose().items():
        variables = {
            key: _here(str(value), name, folder, ports) for key, value in service.get("environment", {}).items()
        }
        filled = {key: _filled(value, secrets) for key, value in variables.items()}
        # The image's environment, which is harmless for services without one.
        environment = _machine() | image_environment(folder) | filled
        environment |= {key: own[key] for key in own.keys() & filled.keys()} | {MARK: str(folder)}
        if name.startswith("airflow-"):
            url = f"http://{HOST}:{ports['airflow-api-server', 8080]}"
            environment |= {"AIRFLOW__API__HOST": HOST, "AIRFLOW__API__BASE_URL": url}
        words = [_here(str(word), name, folder, ports) for word in service.get("command", [])]
        after = tuple(other for other in service.get("depends_on", {}) if other not in APART)
        if "topics" in service.get("depends_on", {}):
            after += ("kafka",)
        once = service["restart"] == "no"
        found.append(Service(name, (*_program(words), *MORE.get(name, ())), environment, once, after))
    return found


def image_environment(folder: Path) -> dict[str, str]:
    """The variables of deploy/Dockerfile, for this machine."""
    scripts = Path(sys.executable).parent
    return {
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
        "SPARK_HOME": str(spark_home()),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "ONEFOLD_HOME": str(PROJECT),
        "ONEFOLD_JARS": os.environ.get("ONEFOLD_JARS", str(PROJECT / ".jars")),
    }


def _machine() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    # Everything listens on the loopback address, Spark's drivers and executors, too.
    return kept | {"SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}


def _here(text: str, service: str, folder: Path, ports: Ports) -> str:
    """A word or a value of the file, with this machine's addresses and paths."""

    def address(found: re.Match[str]) -> str:
        name, port = found["name"] or service, int(found["port"])
        if found["name"] == HOST:
            name = service
        return f"{HOST}:{ports[name, port]}" if (name, port) in ports else found[0]

    names = "|".join(map(re.escape, (*LISTENS, HOST)))
    text = re.sub(rf"(?:\b(?P<name>{names}))?:(?P<port>\d+)\b", address, text)
    for port in LISTENS.get(service, ()):
        text = str(ports[service, port]) if text == str(port) else text
    text = HOST if text == service else text
    text = text.replace("/opt/airflow", str(folder / "airflow")).replace("/opt/onefold", str(PROJECT))
    for place in ("/opt/spark-work", "/objects", "/var/lib/kafka/data"):
        text = re.sub(rf"{place}$", str(folder / "data" / service), text)
    return re.sub(r"^/users$", str(folder / "data" / "users"), text)


def _filled(text: str, secrets: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+):\?[^}]+\}", lambda found: secrets[found[1]], text)


def _program(words: list[str]) -> tuple[str, ...]:
    """The file's words with the programs of this environment."""
    if not words:
        return ()
    match words[0].rpartition("/")[2]:
        case "spark-class":
            return (str(spark_class()), *words[1:])
        case "airflow":
            return (sys.executable, "-m", *words)
        case "python":
            return (sys.executable, *words[1:])
    return tuple(words)
