"""Files of tables, taken away for a while: opening one of them fails."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.tables.names import STAGING, state_name, verdict_name

EXPORTS_BELOW = [".", "s3://", str(Path(__file__).parents[2]), tempfile.gettempdir()]
"""Where tests keep exports: their project, buckets, the sample, and temporary folders of their own."""


def verdict_files(lake: Lake, dataset: Dataset) -> Path:
    """The folder of the verdict table's files, a folder an attempt in it."""
    return _warehouse(lake) / STAGING / verdict_name(dataset) / "data"


def state_files(lake: Lake, dataset: Dataset) -> Path:
    """The folder of the state table's files, a folder a partition in it."""
    return _warehouse(lake) / "tests" / state_name(dataset) / "data"


def _warehouse(lake: Lake) -> Path:
    return Path(lake.warehouse.removeprefix("file:"))


@contextlib.contextmanager
def away(paths: Iterable[Path]) -> Iterator[None]:
    """Takes files or folders away, and gives them back."""
    gone = list(paths)
    for path in gone:
        path.rename(path.with_name(f"away-{path.name}"))
    try:
        yield
    finally:
        for path in gone:
            path.with_name(f"away-{path.name}").rename(path)
