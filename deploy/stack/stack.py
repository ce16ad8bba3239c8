"""A stack in a folder: the requirements of the machine, its secrets, its start in the file's order, its end."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path

import psycopg2

from deploy.stack import postgres, s3
from deploy.stack.compose import (
    LISTENS,
    PROJECT,
    Ports,
    Service,
    published_ports,
    secret_names,
    services_here,
)
from deploy.stack.go_program import NoProgramError
from deploy.stack.processes import Files, ServiceDiedError, StackError
from deploy.stack.spark import read_status
from onefold.orchestration.api import Api
from sample import broker
from sample.broker import HOST, free_ports

START_SECONDS = 240
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The choices of a stack; kept next to its data."""

    ports: dict[str, int]
    s3: str
    database: str


class Stack:
    """The compose file's services below a folder."""

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder, self.say = folder.absolute(), say
        self.files = Files(self.folder)

    @property
    def url(self) -> str:
        """Airflow's pages."""
        return f"http://{HOST}:{self.ports['airflow-api-server', 8080]}"

    @cached_property
    def chosen(self) -> Chosen:
        """The choices at its creation."""
        return Chosen(**json.loads((self.folder / "stack.json").read_text()))

    @property
    def ports(self) -> Ports:
        """The ports of this machine by service and its port in the container."""
        return {(key.split(":")[0], int(key.split(":")[1])): port for key, port in self.chosen.ports.items()}

    @cached_property
    def secrets(self) -> dict[str, str]:
        """The secrets, made once, in a file that only its owner reads; the names are those of `.env.example`."""
        file = self.folder / ".env"
        if not file.exists():
            fernet = base64.urlsafe_b64encode(os.urandom(32)).decode()
            made = {name: secrets.token_hex(64 if "JWT" in name else 24) for name in secret_names()}
            _write_secret(file, "".join(f"{key}={value}\n" for key, value in (made | {_FERNET: fernet}).items()))
        return dict(line.split("=", 1) for line in file.read_text().splitlines())

    @cached_property
    def services(self) -> dict[str, Service]:
        """The services by name."""
        own = {}
        if self.chosen.database == "sqlite":
            own["ONEFOLD_CATALOG"] = f"sqlite:///{self.folder / 'data' / 'catalog.db'}"
            own["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{self.folder / 'airflow' / 'airflow.db'}"
        found = services_here(self.folder, self.ports, self.secrets, own)
        return {
            service.name: service
            for service in found
            if service.name != "postgres" or self.chosen.database == "postgres"
        }

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a command of Onefold reaches the stack."""
        given = self.services["airflow-scheduler"].environment
        own = ("AWS_", "ONEFOLD_", "SPARK_LOCAL_IP")
        return {name: value for name, value in given.items() if name.startswith(own)}

    def start(self, ports: Mapping[int, int]) -> None:
        """Start every service in the file's order; `ports` are published ports that replace the file's.

        Raises:
            StackError: something is missing or taken, and nothing was started; or a service ended while starting,
                and everything that was started has ended again.
        """
        check_machine()
        fresh = not (self.folder / "stack.json").exists()
        chosen = self._choose(ports) if fresh else self._again(ports)
        check_ports({name: chosen.ports[name] for name in _published()})
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        with self._alone():
            (self.folder / "stack.json").write_text(json.dumps(asdict(chosen), indent=1) + "\n")
            self.chosen = chosen
            try:
                self._start_all()
            except BaseException:
                self.files.stop()
                if fresh:
                    self._remove()
                raise

    def stop(self, *, keep: bool) -> int:
        """End everything, and remove the folder unless its data is kept."""
        if keep and self.chosen.s3 == s3.MOTO:
            raise StackError(
                "the S3 server of this stack (moto) keeps objects in memory: nothing can be kept. Nothing was ended; "
                "leave KEEP away, or install Go for a server on disk."
            )
        with self._alone():
            counted = self.files.stop()
            shutil.rmtree(self.folder / "pids", ignore_errors=True)
            if not keep:
                self._remove()
        return counted

    def _choose(self, ports: Mapping[int, int]) -> Chosen:
        try:
            if not s3.built().exists() and shutil.which("go"):
                self.say(f"building the S3 server versitygw {s3.version()} with Go, once (some minutes)")
            s3.versitygw()
            store = f"versitygw {s3.version()}"
        except NoProgramError as error:
            self.say(f"S3 server: moto, in memory, in place of the compose file's: {error}")
            store = s3.MOTO
        if postgres.usable():
            database = "postgres"
        else:
            self.say(
                "catalog and Airflow's database: SQLite, for there is no Postgres server on this machine "
                "(install one with: sudo apt-get install postgresql)"
            )
            database = "sqlite"
        published, inner = published_ports(), [(name, port) for name, own in LISTENS.items() for port in own]
        found = dict(zip(inner, free_ports(len(inner)), strict=True))
        found |= {place: ports.get(port, port) for place, port in published.items()}
        return Chosen({f"{name}:{port}": here for (name, port), here in found.items()}, store, database)

    def _again(self, ports: Mapping[int, int]) -> Chosen:
        """The choices of the kept data; ports that were not chosen may be new."""
        made = self.chosen
        if made.s3 == s3.MOTO or (made.database == "postgres" and not postgres.usable()):
            raise StackError(f"the data in {self.folder} cannot be used again. Nothing was started; make stack-down.")
        return Chosen(self._choose(ports).ports, made.s3, made.database)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        holder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise StackError(f"another process is starting or ending the stack in {self.folder}.") from None
        finally:
            os.close(holder)

    def _remove(self) -> None:
        server = self.folder / "data" / "postgres"
        if server.is_symlink():
            shutil.rmtree(server.readlink(), ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_all(self) -> None:
        for name in ("logs", "airflow", "data"):
            (self.folder / name).mkdir(exist_ok=True)
        given = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self.environment.items())
        _write_secret(self.folder / "environment", given)
        there = self.services
        before = {service.name: [name for name in service.after if name in there] for service in there.values()}
        order = TopologicalSorter(before)
        order.prepare()
        while ready := order.get_ready():
            self.say(f"starting {', '.join(sorted(ready))}")
            processes = {name: self._start(there[name]) for name in ready}
            for name, process in processes.items():
                self._await(there[name], process, processes)
            order.done(*ready)

    def _start(self, service: Service) -> subprocess.Popen[bytes]:
        command, user = list(service.command), None
        match service.name:
            case "postgres":
                folder = self._postgres_folder()
                command, user = postgres.command(folder, self.ports["postgres", 5432]), postgres.account()
            case "s3":
                for name in ("s3", "users"):
                    (self.folder / "data" / name).mkdir(exist_ok=True)
                moto = s3.moto_command(self.ports["s3", 7070])
                command = moto if self.chosen.s3 == s3.MOTO else [str(s3.versitygw()), *command]
            case "kafka":
                command = self._kafka(service)
        return self.files.start(service, command, user)

    def _await(
        self, service: Service, process: subprocess.Popen[bytes], started: Mapping[str, subprocess.Popen[bytes]]
    ) -> None:
        """Return once a service answers, or has done its work."""
        name, log = service.name, self.files.log(service.name)
        deadline = time.monotonic() + START_SECONDS
        while True:
            for other, child in started.items():  # the first that ends has the cause in its log
                if child.poll() is not None and (child.returncode or not self.services[other].once):
                    raise ServiceDiedError(f"{other} ended with code {child.returncode}", self.files.log(other))
            if process.returncode == 0 if service.once else self._answers(name):
                break
            if time.monotonic() > deadline:
                raise ServiceDiedError(f"{name} was not ready after {START_SECONDS} s", log)
            time.sleep(0.2)
        if service.once:
            self.files.forget(name)
        if name == "postgres":
            self._make_databases(service)

    def _answers(self, name: str) -> bool:
        match name:
            case "postgres":
                try:
                    postgres.connect(self.ports[name, 5432], "postgres", self.secrets["POSTGRES_PASSWORD"]).close()
                except psycopg2.OperationalError:
                    return False
                return True
            case "s3":
                return s3.answers(self.ports[name, 7070])
            case "kafka":
                return broker.answers(f"{HOST}:{self.ports[name, 9094]}")
            case "spark-master" | "spark-worker-1" | "spark-worker-2":
                return read_status(self.ports[name, 8080 if name == "spark-master" else 8081]) is not None
        api = Api(self.url)
        try:
            return api.health()[name.removeprefix("airflow-")]
        finally:
            api.close()

    def _postgres_folder(self) -> Path:
        """The server's folder, created if missing; for root outside of ours, which the server's user may not enter."""
        place = self.folder / "data" / "postgres"
        if not place.exists():
            if postgres.account():
                place.symlink_to(tempfile.mkdtemp(prefix="onefold-stack-postgres-"))
            else:
                place.mkdir(mode=0o700)
            try:
                postgres.initialise(place.resolve(), "postgres", self.secrets["POSTGRES_PASSWORD"])
            except subprocess.CalledProcessError as error:
                self.files.log("postgres").write_text(f"{error.stdout}{error.stderr}")
                raise ServiceDiedError("initdb failed", self.files.log("postgres")) from None
        return place.resolve()

    def _make_databases(self, service: Service) -> None:
        """Run the script of deploy/postgres, as the image does at its first start."""
        found = postgres.programs()
        opened = postgres.connect(self.ports["postgres", 5432], "postgres", self.secrets["POSTGRES_PASSWORD"])
        with opened, opened.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = 'catalog'")
            there = cursor.fetchone()
        opened.close()
        if there:
            return
        given = service.environment | {
            "PATH": f"{found}{os.pathsep}{service.environment['PATH']}",
            "PGHOST": HOST,
            "PGPORT": str(self.ports["postgres", 5432]),
            "PGPASSWORD": self.secrets["POSTGRES_PASSWORD"],
            "POSTGRES_USER": "postgres",
        }
        with self.files.log("postgres").open("ab") as log:
            script = PROJECT / "deploy/postgres/databases.sh"
            done = subprocess.run([str(script)], env=given, stdout=log, stderr=log, check=False)
        if done.returncode:
            raise ServiceDiedError("the databases could not be made", self.files.log("postgres"))

    def _kafka(self, service: Service) -> list[str]:
        """The broker's command; its settings come from the variables, as in the image."""
        config = self.folder / "data" / "kafka.properties"
        names = [name for name in service.environment if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"]
        settings = {name.removeprefix("KAFKA_").lower().replace("_", "."): service.environment[name] for name in names}
        config.write_text(broker.properties_text(settings))
        log = self.files.log("kafka")
        with log.open("ab") as output:
            command = broker.format_command(config, "--ignore-formatted")
            done = subprocess.run(command, stdout=output, stderr=output, check=False)
        if done.returncode:
            raise ServiceDiedError("Kafka's storage could not be formatted", log)
        return broker.start_command(config, *service.environment["KAFKA_HEAP_OPTS"].split())


_FERNET = "AIRFLOW_FERNET_KEY"


def check_machine() -> None:
    """Check that Java and Python are installed.

    Raises:
        StackError: something is missing; the message says how to install it.
    """
    done = subprocess.run([PROJECT / "scripts" / "check-machine"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"{done.stderr.strip()}. Nothing was started.")


def check_ports(wanted: Mapping[str, int]) -> None:
    """Check that the ports are free.

    Raises:
        StackError: a port is taken; the message names the service, and how to choose another port.
    """
    published = published_ports()
    for name, port in wanted.items():
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((HOST, port))
            except OSError as error:
                service, _, inside = name.partition(":")
                usual = published[service, int(inside)]
                raise StackError(
                    f"port {port}, which {service} wants, cannot be had: {error.strerror}. Nothing was started. "
                    f"Take another one with: make stack PORTS={usual}=<port>"
                ) from None


def _published() -> list[str]:
    return [f"{name}:{port}" for name, port in published_ports()]


def _write_secret(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(text)
