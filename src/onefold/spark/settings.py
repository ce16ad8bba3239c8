"""What every Spark step is started with, in this process or by spark-submit. Knows no pyspark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from onefold.lake import Lake
from onefold.setting_origins import REDACTED, holds_secret
from onefold.spark.jars import jar_home, jars
from onefold.tables.names import CATALOG

# Decoding compiles to methods of more than 8,000 bytes, which HotSpot would leave interpreted: twice the CPU.
# The second compiler is for what runs once a record. By its own thresholds, a tenth of these, it takes a third of the
# CPU of a step of half a minute on few cores, most of it for what is over by then.
SMALL_BYTES = 4 << 20
"""Landed bytes up to which a batch is small."""
_COMPILE_ALL = (
    "-XX:-DontCompileHugeMethods -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# The first compiler alone: for what is small the second takes more CPU than it saves. Without the second,
# HotSpot keeps 48 MB for all code, which some hundred plans fill, and then the JVM ends: as much as with both.
_COMPILE_ONCE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

SETTINGS = {
    "spark.executor.extraJavaOptions": _COMPILE_ALL,
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.variant.allowDuplicateKeys": "true",  # of duplicate JSON names the last counts
    # Tables that are bucketed alike are joined bucket by bucket, without an exchange.
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    # And of the buckets only those that both sides have: without it a join reads every bucket of the table.
    "spark.sql.sources.v2.bucketing.partition.filter.enabled": "true",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    # The embedded catalog's files and small batches: no more tasks than there is data for.
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "64",
    # No session brings classes of its own; a loader for each would slow planning and the start of tasks.
    "spark.sql.artifact.isolation.enabled": "false",
    # What is kept in memory has no more parts than there is data for, either.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    # Naming the line of Python that made each column costs most of the time of planning a small batch.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Kafka by its second reader: the first, Spark's default, makes each record a Row and takes it apart again.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": REDACTED,
    "spark.ui.killEnabled": "false",  # its pages show, and change nothing
}
LOOPBACK = "127.0.0.1"
_LOCAL = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
}
"""Where driver and executors are one host: nothing listens to other hosts, and no page shows every user of this host
what is queried."""
_CLASS_PATH = "SPARK_DIST_CLASSPATH"
_NO_SECRET = re.compile(r"provider|secretKeyRef|\.secrets\.|keytab|JavaOptions$")
"""User settings that are no secrets, whatever their names say, or that have to be in the command line of a JVM."""
PLACE = "tables-below"
"""The catalog's property that says where tables lie; ours, and ignored by Iceberg."""


def session_settings(lake: Lake, small: bool = False, master: str = "") -> dict[str, str]:
    """Every setting that a Spark step needs and a command line may show, for a session in this process and for
    spark-submit alike.

    `small`: what the driver is started for is over before a JVM's second compiler pays (`onefold.operations.job_size`).
    `master`: Spark's, where it is chosen here.
    """
    name = f"spark.sql.catalog.{CATALOG}"
    return {
        **SETTINGS,
        "spark.driver.extraJavaOptions": _driver_options(jar_home() / "spark" / "classes.jsa", small),
        f"{name}.{PLACE}": lake.warehouse,
        "spark.jars": ",".join(str(jar) for name in jar_sets(lake) for jar in jars(name)),
        name: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{name}.{key}": value for key, value in lake.catalog.spark_properties(lake.warehouse).items()},
        f"{name}.cache-enabled": "false",
        "spark.hadoop.fs.permissions.umask-mode": f"{lake.settings.umask:03o}",
        **lake.storage.spark_settings,
        **_trust(lake),
        **(_LOCAL if is_local(master) else {}),
        **{key: value for key, value in lake.settings.spark_conf.items() if not _secret(key, value)},
        **_redaction(lake),
    }


def is_local(master: str) -> bool:
    """Whether Spark runs on this host only: `local`, `local[*]`, …"""
    return master.startswith("local")


def address(master: str) -> dict[str, str]:
    """The variable by which everything of Spark's listens on the loopback address, where it runs on this host only."""
    return {"SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", LOOPBACK)} if is_local(master) else {}


def _redaction(lake: Lake) -> dict[str, str]:
    """What the user wants to be redacted is added to what is redacted anyway."""
    given = lake.settings.spark_conf.get("spark.redaction.regex")
    return {"spark.redaction.regex": f"{REDACTED}|(?:{given})"} if given else {}


def class_path(lake: Lake, more: Iterable[str] = ()) -> dict[str, str]:
    """The variable by which a driver on this machine has its jars from the start, behind Spark's own.

    Classes of `spark.jars` are none that `make classes` archives: Spark loads these by a loader of its own. But what
    is on the class path does not see what that loader has, nor give way to it: none where jars of the user's are
    there, by the settings or by `more` settings that are given.
    """
    if {"spark.jars", "spark.jars.packages"} & {*lake.settings.spark_conf, *more}:
        return {}
    given = os.environ.get(_CLASS_PATH, "").split(":")
    own = [str(jar) for name in jar_sets(lake) for jar in jars(name)]
    return {_CLASS_PATH: ":".join([*own, *(path for path in given if path and path not in own)])}


def _trust(lake: Lake) -> dict[str, str]:
    bundle = lake.settings.s3_ca_bundle
    if bundle is None or lake.storage.access is None:
        return {}
    from onefold.spark.ca_bundle import trust_settings

    return trust_settings(bundle, lake.settings.path(".onefold"))


def _driver_options(classes: Path, small: bool) -> str:
    """With Spark's classes from an archive, if `make classes` left any; a JVM that it does not fit goes without."""
    options = f"{_COMPILE_ALL} {_COMPILE_ONCE}" if small else _COMPILE_ALL
    if not classes.is_file() or " " in str(classes):
        return options
    return f"{options} -XX:SharedArchiveFile={classes} -Xlog:cds=off -Xlog:cds+dynamic=off"


def secret_settings(lake: Lake) -> dict[str, str]:
    """The secret settings of a Spark step. The driver gives them to the JVM that runs, before it makes its context.

    They are in no command line, which every user of the machine reads. As settings of the context, and not of a
    session, Spark redacts them in its event log, and its executors get them with the others.
    """
    of_catalog = {f"spark.sql.catalog.{CATALOG}.{name}": value for name, value in lake.catalog.secrets.items()}
    given = {key: value for key, value in lake.settings.spark_conf.items() if _secret(key, value)}
    return of_catalog | lake.storage.spark_secrets | given


def _secret(key: str, value: str) -> bool:
    return holds_secret(key, value) and not _NO_SECRET.search(key)


def jar_sets(lake: Lake) -> list[str]:
    """The sets of jars that a lake needs."""
    catalog = [lake.catalog.jars.name] if lake.catalog.jars else []
    return ["spark", *lake.storage.jar_sets, *catalog]
