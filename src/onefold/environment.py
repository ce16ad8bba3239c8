"""Variables of the environment for processes that are started."""

from __future__ import annotations

import contextlib
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
