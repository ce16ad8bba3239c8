"""What the shared session is: where its classes come from, and questions that are asked of it at once."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest
from pyspark.sql import SparkSession

from onefold.errors import UsageError
from onefold.spark.concurrently import at_once


def test_classes_of_our_jars_come_from_where_an_archive_can_hold_them(session: SparkSession) -> None:
    jvm = session._jvm
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()

    for name in ("org.apache.iceberg.spark.SparkCatalog", "org.sqlite.JDBC"):
        assert loader.loadClass(name).getClassLoader().equals(loader)


def test_what_is_asked_at_once_is_asked_side_by_side_of_the_session_and_answered_in_order(
    session: SparkSession,
) -> None:
    met = threading.Barrier(2, timeout=60)

    def count_rows(number: int) -> tuple[int, str]:
        met.wait()
        return session.range(number).count(), session._jvm.SparkSession.active().hashCode()

    answers = at_once(session, partial(count_rows, 3), partial(count_rows, 5))

    own = session._jsparkSession.hashCode()
    assert answers == [(3, own), (5, own)]


def test_the_first_failure_of_simultaneous_queries_is_raised_when_all_have_ended(session: SparkSession) -> None:
    ended = []

    def slow() -> None:
        time.sleep(0.5)
        ended.append(session.range(1).count())

    def fails(said: str) -> None:
        raise UsageError(said)

    with pytest.raises(UsageError, match="one"):
        at_once(session, slow, partial(fails, "one"), partial(fails, "two"))
    assert ended == [1]
