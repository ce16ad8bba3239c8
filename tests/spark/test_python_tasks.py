"""What our tasks leave in Spark's Python workers: nothing that the next task would look through again."""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipimport import zipimporter

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from onefold.spark.python_tasks import lightened, map_in_python
from onefold.values.arrow_functions import with_decimals

pytestmark = pytest.mark.spark
STATE = "worker int, archives int, frozen int, value long"


def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The worker's process, how many readers of archives it has, how many objects its collector passes over; and the
    rows, each of them once."""
    for batch in batches:
        readers = sum(isinstance(reader, zipimporter) for reader in sys.path_importer_cache.values())
        state = {"worker": os.getpid(), "archives": readers, "frozen": gc.get_freeze_count()}
        columns = {name: pa.array([number] * len(batch), pa.int32()) for name, number in state.items()}
        yield pa.RecordBatch.from_pydict(columns | {"value": batch.column(0)})


def test_the_next_task_of_a_worker_has_no_archive_to_read_and_few_objects_to_look_through(spark: SparkSession) -> None:
    met, again = set[int](), list[Row]()
    for _ in range(50):  # Spark takes any of its idle workers
        rows = map_in_python(spark.range(0, 3, 1, 1), look, STATE).collect()
        assert [row.value for row in rows] == [0, 1, 2]
        again += [row for row in rows if row.worker in met]
        met |= {row.worker for row in rows}
    assert again, "a worker has had a second task"
    assert {row.archives for row in again} == {0}
    assert all(row.frozen > 10_000 for row in again)


def test_a_function_of_columns_gives_what_it_gave(spark: SparkSession) -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    keys = [json.dumps({"schema": decimal, "payload": "ANc="}).encode(), b"plain", None]
    rows = spark.createDataFrame([(key,) for key in keys], "key binary")
    made, plain, none = (row.key for row in rows.select(with_decimals(F.col("key")).alias("key")).collect())
    assert (json.loads(made)["payload"], bytes(plain), none) == ("2.15", b"plain", None)


def test_what_a_later_task_imports_from_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster our own package is an archive."""
    names = ["archived_now", "archived_later"]
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        for name in names:
            archive.writestr(f"package_of_tasks/{name}.py", f"said = {name!r}")
        archive.writestr("package_of_tasks/__init__.py", "")
    monkeypatch.syspath_prepend(str(tmp_path / "code.zip"))
    frozen = gc.get_freeze_count()

    def imported(given: Iterable[str]) -> Iterator[str]:
        for name in given:
            yield importlib.import_module(f"package_of_tasks.{name}").said

    try:
        for name in names:
            assert list(lightened(imported)([name])) == [name]
            assert not [found for found in sys.path_importer_cache.values() if isinstance(found, zipimporter)]
    finally:
        for name in [name for name in sys.modules if name.startswith("package_of_tasks")]:
            del sys.modules[name]
        if not frozen:
            gc.unfreeze()


def test_a_task_that_fails_or_is_not_read_to_its_end_says_so_and_leaves_the_worker_as_light() -> None:
    ended = []

    def run(numbers: Iterable[int]) -> Iterator[int]:
        try:
            for number in numbers:
                yield 1 // number
        finally:
            ended.append(True)

    frozen = gc.get_freeze_count()
    try:
        taken = lightened(run)([1, 1])
        assert next(taken) == 1
        taken.close()  # type: ignore[attr-defined]
        assert gc.get_freeze_count() > 0
        with pytest.raises(ZeroDivisionError):
            list(lightened(run)([0]))
        assert ended == [True, True]
    finally:
        if not frozen:
            gc.unfreeze()
