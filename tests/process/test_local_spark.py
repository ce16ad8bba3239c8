"""S10: Spark on one host listens on the loopback address only, and its pages are off unless they are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jvm import short_lived
from tests.support.project import Project

pytestmark = pytest.mark.process
LISTENING = """
import json, psutil
from pyspark.sql import functions as F
from onefold.lake import Lake
from onefold.settings import load_settings
from onefold.spark.session import open_session
session = open_session(Lake(load_settings()))
session.range(100).repartition(2).cache().groupBy(F.col("id") % 3).count().collect()
processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
sockets = [socket for process in processes for socket in process.net_connections("inet") if socket.status == "LISTEN"]
context = session.sparkContext
print(json.dumps({
    "sockets": sorted({socket.laddr.ip.removeprefix("::ffff:") for socket in sockets}),
    "count": len(sockets),
    "page": context.uiWebUrl,
    "kill": context.getConf().get("spark.ui.killEnabled"),
}))
"""


@pytest.mark.by_day("True", why="without pages it listens at fewer ports")
@pytest.mark.parametrize("asked", [False, True])
def test_s10_spark_on_one_host_listens_on_the_loopback_address_only(tmp_path: Path, asked: bool) -> None:
    project = Project(tmp_path)
    conf = {"spark.ui.enabled": "true", "spark.ui.port": "0"} if asked else {}
    (tmp_path / "onefold.toml").write_text('spark_master = "local[2]"\n')
    given = project.environment() | short_lived() | {"ONEFOLD_SPARK_CONF": json.dumps(conf)}

    words = [sys.executable, "-c", LISTENING]
    done = subprocess.run(words, env=given, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["count"] >= 3, "py4j, RPC, block manager"
    assert found["sockets"] == ["127.0.0.1"]
    assert (found["page"] is not None, found["kill"]) == (asked, "false")
