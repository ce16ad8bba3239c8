"""docker-compose.yaml against the code: versions, variables, paths, ports. No engine runs here; the file is read."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from deploy.stack.go_program import NoProgramError, go_program
from deploy.stack.postgres import HOST, programs
from onefold.catalog.postgres import PostgresCatalog
from onefold.lake import Lake
from onefold.setting_origins import OTHER_VARIABLES
from onefold.settings import ENTRIES, load_settings
from onefold.spark.jars import PACKAGES, jar_home
from onefold.storage import S3Storage
from sample import orders, produce
from tests.support.postgres import Postgres

PROJECT = Path(__file__).parents[2]
COMPOSE = (PROJECT / "docker-compose.yaml").read_text()
STACK: dict[str, Any] = YAML(typ="safe").load(COMPOSE)
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
DOCKERFILE = (PROJECT / "deploy/Dockerfile").read_text()
LOCK = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (PROJECT / "requirements.lock").read_text(), re.MULTILINE))
SECRET = re.compile(r"PASSWORD$|SECRET|_KEY$|ACCESS_KEY|CONN$|CATALOG$")


def environment(service: str) -> dict[str, str]:
    return SERVICES[service].get("environment", {})


def variables() -> set[str]:
    return set(re.findall(r"\$\{(\w+)", COMPOSE))


def test_images_are_those_of_the_lock_and_the_jars() -> None:
    images = {name: str(service["image"]) for name, service in SERVICES.items()}
    kafka = next(package for package in PACKAGES["kafka"] if ":kafka_2.13:" in package).rpartition(":")[2]
    assert images["kafka"] == images["topics"]
    assert images["kafka"].startswith(f"apache/kafka:{kafka}@")
    assert {images[name] for name in SERVICES if name.startswith("spark-")} == {"onefold:0.1.0"}, "Spark is the lock's"
    assert LOCK["apache-airflow"] == "3.3.2", "the image is made of the lock"
    assert "--require-hashes --requirement requirements-runtime.lock" in DOCKERFILE
    assert "onefold.spark.jars spark s3 postgres" in DOCKERFILE
    assert 'version = "0.1.0"' in (PROJECT / "pyproject.toml").read_text()
    assert {image for image in images.values() if image.startswith("onefold:")} == {"onefold:0.1.0"}


def test_python_and_java_are_ones_that_onefold_runs_on() -> None:
    python = re.search(r"^FROM python:(3\.\d+)\.\d+-slim", DOCKERFILE, re.MULTILINE)
    assert python
    assert python[1] in ("3.11", "3.12")
    assert f"lib/python{python[1]}/site-packages/pyspark" in DOCKERFILE
    assert re.findall(r"openjdk-(\d+)-jre", DOCKERFILE) == ["17"]


def test_every_image_is_built_here_or_has_a_version_and_a_digest() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE + (PROJECT / "deploy/s3/Dockerfile").read_text(), re.MULTILINE)
    pulled = [*bases, *(service["image"] for service in SERVICES.values() if "build" not in service)]
    assert {image.partition(":")[0] for image in pulled} == {"python", "versity/versitygw", "postgres", "apache/kafka"}
    for image in pulled:
        assert re.search(r":v?\d+\.\d+[^@]*@sha256:[0-9a-f]{64}$", image), image


def test_every_service_is_healthy_or_ends_and_is_not_root() -> None:
    for name, service in SERVICES.items():
        once = service["restart"] == "no"
        assert once != ("healthcheck" in service), name
        assert int(str(service["user"]).partition(":")[0]) > 0, name
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["cap_drop"] == ["ALL"], name


def test_s10_each_service_has_the_secrets_that_it_needs_and_no_others() -> None:
    """An S3 user each role, the administrator's only where users are made; Airflow's keys where Airflow reads them."""
    airflow = {"AIRFLOW_DATABASE_PASSWORD", "AIRFLOW_FERNET_KEY"}
    keys = {"AIRFLOW_SECRET_KEY", "AIRFLOW_JWT_SECRET", "CATALOG_PASSWORD"}
    of = {role: {f"S3_{role}_ACCESS_KEY", f"S3_{role}_SECRET_KEY"} for role in ("ADMIN", "STEPS", "OPERATOR", "PAGES")}
    needed: dict[str, set[str]] = {
        "postgres": {"POSTGRES_PASSWORD", "AIRFLOW_DATABASE_PASSWORD", "CATALOG_PASSWORD"},
        "s3": of["ADMIN"],
        "bucket": set().union(*of.values()),
        "spark-worker-1": of["STEPS"],
        "spark-worker-2": of["STEPS"],
        "airflow-migrate": {"AIRFLOW_DATABASE_PASSWORD", "AIRFLOW_ADMIN_PASSWORD"},
        "airflow-api-server": airflow | keys | of["PAGES"],
        "airflow-scheduler": airflow | keys | of["OPERATOR"],
        "airflow-dag-processor": airflow,
        "airflow-triggerer": airflow | {"AIRFLOW_SECRET_KEY"},
    }
    given = {name: set(re.findall(r"\$\{(\w+)", json.dumps(service))) for name, service in SERVICES.items()}
    assert {name: secrets for name, secrets in given.items() if secrets} == needed


def test_s10_a_service_writes_into_its_volumes_only_where_that_works() -> None:
    """Kafka's image writes its configuration at the start; executors and drivers write what they shuffle."""
    writes = {"kafka", "topics", "spark-worker-1", "spark-worker-2", "airflow-scheduler"}
    assert {name for name, service in SERVICES.items() if not service.get("read_only")} == writes
    for name, service in SERVICES.items():
        assert not service.get("read_only") or name == "s3" or "/tmp" in service["tmpfs"], name


def packages_in(file: str) -> dict[str, str]:
    """Each package of a lock with its version and hashes."""
    text = re.sub(r" *#.*", "", (PROJECT / file).read_text())
    blocks = re.findall(r"^([\w.-]+)(==.+(?:\n +.+)*)", text, re.MULTILINE)
    return {name: " ".join(sorted(rest.replace("\\", " ").split())) for name, rest in blocks}


def test_s10_the_image_has_run_time_packages_only() -> None:
    every, runs, builds = map(packages_in, ("requirements.lock", "requirements-runtime.lock", "deploy/build.lock"))
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]

    assert runs.items() <= every.items(), "the same versions and hashes"
    assert builds.items() <= every.items()
    wanted, found = [*project["project"]["dependencies"], *extras["airflow"], *extras["msk"]], set()
    while wanted:
        requirement = Requirement(wanted.pop())
        name = canonicalize_name(requirement.name)
        if name not in found:
            found.add(name)
            wanted += required_by(requirement)
    assert {name for name in found if not name.startswith("colorama")} <= set(runs)
    only_dev = {canonicalize_name(Requirement(words).name) for words in extras["dev"]} - found
    assert {"pytest", "moto", "playwright", "hatchling", "pip-audit"} <= only_dev
    assert only_dev & set(runs) == set()

    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.findall(r"--requirement (\S+)", final) == ["requirements-runtime.lock"]
    assert re.findall(r"--no-install-recommends (.+) \\", final) == ["openjdk-17-jre-headless procps tini"]
    assert "COPY --from=wheel /wheels" in final


def required_by(requirement: Requirement) -> list[str]:
    """What an installed package requires here, with the extras that are asked for."""
    try:
        words = importlib.metadata.requires(requirement.name) or []
    except importlib.metadata.PackageNotFoundError:  # of another platform
        return []
    return [word for word in words if applies(Requirement(word), requirement.extras)]


def applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def test_what_a_service_waits_for_can_come_to_pass() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if SERVICES[other]["restart"] == "no" else "service_healthy"
            assert how["condition"] == wanted, f"{name} waits for {other}"
            assert set(SERVICES[other].get("profiles", [])) <= set(service.get("profiles", [])), (
                f"{name} starts {other}"
            )


def test_no_secret_is_written_down() -> None:
    found = [(name, key, value) for name in SERVICES for key, value in environment(name).items() if SECRET.search(key)]
    assert len(found) > 20
    for name, key, value in found:
        assert re.search(r"\$\{\w+:\?[^}]+\}", value), f"{name}: {key}"
    assert re.findall(r"\$\{\w+(?!:\?)[^}\w][^}]*\}", COMPOSE) == [], "no default, and no empty value"


def test_the_example_names_every_secret_and_gives_none() -> None:
    lines = (PROJECT / ".env.example").read_text().splitlines()
    given = [line for line in lines if line and not line.startswith("#")]
    assert {line.removesuffix("=") for line in given} == variables()
    assert ".env" in (PROJECT / ".gitignore").read_text().split()


def test_variables_are_settings_and_mean_what_the_stack_is(monkeypatch: pytest.MonkeyPatch) -> None:
    given = environment("airflow-scheduler")
    ours = {key: value for key, value in given.items() if key.startswith("ONEFOLD_")}
    assert {key.removeprefix("ONEFOLD_").lower() for key in ours} <= set(ENTRIES)
    assert set(re.findall(r"ONEFOLD_\w+", DOCKERFILE)) <= set(OTHER_VARIABLES) | {"ONEFOLD_HOME"}
    for key, value in {**ours, **{key: given[key] for key in given if key.startswith("AWS_")}}.items():
        monkeypatch.setenv(key, re.sub(r"\$\{\w+:\?[^}]+\}", "filled", value))
    lake = Lake(load_settings())
    assert isinstance(lake.storage, S3Storage)
    assert lake.storage.endpoint == "http://s3:7070"
    assert isinstance(lake.catalog, PostgresCatalog)
    assert lake.catalog.jdbc == "jdbc:postgresql://postgres:5432/catalog"
    assert lake.catalog.spark_properties("w")["jdbc.user"] == "catalog"
    assert lake.catalog.secrets == {"jdbc.password": "filled"}
    assert SERVICES["bucket"]["command"][-1] == lake.storage.bucket


def test_names_and_ports_agree() -> None:
    given = environment("airflow-scheduler")
    master = SERVICES["spark-master"]["command"]
    assert not [word for word in master if "=" in word], "Spark takes an option and its value as two words"
    address = f"spark://{master[master.index('--host') + 1]}:{master[master.index('--port') + 1]}"
    assert address == given["ONEFOLD_SPARK_MASTER"] == SERVICES["spark-worker-1"]["command"][-1]
    assert json.loads(given["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == address
    assert SERVICES["spark-worker-1"] == SERVICES["spark-worker-2"]
    inside, outside = environment("kafka")["KAFKA_ADVERTISED_LISTENERS"].split(",")
    bootstrap = json.loads(given["ONEFOLD_KAFKA"])["kafka_default"]["bootstrap.servers"]
    assert inside == f"PLAINTEXT://{bootstrap}"
    assert SERVICES["kafka"]["ports"] == [f"{outside.removeprefix('HOST://')}:9094"]
    assert SERVICES["sample"]["command"][-1] == bootstrap
    assert all(f":{port}" in str(SERVICES["s3"]["command"] + [given["AWS_ENDPOINT_URL"]]) for port in (7070,))
    assert given["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://airflow-api-server:8080/execution/"
    named = re.findall(r"(?:://|@)([a-z][a-z0-9-]+):\d+", re.sub(r"@sha256:\w+", "", COMPOSE))
    assert set(named) <= set(SERVICES), "every host is a service"


def test_ports_are_open_to_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == len({port.split(":")[1] for port in ports})
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_mounted_and_copied_paths_exist() -> None:
    mounts = [volume for service in SERVICES.values() for volume in service.get("volumes", [])]
    folders = {mount.split(":")[0] for mount in mounts}
    assert {name for name in folders if name.startswith("./")} == {
        "./dags", "./plugins", "./datasets", "./expectations", "./sample", "./deploy/postgres",
    }  # fmt: skip
    assert [name for name in folders if name.startswith("./") and not (PROJECT / name).is_dir()] == []
    assert {name for name in folders if not name.startswith("./")} == set(STACK["volumes"])
    for words in re.findall(r"^COPY (?:--chown\S+ )?([^-].+) \S+$", DOCKERFILE, re.MULTILINE):
        for name in words.split():
            assert (PROJECT / name).exists(), name
            top = name.partition("/")[0]
            assert f"!{top}" in (PROJECT / "deploy/Dockerfile.dockerignore").read_text().splitlines(), name
    dags = environment("airflow-scheduler")["AIRFLOW__CORE__DAGS_FOLDER"]
    assert f"./dags:{dags}:ro" in SERVICES["airflow-scheduler"]["volumes"]


def test_the_samples_topics_are_those_that_are_filled() -> None:
    listed = re.search(r"for topic in (.+); do", SERVICES["topics"]["command"][-1])
    assert listed
    assert set(listed[1].split()) == {name for topics, _ in produce.STORIES for name in topics}
    assert set(orders.TOPICS) <= set(listed[1].split())


@pytest.fixture(scope="module")
def loader() -> Path:
    """The loader of Docker's own client, which needs no engine."""
    sources = PROJECT / "tests/compose_file"
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources.iterdir()))).hexdigest()[:12]
    try:
        return go_program(jar_home() / "compose_file" / digest / "compose_file", ".", sources)
    except NoProgramError as error:
        pytest.skip(str(error))


def loaded(loader: Path, *variables: Path) -> subprocess.CompletedProcess[str]:
    words = [loader, PROJECT / "docker-compose.yaml", *variables]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_composes_own_loader_takes_the_file_and_every_service_is_what_is_written(loader: Path, tmp_path: Path) -> None:
    filled = tmp_path / ".env"
    filled.write_text("".join(f"{name}=filled\n" for name in variables()))

    done = loaded(loader, filled)

    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert services.keys() == SERVICES.keys()
    for name, service in services.items():
        assert service["image"] == SERVICES[name]["image"]
        given = {key: re.sub(r"\$\{\w+:\?[^}]+\}", "filled", str(value)) for key, value in environment(name).items()}
        assert (service.get("environment") or {}) == given
        assert service.get("depends_on", {}).keys() == SERVICES[name].get("depends_on", {}).keys()


def test_composes_own_loader_names_a_secret_that_is_not_given(loader: Path, tmp_path: Path) -> None:
    missing, *others = sorted(variables())
    filled = tmp_path / ".env"
    filled.write_text("".join(f"{name}=filled\n" for name in others))

    done = loaded(loader, filled)

    assert done.returncode == 1
    assert f"required variable {missing} is missing a value" in done.stderr


def test_the_servers_first_start_makes_both_databases(postgres: Postgres, tmp_path: Path) -> None:
    found = programs()
    assert found
    given = {
        "PATH": f"{found}:/usr/bin:/bin",
        "PGHOST": HOST,
        "PGPORT": str(postgres.port),
        "PGPASSWORD": postgres.password,
        "PGDATABASE": "postgres",
        "POSTGRES_USER": "onefold",
        "AIRFLOW_DATABASE_PASSWORD": "one",
        "CATALOG_PASSWORD": "it's another",
    }
    script = PROJECT / "deploy/postgres/databases.sh"
    done = subprocess.run([str(script)], env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, password in (("airflow", "one"), ("catalog", "it's another")):
        opened = psycopg2.connect(host=HOST, port=postgres.port, user=name, password=password, dbname=name)
        with opened.cursor() as cursor:
            cursor.execute("CREATE TABLE mine (id int)")
        opened.close()
