"""How the tests of a module begin: a project that is prepared once, and copied for each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.support.project import Project

T = TypeVar("T")


class Kept:
    """The place of a module's projects, and copies of what some of its tests begin with.

    Each test has its project at the same place: the files of a lake name each other by whole paths.
    """

    def __init__(self, folder: Path) -> None:
        self._home, self._copies = folder / "project", folder / "copies"
        self._returned: dict[str, Any] = {}

    def empty(self) -> Project:
        """A project without anything of an earlier test."""
        shutil.rmtree(self._home, ignore_errors=True)
        return Project(self._home)

    def begin(self, name: str, prepare: Callable[[], T]) -> T:
        """Prepare the project; or, where an earlier test has done so under the name, copy what it made. What `prepare`
        returned."""
        copy = self._copies / name
        if name not in self._returned:
            self._returned[name] = prepare()
            shutil.copytree(self._home, copy)
        else:
            shutil.rmtree(self._home)
            shutil.copytree(copy, self._home)
        return self._returned[name]  # type: ignore[no-any-return]
