"""Samples of exports: which objects are opened, how far, and what is said of what is no export."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onefold.dataset import load_dataset
from onefold.draft import Export, Sample, draft_dataset, exports, text_of
from onefold.draft.exports import newest_of_export
from onefold.draft.readers import connect, lines, segments
from onefold.errors import NoDraftError
from onefold.formats import kafka_columns
from onefold.storage import LocalStorage
from onefold.storage.objects import CHUNK
from tests.support.batches import Export as Segments
from tests.support.batches import batch, marker, values


def line(offset: int, payload: str | None = '{"a": 1}', **more: Any) -> bytes:
    fields = {"topic": "t", "partition": 0, "offset": offset, "ts": 1, "headers": ["h", "1", "h", None]}
    return json.dumps(fields | {"key": None, "payload": payload} | more).encode() + b"\n"


def put(folder: Path, name: str, *lines: bytes, age: int = 0) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(lines)
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    os.utime(file, (1_000_000 - age, 1_000_000 - age))


def newest(folder: Path, count: int = 100, **more: Any) -> tuple[str, Sample]:
    return newest_of_export("things", LocalStorage(folder), count, **more)


def offsets(sample: Sample) -> list[int]:
    return [record.offset for record in sample.records]


def test_a_line_of_kcat_is_a_record_as_kafka_had_it(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", line(7, None, key="k"), b"junk\n", line(8, 5), line(9, "x")[:-1])
    layout, sample = newest(tmp_path)
    assert (layout, offsets(sample), sample.unreadable, sample.missing) == ("kcat", [7, 9], 2, 1)
    first, last = sample.records
    assert (first.key, first.value, first.headers, first.timestamp) == (b"k", None, (("h", "1"), ("h", None)), 1)
    assert (last.key, last.value) == (None, b"x")


def test_a_line_that_kcat_could_not_decode_is_no_tombstone(tmp_path: Path) -> None:
    failed = line(7, None, payload_error="no schema"), line(8, key_error="no schema"), line(9, None, payload_error=None)
    put(tmp_path, "a.jsonl", *failed)
    layout, sample = newest(tmp_path)
    assert (layout, offsets(sample), sample.unreadable) == ("kcat", [9], 2)


def test_objects_may_be_compressed_and_cut_off(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl.gz", *(line(offset) for offset in range(50)))
    assert offsets(newest(tmp_path)[1]) == list(range(50))
    whole = (tmp_path / "a.jsonl.gz").read_bytes()
    (tmp_path / "a.jsonl.gz").write_bytes(whole[:-9])
    assert offsets(newest(tmp_path)[1])[:1] == [0]


class Watched(LocalStorage):
    """A folder that counts the bytes that are read of each object."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.bytes: Counter[str] = Counter()

    def read_range(self, key: str, start: int, end: int) -> bytes:
        data = super().read_range(key, start, end)
        self.bytes[key] += len(data)
        return data


def test_only_the_end_of_the_objects_written_last_is_read(tmp_path: Path) -> None:
    long = json.dumps({"a": "x" * 10_000})
    put(tmp_path, "old.jsonl", *(line(offset) for offset in range(1_000)), age=10)
    put(tmp_path, "new.jsonl", *(line(offset, long) for offset in range(5_000, 8_000)))
    store = Watched(tmp_path)
    layout, sample = newest_of_export("things", store, 20)
    assert (layout, offsets(sample), sample.missing) == ("kcat", list(range(7_980, 8_000)), 0)
    assert sample.opened == (1, 2)
    assert store.bytes.keys() == {"new.jsonl"}
    assert store.bytes["new.jsonl"] < 10 * CHUNK


def test_a_draft_of_one_long_file_is_of_its_newest_lines(tmp_path: Path) -> None:
    """Fields that came later are drafted, those that went are not, and the schedule starts on the newest day."""
    day = 86_400_000
    values = [{"id": n} | ({"added": n} if n >= 1_000 else {"gone": n}) for n in range(5_000)]
    put(tmp_path, "a.jsonl", *(line(n, json.dumps(value), ts=n // 50 * day) for n, value in enumerate(values)))
    layout, sample = newest(tmp_path, 1_000)
    assert offsets(sample) == list(range(4_000, 5_000))
    text = text_of(draft_dataset("things", Export(f"{tmp_path}/", layout), sample))
    assert "added: long" in text
    assert "gone" not in text
    assert "start: 1970-04-10}" in text, "day 99, the newest"
    assert "# They are from the end of what was written last: 1 of 1 object.\n" in text


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("data", [b"", b"a", b"a\n", b"one\n\nthree\nfour", b"one\n" * 9, b"\nbc\r\n", b"abcdefgh\n"])
def test_lines_from_the_end_are_those_from_the_front(
    tmp_path: Path, chunk: int, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.jsonl", data)
    store = LocalStorage(tmp_path)
    monkeypatch.setattr(lines, "CHUNK", chunk)
    (object_,) = store.list()
    front = list(lines.lines_from_front(store, "a.jsonl"))
    assert list(lines.lines_from_end(store, object_)) == front[::-1]
    assert b"\n".join(front) == data.removesuffix(b"\n")


def test_the_last_lines_of_a_compressed_object_are_taken_as_far_as_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.jsonl.gz", *(line(offset) for offset in range(30_000)))
    assert offsets(newest(tmp_path)[1]) == list(range(29_900, 30_000))
    monkeypatch.setattr(lines, "LARGEST", 2 * CHUNK)
    sample = newest(tmp_path)[1]
    assert max(offsets(sample)) < 29_000
    assert sample.unread == (
        ("a.jsonl.gz", "behind its first 2,097,152 bytes it was not read, where its newest records are"),
    )
    text = text_of(draft_dataset("things", Export(f"{tmp_path}/", "kcat"), sample))
    assert "# Not read, or not to the end: a.jsonl.gz.\n" in text


def test_the_last_row_groups_of_parquet_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"topic": "t", "partition": 0, "offset": n, "value": b'{"a": "%050d"}' % n} for n in range(40_000)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=4_000, use_dictionary=False)
    store = Watched(tmp_path)
    assert offsets(newest_of_export("things", store, 100)[1]) == list(range(39_900, 40_000))
    assert offsets(newest_of_export("things", store, 5_000, topic="t")[1]) == list(range(35_000, 40_000))
    monkeypatch.setattr(kafka_columns, "_HELD", 100_000)
    sample = newest_of_export("things", store, 5_000)[1]
    assert offsets(sample) == list(range(39_000, 40_000))
    [(key, why)] = sample.unread
    assert (key, why) == ("a.parquet", "the first 3,000 rows of its row group 9 are more than can be held at once")


def test_offsets_between_objects_are_missing_only_if_everything_was_read(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", line(0), line(1))
    put(tmp_path, "b.jsonl", line(5), line(7))
    assert newest(tmp_path)[1].missing == 4
    put(tmp_path, "c.jsonl", *(line(offset) for offset in range(10, 200)))
    assert newest(tmp_path)[1].missing == 1


def test_companions_of_connect_give_keys_and_headers(tmp_path: Path) -> None:
    put(tmp_path, "t/t+0+0000000010.json", b'{"a": 1}\n', b"null\n", b'{"a": 2}\n')
    put(tmp_path, "t/t+0+0000000010.keys.json", b'"k-1"\n', b'{"id": 1}\n', b"null\n")
    put(tmp_path, "t/t+0+0000000010.headers.json", b'{"headers":[{"key":"v","value":7}]}\n', b"{}\n", b"{}\n")
    layout, sample = newest(tmp_path)
    assert (layout, sample.exact, sample.topics) == ("connect", False, ["t"])
    read = [(record.offset, record.key, record.value, record.headers) for record in sample.records]
    assert read == [
        (10, b"k-1", b'{"a": 1}', (("v", "7"),)),
        (11, b'{"id": 1}', None, ()),
        (12, None, b'{"a": 2}', ()),
    ]


ROWS = [{"topic": "t", "partition": 0, "offset": n, "value": b'{"a": 1}'} for n in range(3)]
AT = datetime(2026, 3, 1, 12, 0, 0, 123000, UTC)


def as_avro(schema: Any, records: list[Any]) -> bytes:
    file = BytesIO()
    fastavro.writer(file, schema, records)
    return file.getvalue()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    file = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def test_connect_may_write_avro_parquet_and_packed_lines(tmp_path: Path) -> None:
    entry = {"type": "record", "name": "R", "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]}  # fmt: skip
    put(tmp_path, "t+0+0000000010.avro", as_avro(entry, [{"at": AT}]))
    put(tmp_path, "t+0+0000000010.keys.json.gz", b'"k-1"\n')
    put(tmp_path, "t+1+0000000020.snappy.parquet", as_parquet([{"a": 1}, {"a": None}]))
    put(tmp_path, "t+1+0000000020.keys.snappy.parquet", as_parquet([{"key": "k-2"}, {"key": None}]))
    layout, sample = newest(tmp_path)
    assert (layout, sample.exact) == ("connect", False)
    assert [(record.partition, record.offset, record.key, record.value) for record in sample.records] == [
        (0, 10, b"k-1", b'{"at":"2026-03-01T12:00:00.123000Z"}'),
        (1, 20, b"k-2", b'{"a":1}'),
        (1, 21, None, b'{"a":null}'),
    ]


def test_lines_of_aivens_sink_are_distinguished_from_kcats_by_name_and_first_line(tmp_path: Path) -> None:
    template = b'{"key":"k","value":{"a":1},"offset":%d,"timestamp":"2026-03-01T12:00:00.123Z","headers":[]}\n'
    put(tmp_path, "t.a-b-3-7.gz", template % 7, template % 9)
    layout, sample = newest(tmp_path)
    assert (layout, offsets(sample), sample.missing, sample.exact) == ("aiven", [7, 9], 1, True)
    first = sample.records[0]
    assert (first.topic, first.partition, first.value, first.timestamp) == ("t.a-b", 3, b'{"a":1}', 1772366400123)
    put(tmp_path / "kcat", "t-0-7.jsonl", line(7))
    assert newest(tmp_path / "kcat")[0] == "kcat"


def test_parquet_with_kafkas_columns_is_read_without_a_mapping(tmp_path: Path) -> None:
    headers = [{"key": "h", "value": b"1"}]
    put(tmp_path, "a.parquet", as_parquet([row | {"timestamp": AT, "key": "k", "headers": headers} for row in ROWS]))
    layout, sample = newest(tmp_path)
    assert (layout, offsets(sample), sample.exact) == ("parquet", [0, 1, 2], True)
    first = sample.records[0]
    assert (first.key, first.value, first.timestamp, first.headers) == (
        b"k", b'{"a": 1}', 1772366400123, (("h", "1"),),
    )  # fmt: skip
    put(tmp_path / "other", "a.parquet", as_parquet([{"topic": "t"}]))
    with pytest.raises(NoDraftError, match=r"a\.parquet: column 'partition': .* is not there \(there are topic\)"):
        newest(tmp_path / "other")


WRONG: list[tuple[str, pa.Array]] = [
    ("key", pa.array([1, 2, 3], pa.int64())),
    ("key", pa.array([{"id": 1}] * 3)),
    ("value", pa.array([1, 2, 3])),
    ("value", pa.array([["a"]] * 3)),
    ("timestamp", pa.array(["2026-03-01T00:00:00Z"] * 3)),
    ("topic", pa.array([1, 2, 3])),
    ("partition", pa.array(["0"] * 3)),
    ("offset", pa.array(["0", "1", "2"])),
    ("headers", pa.array(["h=1"] * 3)),
    ("headers", pa.array([[{"name": "h", "value": b"1"}]] * 3)),
    ("headers", pa.array([[{"key": "h", "value": 1}]] * 3)),
]


@pytest.mark.parametrize(("name", "column"), WRONG, ids=lambda value: str(getattr(value, "type", value)))
def test_a_column_of_parquet_that_cannot_be_read_is_named_with_its_object(
    tmp_path: Path, name: str, column: pa.Array
) -> None:
    table = pa.Table.from_pylist(ROWS)
    kept = table.drop_columns([name]) if name in table.column_names else table
    pq.write_table(kept.append_column(name, column), tmp_path / "a.parquet")
    kind = pq.read_schema(tmp_path / "a.parquet").field(name).type
    with pytest.raises(NoDraftError) as refused:
        newest(tmp_path)
    said = f"a.parquet: column '{name}': the {name} cannot be read from the type {kind}"
    assert said in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_duplicate_column_of_parquet_is_named(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table.append_column("value", table.column("value")), tmp_path / "a.parquet")
    with pytest.raises(NoDraftError, match=r"a\.parquet: column 'value': is there twice"):
        newest(tmp_path)


def test_what_of_parquet_is_damaged_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet", compression="none")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[4:40] = b"\xff" * 36  # the first page's header
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(NoDraftError, match=r"a\.parquet: its row group 0 cannot be read: "):
        newest(tmp_path)


def test_rows_of_parquet_without_a_position_are_no_records_and_odd_parts_are_passed_over(tmp_path: Path) -> None:
    value = {"a": 1, "lasts": timedelta(1), "many": [timedelta(1)]}
    rows = [{"topic": "t", "partition": 0, "offset": offset, "value": value} for offset in (0, 1, -1, None)]
    rows[0] |= {"partition": 2**31, "timestamp": 1, "headers": [{"key": "h", "value": b"1"}]}
    rows[1] |= {"timestamp": -1, "headers": [None, {"key": "h", "value": None}]}
    put(tmp_path, "a.parquet", as_parquet(rows))
    sample = newest(tmp_path)[1]
    assert (offsets(sample), sample.unreadable) == ([1], 3)
    only = sample.records[0]
    assert (only.value, only.timestamp, only.headers) == (b'{"a":1}', None, (("h", None),))


def test_log_segments_give_their_committed_records(tmp_path: Path) -> None:
    own = {"epoch": 0, "transactional": True}
    Segments(tmp_path).write(
        0,
        batch(0, [(b"k", b'{"a": 1}', [("h", b"1"), ("h", None)]), (b"k", None, [])], codec="lz4"),
        values(2, '{"a": 2}', producer=7, sequence=0, **own),
        marker(3, 7, commit=False),
        values(4, '{"a": 3}', producer=7, sequence=1, **own),
        marker(5, 7, commit=True),
        values(6, '{"a": 4}', producer=8, sequence=0, **own),
        values(7, '{"a": 5}'),
    )
    layout, sample = newest(tmp_path)
    assert (layout, sample.exact, offsets(sample)) == ("segments", True, [0, 1, 4, 7])
    assert (sample.missing, sample.unreadable) == (0, 0), "markers, what was aborted and what is open are there"
    first, second, *_ = sample.records
    assert (first.topic, first.partition, first.timestamp) == ("t", 0, 1_700_000_000_000)
    assert (first.key, first.value, first.headers) == (b"k", b'{"a": 1}', (("h", "1"), ("h", None)))
    assert (second.key, second.value) == (b"k", None)


def test_within_a_segment_compaction_took_what_is_missing_and_between_two_a_segment_is_not_there(
    tmp_path: Path,
) -> None:
    for start in (0, 100):
        Segments(tmp_path).write(start, values(start, '{"a": 1}'), values(start + 9, '{"a": 2}'))
    layout, sample = newest(tmp_path)
    assert (layout, offsets(sample), sample.missing) == ("segments", [0, 9, 100, 109], 16)
    folder = Export(f"{tmp_path}/", layout)
    (tmp_path / "things.yaml").write_text(text_of(draft_dataset("things", folder, sample)))
    source = load_dataset(tmp_path / "things.yaml").source
    assert (source.layout, source.holes) == ("segments", None), "an append: compaction explains nothing"


def test_a_segment_is_read_around_what_is_damaged(tmp_path: Path) -> None:
    damaged = bytearray(values(1, '{"a": 2}'))
    damaged[-3] ^= 1
    Segments(tmp_path, "u").write(0, values(0, '{"a": 1}'), bytes(damaged), values(2, '{"a": 3}'), b"\0\0")
    sample = newest(tmp_path, topic="u")[1]
    assert (offsets(sample), sample.unreadable) == ([0, 2], 1)


def test_a_companion_that_is_too_short_leaves_lines_that_are_no_records(tmp_path: Path) -> None:
    put(tmp_path, "t+0+0.json", b"{}\n", b"{}\n")
    put(tmp_path, "t+0+0.keys.json", b'"k"\n')
    sample = newest(tmp_path)[1]
    assert (offsets(sample), sample.unreadable) == ([0], 1)


def two_topics(folder: Path, name: str) -> None:
    records = [(topic, offset) for topic in ("a", "b") for offset in range(1_500)]
    if name.endswith(".parquet"):
        rows = [{"topic": t, "partition": 0, "offset": n, "value": b'{"a": 1}'} for t, n in records]
        put(folder, name, as_parquet(rows))
    else:
        put(folder, name, *(line(offset, topic=topic) for topic, offset in records))


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.parquet"])
def test_records_of_other_topics_count_for_nothing_and_are_named(tmp_path: Path, name: str) -> None:
    two_topics(tmp_path, name)
    for topic in ("a", "b"):
        sample = newest(tmp_path, 1_000, topic=topic)[1]
        assert (sample.topics, offsets(sample)) == ([topic], list(range(500, 1_500)))
    layout, sample = newest(tmp_path, 1_000)
    assert (sample.topics, sample.others) == (["b"], ("a",))
    with pytest.raises(NoDraftError, match=r"of several topics: a \(none in the sample\), b \(1000\)\. .* --topic"):
        draft_dataset("things", Export(f"{tmp_path}/", layout), sample)
    with pytest.raises(NoDraftError, match=r"hold no record of topic c \(0 lines that are none; there are .* a, b\)"):
        newest(tmp_path, 1_000, topic="c")


def test_a_topic_that_only_the_head_of_a_long_file_has_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_topics(tmp_path, "x.jsonl")
    monkeypatch.setattr(exports, "_LOOKED", 1_000)
    sample = newest(tmp_path, 10)[1]
    assert (sample.topics, sample.others) == (["b"], ("a",))


def test_older_objects_are_opened_where_the_newest_lack_the_topic(tmp_path: Path) -> None:
    put(tmp_path, "old.jsonl", *(line(offset, topic="a") for offset in range(1_000)), age=10)
    put(tmp_path, "new.jsonl", *(line(offset, topic="b") for offset in range(1_000)))
    assert offsets(newest(tmp_path, 20, topic="a")[1]) == list(range(980, 1_000))


def test_topics_that_objects_names_tell_are_known_without_opening_them(tmp_path: Path) -> None:
    put(tmp_path, "a+0+0.json", b'{"a": 1}\n' * 900, age=10)
    put(tmp_path, "b+0+0.json", b'{"a": 1}\n' * 900)
    sample = newest(tmp_path, 5)[1]
    assert (sample.topics, sample.others) == (["b"], ("a",))
    assert newest(tmp_path, 5, topic="a")[1].others == ()
    with pytest.raises(NoDraftError, match=r"no objects of layout connect of topic c \(there are records of a, b\)"):
        newest(tmp_path, topic="c")


ONE = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}


def test_the_last_records_of_connect_are_taken_and_their_offsets_counted_from_the_front(tmp_path: Path) -> None:
    put(tmp_path, "t+0+0000000100.avro", as_avro(ONE, [{"a": n} for n in range(5_000)]))
    put(tmp_path, "t+0+0000000100.keys.json", *(b"%d\n" % n for n in range(5_000)))
    sample = newest(tmp_path, 100)[1]
    assert offsets(sample) == list(range(5_000, 5_100))
    assert (sample.records[-1].value, sample.records[-1].key) == (b'{"a":4999}', b"4999")


def test_an_object_that_the_fold_does_not_take_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "t+0+0.avro", as_avro(ONE, [{"a": n} for n in range(100)]))
    monkeypatch.setattr(connect, "LARGEST", 200)
    why = r"it has \d+ bytes, and `onefold run` takes at most 200, too"
    with pytest.raises(NoDraftError, match=rf"t\+0\+0\.avro: {why}\. No dataset"):
        newest(tmp_path)
    put(tmp_path, "t+0+100.json", b'{"a": 1}\n')
    put(tmp_path, "t+0+101.json", b'{"a": 1}\n')
    put(tmp_path, "t+0+101.keys.json", b'"%0300d"\n' % 1)
    sample = newest(tmp_path)[1]
    assert offsets(sample) == [100]
    assert [key for key, _ in sample.unread] == ["t+0+101.json", "t+0+0.avro"]
    assert re.fullmatch(why, sample.unread[1][1])
    assert sample.unread[0][1].startswith("its keys, t+0+101.keys.json, have 303 bytes")


def test_an_object_that_is_cut_off_is_an_error_where_nothing_else_is_there_and_else_named(tmp_path: Path) -> None:
    data = as_avro(ONE, [{"a": n} for n in range(100)])
    put(tmp_path, "t+0+0.avro", data[:-30])
    with pytest.raises(NoDraftError, match=r"t\+0\+0\.avro: it is cut off behind record 0: the block there is not"):
        newest(tmp_path)
    put(tmp_path, "t+0+100.json", b'{"a": 1}\n')
    layout, sample = newest(tmp_path)
    assert (offsets(sample), sample.unreadable) == ([100], 0)
    assert sample.unread == (("t+0+0.avro", "it is cut off behind record 0: the block there is not whole"),)
    assert "to the end: t+0+0.avro." in text_of(draft_dataset("things", Export(f"{tmp_path}/", layout), sample))


def test_what_of_a_packed_object_is_lost_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl.gz", *(line(offset) for offset in range(50_000)))
    whole = (tmp_path / "a.jsonl.gz").read_bytes()
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    sample = newest(tmp_path)[1]
    assert len(sample.records) == 100
    assert sample.unread[0][1].startswith("it is cut off or broken gzip: ")
    (tmp_path / "a.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(NoDraftError, match=r"a\.jsonl\.gz: it is cut off or broken gzip"):
        newest(tmp_path)


def test_the_last_records_of_a_segment_are_taken_as_far_as_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [values(start, *('{"a": 1}' for _ in range(10))) for start in range(0, 300, 10)]
    Segments(tmp_path).write(0, *made)
    assert offsets(newest(tmp_path, 15)[1]) == list(range(285, 300))
    monkeypatch.setattr(segments, "SCANNED", len(b"".join(made[:20])) + 30)
    sample = newest(tmp_path, 15)[1]
    assert (offsets(sample), sample.unreadable) == (list(range(185, 200)), 0), "a batch that is cut is not damaged"
    [(key, why)] = sample.unread
    assert key.endswith(".log")
    assert why.endswith("bytes it was not read, where its newest records are")


def test_one_topic_of_many_is_read_alone(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", line(0), line(0, topic="other"), line(1))
    assert newest(tmp_path, topic="other")[1].topics == ["other"]
    with pytest.raises(NoDraftError, match="hold no record of topic none"):
        newest(tmp_path, topic="none")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("", b"", "does not exist or is empty"),
        ("part-0.parquet", b"PAR1", "part-0.parquet: it is no Parquet file, or its footer is missing"),
        ("part-0.avro", b"Obj", "part-0.avro: this layout is not_supported_yet"),
        ("00000000000000000000.log", b"", "00000000000000000000.log is of no known layout"),
        ("notes.txt", b"hello", "notes.txt is of no known layout"),
        ("rows.json", b'{"a": 1}\n', "rows.json looks like JSON values without topic, partition and offset"),
        ("rows.json", b"a b\n", "does not begin with a line of kcat -J"),
        ("x.bin", b'{"a": 1}\n', "x.bin looks like bytes of Kafka Connect's ByteArrayFormat"),
        ("a.jsonl", b"", "hold no record"),
    ],
)
def test_what_is_no_export_is_named_with_what_can_be_read(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    if name:
        put(tmp_path, name, data)
    with pytest.raises(NoDraftError, match="No dataset file was written") as refused:
        newest(tmp_path)
    assert said in str(refused.value)
