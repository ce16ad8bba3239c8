"""Every layout of exports, landed and read: one log is the same records, and what is damaged is named."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.sample import sample
from onefold.errors import ExportColumnError, ObjectTooLargeError, UnreadableObjectError
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.manifest import Manifest
from onefold.records import envelope as E
from onefold.records.layouts import connect
from onefold.records.read import count_landed, read_records
from onefold.values.decode import REJECTED, decode
from spark_jobs import dedup
from tests.support import layouts as L
from tests.support.layouts import Sent

FIRST = [Sent(0, 10 + n, f"a{n}", f"{n}.10", at=n, message=f"m{n}") for n in range(4)]
SECOND = [Sent(1, n, f"b{n}", None, at=20 + n, message=f"n{n}") for n in range(3)]
MakeDataset = Callable[..., Dataset]


def land(lake: Lake, made: Dataset, folder: Path) -> Manifest:
    """A landed batch of a folder."""
    return land_batch(lake, made, plan_batch(lake, made, export=str(folder)).batch)


def read(session: SparkSession, lake: Lake, made: Dataset, folder: Path) -> list[dict[str, Any]]:
    """The envelope and the declared fields of a folder's records, by position; L2: as many as are counted."""
    manifest = land(lake, made, folder)
    rows = decode(read_records(session, lake, made, manifest), made).toArrow().to_pylist()
    assert len(rows) == count_landed(session, lake, made, manifest)
    return sorted(rows, key=lambda row: (row[E.PARTITION] or 0, row[E.OFFSET] or -1))


def read_back(row: dict[str, Any]) -> dict[str, Any]:
    """A record as it was sent, read back from the envelope and the declared fields."""
    [header] = row[E.HEADERS]
    assert (row[E.CLUSTER], row[E.INCARNATION], row[REJECTED], row[E.UNREADABLE]) == ("c", 1, None, None)
    return {
        "at": (row[E.TOPIC], row[E.PARTITION], row[E.OFFSET], row[E.TIMESTAMP]),
        "key": row[E.KEY_BYTES],
        "message": (header["key"], header["value"]),
        "id": row["id"],
        "credit": None if row["credit"] is None else str(row["credit"]),
        "instant": row["at"],
        "ms": row["ms"],
    }


def sent(record: Sent, *, exact: bool) -> dict[str, Any]:
    """What `seen` says of it."""
    ms = round(record.instant.timestamp() * 1000)
    return {
        "at": ("t", record.partition, record.offset, ms if exact else None),
        "key": record.id.encode(),
        "message": ("m", record.message.encode()),
        "id": record.id,
        "credit": record.credit,
        "instant": record.instant,
        "ms": ms,
    }


@pytest.mark.parametrize("name", L.LAYOUTS)
def test_one_log_is_the_same_records_in_every_layout(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path, name: str
) -> None:
    layout = L.LAYOUTS[name]
    made = L.dataset_of(dataset, layout.name, **layout.exports)
    for some in (FIRST, SECOND):
        layout.write(tmp_path / "export", some)
    found = read(session, lake, made, tmp_path / "export")
    assert [read_back(row) for row in found] == [sent(record, exact=layout.exact) for record in (*FIRST, *SECOND)]
    assert [row[E.LINE] for row in found] == ([None] * 7 if layout.exact else [1, 2, 3, 4, 1, 2, 3])


DAMAGED = [
    # layout, what the damaged object's name ends with, damage, what is said
    ("connect, json.gz", ".json.gz", "cut", "cut off or broken gzip"),
    ("connect, avro", ".avro", "cut", "it is cut off behind record 0"),
    ("connect, avro", ".avro", "empty", "it is empty"),
    ("connect, avro", ".keys.avro", "cut", "it is cut off behind record 0"),
    ("connect, parquet", ".snappy.parquet", "cut", "no Parquet file, or its footer is missing"),
    ("connect, parquet", ".snappy.parquet", "spoilt inside", "cannot be read behind row"),
    ("aiven, text", "", "cut", "cut off or broken gzip"),
    ("aiven, text", "", "another format", "cut off or broken gzip"),
    ("parquet", "", "cut", "no Parquet file, or its footer is missing"),
    ("parquet", "", "empty", "no Parquet file, or its footer is missing"),
    ("parquet", "", "spoilt inside", ""),
]
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:-9],
    "empty": lambda _: b"",
    "another format": lambda _: b'{"a": 1}\n' * 20,
    "spoilt inside": lambda data: data[:4] + b"\x00" * 60 + data[64:],
}


@pytest.mark.parametrize(("name", "ending", "kind", "said"), DAMAGED)
def test_L6_a_damaged_object_is_named_and_nothing_of_its_batch_is_staged(
    session: SparkSession,
    lake: Lake,
    dataset: MakeDataset,
    tmp_path: Path,
    name: str,
    ending: str,
    kind: str,
    said: str,
) -> None:
    layout = L.LAYOUTS[name]
    made = L.dataset_of(dataset, layout.name, **layout.exports)
    layout.write(tmp_path / "export", SECOND)
    spoilt = layout.write(tmp_path / "export", FIRST) + ending
    file = tmp_path / "export" / spoilt
    file.write_bytes(DAMAGE[kind](file.read_bytes()))
    manifest = land(lake, made, tmp_path / "export")
    with pytest.raises(UnreadableObjectError) as raised:
        dedup.run(session, lake, made, manifest.batch)
    assert (raised.value.object, raised.value.batch) == (spoilt, manifest.batch)
    assert said in raised.value.problem
    assert not [object_.key for object_ in lake.storage.list("datasets/") if "staged" in object_.key]


def test_objects_of_other_schemas_stand_side_by_side(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    """Each object is read by its own schema: a field that it has not is missing there, and nothing is coerced."""
    fields = [
        {"name": "id", "type": "string"},
        {"name": "credit", "type": "double"},
        {"name": "odd", "type": ["int", "string"]},
    ]
    folder = tmp_path / "export"
    L.put_connect(folder, FIRST[:1], "avro")
    values = [{"id": "x", "credit": 1.5, "odd": 1}, {"id": "y", "credit": 1e300, "odd": "1"}]
    L.put(folder, "t+2+0000000000.avro", L.avro({"type": "record", "name": "Entry", "fields": fields}, values))
    L.put(folder, "t+3+0000000000.parquet", L.parquet(pa.table({"id": [7], "credit": ["1.00"]})))
    found = read(session, lake, L.dataset_of(dataset, "connect"), folder)
    decoded = [(row["id"], row["credit"] and str(row["credit"]), row["at"], row[REJECTED]) for row in found]
    assert decoded == [
        ("a0", "0.10", FIRST[0].instant, None),
        ("x", "1.50", None, None),
        (
            "y",
            None,
            None,
            {"reason": "wrong_type", "detail": "credit: wanted decimal(18,2)?, found number 1e+300"},
        ),
        (None, "1.00", None, {"reason": "wrong_type", "detail": "id: wanted string, found number 7"}),
    ]


def test_nanoseconds_are_read_to_the_millisecond_and_none_before_1970(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    """A double cannot hold the nanoseconds of today: every eighth millisecond or so came out one too early."""
    start = 1_772_323_200_000
    stamps = [(start + ms) * 1_000_000 for ms in range(8)] + [start * 1_000_000 - 1, 999_999, -1]
    log = [Sent(0, offset, f"a{offset}") for offset in range(len(stamps))]
    L.generic(tmp_path / "export", log, timestamp=pa.array(stamps, pa.timestamp("ns")))
    found = read(session, lake, L.dataset_of(dataset, "parquet"), tmp_path / "export")
    assert [row[E.TIMESTAMP] for row in found] == [*(start + ms for ms in range(8)), start - 1, 0, None]


def test_parquet_objects_of_other_types_stand_side_by_side(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    L.generic(folder, FIRST[:1])
    for number, name in ((1, "parquet, structs"), (2, "parquet, nanoseconds")):
        L.EXACT[name].write(folder, FIRST[number : number + 1])
    L.generic(folder, FIRST[3:], timestamp=pa.array([FIRST[3].instant], pa.timestamp("ms")))
    found = read(session, lake, L.dataset_of(dataset, "parquet"), folder)
    assert [read_back(row) for row in found] == [sent(record, exact=True) for record in FIRST]


def test_columns_that_are_not_mapped_may_be_absent(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    L.generic(tmp_path / "export", FIRST[:1], key=None, headers=None, timestamp=None)
    [row] = read(session, lake, L.dataset_of(dataset, "parquet"), tmp_path / "export")
    assert (row[E.KEY_BYTES], row[E.HEADERS], row[E.TIMESTAMP], row["id"]) == (None, [], None, "a0")
    L.generic(tmp_path / "full", FIRST[:1])
    none = L.dataset_of(dataset, "parquet", columns={"key": None, "headers": None, "timestamp": None})
    [row] = read(session, lake, none, tmp_path / "full")
    assert (row[E.KEY_BYTES], row[E.HEADERS], row[E.TIMESTAMP], row["id"]) == (None, [], None, "a0")


COLUMNS: list[tuple[dict[str, Any], dict[str, str], str]] = [
    ({"offset": None}, {}, "column 'offset': the offset is not there (there are key, value, topic"),
    ({"value": None}, {}, "column 'value': the value is not there"),
    ({}, {"value": "payload"}, "column 'payload': the value is not there"),
    ({}, {"headers": "tags"}, "column 'tags': the headers is not there"),
    ({"offset": pa.array(["1"])}, {}, "column 'offset': the offset cannot be read from the type string"),
    ({"value": pa.array([1])}, {}, "column 'value': the value cannot be read from the type int64"),
    ({"headers": pa.array([["m"]])}, {}, "column 'headers': the headers cannot be read from the type"),
    ({"timestamp": pa.array(["now"])}, {}, "column 'timestamp': the timestamp cannot be read"),
]


@pytest.mark.parametrize(("differs", "columns", "said"), COLUMNS)
def test_a_column_that_is_missing_or_another_is_one_error_with_file_and_column(
    session: SparkSession,
    lake: Lake,
    dataset: MakeDataset,
    tmp_path: Path,
    differs: dict[str, Any],
    columns: dict[str, str],
    said: str,
) -> None:
    made = L.dataset_of(dataset, "parquet", columns=columns)
    L.generic(tmp_path / "export", FIRST[:1], name="bad.parquet", **differs)
    if not columns:
        L.generic(tmp_path / "export", FIRST[1:])
    with pytest.raises(ExportColumnError) as raised:
        read_records(session, lake, made, land(lake, made, tmp_path / "export"))
    assert str(raised.value).startswith(f"bad.parquet: {said}")


def test_a_field_of_a_struct_that_cannot_be_read_is_named_where_it_is_declared_and_ignored_elsewhere(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    kind = pa.struct([*L.ARROW, ("span", pa.map_(pa.int32(), pa.int32()))])
    L.generic(tmp_path / "export", FIRST[:1], value=pa.array([FIRST[0].plain | {"span": [(1, 2)]}], kind))
    made = L.dataset_of(dataset, "parquet")
    [row] = read(session, lake, made, tmp_path / "export")
    assert read_back(row) == sent(FIRST[0], exact=True)
    given = {"name": "more", "value": {"fields": {**L.FIELDS, "span": "struct<a: long>?"}}}
    more = Dataset.model_validate(made.model_dump(by_alias=True, exclude_unset=True) | given)
    with pytest.raises(ExportColumnError, match=r"value\.span"):
        read_records(session, lake, more, land(lake, more, tmp_path / "export"))


def test_rows_without_a_position_and_lines_that_are_none_are_kept_with_their_bytes(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    L.generic(tmp_path / "parquet", FIRST[:3], offset=pa.array([10, None, -1], pa.int64()))
    good = L.aiven_line(Sent(0, 10, "a0", "0.10", message="m0"), "text")
    L.put(tmp_path / "aiven", "t-0-10.gz", gzip.compress(L.lines([good, b"junk\xff", b"", b'{"offset":12}'])))
    why = "topic, partition or offset is null, or no number that Kafka has"
    without_position = {record.json: (why, None, None, None) for record in FIRST[1:3]}
    lines = {
        b"": ("the line is not one JSON object", None, None, None),
        b"junk\xff": ("the line is not one JSON object", None, None, None),
        b'{"offset":12}': ("the line has no value: format.output.fields must name it", "t", 0, 12),
    }
    for layout, expected in (("parquet", without_position), ("aiven", lines)):
        found = read(session, lake, L.dataset_of(dataset, layout, name=layout), tmp_path / layout)
        columns = (E.UNREADABLE, E.TOPIC, E.PARTITION, E.OFFSET)
        bad = {row[E.VALUE_BYTES]: tuple(row[name] for name in columns) for row in found if row[E.UNREADABLE]}
        assert bad == expected
        assert [read_back(row) for row in found if not row[E.UNREADABLE]] == [sent(FIRST[0], exact=True)]


def test_a_companion_that_lacks_a_record_makes_its_object_unreadable_and_no_other(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    name = L.put_connect(folder, FIRST[:2], "avro")
    L.put(folder, f"{name}.keys.avro", L.avro("string", ["a0"]))
    L.put_connect(folder, SECOND, "avro")
    found = read(session, lake, L.dataset_of(dataset, "connect"), folder)
    why = "keys or headers do not have one line a value"
    assert [(row["id"], row[E.UNREADABLE]) for row in found] == [
        ("a0", why), ("a1", why), ("b0", None), ("b1", None), ("b2", None),
    ]  # fmt: skip


def test_an_object_of_many_batches_is_read_in_its_order(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    some = [Sent(0, n, f"{n:06d}", f"{n}.00") for n in range(25_000)]
    for kind in ("avro", "parquet"):
        folder = tmp_path / kind
        L.put_connect(folder, some, kind)
        made = L.dataset_of(dataset, "connect", name=kind)
        rows = read_records(session, lake, made, land(lake, made, folder))
        right = F.col(E.KEY_BYTES).cast("string") == F.format_string("%06d", E.OFFSET)
        counts = rows.agg(
            F.count_if(right), F.count_if(F.col(E.LINE) == F.col(E.OFFSET) + 1), F.count_distinct(E.OFFSET)
        )
        assert tuple(counts.collect()[0]) == (25_000, 25_000, 25_000)


def test_an_object_that_a_task_cannot_hold_is_refused(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    L.put_connect(tmp_path / "export", FIRST, "avro")
    made = L.dataset_of(dataset, "connect")
    manifest = land(lake, made, tmp_path / "export")
    monkeypatch.setattr(connect, "LARGEST", 50)
    with pytest.raises(ObjectTooLargeError, match=r"t\+0\+0000000010"):
        read_records(session, lake, made, manifest)


def test_a_look_at_the_newest_records_knows_the_layouts(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    for name in ("connect, avro", "aiven, json", "parquet, structs"):
        layout, folder = L.LAYOUTS[name], tmp_path / name
        made = L.dataset_of(dataset, layout.name, **layout.exports, path=str(folder))
        layout.write(folder, FIRST)
        [found] = sample(session, lake, made, 100)
        assert (found["verdict"], found["records"]) == ("applied", 4)
