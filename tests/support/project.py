"""A project on disk, and `onefold` on it: a call in this process, or a process where a test needs one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from onefold.cli.app import run_command
from onefold.dataset import Dataset, find_dataset
from onefold.generation import check_generation, settle
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, land_decided, run_batch, unfinished
from onefold.settings import Settings
from tests.support.files import EXPORTS_BELOW
from tests.support.jvm import INTERPRETED, short_lived
from tests.support.launchers import OnSharedSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
PROJECT = Path(__file__).parents[2]
SETTINGS = """\
spark_master = "local[2]"
[spark_conf]
"spark.ui.enabled" = "false"
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = "2"
"spark.sql.adaptive.coalescePartitions.initialPartitionNum" = "2"
""" + "".join(f'"{name}" = "{value}"\n' for name, value in INTERPRETED.items())
THINGS = """\
name: things
source:
  exports:
    path: exports/things/
    layout: kcat
    origin: {cluster: c, incarnation: 1}
    holes: none
key: {format: string}
value:
  format: json
  fields: {id: string, n: long, price: "decimal(10,2)?", at: "timestamp?"}
identity: {message_id: id}
apply: {mode: append}
target: {table: shop.things, buckets: 2}
quality: {max_duplicate_rate: 1.0, max_rejected_rate: 1.0, max_conflicts: 1000, min_records: 1}
"""

ACCOUNTS = """\
name: accounts
source: {exports: {path: exports/accounts/, layout: kcat, origin: {cluster: c, incarnation: 1}, holes: compacted}}
key: {format: json}
value: {format: json, fields: {n: long}}
apply: {mode: upsert, key: [key.id], version: {from: offset}, delete_when: tombstone}
target: {table: shop.accounts, buckets: 2}
quality: {max_conflicts: 0, max_rejected_rate: 1.0, max_duplicate_rate: 1.0}
"""
"""Updates and deletes: an upsert by the key's id, in the order of the log."""


@dataclass(frozen=True)
class Done:
    """How a process ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def at_night(every: Sequence[T], few: Sequence[T]) -> Sequence[T]:
    """Every fault point where `ONEFOLD_TEST_POINTS=all`, else a few that stand for the others: each costs a minute."""
    assert set(few) <= set(every)
    return every if os.environ.get("ONEFOLD_TEST_POINTS") == "all" else few


class Project:
    """Dataset files, exports and a lake below one folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for folder in ("datasets", "expectations", "exports"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        (home / "onefold.toml").write_text(SETTINGS)
        self.write_dataset("things", THINGS)
        self.lake = Lake(Settings(home=home, exports_below=EXPORTS_BELOW))
        self._launchers: dict[str, OnSharedSession] = {}

    def write_dataset(self, name: str, text: str) -> None:
        (self.home / "datasets" / f"{name}.yaml").write_text(text)

    def dataset(self, name: str = "things") -> Dataset:
        return find_dataset(self.home / "datasets", name)

    def put(self, name: str, lines: Iterable[bytes]) -> Path:
        """An export object below `exports/`."""
        file = self.home / "exports" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(lines))
        return file.parent

    # The command line.

    def onefold(self, *words: str) -> Done:
        """`onefold` in this process, its Spark steps in the shared session: all but the start of a process is real."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), self._surroundings():
            try:
                code = run_command(words, self._open_launcher)
            except Exception:
                traceback.print_exc()
                code = 1
        return Done(code, out.getvalue(), err.getvalue())

    def _open_launcher(self, lake: Lake, small: bool) -> OnSharedSession:
        del small
        place = str(lake.settings)
        if place not in self._launchers:
            self._launchers[place] = OnSharedSession(lake)
        return self._launchers[place]

    @contextlib.contextmanager
    def _surroundings(self) -> Iterator[None]:
        """The environment and the folder in which a process of its own would run."""
        before, inside = dict(os.environ), self.environment()
        try:
            with contextlib.chdir(self.home):
                os.environ.clear()
                os.environ.update(inside)
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def environment(self) -> dict[str, str]:
        """The environment of an `onefold` that has this project's settings and no others."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ONEFOLD_")}
        below = json.dumps(EXPORTS_BELOW)
        own = {"ONEFOLD_HOME": str(self.home), "ONEFOLD_JARS": str(PROJECT / ".jars"), "ONEFOLD_EXPORTS_BELOW": below}
        return kept | own | {"COLUMNS": "200"}

    # Processes, for tests of crashes, contention, signals and the disk.

    def start(self, *words: str, fault: str = "") -> subprocess.Popen[str]:
        """Start `onefold`; the caller waits for it with `finish`. It is killed at the fault point `fault`."""
        return subprocess.Popen(
            [Path(sys.executable).with_name("onefold"), *words],
            cwd=self.home,
            env=self.environment() | short_lived() | ({"ONEFOLD_FAULT": fault} if fault else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @staticmethod
    def finish(process: subprocess.Popen[str], seconds: float = 300) -> Done:
        """Wait for a process and its JVM: both hold standard output open."""
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return Done(process.returncode, out, err)

    def process(self, *words: str, fault: str = "") -> Done:
        """`onefold` as a process, from its start to its end."""
        return self.finish(self.start(*words, fault=fault))

    # Operations.

    def run(self, session: SparkSession, name: str = "things", export: Path | None = None) -> list[BatchRun]:
        """What `onefold run` does, in the tests' own session."""
        dataset = settle(self.lake, self.dataset(name))
        check_generation(self.lake, dataset)
        land_decided(self.lake, dataset)
        begun = [] if export else unfinished(self.lake, dataset)
        plans = [*begun, plan_batch(self.lake, dataset, export=str(export) if export else None)]
        launcher = InSession(self.lake, session)
        return [run_batch(self.lake, dataset, plan, launcher) for plan in plans if not plan.empty]


def line(offset: int, payload: Any, **more: Any) -> bytes:
    """One line as `kcat -J` prints it; `payload` is a JSON value, or the text itself."""
    given = {"topic": "things", "partition": 0, "offset": offset, "tstype": "create", "ts": 1_772_323_200_000 + offset}
    text = payload if isinstance(payload, str) or payload is None else json.dumps(payload)
    record = given | {"broker": 1, "headers": [], "key": None, "payload": text} | more
    return json.dumps(record).encode() + b"\n"


def thing(offset: int, id_: str, n: int = 0, **more: Any) -> bytes:
    """A line of the dataset `things`."""
    return line(offset, {"id": id_, "n": n}, **more)


def account(offset: int, id_: str, value: Any, **more: Any) -> bytes:
    """A line of the dataset `accounts`; no value deletes the id."""
    return line(offset, value, key=f'{{"id": "{id_}"}}', topic="accounts", **more)
