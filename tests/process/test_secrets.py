"""S4 on the command line: a canary in every secret setting, with each kind of catalog, is found in no output.

The programs are real. What Java is started with is kept by a `java` that comes before the machine's own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.canaries import OTHERS, catalog_with_canaries, files_below, leaks, settings_with_canaries
from tests.support.files import EXPORTS_BELOW
from tests.support.jvm import short_lived
from tests.support.project import PROJECT, Done, Project, line, thing

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]
JAVA = f"""\
#!{sys.executable}
import json, os, pathlib, sys
with (pathlib.Path(__file__).parent / "started.jsonl").open("a") as kept:
    print(json.dumps({{"arguments": sys.argv[1:], "environment": sorted(os.environ)}}), file=kept)
os.execv({str(shutil.which("java"))!r}, ["java", *sys.argv[1:]])
"""


class Commands:
    """`onefold` as processes whose settings come from the environment."""

    def __init__(self, project: Project, settings: Mapping[str, str]) -> None:
        self.home = project.home
        java = self.home / "java" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(JAVA)
        java.chmod(0o755)
        self._kept = java.with_name("started.jsonl")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONEFOLD_", "AIRFLOW"))}
        self._environment = {
            **kept,
            **short_lived(),
            "COLUMNS": "400",
            "JAVA_HOME": str(java.parents[1]),
            "ONEFOLD_HOME": str(self.home),
            "ONEFOLD_JARS": str(PROJECT / ".jars"),
            "ONEFOLD_EXPORTS_BELOW": json.dumps(EXPORTS_BELOW),
            **settings,
        }

    def run(self, *words: str, **environ: str) -> Done:
        """A command of `onefold`."""
        return self._run([str(Path(sys.executable).with_name("onefold")), *words], environ)

    def python(self, script: str) -> Done:
        """A script."""
        return self._run([sys.executable, "-c", script], {})

    def _run(self, words: list[str], environ: Mapping[str, str]) -> Done:
        given = {**self._environment, **environ}
        done = subprocess.run(words, cwd=self.home, env=given, capture_output=True, text=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    def started(self) -> list[dict[str, list[str]]]:
        """The arguments and the variables' names of every Java that ran."""
        return [json.loads(line) for line in self._kept.read_text().splitlines()]


@pytest.fixture(params=["postgres", "rest"])
def catalog(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The settings of a real catalog of each kind that has secrets."""
    yield from catalog_with_canaries(request.param, request)


@pytest.mark.by_day("rest", why="tests/dags tries a catalog on Postgres")
def test_s4_a_canary_in_every_secret_setting_is_in_no_output(catalog: dict[str, str], tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.put("things/1.jsonl", [thing(0, "a"), thing(1, "b"), thing(2, "b"), line(3, {"id": "c", "n": "none"})])
    commands = Commands(project, settings_with_canaries(tmp_path / "events") | catalog)

    said = {"run": commands.run("run", "things")}
    for words in ("config", "config --json", "batches things --json", "show things", "prove things", "doctor things"):
        said[words] = commands.run(*words.split())
    said["no catalog"] = commands.run("show", "things", ONEFOLD_CATALOG=unreachable(catalog["ONEFOLD_CATALOG"]))

    assert {words: done.code for words, done in said.items()} == dict.fromkeys(said, 0) | {"no catalog": 1}, said
    files = files_below(tmp_path)
    assert leaks(files | {words: done.out + done.err for words, done in said.items()}) == {}
    events = "".join(text for name, text in files.items() if "/events/" in name)
    assert '"SparkListenerEnvironmentUpdate"' in events
    assert events.count("spark.sql.catalog.other.credential") > 3, "of each job, too"
    started = commands.started()
    assert any("--conf" in java["arguments"] for java in started)
    given = {name for java in started for name in java["environment"]}
    assert "JAVA_HOME" in given
    assert [name for name in given if name in OTHERS] == []


OPENED = """
from onefold.lake import Lake
from onefold.settings import load_settings
from onefold.spark.session import open_session
session = open_session(Lake(load_settings()))
hadoop = session._jsparkSession.sessionState().newHadoopConf()
print([hadoop.get("fs.s3a.secret.key"), session.conf.get("spark.ssl.keyPassword"), session.conf.get("spark.x.token")])
"""


def test_s4_a_secret_that_no_command_line_shows_reaches_sparks_context_and_who_opens_files(tmp_path: Path) -> None:
    conf = {"spark.hadoop.fs.s3a.secret.key": "a", "spark.ssl.keyPassword": "b", "spark.x.token": "c"}
    commands = Commands(Project(tmp_path), {"ONEFOLD_SPARK_CONF": json.dumps(conf)})

    done = commands.python(OPENED)

    assert done.out.splitlines()[-1:] == ["['a', 'b', 'c']"], done.err
    assert not [word for java in commands.started() for word in java["arguments"] if word.startswith(tuple(conf))]


def unreachable(uri: str) -> str:
    """The same address at a port where nothing listens."""
    server, _, port = uri.partition("127.0.0.1:")
    _, slash, rest = port.partition("/")
    return f"{server}127.0.0.1:9{slash}{rest}"
