"""Processes: what a started process gets, and how a command ends."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def in_environment(given: Mapping[str, str]) -> Iterator[None]:
    """Processes that are started meanwhile inherit what is given."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                del os.environ[name]
            else:
                os.environ[name] = was


def end_soon() -> None:
    """At the end of this process, do not go through every object once more: of Spark's and Great Expectations' modules
    that is most of a second."""
    atexit.register(gc.freeze)
