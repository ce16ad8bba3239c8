"""What a session is told once it runs reaches whoever opens files for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from onefold.lake import Lake
from onefold.spark.session import open_session


def test_a_secret_of_hadoop_is_told_to_the_session_that_runs(
    session_on: Callable[[Lake], SparkSession], lake: Lake, tmp_path: Path
) -> None:
    session_on(lake)
    conf = {"spark.hadoop.fs.s3a.secret.key": "s3cr3t", "spark.hadoop.fs.s3a.connection.maximum": "9"}
    session = open_session(Lake(lake.settings.model_copy(update={"spark_conf": conf})))
    try:
        opened = session._jsparkSession.sessionState().newHadoopConf()
        assert opened.get("fs.s3a.secret.key") == "s3cr3t"
        assert "s3cr3t" not in str(session.sparkContext.getConf().getAll())
    finally:
        session.conf.unset("fs.s3a.secret.key")
