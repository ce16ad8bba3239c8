"""Tasks that run Python, and leave the worker so that its next task begins at once.

Spark's Python worker does two things at each task. Before it, `importlib.invalidate_caches` reads the directory of
every archive from which modules were imported again, and Spark's own are in archives: 16 readings. Behind it,
`gc.collect` looks through all modules. Together that takes 0.15 s of CPU a task, and decoding some records some
milliseconds.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T


def map_in_python(
    rows: DataFrame, run: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: T.StructType | str
) -> DataFrame:
    """What `run` makes of the Arrow batches of each task: `rows.mapInArrow(run, schema)`, by `lightened` tasks."""
    return rows.mapInArrow(lightened(run), schema)


def lightened(run: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """The same function of a task's batches; when it has ended, its worker forgets what it would look through again."""

    @wraps(run)
    def running(batches: Any) -> Iterator[Any]:
        try:
            yield from run(batches)
        finally:
            _lighten()

    return running


def _lighten() -> None:
    """Forget the readers of archives, which an import makes again where it needs them, from directories that are in
    memory; and let the collector pass over all objects that there are after the first task."""
    cached = sys.path_importer_cache
    for place in [place for place, found in cached.items() if isinstance(found, zipimporter)]:
        del cached[place]
    if not gc.get_freeze_count():
        gc.freeze()
