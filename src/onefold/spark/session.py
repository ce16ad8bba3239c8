"""One SparkSession with the lake's catalog."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from onefold.lake import Lake
from onefold.processes import in_environment
from onefold.spark.package import packed
from onefold.spark.settings import class_path, secret_settings, session_settings


def open_session(lake: Lake, name: str = "onefold", small: bool = False) -> SparkSession:
    """The process's session: an active session with the lake's catalog, or a new session.

    Under spark-submit the master comes from there; otherwise from the settings. `small` is
    for the driver of small batches (`onefold.operations.job_size`).
    """
    builder = SparkSession.builder.appName(name)
    if not os.environ.get("SPARK_ENV_LOADED"):  # set by spark-submit's scripts
        builder = builder.master(lake.settings.spark_master)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers': else whichever python3 comes first
    for key, value in session_settings(lake, small).items():
        builder = builder.config(key, value)
    with in_environment(class_path(lake)):
        session = builder.getOrCreate()
    for key, value in secret_settings(lake).items():  # a catalog is opened when it is first named
        session.conf.set(key, value)
    context = session.sparkContext
    if not (context.master or "").startswith("local"):
        context.addPyFile(str(packed()))
    context.setLogLevel("ERROR")
    return session
