"""Structured values as JSON text: what Avro and Parquet hold is said exactly, and what is damaged is named."""

from __future__ import annotations

import base64
import gzip
import io
import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.dataset.types import FieldType, parse_type
from onefold.formats import structured_json
from onefold.formats.avro import count_avro
from onefold.formats.connect import headers_of, keys_of, lines_of, values_of
from onefold.formats.structured_json import FormatError, Shape, encoded, encoder, writer

NOON = datetime(2026, 3, 1, 12, 0, 0, 123000, UTC)
MILLIS = 1772366400123


def avro(schema: Any, records: list[Any], codec: str = "deflate", block: int = 16_000) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, schema, records, codec=codec, sync_interval=block)
    return file.getvalue()


def of_type(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}


def parquet(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def read_all(read: tuple[int, Iterator[bytes | None]]) -> list[bytes | None]:
    count, records = read
    found = list(records)
    assert len(found) == count
    return found


def field(data: bytes, name: str, declared: str | None = None) -> bytes:
    """The JSON of the field `f` of the only record."""
    fields: dict[str, FieldType] = {"f": parse_type(declared)} if declared else {}
    [line] = read_all(values_of(name, memoryview(data), fields))
    assert line is not None
    assert line.startswith(b'{"f":')
    assert line.endswith(b"}")
    return line[5:-1]


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


DECIMAL = Decimal("12345678901234567890123456.789012345600")
AVRO: dict[str, tuple[Any, Any, str | None, bytes]] = {
    # what: (type, value, declared, JSON)
    "null": ("null", None, None, b"null"),
    "an optional null": (["null", "long"], None, None, b"null"),
    "boolean": ("boolean", True, None, b"true"),
    "long above 2^53": ("long", 9007199254740993, None, b"9007199254740993"),
    "the smallest long": (["null", "long"], -(2**63), None, b"-9223372036854775808"),
    "double": ("double", 0.1 + 0.2, None, b"0.30000000000000004"),
    "a large double": ("double", 1e22, None, b"1e+22"),
    "the smallest double": ("double", 5e-324, None, b"5e-324"),
    "a float is its own shortest number": ("float", 0.1, None, b"0.1"),
    "a large float": ("float", 3.4028234663852886e38, None, b"3.4028235e+38"),
    "NaN": ("double", float("nan"), None, b'"NaN"'),
    "an infinite float": ("float", float("-inf"), None, b'"-Infinity"'),
    "text": ("string", 'é"\n\x01\U0001f600', None, '"é\\"\\n\\u0001\U0001f600"'.encode()),
    "bytes": ("bytes", b"\x00\xff", None, b'"AP8="'),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"\x00\xff", None, b'"AP8="'),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", None, b'"B"'),
    "decimal": (
        logical("bytes", "decimal", precision=38, scale=12), DECIMAL, None, b"12345678901234567890123456.789012345600",
    ),
    "a negative decimal": (logical("bytes", "decimal", precision=9, scale=2), Decimal("-1.10"), None, b"-1.10"),
    "a decimal below one": (logical("bytes", "decimal", precision=9, scale=4), Decimal("0.0007"), None, b"0.0007"),
    "a decimal without a point": (logical("bytes", "decimal", precision=9), Decimal("700"), None, b"700"),
    "a decimal of 40 digits": (
        logical("bytes", "decimal", precision=40, scale=1), Decimal("1" * 39 + ".5"), None, b'"' + b"1" * 39 + b'.5"',
    ),
    "date": (logical("int", "date"), date(2026, 3, 1), None, b'"2026-03-01"'),
    "a date before 1970": (logical("int", "date"), date(1, 1, 1), "date", b'"0001-01-01"'),
    "a date that ISO cannot say": (logical("int", "date"), 9_999_999, "date", b"9999999"),
    "time": (logical("long", "time-micros"), time(1, 2, 3, 4), None, b'"01:02:03.000004"'),
    "timestamp-millis": (logical("long", "timestamp-millis"), NOON, "timestamp", b'"2026-03-01T12:00:00.123000Z"'),
    "timestamp-millis as long": (logical("long", "timestamp-millis"), NOON, "long", b"%d" % MILLIS),
    "optional timestamp-millis as long?": (
        ["null", logical("long", "timestamp-millis")], NOON, "long?", b"%d" % MILLIS,
    ),
    "timestamp-micros": (logical("long", "timestamp-micros"), NOON, None, b'"2026-03-01T12:00:00.123000Z"'),
    "timestamp-micros as long": (logical("long", "timestamp-micros"), NOON, "long", b"%d000" % MILLIS),
    "a timestamp before 1970": (
        logical("long", "timestamp-millis"), -1, "timestamp", b'"1969-12-31T23:59:59.999000Z"',
    ),
    "a timestamp that ISO cannot say": (logical("long", "timestamp-millis"), 2**60, "timestamp", b"%d" % 2**60),
    "a local timestamp": (logical("long", "local-timestamp-millis"), MILLIS, None, b'"2026-03-01T12:00:00.123000"'),
    "nanoseconds": (
        logical("long", "timestamp-nanos"), MILLIS * 10**6 + 7, "timestamp", b'"2026-03-01T12:00:00.123000007Z"',
    ),
    "an unknown logical type": (logical("long", "moon-phase"), 3, None, b"3"),
    "array": ({"type": "array", "items": ["null", "int"]}, [1, None], None, b"[1,null]"),
    "map": ({"type": "map", "values": "int"}, {"a\n": 1}, None, b'{"a\\n":1}'),
    "a struct in a struct": (
        {"type": "record", "name": "S", "fields": [{"name": "at", "type": logical("long", "timestamp-millis")}]},
        {"at": NOON}, "struct<at: long>", b'{"at":%d}' % MILLIS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", AVRO)
def test_a_value_of_avro_is_said_exactly(case: str) -> None:
    kind, value, declared, expected = AVRO[case]
    assert field(avro(of_type(kind), [{"f": value}]), "o.avro", declared) == expected


PARQUET: dict[str, tuple[pa.Array, str | None, bytes]] = {
    "null": (pa.array([None], pa.int64()), None, b"null"),
    "unsigned": (pa.array([2**64 - 1], pa.uint64()), None, b"18446744073709551615"),
    "float": (pa.array([0.1], pa.float32()), None, b"0.1"),
    "NaN": (pa.array([float("nan")]), None, b'"NaN"'),
    "decimal": (pa.array([DECIMAL], pa.decimal128(38, 12)), None, b"12345678901234567890123456.789012345600"),
    "text in a dictionary": (pa.array(["é"]).dictionary_encode(), None, '"é"'.encode()),
    "binary": (pa.array([b"\x00\xff"]), None, b'"AP8="'),
    "date": (pa.array([date(2026, 3, 1)]), None, b'"2026-03-01"'),
    "time": (pa.array([time(1, 2, 3, 4)], pa.time64("us")), None, b'"01:02:03.000004"'),
    "milliseconds": (
        pa.array([NOON], pa.timestamp("ms", "UTC")), "timestamp", b'"2026-03-01T12:00:00.123000Z"',
    ),
    "milliseconds as long": (pa.array([NOON], pa.timestamp("ms", "UTC")), "long", b"%d" % MILLIS),
    "microseconds in another zone": (
        pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), None, b'"2026-03-01T12:00:00.123000Z"',
    ),
    "nanoseconds": (
        pa.array([MILLIS * 10**6 + 7], pa.timestamp("ns")), "timestamp", b'"2026-03-01T12:00:00.123000007"',
    ),
    "list": (pa.array([[1, None]]), None, b"[1,null]"),
    "map": (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), None, b'{"a":1}'),
    "struct": (
        pa.array([{"at": NOON, "n": None}], pa.struct([("at", pa.timestamp("ms", "UTC")), ("n", pa.int8())])),
        "struct<at: long>", b'{"at":%d,"n":null}' % MILLIS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PARQUET)
def test_a_value_of_parquet_is_said_exactly(case: str) -> None:
    values, declared, expected = PARQUET[case]
    assert field(parquet(pa.table({"f": values})), "o.snappy.parquet", declared) == expected


def test_doubles_and_floats_read_back_as_the_same_bits() -> None:
    bits = [1, 2**51 + 12345, 0x3FB999999999999A, 0x7FEFFFFFFFFFFFFF, 0x4340000000000001, 0x3FF0000000000001]
    doubles = [struct.unpack("<d", struct.pack("<Q", bit))[0] for bit in bits]
    floats = [
        struct.unpack("<f", struct.pack("<I", bit_pattern))[0]
        for bit_pattern in (1, 0x3DCCCCCD, 0x7F7FFFFF, 0x3F800001)
    ]
    for values, kind, packed in ((doubles, "double", "<d"), (floats, "float", "<f")):
        lines = read_all(values_of("o.avro", memoryview(avro(of_type(kind), [{"f": value} for value in values])), {}))
        back = [json.loads(line or b"")["f"] for line in lines]
        assert [struct.pack(packed, value) for value in back] == [struct.pack(packed, value) for value in values]


def test_values_of_avro_and_parquet_need_not_be_structs() -> None:
    assert read_all(values_of("o.avro", memoryview(avro(["null", "string"], ['{"a":1}', None, ""])), {})) == [
        b'{"a":1}', None, b"",
    ]  # fmt: skip
    assert read_all(values_of("o.avro", memoryview(avro("bytes", [b"\xff"])), {})) == [b"\xff"]
    assert read_all(values_of("o.avro", memoryview(avro("long", [7])), {})) == [b"7"]


@pytest.mark.parametrize(
    ("odd", "value"),
    [("R", None), ({"type": "array", "items": "R"}, []), ({"type": "map", "values": ["null", "R", "int"]}, {})],
    ids=["itself", "a list", "a map"],
)
def test_a_field_that_is_not_asked_for_does_not_stop_the_reader(odd: Any, value: Any) -> None:
    kind = {"type": "record", "name": "R", "fields": [
        {"name": "odd", "type": ["null", odd]}, {"name": "a", "type": "long"},
    ]}  # fmt: skip
    data = memoryview(avro(kind, [{"odd": value, "a": 1}]))
    assert read_all(values_of("o.avro", data, {"a": parse_type("long")})) == [b'{"a":1}']
    with pytest.raises(FormatError, match=r"odd.*: R holds itself"):
        read_all(values_of("o.avro", data, {"odd": parse_type("string")}))


def test_text_that_is_no_utf8_comes_out_as_the_bytes_that_it_was() -> None:
    cut = "é".encode()[:1]
    in_avro = avro(of_type("string"), [{"f": "ab"}], codec="null").replace(b"\x04ab", b"\x04a" + cut)
    assert read_all(values_of("o.avro", memoryview(in_avro), {})) == [b'{"f":"a' + cut + b'"}']
    buffers = [None, pa.py_buffer(struct.pack("<ii", 0, 2)), pa.py_buffer(b"a" + cut)]
    table = pa.table({"f": pa.Array.from_buffers(pa.string(), 1, buffers)})
    assert read_all(values_of("o.parquet", memoryview(parquet(table)), {})) == [b'{"f":"a' + cut + b'"}']


def test_keys_and_headers_come_as_the_sink_wraps_them() -> None:
    headers = [{"key": "h", "value": "1"}, {"key": "h", "value": None}]
    pair = {"type": "record", "name": "P", "fields": [
        {"name": "key", "type": "string"}, {"name": "value", "type": ["null", "string"]},
    ]}  # fmt: skip
    in_avro = avro({"type": "array", "items": pair}, [headers, []])
    in_parquet = parquet(pa.table({"headers": pa.array([headers, []])}))
    expected = [b'{"headers":[{"key":"h","value":"1"},{"key":"h","value":null}]}', b'{"headers":[]}']
    assert read_all(headers_of("o.headers.avro", memoryview(in_avro))) == expected
    assert read_all(headers_of("o.headers.gz.parquet", memoryview(in_parquet))) == expected
    text = memoryview(gzip.compress(b"\n".join(expected) + b"\n"))
    assert read_all(headers_of("o.headers.json.gz", text)) == expected

    assert read_all(keys_of("o.keys.avro", memoryview(avro("string", ["k", ""])))) == [b"k", b""]
    assert read_all(keys_of("o.keys.avro", memoryview(avro("bytes", [b"\xff"])))) == [b"\xff"]
    assert read_all(keys_of("o.keys.avro", memoryview(avro(of_type("int"), [{"f": 1}])))) == [b'{"f":1}']
    assert read_all(keys_of("o.keys.parquet", memoryview(parquet(pa.table({"key": ["k", None]}))))) == [b"k", None]
    assert read_all(keys_of("o.keys.json.gz", memoryview(gzip.compress(b'"k"\n{"id": 1}\nnull\n8\nk"')))) == [
        b"k", b'{"id": 1}', None, b"8", b'k"',
    ]  # fmt: skip


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "snappy"])
def test_blocks_are_counted_without_decoding_in_every_codec(codec: str) -> None:
    records = [{"f": n} for n in range(1_000)]
    data = memoryview(avro(of_type("long"), records, codec, block=100))
    assert count_avro(data) == 1_000
    assert read_all(values_of("o.avro", data, {})) == [b'{"f":%d}' % n for n in range(1_000)]
    assert count_avro(memoryview(avro(of_type("long"), []))) == 0


def test_an_avro_file_that_is_cut_anywhere_is_refused_unless_the_cut_is_between_two_blocks() -> None:
    data = avro(of_type("string"), [{"f": "x" * 30} for _ in range(20)], "null", block=200)
    sync = data[-16:]
    edges = [at + 16 for at in range(len(data) - 15) if data[at : at + 16] == sync]
    assert len(edges) > 3
    for end in range(len(data)):
        if end in edges:
            assert count_avro(memoryview(data[:end])) < 20
        else:
            with pytest.raises(FormatError):
                count_avro(memoryview(data[:end]))


def test_broken_bytes_inside_an_avro_block_are_reported() -> None:
    data = bytearray(avro(of_type("string"), [{"f": "x" * 30} for _ in range(20)], "deflate"))
    at = len(data) - 16 - 9
    data[at : at + 6] = b"\xff" * 6
    with pytest.raises(FormatError, match=r"cannot be read behind record|does not end"):
        read_all(values_of("o.avro", memoryview(bytes(data)), {}))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("o.avro", b"", "it is empty, and an Avro file never is"),
        ("o.avro", b'{"a": 1}\n', "no Avro container file"),
        ("o.parquet", b"", "no Parquet file, or its footer is missing"),
        ("o.parquet", parquet(pa.table({"f": [1]}))[:-9], "no Parquet file, or its footer is missing"),
        ("o.parquet", b'{"a": 1}\n' * 9, "no Parquet file, or its footer is missing"),
        ("o.json.gz", gzip.compress(b'{"a": 1}\n' * 9, mtime=0)[:-9], "cut off or broken gzip"),
        ("o.json.gz", b'{"a": 1}\n', "cut off or broken gzip"),
    ],
)
def test_what_is_damaged_says_how(name: str, data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read_all(values_of(name, memoryview(data), {}))


def test_lines_are_unpacked_as_they_are_asked_for() -> None:
    data = b"".join(b"%d %s\n" % (n, base64.b64encode(b"x" * 60_000)) for n in range(100))
    lines = lines_of("o.json.gz", memoryview(gzip.compress(data)[:-8]))
    assert next(lines).startswith(b"0 ")
    with pytest.raises(FormatError, match="gzip"):
        list(lines)
    assert [line[:2] for line in lines_of("o.json", memoryview(data))][:2] == [b"0 ", b"1 "]
    assert list(lines_of("o.json", memoryview(b""))) == []


WHOLE = st.integers(-(2**63), 2**64) | st.just(2**70)
TEXT = st.text() | st.sampled_from(["\udcff", "\ud83d", '"\\\x00\x7f']) | st.sampled_from([b"text", b"\xff"])
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "whole": WHOLE,
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False),
    "unscaled": st.binary(max_size=20),
    "text": TEXT,
    "binary": st.binary(),
    "date": st.integers(-(2**31), 2**31 - 1),
    "time": st.integers(0, 86_399_999),
    "timestamp": st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2_000_000_000_000_000_000),
    "null": st.none(),
}


def shaped(depth: int = 2) -> st.SearchStrategy[tuple[Shape, st.SearchStrategy[Any]]]:
    """A shape, and what draws its values."""
    scales = st.sampled_from([0, 2, 3, 6, 9])
    scalars = st.builds(
        lambda name, scale, instant: (Shape(name, scale, instant), SCALARS[name] | st.none()),
        st.sampled_from(sorted(SCALARS)),
        scales,
        st.booleans(),
    )
    if not depth:
        return scalars
    inner = shaped(depth - 1)
    keys = st.text() | st.binary(max_size=3)
    return st.one_of(
        scalars,
        inner.map(lambda of: (Shape("list", item=of[0]), st.lists(of[1], max_size=3) | st.none())),
        inner.map(lambda of: (Shape("map", item=of[0]), st.dictionaries(st.text(), of[1], max_size=3))),
        inner.map(lambda of: (Shape("map", item=of[0]), st.lists(st.tuples(keys, of[1]), max_size=3))),
        st.lists(inner, max_size=4).map(
            lambda all_: (
                Shape("struct", fields=tuple((f"f{number}", of[0]) for number, of in enumerate(all_))),
                st.fixed_dictionaries({f"f{number}": of[1] for number, of in enumerate(all_)}) | st.none(),
            )
        ),
        inner.map(lambda of: (Shape("union", fields=(("b1", of[0]),)), of[1].map(lambda value: {"b1": value}))),
    )


@given(data=st.data(), of=shaped())
def test_the_fast_way_writes_the_same_bytes(data: st.DataObject, of: tuple[Shape, st.SearchStrategy[Any]]) -> None:
    shape, values = of
    value = data.draw(values)

    def written(write: Any) -> Any:
        try:
            return write(value)
        except Exception as error:
            return type(error)

    assert written(encoder(shape)) == written(lambda value: encoded(writer(shape)(value)))


def test_what_is_as_nearly_all_values_goes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured_json, "encoded", lambda *_: pytest.fail("the exact way"))
    ordinary: dict[str, Any] = {"decimal": Decimal("1.50"), "double": 1.5, "float": 1.5, "null": None}
    ordinary |= {"unscaled": b"\x01", "text": "x", "binary": b"\xff", "boolean": True}
    shape = Shape("struct", fields=tuple((name, Shape(name, scale=6)) for name in SCALARS))
    encoder(shape)(dict.fromkeys(SCALARS, 1) | ordinary)
    encoder(Shape("map", item=Shape("list", item=Shape("text"))))([(b"k", [b"x"])])


@pytest.mark.parametrize("keys", [("a", "a"), ("a", b"a")])
def test_a_key_that_a_map_has_twice_is_written_twice(keys: tuple[str | bytes, ...]) -> None:
    assert encoder(Shape("map", item=Shape("whole")))([(key, n) for n, key in enumerate(keys)]) == b'{"a":0,"a":1}'
