"""Processes: what a started process gets, and how a command ends."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
from collections.abc import Iterator, Mapping

_OTHERS = ("AIRFLOW_", "_AIRFLOW_", "__AIRFLOW_", "ONEFOLD_NOTIFY")
"""What the variables begin with that Spark has no use for: Airflow's keys and connections, logins of notifiers."""


@contextlib.contextmanager
def in_environment(given: Mapping[str, str]) -> Iterator[None]:
    """Processes that are started meanwhile inherit what is given."""
    with _environment_of({**os.environ, **given}):
        yield


@contextlib.contextmanager
def in_environment_of_spark(given: Mapping[str, str]) -> Iterator[None]:
    """Processes that are started meanwhile inherit what is given, and nothing of Airflow's secrets."""
    with _environment_of(environment_of_spark(given)):
        yield


def environment_of_spark(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process of Spark's: this process's own without Airflow's, and what is given."""
    own = {name: value for name, value in os.environ.items() if not name.upper().startswith(_OTHERS)}
    return {**own, **given}


@contextlib.contextmanager
def _environment_of(wanted: Mapping[str, str]) -> Iterator[None]:
    names = {name for name, _ in os.environ.items() ^ wanted.items()}
    before = {name: os.environ.get(name) for name in names}
    _set({name: wanted.get(name) for name in names})
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def end_soon() -> None:
    """At the end of this process, do not go through every object once more: of Spark's and Great Expectations' modules
    that is most of a second."""
    atexit.register(gc.freeze)
