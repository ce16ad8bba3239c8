"""S6: an object that claims, or unpacks to, more than the settings allow is refused, at a cost that is bounded."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import resource
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from onefold.formats.avro import count_avro
from onefold.formats.connect import keys_of, values_of
from onefold.formats.expansion import LONGEST_LINE, ExpansionLimits
from onefold.formats.structured_json import FormatError
from onefold.kafka.batch_records import parse
from onefold.settings import Settings
from tests.support.batches import batch
from tests.support.hostile_objects import claiming

FEW = ExpansionLimits(records=1_000, unpacked=100_000, block=50_000)
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "f", "type": "bytes"}]}


def avro(codec: str, *sizes: int) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [{"f": b"\0" * size} for size in sizes], codec=codec, sync_interval=1 << 30)
    return out.getvalue()


def parquet(rows: int) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"f": pa.array([None] * rows, pa.int64())}), out)
    return bytes(out.getvalue())


BEYOND: dict[str, tuple[str, bytes, str]] = {
    "lines": ("o.json.gz", gzip.compress(b"\n" * 1_001), "max_object_records"),
    "unpacked": ("o.json.gz", gzip.compress(b"x" * 100_001), "max_object_bytes"),
    "plain lines": ("o.json", b"\n" * 1_001, "max_object_records"),
    "claims": ("o.avro", claiming(10**18), "max_object_records"),
    "deflate": ("o.avro", avro("deflate", 60_000), "max_block_bytes"),
    "bzip2": ("o.avro", avro("bzip2", 60_000), "max_block_bytes"),
    "xz": ("o.avro", avro("xz", 60_000), "max_block_bytes"),
    "rows": ("o.parquet", parquet(1_001), "max_object_records"),
}
WITHIN: dict[str, tuple[str, bytes]] = {
    "lines": ("o.json.gz", gzip.compress(b"1\n" * 1_000)),
    "deflate": ("o.avro", avro("deflate", 40_000)),
    "null": ("o.avro", avro("null", 90_000)),
    "bzip2": ("o.avro", avro("bzip2", 40_000)),
    "rows": ("o.parquet", parquet(1_000)),
}


@pytest.mark.parametrize("case", BEYOND)
def test_s6_an_object_beyond_a_limit_is_refused_by_the_settings_name(case: str) -> None:
    name, data, setting = BEYOND[case]
    with pytest.raises(FormatError, match=setting):
        values_of(name, memoryview(data), {}, FEW)
    assert setting in Settings.model_fields
    if name != "o.avro":
        with pytest.raises(FormatError, match=setting):
            keys_of(name, memoryview(data), FEW)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (b"x\n" * 1_000, None),
        (b"x\n" * 999 + b"x", None),
        (b"\n" * 1_001, "max_object_records"),
        (b"x\n" * 1_000 + b"x", "max_object_records"),
        (b"x" * 100_001, "max_object_bytes"),
    ],
)
def test_s6_packed_lines_are_counted_before_anything_holds_one(lines: bytes, said: str | None) -> None:
    half = len(lines) // 2
    for packed in (gzip.compress(lines), gzip.compress(lines[:half]) + gzip.compress(lines[half:])):
        if said:
            with pytest.raises(FormatError, match=said):
                list(FEW.unpacked_lines(io.BytesIO(packed)))
        else:
            assert b"".join(FEW.unpacked_lines(io.BytesIO(packed))) == lines


def test_s6_a_line_of_packed_text_that_is_longer_than_any_record_is_refused() -> None:
    long = gzip.compress(b"\n" + b"x" * (LONGEST_LINE + 1))
    with pytest.raises(FormatError, match="a line of more than 67,108,864 bytes"):
        list(ExpansionLimits().unpacked_lines(io.BytesIO(long)))


def test_packed_lines_that_are_broken_are_no_lines() -> None:
    for data in (gzip.compress(b"x\n" * 900)[:-9], gzip.compress(b"x\n")[:12], b"no gzip"):
        with pytest.raises(FormatError, match="cut off or broken gzip"):
            list(FEW.unpacked_lines(io.BytesIO(data)))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_s6_a_record_batch_of_a_log_unpacks_to_no_more_than_a_block_may(codec: str) -> None:
    large, small = ([(None, b"x" * size, [])] for size in (60_000, 40_000))
    [part] = parse(batch(0, small, codec=codec), FEW)
    assert part.num_rows == 1
    with pytest.raises(FormatError, match="max_block_bytes"):
        list(parse(batch(0, large, codec=codec), FEW))


@pytest.mark.parametrize("case", WITHIN)
def test_an_object_within_the_limits_is_read(case: str) -> None:
    name, data = WITHIN[case]
    count, values = values_of(name, memoryview(data), {}, FEW)
    assert count == len(list(values)) > 0


def test_a_block_that_is_broken_is_the_readers_to_name() -> None:
    for codec, pack in PACK.items():
        FEW.check_block(codec, pack(b"\0" * 40_000)[:-7])
        FEW.check_block(codec, b"no packed bytes")


PACK: dict[str, Callable[[bytes], bytes]] = {
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": zstandard.ZstdCompressor().compress,
}
_BOMBS = """
import io, resource, zlib
from pathlib import Path
import zstandard
from onefold.formats.connect import values_of
from onefold.formats.expansion import ExpansionLimits
from onefold.formats.structured_json import FormatError
from tests.support.hostile_objects import claiming

def packed(stream, letter):
    piece = letter * (1 << 20)
    return b"".join(stream.compress(piece) for _ in range(1 << 10)) + stream.flush()

deflate, zstd = packed(zlib.compressobj(wbits=-15), b"0"), packed(zstandard.ZstdCompressor().compressobj(), b"0")
lines, line = (packed(zlib.compressobj(wbits=31), letter) for letter in (b"\\n", b"0"))
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + (300 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
limits = ExpansionLimits(records=1_000_000, unpacked=512 << 20)
tries = [lambda: limits.check_block("deflate", deflate), lambda: limits.check_block("zstandard", zstd)]
objects = (("o.json.gz", lines), ("o.json.gz", line), ("o.avro", claiming(10**18)))
tries += [lambda data=data: sum(map(len, limits.unpacked_lines(io.BytesIO(data)))) for data in (lines, line)]
tries += [lambda pair=pair: values_of(pair[0], memoryview(pair[1]), {}, limits) for pair in objects]
for attempt in tries:
    try:
        attempt()
    except FormatError as error:
        print(error)
"""


def test_s6_what_unpacks_to_a_gigabyte_takes_no_such_memory() -> None:
    """In a process that may not take it: the bombs are made first."""
    project = Path(__file__).parents[2]
    paths = os.pathsep.join(str(project / folder) for folder in ("src", "."))
    done = subprocess.run(
        [sys.executable, "-c", _BOMBS],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (120, 120)),
    )
    said = done.stdout.splitlines()
    assert len(said) == 7, done.stderr[-2000:]
    assert ["block unpacks" in text for text in said] == [True, True, *[False] * 5]


def test_s6_a_file_of_some_bytes_that_claims_records_without_end_is_counted_at_once() -> None:
    data = claiming(2_300_000_000_000_000_000)
    assert len(data) < 100
    with pytest.raises(FormatError, match="more than 10,000,000 records, which the setting max_object_records allows"):
        count_avro(memoryview(data), ExpansionLimits())
