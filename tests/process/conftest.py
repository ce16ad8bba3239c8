"""What tests of whole runs share: a project of its own, whose lake is the `lake` of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from onefold.lake import Lake
from tests.support.kept import Kept
from tests.support.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project with the dataset `things`."""
    return Project(tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """For a module whose tests begin alike: prepares that once."""
    return Kept(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def lake(project: Project) -> Lake:
    """The project's lake: the root's `session` is opened on it."""
    return project.lake
