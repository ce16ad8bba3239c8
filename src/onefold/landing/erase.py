"""Take the payload of single records out of a source's landing: the one way, beside its retention, in which landed
bytes go (L6). Which records, a person has decided.

A record keeps its place and its timestamp; key, value and headers are null, as its mark says it counts for nothing.
So spans, counts and proofs go on as they were. Objects are not changed: a new one is put beside the old one, then
written down (`sources/<source>/erased/…`), then manifests name the new one, and the old one goes last. Whatever is
interrupted goes on from what is written down.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset.source import Origin
from onefold.errors import UsageError
from onefold.faults import fault_point
from onefold.lake import Lake
from onefold.landing.manifest import LandedObject, Manifest
from onefold.offsets import Range, TopicPartition, meet
from onefold.storage import LocalStorage
from onefold.storage.objects import Seekable

Positions = Mapping[str, list[Range]]
"""Offsets by TopicPartition.key."""
ERASABLE = ("kafka", "kcat")
"""Layouts whose objects can be written anew: what Onefold wrote itself, and lines of single records."""
_WHERE = ("cluster", "topic", "incarnation", "partition", "offset")
_PAYLOAD = ("key", "value", "headers")
_DEPTH = 5_000
_NAMED_ANEW = re.compile(r"^erased-[0-9a-f]{12}-")


class Rewritten(BaseModel):
    """One landed object in place of another."""

    model_config = ConfigDict(frozen=True)

    was: LandedObject
    now: LandedObject
    records: int = Field(description="Whose payload is not in the new one")


class Erased(BaseModel):
    """What an erasure did to one landing, written down before a manifest says so."""

    model_config = ConfigDict(frozen=True)

    batch: str = Field(description="Whose landing it is")
    dataset: str
    erasure: str = Field(description="The decision, among those of the dataset")
    objects: list[Rewritten]
    at: datetime


def check_erasable(lake: Lake, source: str) -> None:
    """Refuse a source that holds landed objects which cannot be written anew.

    Raises:
        UsageError: it names one of them, and what can be done.
    """
    for manifest in _landings(lake, source):
        if manifest.layout not in ERASABLE:
            raise UsageError(
                f"batch {manifest.batch} was landed in layout {manifest.layout}: single records can be taken out of "
                f"live topics and kcat exports only. Nothing was erased. `onefold forget` takes them out of the table, "
                "and `onefold maintain --landing AGE` clears whole landings."
            )


def holding(lake: Lake, source: str, positions: Positions) -> dict[str, int]:
    """The landed objects, by key, that hold the payload of some positions, and of how many records."""
    with tempfile.TemporaryDirectory() as scratch:
        made = (_rewrite(lake, one, positions, Path(scratch)) for one in _landings(lake, source))
        return {one.key: count for pairs in made for one, _, count in pairs}


def erase_landed(
    lake: Lake, source: str, dataset: str, erasure: str, positions: Positions, say: Callable[[str], None]
) -> int:
    """Take the payload of some positions out of every landing of a source; how many objects were written anew.

    Called while nobody else erases of the source. What is landed meanwhile is looked at, too.
    """
    _settle(lake, source)
    seen: set[str] = set()
    count = 0
    while left := [one for one in _landings(lake, source) if one.batch not in seen]:
        for number, manifest in enumerate(left, 1):
            say(f"landing {number} of {len(left)}")
            seen.add(manifest.batch)
            count += _erase_one(lake, manifest, dataset, erasure, positions)
        _settle(lake, source)
    return count


def _erase_one(lake: Lake, manifest: Manifest, dataset: str, erasure: str, positions: Positions) -> int:
    rewritten = []
    with tempfile.TemporaryDirectory() as scratch:
        for was, file, records in _rewrite(lake, manifest, positions, Path(scratch)):
            rewritten.append(Rewritten(was=was, now=_put(lake, was, file), records=records))
            file.unlink()
    if rewritten:
        fault_point("before_erased")
        made = Erased(batch=manifest.batch, dataset=dataset, erasure=erasure, objects=rewritten, at=datetime.now(UTC))
        lake.put(f"{lake_keys.erased(manifest.source)}{manifest.batch}/{erasure}.json", made)
    return len(rewritten)


def _put(lake: Lake, was: LandedObject, file: Path) -> LandedObject:
    """Put the new object beside the old one, under a name that its bytes give it."""
    store = LocalStorage(file.parent)
    digest = store.digest(file.name)
    folder, _, name = was.key.rpartition("/")
    key = f"{folder}/erased-{digest[:12]}-{_NAMED_ANEW.sub('', name)}"
    info = store.stat(file.name)
    assert info
    lake.storage.copy_from(store, info, key)
    return was.model_copy(update={"key": key, "size": info.size, "sha256": digest})


def _settle(lake: Lake, source: str) -> None:
    """Let every manifest of a source name what was written down, and remove what none names any more."""
    documents = [lake.get(info.key, Erased) for info in lake.storage.list(lake_keys.erased(source))]
    swaps = {one.was.key: one.now for document in documents if document for one in document.objects}
    if not swaps:
        return
    named: set[str] = set()
    fault_point("before_new_manifest")
    for manifest in _manifests(lake, source):
        objects = [_newest(one, swaps) for one in manifest.objects]
        if objects != manifest.objects:
            lake.put(lake_keys.manifest(source, manifest.batch), manifest.model_copy(update={"objects": objects}))
        named |= {one.key for one in objects}
    fault_point("before_old_objects")
    for key in swaps.keys() - named:
        lake.storage.remove(key)


def _newest(one: LandedObject, swaps: Mapping[str, LandedObject]) -> LandedObject:
    while (now := swaps.get(one.key)) is not None:
        one = one.model_copy(update={"key": now.key, "size": now.size, "sha256": now.sha256})
    return one


def _manifests(lake: Lake, source: str) -> Iterator[Manifest]:
    for info in lake.storage.list(f"sources/{source}/manifests/"):
        if manifest := lake.get(info.key, Manifest):
            yield manifest


def _landings(lake: Lake, source: str) -> Iterator[Manifest]:
    """The manifests whose objects lie there; a replay's are another one's."""
    for manifest in _manifests(lake, source):
        if (
            manifest.objects
            and not manifest.replays
            and not lake.storage.stat(lake_keys.cleared(source, manifest.batch))
        ):
            yield manifest


def _rewrite(
    lake: Lake, manifest: Manifest, positions: Positions, scratch: Path
) -> Iterator[tuple[LandedObject, Path, int]]:
    """Of each object that holds payload of some positions: the object, the new one as a file, of how many records."""
    read = [(one.topic_partition.key, (one.start, one.end)) for one in manifest.ranges]
    if read and not any(meet([span], positions.get(key, [])) for key, span in read):
        return
    for one in manifest.objects:
        file = scratch / one.key.rpartition("/")[2]
        if manifest.layout == "kafka":
            count = _rewrite_parquet(lake, one, positions, file)
        else:
            assert manifest.origin
            count = _rewrite_lines(lake, one, positions, manifest.origin, file)
        if count:
            yield one, file, count


def _rewrite_parquet(lake: Lake, one: LandedObject, positions: Positions, to: Path) -> int:
    """Write a landed topic's object without the payload of some positions; of how many records it had any."""
    with pq.ParquetFile(cast("Any", Seekable(lake.storage, one.key, one.size))) as file:
        groups = range(file.num_row_groups)
        if not sum(_count(_held(file.read_row_group(n, [*_WHERE, *_PAYLOAD]), positions)) for n in groups):
            return 0
        options = {"compression": "zstd", "use_dictionary": list(_WHERE[:4]), "write_statistics": list(_WHERE)}
        found = 0
        with pq.ParquetWriter(to, file.schema_arrow, **options) as writer:
            for number in groups:
                table = file.read_row_group(number)
                held = _held(table, positions)
                found += _count(held)
                for name in _PAYLOAD:
                    place = table.schema.get_field_index(name)
                    kept = pc.if_else(held, pa.scalar(None, table.schema.field(place).type), table[name])
                    table = table.set_column(place, table.schema.field(place), kept)
                writer.write_table(table)
    return found


def _held(table: pa.Table, positions: Positions) -> pa.Array:
    """Which rows are of some positions and have any payload."""
    wanted = pa.array([False] * len(table), pa.bool_())
    for key, ranges in positions.items():
        where = TopicPartition.of(key)
        here = pc.and_(pc.equal(table["topic"], where.topic), pc.equal(table["partition"], where.partition))
        here = pc.and_(here, pc.equal(table["cluster"], where.cluster))
        here = pc.and_(here, pc.equal(table["incarnation"], where.incarnation))
        for start, end in ranges:
            offset = table["offset"]
            wanted = pc.or_(wanted, pc.and_(here, pc.and_(pc.greater_equal(offset, start), pc.less(offset, end))))
    some = pa.array([False] * len(table), pa.bool_())
    for name in _PAYLOAD:
        some = pc.or_(some, pc.is_valid(table[name]))
    return pc.and_(wanted, some)


def _count(rows: pa.Array) -> int:
    return int(pc.sum(rows).as_py() or 0)


def _rewrite_lines(lake: Lake, one: LandedObject, positions: Positions, origin: Origin, to: Path) -> int:
    """Write an object of kcat's lines without the payload of some positions; of how many records it had any."""
    packed, found = one.key.endswith(".gz"), 0
    with _deep(), _lines(lake, one.key, packed) as lines:
        if all(_without_payload(line, positions, origin) is None for line in lines):
            return 0
    with _deep(), _lines(lake, one.key, packed) as lines, to.open("wb") as raw:
        out = cast("BinaryIO", gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0)) if packed else raw
        for line in lines:
            less = _without_payload(line, positions, origin)
            found += less is not None
            out.write(line if less is None else less)
        if packed:
            out.close()
    return found


@contextmanager
def _deep() -> Iterator[None]:
    """What Spark reads as a record, which nests up to 1,000 levels, is read here too, wherever this is called."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def _lines(lake: Lake, key: str, packed: bool) -> Iterator[Iterator[bytes]]:
    with lake.storage.open(key) as stream:
        yield iter(cast("BinaryIO", gzip.GzipFile(fileobj=stream)) if packed else stream)


def _without_payload(line: bytes, positions: Positions, origin: Origin) -> bytes | None:
    """A line of `kcat -J` with key, payload and headers null; None: it is not meant, or has none."""
    try:
        record = json.loads(line.decode(errors="replace"))  # other bytes leave the place readable
        where = TopicPartition(
            cluster=origin.cluster,
            topic=record["topic"],
            incarnation=origin.incarnation,
            partition=record["partition"],
        )
        offset = int(record["offset"])
    except (ValueError, TypeError, KeyError, RecursionError):  # no record, so at no position
        return None
    if not meet([(offset, offset + 1)], positions.get(where.key, [])):
        return None
    if record.get("key") is None and record.get("payload") is None and not record.get("headers"):
        return None
    less = {**record, "headers": [], "key": None, "payload": None}
    return json.dumps(less, separators=(",", ":")).encode() + (b"\n" if line.endswith(b"\n") else b"")
