"""S4 in Airflow: a canary in every secret setting is found in no log, XCom, lineage event or document of a run."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.airflow_process import Probe
from tests.support.canaries import CANARY, catalog_with_canaries, files_below, leaks, settings_with_canaries
from tests.support.project import Project, thing

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1800), pytest.mark.usefixtures("airflow_database")]
DONE = dict.fromkeys(("plan", "land", "dedup", "upsert", "gate", "publish", "report"), "success")
SPARK_SUBMIT = f"""\
#!{sys.executable}
import json, os, pathlib, sys
with (pathlib.Path(__file__).parent / "started.jsonl").open("a") as kept:
    print(json.dumps({{"arguments": sys.argv[1:], "environment": sorted(os.environ)}}), file=kept)
os.execv({str(Path(sys.executable).with_name("spark-submit"))!r}, sys.argv)
"""


@pytest.fixture(params=["postgres", pytest.param("rest", marks=pytest.mark.nightly)])
def catalog(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The settings of a real catalog of each kind that has secrets."""
    yield from catalog_with_canaries(request.param, request)


@pytest.mark.nightly(
    reason="tests/process/test_secrets.py looks at every setting by day, and test_submission shows no password"
)
def test_s4_a_canary_in_every_secret_setting_is_in_no_output_of_a_dag(
    probe: Probe, catalog: dict[str, str], tmp_path: Path, airflow_environ: dict[str, str]
) -> None:
    project = Project(tmp_path)
    project.put("things/1.jsonl", [thing(0, "a"), thing(1, "b"), thing(2, "b")])
    program, lineage = tmp_path / "bin" / "spark-submit", tmp_path / "lineage.jsonl"
    program.parent.mkdir()
    program.write_text(SPARK_SUBMIT)
    program.chmod(0o755)
    transport = {"type": "file", "log_file_path": str(lineage), "append": True}
    where = {
        **settings_with_canaries(tmp_path / "events"),
        **catalog,
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "PATH": os.pathsep.join((str(program.parent), os.environ["PATH"])),
        "ONEFOLD_HOME": str(tmp_path),
        "ONEFOLD_LAKE": str(tmp_path / "lake"),
    }

    found = probe("run", "things", "{}", **where)

    assert (found["state"], found["tasks"]) == ("success", DONE), found["log"][-5000:].replace(CANARY, "canary")
    shutil.copytree(airflow_environ["AIRFLOW_HOME"], tmp_path / "airflow")  # its database has rendered templates
    files = files_below(tmp_path)
    assert leaks(files | {"the run": json.dumps(found, default=str)}) == {}
    assert any('"SparkListenerEnvironmentUpdate"' in text for name, text in files.items() if "/events/" in name)
    assert '"COMPLETE"' in lineage.read_text()
    started = [json.loads(line) for line in program.with_name("started.jsonl").read_text().splitlines()]
    assert [spark["arguments"][-5] for spark in started] == ["things"] * 3, "dedup, upsert, gate"
    names = {name for spark in started for name in spark["environment"]}
    assert {"ONEFOLD_CATALOG", "PATH"} <= names
    assert [name for name in names if "AIRFLOW" in name or "NOTIFY" in name] == []
