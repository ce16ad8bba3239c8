"""Which driver is started for small batches only: by what is planned, and by the table that it meets."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from onefold.dataset import Dataset
from onefold.iceberg.commits import RECORD_PROPERTY, ROOT
from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.plan import GapPlan, ObjectsPlan, PinnedObject, Plan, RangesPlan, ReplayPlan
from onefold.offsets import TopicPartition
from onefold.operations.job_size import all_small
from onefold.spark.settings import SMALL_BYTES, class_path, session_settings
from onefold.tables.names import state_name

MakeDataset = Callable[..., Dataset]
FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"
WHERE = TopicPartition(cluster="c", topic="t", incarnation=1, partition=0)


def objects(*sizes: int) -> ObjectsPlan:
    pinned = [PinnedObject(name=f"{number}", size=size, etag="e") for number, size in enumerate(sizes)]
    return ObjectsPlan(source="s", place="p", objects=pinned)


def ranges(*counts: int) -> RangesPlan:
    return RangesPlan(source="s", ranges=[OffsetRange(topic_partition=WHERE, start=7, end=7 + n) for n in counts])


def replay(records: int) -> ReplayPlan:
    return ReplayPlan(source="s", origin="b", objects=["a"], records=records, code="c")


GAP = GapPlan(source="s", dataset="d", key={"id": "a"}, version=3)


@pytest.mark.parametrize(
    ("plans", "small"),
    [
        ([], True),
        ([objects(SMALL_BYTES - 1, 1)], True),
        ([objects(SMALL_BYTES, 1)], False),
        ([ranges(4000, 96)], True),
        ([ranges(4000, 97)], False),
        ([replay(4096)], True),
        ([replay(4097)], False),
        ([GAP, objects(1), objects(SMALL_BYTES)], True),
        ([GAP, objects(SMALL_BYTES + 1), objects(1)], False),
    ],
)
def test_a_driver_is_small_if_each_of_its_batches_is(
    lake: Lake, dataset: MakeDataset, plans: list[Plan], small: bool
) -> None:
    assert all_small(lake, dataset(), plans) is small


def test_a_small_batch_into_a_large_table_is_not_small(
    lake: Lake, dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    things = dataset()
    catalog = open_catalog(lake)
    catalog.create_namespace_if_not_exists(things.target.namespace)
    rows = pa.table({"id": ["a", "b"]})
    table = catalog.create_table((things.target.namespace, state_name(things)), rows.schema)
    table.append(rows, snapshot_properties={RECORD_PROPERTY: ROOT})
    state = find_state(lake, things)
    assert state is not None
    written = sum(task.file.file_size_in_bytes for task in table.scan().plan_files())
    assert state.size == written > 0

    monkeypatch.setattr("onefold.operations.job_size._TABLE_BYTES", written)
    assert all_small(lake, things, [objects(1)])
    monkeypatch.setattr("onefold.operations.job_size._TABLE_BYTES", written - 1)
    assert not all_small(lake, things, [objects(1)])


def test_only_a_small_driver_does_without_the_second_compiler(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onefold.spark.settings.jars", lambda _: [])
    options = "spark.driver.extraJavaOptions"
    assert FIRST_COMPILER_ONLY in session_settings(lake, small=True)[options].split()
    assert FIRST_COMPILER_ONLY not in session_settings(lake)[options]
    own = Lake(lake.settings.model_copy(update={"spark_conf": {options: "-Xint"}}))
    assert session_settings(own, small=True)[options] == "-Xint"


def test_our_jars_are_on_the_class_path_before_others_and_not_where_jars_of_the_users_must_be_seen(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.spark.settings.jars", lambda name: [Path(f"/jars/{name}.jar")])
    monkeypatch.delenv("SPARK_DIST_CLASSPATH", raising=False)
    assert class_path(lake) == {"SPARK_DIST_CLASSPATH": "/jars/spark.jar"}
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", "/own/a.jar:/jars/spark.jar")
    assert class_path(lake) == {"SPARK_DIST_CLASSPATH": "/jars/spark.jar:/own/a.jar"}

    packages = Lake(lake.settings.model_copy(update={"spark_conf": {"spark.jars.packages": "a:b:1"}}))
    assert class_path(packages) == class_path(lake, ["spark.jars"]) == {}


def test_without_the_second_compiler_there_is_as_much_room_for_code_as_with_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.spark.settings.jars", lambda _: [])
    small, usual = (session_settings(lake, small=small)["spark.driver.extraJavaOptions"] for small in (True, False))
    assert room_for_code(small) >= room_for_code(usual)


def room_for_code(options: str) -> int:
    command = ["java", *options.split(), "-XX:+PrintFlagsFinal", "-version"]
    flags = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"ReservedCodeCacheSize\s*= (\d+)", flags)
    assert found
    return int(found[1])
