"""What a session is told once it runs reaches whoever opens files for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold.errors import UsageError
from onefold.lake import Lake
from onefold.spark.concurrently import at_once
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


def test_classes_of_our_jars_come_from_where_an_archive_can_hold_them(session: SparkSession) -> None:
    jvm = session._jvm
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()

    for name in ("org.apache.iceberg.spark.SparkCatalog", "org.sqlite.JDBC"):
        assert loader.loadClass(name).getClassLoader().equals(loader)


def test_what_is_asked_at_once_is_asked_side_by_side_of_the_session_and_answered_in_order(
    session: SparkSession,
) -> None:
    met = threading.Barrier(2, timeout=60)

    def asked(number: int) -> tuple[int, str]:
        met.wait()
        return session.range(number).count(), session._jvm.SparkSession.active().hashCode()

    answers = at_once(session, partial(asked, 3), partial(asked, 5))

    own = session._jsparkSession.hashCode()
    assert answers == [(3, own), (5, own)]


def test_of_what_is_asked_at_once_the_first_that_failed_is_told_when_all_have_ended(session: SparkSession) -> None:
    ended = []

    def slow() -> None:
        time.sleep(0.5)
        ended.append(session.range(1).count())

    def fails(said: str) -> None:
        raise UsageError(said)

    with pytest.raises(UsageError, match="one"):
        at_once(session, slow, partial(fails, "one"), partial(fails, "two"))
    assert ended == [1]
