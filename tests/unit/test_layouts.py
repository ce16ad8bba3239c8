"""Layouts: what the names of objects say, and that each layout is one file in each package that knows it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from onefold.dataset.layouts import LAYOUTS, export_layouts
from onefold.dataset.layouts.connect import CONNECT
from onefold.dataset.layouts.layout import Layout
from onefold.dataset.layouts.segments import SEGMENTS
from onefold.draft.exports import newest_of_export
from onefold.draft.readers import readers
from onefold.errors import NoDraftError
from onefold.landing.rewrite import REWRITERS
from onefold.records import layouts as spark_readers
from onefold.storage import LocalStorage
from tests.support.added_layout import NAME, add_layout, line

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "onefold"
SHARED = {"dataset/layouts": {"layout"}, "records/layouts": set(), "draft/readers": {"reader", "lines"}}
"""The packages with one file a layout, and the files of each that several layouts use."""
NOT_A_LAYOUT = {
    "cli/demo.py": "a setting", "orchestration/connections.py": "a setting",
    "draft/draft.py": "a key of dataset files, and a name for a cluster or namespace without one",
    "kafka/activity.py": "a logger", "kafka/raw_log.py": "a logger", "kafka/logins.py": "a service of Kerberos",
    "records/layouts/kafka.py": "Spark's own source", "spark/jars.py": "a set of jars",
}  # fmt: skip
"""The files that say `kafka` and mean no layout, with what they mean."""


def layout_files(folder: str) -> set[str]:
    """The layouts that have a file in a package."""
    return {file.stem for file in (SOURCE / folder).glob("[!_]*.py")} - SHARED[folder]


def test_each_layout_has_one_file_in_each_package_that_knows_it() -> None:
    assert layout_files("dataset/layouts") == set(LAYOUTS)
    assert layout_files("records/layouts") == set(LAYOUTS)
    assert layout_files("draft/readers") == set(readers()) <= set(export_layouts())


def test_no_other_file_spells_the_name_of_a_layout() -> None:
    files = [file for folder in ("src", "spark_jobs", "dags", "plugins") for file in (PROJECT / folder).rglob("*.py")]
    found = {
        (file.relative_to(PROJECT).as_posix().removeprefix("src/onefold/"), node.value)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value in LAYOUTS
    }
    homes = {(f"dataset/layouts/{name}.py", name) for name in LAYOUTS}
    envelopes = {("dataset/envelopes.py", "connect")}
    assert found - homes - envelopes == {(file, "kafka") for file in NOT_A_LAYOUT}


def test_each_layout_is_called_as_its_row_and_has_a_reader_with_a_count() -> None:
    assert {name: layout.name for name, layout in LAYOUTS.items()} == {name: name for name in LAYOUTS}
    assert all(isinstance(layout, Layout) for layout in LAYOUTS.values())
    for name in LAYOUTS:
        reader = spark_readers.reader_of(name)
        assert callable(reader.read)
        assert callable(reader.count)
    assert set(REWRITERS) <= set(LAYOUTS)


def test_no_two_readers_of_drafts_are_asked_at_the_same_time() -> None:
    ranks = [reader.rank for reader in readers().values()]
    assert len(set(ranks)) == len(ranks)


@pytest.mark.parametrize("drafts", [True, False])
def test_an_added_layout_is_drafted_once_it_has_a_reader_of_drafts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, drafts: bool
) -> None:
    add_layout(monkeypatch, tmp_path, drafts=drafts)
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "a.tsv").write_text(line(1, "{}") + line(3, "{}"))
    store = LocalStorage(tmp_path / "export")
    if drafts:
        layout, sample = newest_of_export("things", store, 10)
        assert (layout, [record.offset for record in sample.records], sample.missing) == (NAME, [1, 3], 1)
    else:
        with pytest.raises(NoDraftError, match=r"a\.tsv is of no known layout.*--layout segments\)\."):
            newest_of_export("things", store, 10)
        with pytest.raises(NoDraftError, match="onefold init does not read layout tsv"):
            newest_of_export("things", store, 10, layout=NAME)


@pytest.mark.parametrize(
    ("layout", "name", "role"),
    [
        ("kcat", "a/b.jsonl", "values"), ("kcat", "b.ndjson.gz", "values"), ("kcat", "b.kcat", "values"),
        ("kcat", "b.parquet", None), ("connect", "t+0+0000000012.json", "values"),
        ("connect", "x/t.a-b+12+0.keys.json", "keys"), ("connect", "t+0+7.headers.json.gz", "headers"),
        ("connect", "t+0+7.avro", "values"), ("connect", "t+0+7.keys.avro", "keys"),
        ("connect", "topics/t/tombstone/t+0+7.keys.avro", "values"),
        ("connect", "topics/t/tombstone/t+0+7.headers.json", "headers"),
        ("connect", "a.tombstone/t+0+7.keys.json", "keys"),
        ("connect", "t+0+7.snappy.parquet", "values"), ("connect", "t+0+7.headers.gz.parquet", "headers"),
        ("connect", "t+0+7.avro.gz", None), ("connect", "t+0+7.snappy.avro", None),
        ("aiven", "a/t-0-12", "values"), ("aiven", "t-a-0-12.gz", "values"), ("aiven", "t-0-12.jsonl.gz", "values"),
        ("aiven", "t-0-12.zst", None), ("aiven", "t-0.gz", None), ("aiven", "12.gz", None),
        ("parquet", "x/part-0.snappy.parquet", "values"), ("parquet", "_SUCCESS", None),
        ("parquet", "a.parquet.crc", None),
        ("connect", "t+0+7.other.json", None), ("connect", "t.json", None), ("connect", "t+x+7.json", None),
    ],
)  # fmt: skip
def test_the_name_of_an_object_says_its_role(layout: str, name: str, role: str | None) -> None:
    assert LAYOUTS[layout].role_of(name) == role


@pytest.mark.parametrize(
    ("layout", "name", "position"),
    [
        ("connect", "x/t.a-b+12+0000000007.keys.snappy.parquet", ("t.a-b", 12, 7)),
        ("aiven", "2026-03-01/t-1-2-3-0000000045.gz", ("t-1-2", 3, 45)),
        ("parquet", "t+0+7.parquet", None), ("kcat", "t-0-7.jsonl", None), ("aiven", "t.gz", None),
    ],
)  # fmt: skip
def test_the_name_of_an_object_says_its_position_where_the_layout_has_it(layout: str, name: str, position: Any) -> None:
    assert LAYOUTS[layout].position_of(name) == position


def test_an_object_is_grouped_with_companions_of_any_format() -> None:
    names = ["t+0+7.avro", "t+0+7.keys.json", "t+0+7.headers.json.gz", "t+0+7.keys.snappy.parquet"]
    assert {CONNECT.group_of(f"a/{name}") for name in names} == {"a/t+0+7"}
    assert CONNECT.group_of("b/t+0+7.avro") != CONNECT.group_of("a/t+0+7.avro") != CONNECT.group_of("a/t+0+8.avro")


def test_names_on_a_brokers_disk_and_in_tiered_storage_say_topic_partition_and_offset() -> None:
    assert SEGMENTS.position_of("a.b-c-12/00000000000000012345.log") == ("a.b-c", 12, 12345)
    assert SEGMENTS.position_of("broker-1/x/orders-0/00000000000000000000.log") == ("orders", 0, 0)
    tiered = "orders-LWgrMmVrT0a__7a4SasuPA/3/00000000000000000007-bCqX9U--S-6U8XUM9II25Q.log"
    assert SEGMENTS.position_of(tiered) == ("orders", 3, 7)
    for other in ("orders-0/1.log", "orders/00000000000000000000.log", "orders-0.abc-delete/00000000000000000000.log"):
        assert SEGMENTS.position_of(other) is None
        assert SEGMENTS.is_ignored(other)
    for companion in ("00000000000000000000.txnindex", "leader-epoch-checkpoint", "00000000000000000012.snapshot"):
        assert not SEGMENTS.is_ignored(f"orders-0/{companion}")
