"""Damaged log segments through a whole batch: what is whole is there, what is not is named, and nothing else fails."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dedup.documents import staged_of
from onefold.errors import DataLossError
from onefold.kafka.record_batches import SIZE, header_at
from onefold.lake import Lake
from onefold.spark.flat_structs import read_flat
from tests.support.batches import CODECS, Export, values
from tests.support.pipeline import run

SEGMENTS = 40
KINDS = ("flipped", "written over", "put in", "cut out", "cut off", "behind it", "junk")


@dataclass(frozen=True, slots=True)
class Damaged:
    """A segment of which one record batch is damaged, or its end, or all of it."""

    data: bytes
    kept: dict[int, str]
    """Ids by offset of the record batches that are whole."""
    place: tuple[int, int] | None
    """Bytes `[start, end)` that are not as they were; None: it ends before them."""


def damaged(kind: str, partition: int, drawn: random.Random) -> Damaged:
    sizes = [drawn.randint(1, 5) for _ in range(8)]
    firsts = [sum(sizes[:number]) for number in range(8)]
    ids = [
        {offset: f"{partition}-{offset}" for offset in range(first, first + size)}
        for first, size in zip(firsts, sizes, strict=True)
    ]
    codecs = drawn.choices([*CODECS], k=8)
    parts = [
        values(min(of), *(json.dumps({"id": id_}) for id_ in of.values()), codec=codec)
        for of, codec in zip(ids, codecs, strict=True)
    ]
    torn = drawn.randrange(7)
    part = parts[torn]
    # Neither the base offset nor the leader's epoch is under the checksum; and the next batch begins with zeros, which
    # could stand for what is cut out at the end.
    end = len(part) - 8
    at = drawn.choice([*range(8, 12), *range(16, end)])
    count = drawn.randint(1, min(40, end - at))
    start = sum(map(len, parts[:torn])) + at
    if kind == "junk":
        data = drawn.randbytes(16) + b"\xff" + drawn.randbytes(drawn.randint(60, 400))  # no format version is 255
        return Damaged(data, {}, (0, len(data)))
    if kind == "cut off":
        torn, place = 7, None
        parts[7] = parts[7][: drawn.randint(1, len(parts[7]) - 1)]
    elif kind == "behind it":
        torn, place = 8, (len(b"".join(parts)), len(b"".join(parts)) + 40)
        parts.append(b"\xff" * 40)
    elif kind == "flipped":
        place = start, start + 1
        parts[torn] = part[:at] + bytes([part[at] ^ (1 << drawn.randrange(8))]) + part[at + 1 :]
    elif kind == "cut out":
        place = start, start
        parts[torn] = part[:at] + part[at + count :]
    else:
        new = bytes(255 - byte for byte in part[at : at + count]) if kind == "written over" else drawn.randbytes(count)
        place = start, start + count
        parts[torn] = part[:at] + new + part[at + (count if kind == "written over" else 0) :]
    # What the damaged batch claims by its length costs all that it reaches into.
    whole = b"".join(parts)
    begin = sum(map(len, parts[:torn]))
    header = header_at(whole, begin) if place and begin + SIZE <= len(whole) else None
    claims = header and header.problem(min(firsts[torn : torn + 1], default=0), 0) is None
    reach = begin + header.size if header and claims else begin
    if header and place and not header.codec and begin + 8 <= place[0] < place[1] <= begin + 12:
        reached = []  # only its length is wrong, and its records and checksum prove it
    elif header and header.codec and reach > len(whole):  # it looks as if it were not written to its end
        place, reached = None, list(range(torn, len(parts)))
    else:
        reach = min(reach, len(whole)) if reach <= len(whole) else begin
        reached = [number for number in range(torn + 1, len(parts)) if sum(map(len, parts[:number])) < reach]
    kept = {
        offset: id_ for number, of in enumerate(ids) if number not in (torn, *reached) for offset, id_ in of.items()
    }
    return Damaged(b"".join(parts), kept, place)


def test_whatever_is_damaged_costs_its_own_record_batch_and_is_named_by_file_and_bytes(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """Forty segments of one batch, each of a partition of its own."""
    seed = random.SystemRandom().randrange(1 << 32)
    drawn = random.Random(seed)
    segments = [damaged(KINDS[number % len(KINDS)], number, drawn) for number in range(SEGMENTS)]
    export = Export(tmp_path / "export")
    for partition, segment in enumerate(segments):
        export.write(0, segment.data, partition=partition)
    origin = {"cluster": "c", "incarnation": 1}
    exports = {"path": "exports", "layout": "segments", "origin": origin, "holes": "none"}
    mine = dataset("things", source={"exports": exports}, identity={"business_key": ["id"]})
    done = run(session, lake, mine, export.folder)
    assert isinstance(done.red, DataLossError), seed
    assert "no unexplained offset" in str(done.red)
    assert "records landed = verdicts given" not in str(done.red)
    staged = read_flat(session, staged_of(lake, mine, done.batch).table)
    found = staged.select("_order", "id", "_verdict", "_detail").collect()
    for partition, segment in enumerate(segments):
        of = [row for row in found if row["_order"].partition == partition]
        good = {row["_order"].offset: row["id"] for row in of if row["_verdict"] is None}
        assert good == segment.kept, (seed, partition)
        named = [
            tuple(int(text.replace(",", "")) for text in at)
            for row in of
            if row["_verdict"] == "rejected"
            for at in re.findall(rf"bytes ([\d,]+) to ([\d,]+) of t-{partition}/{0:020d}\.log", row["_detail"])
        ]
        assert len(named) == len(of) - len(good) == (segment.place is not None), (seed, partition)
        for start, end in named:
            assert segment.place
            assert start <= segment.place[0] <= segment.place[1] <= end, (seed, partition)
