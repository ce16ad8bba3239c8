"""The one SparkSession of a test process, and the launcher that runs Spark steps in it."""

from __future__ import annotations

import os
import tempfile
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from onefold.lake import Lake
from onefold.operations.in_process import InSession
from onefold.processes import in_environment
from onefold.settings import Settings
from tests.support.files import EXPORTS_BELOW
from tests.support.jvm import INTERPRETED, UNCHECKED, long_lived

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parents[2]
SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.buffer.pageSize": "1m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "2",
}
"""For some hundred rows: no more tasks than cores; and 1 MB for a sort, where Spark would take 32."""
PLANNED_ONCE = {
    **INTERPRETED,
    **UNCHECKED,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.iceberg.vectorization.enabled": "false",
}
"""For batches of some rows: no plan is compiled or made again after each stage, and files are read row by row. Each
saves up to a tenth of the CPU of a batch."""


def lake_in(folder: Path, conf: dict[str, str] = SMALL) -> Lake:
    """An empty lake in a folder; relative paths of datasets start there too."""
    own = Settings(
        home=folder, lake="lake", catalog=None, spark_master="local[2]", spark_conf=conf, exports_below=EXPORTS_BELOW
    )
    return Lake(own)


@cache
def shared_session() -> SparkSession:
    """The process's one session, with the product's own settings and a lake of its own."""
    from onefold.spark.session import open_session
    from tests.support import gateway

    folder = Path(tempfile.mkdtemp(prefix="onefold-spark-"))
    os.environ.setdefault("ONEFOLD_JARS", str(PROJECT / ".jars"))
    places = {"spark.local.dir": str(folder / "local"), "spark.sql.warehouse.dir": str(folder / "unused")}
    gateway.lighten()
    # Whichever test opens it first, settings of its project are not those of the session.
    with in_environment({**long_lived(), "ONEFOLD_HOME": str(folder)}):
        session = open_session(lake_in(folder, SMALL | places), "onefold tests")
    gateway.remember_columns(session)
    return session


def session_on(lake: Lake) -> SparkSession:
    """A session in the shared JVM whose catalog is a lake's."""
    from onefold.spark.settings import session_settings

    session = shared_session().newSession()
    for name, value in session_settings(lake).items():
        if name.startswith("spark.sql.catalog."):
            session.conf.set(name, value)
    return session


def small_session_on(lake: Lake) -> SparkSession:
    """A session in the shared JVM on a lake, for batches of some rows."""
    return planned_once(session_on(lake))


def planned_once(session: SparkSession) -> SparkSession:
    """A session that plans as `PLANNED_ONCE` says."""
    for name, value in PLANNED_ONCE.items():
        session.conf.set(name, value)
    return session


class OnSharedSession(InSession):
    """Runs Spark steps in the shared JVM; a session on the lake is opened by the first."""

    def __init__(self, lake: Lake, small: bool = False) -> None:
        del small  # the JVM is the tests' own, and it runs already
        self.lake = lake

    @cached_property
    def session(self) -> SparkSession:  # type: ignore[override]
        return small_session_on(self.lake)
