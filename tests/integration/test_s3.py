"""A bucket as a store, against real S3 servers over HTTP."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from botocore.config import Config

from deploy.stack.moto import one_put_at_a_time
from onefold.dataset import Dataset
from onefold.dataset.source import Origin
from onefold.draft.exports import newest_of_export
from onefold.errors import ExportChangedError, LakeUnavailableError, NothingToReadError
from onefold.iceberg.bucket_files import BucketIO
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.log_segments import find_index
from onefold.landing.plan import ObjectsPlan
from onefold.records.layouts.segments import PlacedSegment, chunks_of, read_chunks
from onefold.storage import LocalStorage, ObjectInfo, S3Access, S3Storage, open_storage
from onefold.storage.access import PROPERTY
from onefold.storage.objects import PreconditionFailedError, Seekable, Storage
from onefold.storage.s3 import WHOLE
from tests.support.batches import Export, values
from tests.support.s3_servers import SERVERS, environment

pytestmark = pytest.mark.s3
PART = 5 << 20
"""The smallest part of a multipart upload that S3 takes."""
NUMBERS = itertools.count(1)
MakeDataset = Callable[..., Dataset]


@pytest.fixture(scope="module", params=SERVERS)
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    with SERVERS[request.param]() as address:
        yield address


@pytest.fixture(autouse=True)
def credentials(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket(credentials: None, request: pytest.FixtureRequest) -> str:
    """A bucket of the test's own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:50] + f"-{next(NUMBERS)}"
    boto3.client("s3").create_bucket(Bucket=name)
    return name


@pytest.fixture(params=["", "some/prefix"], ids=["root", "prefix"])
def store(bucket: str, request: pytest.FixtureRequest) -> S3Storage:
    opened = open_storage(f"s3://{bucket}/{request.param}")
    assert isinstance(opened, S3Storage)
    return opened


def info_of(store: Storage, key: str) -> ObjectInfo:
    info = store.stat(key)
    assert info is not None
    return info


def test_put_if_absent_has_one_winner_among_eight(store: S3Storage) -> None:
    for number in range(5):
        key, start = f"a/{number}", threading.Barrier(8)

        def put(data: bytes, key: str = key, start: threading.Barrier = start) -> bool:
            start.wait()
            return store.put_if_absent(key, data)

        written = [f"driver {driver}".encode() for driver in range(8)]
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(put, written))
        assert won.count(True) == 1
        assert store.read(key) == written[won.index(True)]


def test_moto_gets_one_put_at_a_time() -> None:
    """By itself it looks and then writes: of two puts with a condition both could win."""
    within, most, barrier = 0, 0, threading.Barrier(4)

    def looks_then_writes(environ: dict[str, Any], _: object) -> list[bytes]:
        nonlocal within, most
        within += 1
        most = max(most, within)
        time.sleep(0.01)
        within -= 1
        return [environ["REQUEST_METHOD"].encode()]

    served = one_put_at_a_time(looks_then_writes)

    def put(_: int) -> list[bytes]:
        barrier.wait()
        return list(served({"REQUEST_METHOD": "PUT"}, None))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(put, range(4))) == [[b"PUT"]] * 4
    assert most == 1


def test_a_store_that_ignores_conditions_is_refused_at_the_first_put(store: S3Storage) -> None:
    def forget(params: dict[str, Any], **_: object) -> None:
        params["headers"].pop("If-None-Match", None)

    assert store.put_if_absent("known", b"1")
    store.client.meta.events.register("before-call.s3.PutObject", forget)
    other = S3Storage(store.bucket, store.prefix, store.client)
    with pytest.raises(LakeUnavailableError, match=r"does not keep If-None-Match: \*, so two drivers"):
        other.put_if_absent("known", b"2")
    assert store.read("known") == b"1", "it is asked before anything is put"
    assert store.put_if_absent("b", b"1"), "it is asked once"


def test_a_put_of_the_same_bytes_may_be_ones_own_whose_answer_was_lost(store: S3Storage) -> None:
    assert store.put_if_absent("a", b"1")
    assert store.put_if_absent("a", b"1")
    assert not store.put_if_absent("a", b"2")
    assert store.read("a") == b"1"


def test_what_is_put_is_read_listed_and_overwritten(store: S3Storage, bucket: str) -> None:
    assert store.read("x/a") is None
    assert store.stat("x/a") is None
    assert list(store.list("x/")) == []
    for key, data in (("x/b", b"12"), ("x/a", b"1"), ("xy/c", b""), ("x/a", b"123")):
        store.write(key, data)
    assert [(object_.key, object_.size) for object_ in store.list("x/")] == [("x/a", 3), ("x/b", 2)]
    assert [object_.key for object_ in store.list()] == ["x/a", "x/b", "xy/c"]
    assert store.read("x/a") == b"123"
    with store.open("x/a") as stream:
        assert stream.read(2) == b"12"
    assert info_of(store, "x/a") == next(iter(store.list("x/")))
    prefix = f"{store.prefix}/" if store.prefix else ""
    assert store.uri_of("x/a") == f"s3a://{bucket}/{prefix}x/a"


def test_a_range_of_an_object_is_read_and_what_is_behind_its_end_is_nothing(store: S3Storage) -> None:
    store.write("x/a", b"0123456789")
    ranges = ((0, 3), (3, 3), (8, 20), (10, 12), (0, 10))
    assert [store.read_range("x/a", *range_) for range_ in ranges] == [b"012", b"", b"89", b"", b"0123456789"]


def test_an_object_is_a_file_that_one_may_seek_in(store: S3Storage) -> None:
    data = bytes(range(256)) * 8
    store.write("a/b", data)
    file = Seekable(store, "a/b", len(data))
    assert (file.seek(-8, 2), file.read(4), file.read(99), file.read(1)) == (2040, data[-8:-4], data[-4:], b"")


def test_a_draft_reads_the_end_of_what_lies_in_a_bucket(store: S3Storage) -> None:
    messages = [{"topic": "t", "partition": 0, "offset": n, "payload": f'{{"a": {n}}}'} for n in range(40_000)]
    store.write("a.jsonl", b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    sample = newest_of_export("things", store, 20_000)[1]
    assert [record.offset for record in sample.records] == list(range(20_000, 40_000)), "several ranges"


def test_another_prefix_that_begins_alike_is_not_listed(bucket: str) -> None:
    S3Storage(bucket, "exports-old").write("a.jsonl", b"1")
    S3Storage(bucket, "exports").write("b.jsonl", b"2")
    assert [object_.key for object_ in S3Storage(bucket, "exports").list()] == ["b.jsonl"]


def test_folder_markers_are_no_objects(bucket: str) -> None:
    boto3.client("s3").put_object(Bucket=bucket, Key="exports/sub/", Body=b"")
    S3Storage(bucket, "exports").write("sub/a", b"1")
    assert [object_.key for object_ in S3Storage(bucket, "exports").list()] == ["sub/a"]


def test_a_listing_of_more_than_a_page_is_whole(bucket: str) -> None:
    store = S3Storage(bucket, "many")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: store.write(f"{number:05d}", b""), range(1003)))
    assert [object_.key for object_ in store.list()] == [f"{number:05d}" for number in range(1003)]


def test_what_is_below_a_folder_is_removed_and_nothing_next_to_it(bucket: str) -> None:
    store = S3Storage(bucket, "tidy")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: store.write(f"x/{number:05d}", b""), range(1003)))
    store.write("xy", b"1")
    store.remove_below("x/")
    store.remove_below("x/")
    assert [object_.key for object_ in store.list()] == ["xy"]
    with pytest.raises(ValueError, match="no folder below the root"):
        store.remove_below("x")


def test_keys_cannot_leave_the_prefix(store: S3Storage) -> None:
    for key in ("../x", "/x", "a/../../x"):
        with pytest.raises(ValueError, match="leaves its root"):
            store.read(key)
        with pytest.raises(ValueError, match="leaves its root"):
            store.write(key, b"")


# Copies


@pytest.mark.parametrize("size", [0, 5, WHOLE + 3], ids=["empty", "small", "multipart"])
def test_a_copy_on_the_server_is_exact(store: S3Storage, bucket: str, size: int) -> None:
    data = (b"0123456789" * (size // 10 + 1))[:size]
    source = S3Storage(bucket, "exports of others")
    source.write("a+0+00 7.json", data)
    digest = store.copy_from(source, info_of(source, "a+0+00 7.json"), "landed/a")
    assert digest == hashlib.sha256(data).hexdigest()
    assert store.read("landed/a") == data


@pytest.mark.parametrize("size", [5, WHOLE + PART], ids=["small", "multipart"])
def test_a_copy_of_an_object_that_changed_is_refused(store: S3Storage, size: int) -> None:
    source = S3Storage(store.bucket, "source")
    source.write("a", b"x" * size)
    pinned = info_of(source, "a")
    source.write("a", b"y" * size)
    with pytest.raises(PreconditionFailedError):
        store.copy_from(source, pinned, "landed/a")
    assert store.read("landed/a") is None


def test_a_copy_of_an_object_that_is_gone_is_refused(store: S3Storage) -> None:
    source = S3Storage(store.bucket, "source")
    source.write("a", b"x")
    pinned = info_of(source, "a")
    boto3.client("s3").delete_object(Bucket=store.bucket, Key="source/a")
    with pytest.raises(PreconditionFailedError):
        store.copy_from(source, pinned, "landed/a")


@pytest.mark.parametrize("size", [0, 5, WHOLE + 3], ids=["empty", "small", "multipart"])
def test_files_go_up_and_objects_come_down_unchanged(store: S3Storage, tmp_path: Path, size: int) -> None:
    data = (b"0123456789" * (size // 10 + 1))[:size]
    folder = LocalStorage(tmp_path)
    folder.write("a", data)
    assert store.copy_from(folder, info_of(folder, "a"), "up") == hashlib.sha256(data).hexdigest()
    assert folder.copy_from(store, info_of(store, "up"), "down") == hashlib.sha256(data).hexdigest()
    assert folder.read("down") == data


def test_what_is_there_is_held_against_what_was_sent(store: S3Storage, tmp_path: Path) -> None:
    """Of the same size."""
    folder, other = LocalStorage(tmp_path), S3Storage(store.bucket, store.prefix)
    folder.write("a", b"before")
    store.client.meta.events.register("after-call.s3.PutObject", lambda **_: other.write("up", b"behind"))
    with pytest.raises(LakeUnavailableError, match="up: it does not hold what was sent"):
        store.copy_from(folder, info_of(folder, "a"), "up")


def test_a_download_of_an_object_that_changed_is_refused(store: S3Storage, tmp_path: Path) -> None:
    store.write("a", b"before")
    pinned = info_of(store, "a")
    store.write("a", b"behind")
    with pytest.raises(PreconditionFailedError):
        LocalStorage(tmp_path).copy_from(store, pinned, "down")
    assert list(LocalStorage(tmp_path).list()) == []


# As pyiceberg's files


def test_icebergs_files_are_put_when_closed_and_read_in_parts(bucket: str) -> None:
    files = BucketIO({PROPERTY: S3Access().as_json()})
    place = f"s3a://{bucket}/warehouse/t/metadata/a b=1.avro"
    made, found = files.new_output(place), files.new_input(place)
    assert not found.exists()
    with pytest.raises(FileNotFoundError, match=r"a b=1\.avro"):
        found.open()
    with pytest.raises(TypeError), made.create() as out:
        out.writelines([b"01234", "no bytes"])  # type: ignore[attr-defined]
    assert not found.exists()
    with made.create() as out:
        assert out.write(b"0123456789") == 10
        assert not found.exists(), "nothing half"
    with found.open() as stream:
        assert (stream.seek(-3, 2), stream.read(2), stream.tell()) == (7, b"78", 9)
    assert (len(found), made.to_input_file().location) == (10, place)
    with pytest.raises(FileExistsError, match=r"a b=1\.avro"):
        made.create()
    with made.create(overwrite=True) as out:
        out.write(b"1")
    assert len(found) == 1
    files.delete(found)
    files.delete(place)
    assert not found.exists()


def test_what_icebergs_files_cannot_do_is_an_error_of_the_system(credentials: None) -> None:
    """As pyiceberg's own have it: a commit that failed there may have been made."""
    file = BucketIO({PROPERTY: S3Access().as_json()}).new_output("s3://no-such-bucket/lake/a")
    with pytest.raises(OSError, match="NoSuchBucket"), file.create(overwrite=True) as out:
        out.write(b"1")


# Errors


def test_an_error_names_bucket_and_key(credentials: None) -> None:
    store = open_storage("s3://no-such-bucket/lake")
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("s3://no-such-bucket/lake/a", lambda: store.write("a", b"1")),
        ("s3://no-such-bucket/lake/a", lambda: store.put_if_absent("a", b"1")),
        ("s3://no-such-bucket/lake/a", lambda: store.open("a")),
        ("s3://no-such-bucket/lake/", lambda: list(store.list())),
    ]
    for place, call in calls:
        with pytest.raises(LakeUnavailableError) as raised:
            call()
        assert raised.value.place == place
        assert "NoSuchBucket" in raised.value.problem


def test_a_bucket_that_is_not_there_is_no_missing_object(credentials: None) -> None:
    store = open_storage("s3://no-such-bucket/lake")
    with pytest.raises(LakeUnavailableError, match="NoSuchBucket"):
        store.read("a")


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    config = Config(retries={"max_attempts": 1}, connect_timeout=1)
    client = boto3.client("s3", endpoint_url="http://127.0.0.1:9", config=config)
    with pytest.raises(LakeUnavailableError, match="s3://bucket/lake/a"):
        S3Storage("bucket", "lake", client).write("a", b"1")


# An export in a bucket, landed in a folder


def from_bucket(dataset: MakeDataset, bucket: str, prefix: str = "topics") -> Dataset:
    exports = {"path": f"s3://{bucket}/{prefix}/", "layout": "kcat", "origin": {"cluster": "c"}}
    return dataset(source={"exports": exports})


def test_an_export_in_a_bucket_is_landed_in_a_folder(lake: Lake, dataset: MakeDataset, bucket: str) -> None:
    things, export = from_bucket(dataset, bucket), S3Storage(bucket, "topics")
    contents = {"t/0.jsonl": b'{"a": 1}\n', "t/1.jsonl": b"", "t/big.jsonl": b"x" * (WHOLE + 1)}
    for name, data in contents.items():
        export.write(name, data)
    plan = plan_batch(lake, things)
    assert isinstance(plan, ObjectsPlan)
    assert plan.place == f"s3a://{bucket}/topics"
    manifest = land_batch(lake, things, plan.batch)
    assert {object_.name: object_.sha256 for object_ in manifest.objects} == {
        name: hashlib.sha256(data).hexdigest() for name, data in contents.items()
    }
    assert {object_.name: lake.storage.read(object_.key) for object_ in manifest.objects} == contents
    assert plan_batch(lake, things).empty
    export.write("t/2.jsonl", b"{}\n")
    later = plan_batch(lake, things)
    assert isinstance(later, ObjectsPlan)
    assert [object_.name for object_ in later.objects] == ["t/2.jsonl"]


def test_an_export_object_that_changed_is_not_landed(lake: Lake, dataset: MakeDataset, bucket: str) -> None:
    things, export = from_bucket(dataset, bucket), S3Storage(bucket, "topics")
    export.write("a.jsonl", b"before")
    plan = plan_batch(lake, things)
    export.write("a.jsonl", b"behind")
    with pytest.raises(ExportChangedError, match=r"a\.jsonl: has changed since it was planned"):
        land_batch(lake, things, plan.batch)


def test_a_prefix_without_objects_is_nothing_to_read(lake: Lake, dataset: MakeDataset, bucket: str) -> None:
    with pytest.raises(NothingToReadError, match=f"s3a://{bucket}/topics"):
        plan_batch(lake, from_bucket(dataset, bucket))


def test_a_lake_in_a_bucket_lands_by_server_side_copy(dataset: MakeDataset, bucket: str, lake: Lake) -> None:
    far = Lake(lake.settings.model_copy(update={"lake": f"s3a://{bucket}/lake"}))
    things = from_bucket(dataset, bucket)
    S3Storage(bucket, "topics").write("a.jsonl", b"{}\n")
    plan = plan_batch(far, things)
    [object_] = land_batch(far, things, plan.batch).objects
    assert far.storage.read(object_.key) == b"{}\n"
    assert far.where(object_.key) == f"s3a://{bucket}/lake/{object_.key}"
    assert plan_batch(far, things).empty


def test_tasks_read_their_own_bytes_of_segments_in_a_bucket(
    dataset: MakeDataset, bucket: str, lake: Lake, tmp_path: Path
) -> None:
    """As the workers of a Spark job do it: a chunk's URI, and the credentials of their own environment."""
    settings = lake.settings.model_copy(update={"lake": f"s3://{bucket}/lake"})
    there, export = Lake(settings), Export(tmp_path / "export")
    export.write(0, *(values(number, "x" * 3_000_000) for number in range(7)))
    origin = Origin(cluster="c")
    exports = {"path": str(export.folder), "layout": "segments", "origin": origin.model_dump()}
    mine = dataset(source={"exports": exports})
    manifest = land_batch(there, mine, plan_batch(there, mine).batch)
    [object_] = manifest.objects
    index = find_index(there, manifest.source, object_)
    assert index
    rows = list(chunks_of(PlacedSegment(object_.name, there.storage.uri_of(object_.key), index), [], origin))
    assert [(row[6], row[7]) for row in rows] == [(chunk.start, chunk.end) for chunk in index.chunks]
    assert len(rows) == 4
    names = ["uri", "name", "cluster", "topic", "incarnation", "partition", "start", "end", "damage", "fates"]
    given = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    offsets = [row["_offset"] for part in read_chunks([given]) for row in part.to_pylist()]
    assert offsets == list(range(7))
