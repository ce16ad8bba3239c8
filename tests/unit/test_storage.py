"""A folder as a store: one winner, whole objects, exact copies, and no key leaves the root."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.errors import LakeUnavailableError, UsageError
from onefold.lake import Lake
from onefold.settings import Settings
from onefold.storage import LocalStorage, S3Storage, Storage, open_storage, safe_key
from onefold.storage.objects import ObjectInfo, PreconditionFailedError, Seekable


@pytest.fixture
def store(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "root")


def info_of(store: Storage, key: str) -> ObjectInfo:
    info = store.stat(key)
    assert info is not None
    return info


def test_put_if_absent_has_one_winner_among_eight(store: LocalStorage) -> None:
    for number in range(25):
        key, start = f"a/{number}", threading.Barrier(8)

        def put(data: bytes, key: str = key, start: threading.Barrier = start) -> bool:
            start.wait()
            return store.put_if_absent(key, data)

        written = [f"driver {driver}".encode() * 1000 for driver in range(8)]
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(put, written))
        assert won.count(True) == 1
        assert store.read(key) == written[won.index(True)]
    assert [found.name for found in (store.root / "a").iterdir() if found.name.startswith(".")] == []


def test_a_reader_sees_the_old_or_the_new_object_whole(store: LocalStorage) -> None:
    contents = [bytes([number]) * 200_000 for number in range(2)]
    store.write("a", contents[0])
    with ThreadPoolExecutor(4) as pool:
        writes = [pool.submit(store.write, "a", contents[number % 2]) for number in range(40)]
        reads = [pool.submit(store.read, "a") for _ in range(200)]
        assert {read.result() for read in reads} <= set(contents)
        assert all(write.exception() is None for write in writes)


def test_parts_of_an_object_are_read_where_they_are_asked_for(store: LocalStorage) -> None:
    data = bytes(range(256)) * 8
    store.write("a/b", data)
    assert store.read_range("a/b", 5, 9) == data[5:9]
    file = Seekable(store, "a/b", len(data))
    assert (file.seek(-8, 2), file.read(4), file.tell(), file.read(99), file.read(1)) == (
        2040, data[-8:-4], 2044, data[-4:], b"",
    )  # fmt: skip
    assert (file.seek(10), file.seek(5, 1), file.read(-1)) == (10, 15, data[15:])


def test_what_is_put_is_read_listed_and_overwritten(store: LocalStorage) -> None:
    assert store.read("x/a") is None
    assert store.stat("x/a") is None
    assert list(store.list("x")) == []
    store.write("x/b", b"12"), store.write("x/a", b"1"), store.write("xy/c", b""), store.write("x/a", b"123")
    assert [(object_.key, object_.size) for object_ in store.list("x/")] == [("x/a", 3), ("x/b", 2)]
    assert [object_.key for object_ in store.list()] == ["x/a", "x/b", "xy/c"]
    assert store.read("x/a") == b"123"
    assert info_of(store, "x/a") == next(iter(store.list("x/")))
    assert store.stat("x") is None, "a folder is no object"
    assert store.read("x/a/below") is None


def test_a_range_of_an_object_is_read_and_what_is_behind_its_end_is_nothing(store: LocalStorage) -> None:
    store.write("x/a", b"0123456789")
    ranges = ((0, 3), (3, 3), (8, 20), (10, 12), (0, 10))
    assert [store.read_range("x/a", *range_) for range_ in ranges] == [b"012", b"", b"89", b"", b"0123456789"]


def test_what_is_below_a_folder_is_removed_and_nothing_next_to_it(store: LocalStorage) -> None:
    store.write("x/a", b"1"), store.write("x/y/b", b"2"), store.write("xy/c", b"3")
    store.remove_below("x/")
    store.remove_below("x/")
    assert [object_.key for object_ in store.list()] == ["xy/c"]
    for folder in ("", "/", "xy", "../x/", "a/../../x/"):
        with pytest.raises(ValueError, match=r"is no folder below the root|leaves its root"):
            store.remove_below(folder)


def test_one_object_is_removed_and_may_be_gone_already(store: LocalStorage) -> None:
    for key in ("x/a", "x/ab"):
        store.write(key, b"1")
    store.remove("x/a")
    store.remove("x/a")
    assert [info.key for info in store.list()] == ["x/ab"]
    with pytest.raises(ValueError, match="leaves its root"):
        store.remove("../a")


def test_scratch_files_are_not_listed(store: LocalStorage) -> None:
    store.write("x/a", b"1")
    (store.root / "x" / ".0123").write_bytes(b"half")
    (store.root / ".tmp").mkdir()
    (store.root / ".tmp" / "b").write_bytes(b"half")
    assert [object_.key for object_ in store.list()] == ["x/a"]


def test_a_copy_is_exact_and_its_digest_is_of_the_bytes(store: LocalStorage, tmp_path: Path) -> None:
    source = LocalStorage(tmp_path / "source")
    data = bytes(range(256)) * 10_000  # more than one chunk
    source.write("a", data)
    assert store.copy_from(source, info_of(source, "a"), "landed/a") == hashlib.sha256(data).hexdigest()
    assert store.read("landed/a") == data
    assert source.read("a") == data


def test_a_copy_of_an_object_that_changed_leaves_nothing(store: LocalStorage, tmp_path: Path) -> None:
    source = LocalStorage(tmp_path / "source")
    source.write("a", b"before")
    pinned = info_of(source, "a")
    source.write("a", b"after it")
    with pytest.raises(PreconditionFailedError):
        store.copy_from(source, pinned, "landed/a")
    assert store.read("landed/a") is None
    assert list(store.list()) == []


def test_keys_that_leave_the_root_are_refused(store: LocalStorage) -> None:
    for key in ("/etc/passwd", "../x", "a/../../x", "a/..", "a\\b", "a\0b", "//x"):
        for act in (store.read, store.stat, store.open, store.uri_of):
            with pytest.raises(ValueError, match="leaves its root"):
                act(key)
        with pytest.raises(ValueError, match="leaves its root"):
            store.write(key, b"")
        with pytest.raises(ValueError, match="leaves its root"):
            store.put_if_absent(key, b"")


@given(
    st.lists(st.sampled_from(["..", ".", "a", "", "/", "\\", "\0", "~", " ", "é"]), max_size=6).map("/".join)
    | st.text()
)
def test_no_key_leaves_the_root(key: str) -> None:
    root = Path("/lake/root")
    try:
        safe_key(key)
    except ValueError:
        return
    steps: list[str] = []
    for part in key.split("/"):
        if part == "..":
            steps.pop()  # an IndexError would be a way out
        elif part not in ("", "."):
            steps.append(part)
    assert (root / key).is_relative_to(root)
    assert not key.startswith("/")


def test_a_place_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for root in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/onefold")):
        store = LocalStorage(root)
        with pytest.raises(LakeUnavailableError, match=str(root)):
            store.write("a/b", b"1")
        with pytest.raises(LakeUnavailableError):
            store.put_if_absent("a/b", b"1")
    with pytest.raises(LakeUnavailableError, match="nothing"):
        LocalStorage(tmp_path).open("nothing")


def test_a_name_that_is_too_long_is_said(store: LocalStorage) -> None:
    with pytest.raises(LakeUnavailableError, match="name too long"):
        store.write("a" * 300, b"1")


@pytest.mark.parametrize(
    ("place", "uri"),
    [
        ("/data/lake", "/data/lake"),
        ("file:///data/lake", "/data/lake"),
        ("/data/a #1?/lake", "/data/a #1?/lake"),
        ("s3://bucket/some/prefix/", "s3a://bucket/some/prefix"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3://bucket/a#b?c", "s3a://bucket/a#b?c"),
    ],
)
def test_a_place_is_opened_as_it_is_written(place: str, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert open_storage(place).uri == uri
    assert isinstance(open_storage(place), S3Storage if place.startswith("s3") else LocalStorage)


@pytest.mark.parametrize("place", ["gs://bucket/x", "https://host/x", "s3://", "s3:///x"])
def test_another_kind_of_place_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="neither a folder nor"):
        open_storage(place)


@pytest.mark.parametrize("place", ["/data/a #1", "/data/what?", "s3a://bucket/a#b"])
def test_a_lake_whose_path_iceberg_would_cut_off_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="cannot hold # or"):
        _ = Lake(Settings(lake=place)).storage


def test_a_lake_in_a_bucket_needs_a_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    lake = Lake(Settings(lake="s3a://bucket/prefix"))
    assert lake.warehouse == "s3a://bucket/prefix/warehouse"
    with pytest.raises(UsageError, match="set ONEFOLD_CATALOG"):
        _ = lake.catalog


@pytest.mark.parametrize(
    ("access", "file", "folder"), [("owner", 0o600, 0o700), ("group", 0o660, 0o2770), ("everyone", 0o644, 0o755)]
)
@pytest.mark.parametrize("process", [0, 0o077])
def test_s10_files_and_folders_have_the_modes_of_the_setting_whatever_the_process_has(
    tmp_path: Path, access: Literal["owner", "group", "everyone"], file: int, folder: int, process: int
) -> None:
    before = os.umask(process)
    try:
        store = Lake(Settings(home=tmp_path, lake="a/lake", lake_access=access)).storage
        store.write("b/c/written", b"1")
        store.put_if_absent("b/d/put", b"1")
        store.copy_from(store, info_of(store, "b/d/put"), "b/e/copied")
    finally:
        os.umask(before)

    places = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    assert {stat.S_IMODE(place.stat().st_mode) for place in places if place.is_file()} == {file}
    assert {stat.S_IMODE(place.stat().st_mode) for place in places if place.is_dir()} == {folder}
