"""Tasks that run Python, and leave the worker so that its next task begins at once.

Spark's Python worker does two things at each task. Before it, `importlib.invalidate_caches` reads the directories of
archives again, once for each package that was imported from them: 16 readings, as Spark's own code is in archives.
Behind it, `gc.collect` looks through the objects of all modules. Together they take 0.1 s of CPU and more a task, where
decoding some records takes milliseconds.
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
    """The same function of a task's batches. When it ends, also by an error, its worker is left light (`_lighten`)."""

    @wraps(run)
    def running(batches: Any) -> Iterator[Any]:
        try:
            yield from run(batches)
        finally:
            _lighten()

    return running


def _lighten() -> None:
    """Forget the readers of archives, and let the collector pass over the objects that there are after the first task.

    An import that needs such a reader makes it again, from a directory that Python keeps in memory.
    """
    cached = sys.path_importer_cache
    for place in [place for place, found in cached.items() if isinstance(found, zipimporter)]:
        del cached[place]
    if not gc.get_freeze_count():
        gc.freeze()
