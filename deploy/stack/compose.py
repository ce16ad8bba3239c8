"""What docker-compose.yaml starts, said for this machine: the same services, environments and commands.

Only addresses and paths differ, and programs where an image has its own. No list of services stands beside the file.
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
"""Where each service listens in its container; here each of these is a port of this machine."""
APART = {"topics": "sample.produce makes the topics that it fills"}
"""Services that are not started here, and why."""
MORE = {
    "airflow-scheduler": ("--skip-serve-logs",),
    "airflow-triggerer": ("--skip-serve-logs",),
}
"""Words for one machine only: the services share a folder of logs, so none need serve them."""
OTHERS = ("AIRFLOW", "AWS_", "KAFKA_", "ONEFOLD_", "PG", "POSTGRES_", "PYSPARK_")
"""The caller's own variables with these names would lead a service elsewhere."""
MARK = "STACK_FOLDER"
"""The variable that every process of a stack carries."""
Ports = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the file: what runs here, and after what."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    once: bool
    after: tuple[str, ...]


def read_compose() -> dict[str, dict[str, Any]]:
    """The file's services by name."""
    loaded: dict[str, Any] = YAML(typ="safe").load((PROJECT / "docker-compose.yaml").read_text())
    services: dict[str, dict[str, Any]] = loaded["services"]
    return {name: one for name, one in services.items() if name not in APART}


def published_ports() -> dict[tuple[str, int], int]:
    """The ports that the file opens to the machine: by service and port in the container."""
    found: dict[tuple[str, int], int] = {}
    for name, one in read_compose().items():
        for words in one.get("ports", []):
            _, outside, inside = words.split(":")
            found[name, int(inside)] = int(outside)
    return found


def secret_names() -> list[str]:
    """The secrets that the file asks for, in the order of `.env.example`."""
    return re.findall(r"^(\w+)=", (PROJECT / ".env.example").read_text(), re.MULTILINE)


def services_here(folder: Path, ports: Ports, secrets: Mapping[str, str], own: Mapping[str, str]) -> list[Service]:
    """Every service of the file, for this machine; `own` are variables in place of the file's."""
    found = []
    for name, one in read_compose().items():
        said = {key: _here(str(value), name, folder, ports) for key, value in one.get("environment", {}).items()}
        filled = {key: _filled(value, secrets) for key, value in said.items()}
        # The image's environment: for what has none of its own, harmless.
        environment = _machine() | image_environment(folder) | filled
        environment |= {key: own[key] for key in own.keys() & filled.keys()} | {MARK: str(folder)}
        if name.startswith("airflow-"):
            url = f"http://{HOST}:{ports['airflow-api-server', 8080]}"
            environment |= {"AIRFLOW__API__HOST": HOST, "AIRFLOW__API__BASE_URL": url}
        words = [_here(str(word), name, folder, ports) for word in one.get("command", [])]
        after = tuple(other for other in one.get("depends_on", {}) if other not in APART)
        if "topics" in one.get("depends_on", {}):
            after += ("kafka",)
        once = one["restart"] == "no"
        found.append(Service(name, (*_program(words), *MORE.get(name, ())), environment, once, after))
    return found


def image_environment(folder: Path) -> dict[str, str]:
    """What deploy/Dockerfile sets, here."""
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
    # All of it listens on the loopback address, Spark's drivers and executors too.
    return kept | {"SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}


def _here(said: str, service: str, folder: Path, ports: Ports) -> str:
    """A word or a value of the file, with this machine's addresses and paths."""

    def address(found: re.Match[str]) -> str:
        name, port = found["name"] or service, int(found["port"])
        if found["name"] == HOST:
            name = service
        return f"{HOST}:{ports[name, port]}" if (name, port) in ports else found[0]

    names = "|".join(map(re.escape, (*LISTENS, HOST)))
    said = re.sub(rf"(?:\b(?P<name>{names}))?:(?P<port>\d+)\b", address, said)
    for port in LISTENS.get(service, ()):
        said = str(ports[service, port]) if said == str(port) else said
    said = HOST if said == service else said
    said = said.replace("/opt/airflow", str(folder / "airflow")).replace("/opt/onefold", str(PROJECT))
    for place in ("/opt/spark-work", "/objects", "/var/lib/kafka/data"):
        said = re.sub(rf"{place}$", str(folder / "data" / service), said)
    return re.sub(r"^/users$", str(folder / "data" / "users"), said)


def _filled(said: str, secrets: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+):\?[^}]+\}", lambda found: secrets[found[1]], said)


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
