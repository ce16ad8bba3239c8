"""One SparkSession with the lake's catalog."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from onefold.lake import Lake
from onefold.processes import in_environment_of_spark
from onefold.spark.package import packed
from onefold.spark.settings import address, class_path, secret_settings, session_settings


def open_session(lake: Lake, name: str = "onefold", small: bool = False) -> SparkSession:
    """The process's session: an active session with the lake's catalog, or a new session.

    Under spark-submit the master comes from there; otherwise from the settings. `small` is
    for the driver of small batches (`onefold.operations.job_size`).
    """
    lake.restrict_new_files()
    lake.catalog.create_files()
    submitted = bool(os.environ.get("SPARK_ENV_LOADED"))  # set by spark-submit's scripts
    master = "" if submitted else lake.settings.spark_master
    settings = session_settings(lake, small, master)
    if not submitted:
        settings["spark.master"] = master
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers': else whichever python3 comes first
    with in_environment_of_spark({**class_path(lake), **address(master)}):
        _start_jvm(settings)
    builder = SparkSession.builder.appName(name)
    for key, value in {**settings, **secret_settings(lake)}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    context = session.sparkContext
    if not (context.master or "").startswith("local"):
        context.addPyFile(str(packed()))
    context.setLogLevel("ERROR")
    return session


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start the process's JVM, unless it runs, with what its command line may show.

    The session's settings follow through py4j's socket, which takes this process's words only.
    """
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
