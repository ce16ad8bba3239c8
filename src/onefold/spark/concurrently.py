"""Spark jobs side by side: while a job is planned, which takes one core, the others run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from py4j.clientserver import ClientServer
from pyspark import SparkContext, inheritable_thread_target
from pyspark.sql import SparkSession


def at_once(session: SparkSession, *asked: Callable[[], Any]) -> list[Any]:
    """The answers of functions that ask Spark and do not wait for one another, in their order.

    All have ended when this returns. Of several that fail the first one's error is raised. Where Python's threads have
    none of their own in the JVM (`PYSPARK_PIN_THREAD=false`), they are asked one after the other.
    """
    if not isinstance(SparkContext._gateway, ClientServer):
        return [question() for question in asked]
    java, jvm = session._jsparkSession, session._jvm
    assert jvm is not None

    def ask(question: Callable[[], Any]) -> Any:
        jvm.SparkSession.setActiveSession(java)  # what Iceberg takes for the session
        return question()

    with ThreadPoolExecutor(len(asked)) as pool:
        # One wrapper each: what it hands on, Spark writes a statement's own number into.
        answers = [pool.submit(inheritable_thread_target(session)(ask), question) for question in asked]
    return [answer.result() for answer in answers]
