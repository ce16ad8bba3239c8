"""The storage when the network or the server fails: nothing is lost, nothing is said twice, nothing is half."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

from onefold.errors import LakeUnavailableError
from onefold.storage import LocalStorage, ObjectInfo, S3Storage
from onefold.storage.s3 import BROKEN, CONFLICTS, WHOLE
from tests.support.s3_faults import Fault, Faulty
from tests.support.s3_servers import SERVERS, environment

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.s3
FAILED = [Fault.BUSY, Fault.INTERNAL, Fault.GATEWAY, Fault.TIMEOUT]
"""What a server, or a proxy before it, answers for a while"""
OF_PUTS = (Fault.CONFLICT, Fault.UNKNOWN, Fault.LATE)
BYTES = bytes(range(256)) * 16


@pytest.fixture(scope="module", params=["moto", pytest.param("versitygw", marks=pytest.mark.nightly)])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    with SERVERS[request.param]() as address:
        yield address


@pytest.fixture
def proxy(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    if "faults" not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket="faults")
    with Faulty(server) as made:
        yield made
    assert made.left == [], "every fault was met"


@pytest.fixture
def store(proxy: Faulty, request: pytest.FixtureRequest) -> S3Storage:
    """The storage through the proxy, impatient: it slows down less than the storage does by default."""
    config = Config(retries={"max_attempts": 8, "mode": "standard"}, read_timeout=1)
    made = storage_of(request, boto3.client("s3", endpoint_url=proxy.address, config=config))
    assert made.put_if_absent("known", b"1"), "what is asked once is asked before the faults"
    proxy.seen.clear()
    return made


def storage_of(request: pytest.FixtureRequest, client: S3Client | None) -> S3Storage:
    return S3Storage("faults", hashlib.sha256(request.node.name.encode()).hexdigest()[:12], client)


def info_of(store: S3Storage, key: str) -> ObjectInfo:
    info = store.stat(key)
    assert info is not None
    return info


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.LOST, *FAILED], ids=lambda fault: fault.name.lower())
def test_a_put_that_fails_once_knows_its_own_object_when_it_exists(
    store: S3Storage, proxy: Faulty, fault: Fault
) -> None:
    """The second try of a put whose answer was lost meets an object: the first try's."""
    proxy.spoil("PUT", fault)
    assert store.put_if_absent("plan", b"mine")
    assert store.read("plan") == b"mine"
    assert not store.put_if_absent("plan", b"another's")
    assert store.read("plan") == b"mine"


def test_a_lost_answer_does_not_make_another_writers_object_ones_own(store: S3Storage, proxy: Faulty) -> None:
    store.write("plan", b"another's")
    proxy.spoil("PUT", Fault.LOST)
    assert not store.put_if_absent("plan", b"mine")
    assert store.read("plan") == b"another's"


def test_a_put_that_conflicts_with_another_is_tried_again(store: S3Storage, proxy: Faulty) -> None:
    """Amazon's may do neither of two conditional puts at once."""
    proxy.spoil("PUT", *[Fault.CONFLICT] * (CONFLICTS - 1))
    assert store.put_if_absent("plan", b"mine")
    assert store.read("plan") == b"mine"
    proxy.spoil("PUT", Fault.CONFLICT)
    assert not store.put_if_absent("plan", b"another's")
    proxy.spoil("PUT", *[Fault.CONFLICT] * CONFLICTS)
    with pytest.raises(LakeUnavailableError, match="ConditionalRequestConflict"):
        store.put_if_absent("other", b"mine")
    assert store.read("other") is None


def test_a_store_that_does_not_know_conditions_is_refused(proxy: Faulty, request: pytest.FixtureRequest) -> None:
    store = storage_of(request, boto3.client("s3", endpoint_url=proxy.address))
    proxy.spoil("PUT", Fault.UNKNOWN)
    with pytest.raises(LakeUnavailableError, match=r"does not keep If-None-Match: \*"):
        store.put_if_absent("plan", b"mine")
    assert store.read("plan") is None


def test_one_of_eight_writers_wins_though_answers_are_lost(store: S3Storage, proxy: Faulty) -> None:
    proxy.spoil("PUT", *[Fault.LOST] * 4)
    written = [f"driver {driver}".encode() for driver in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda data: store.put_if_absent("plan", data), written))
    assert won.count(True) == 1
    assert store.read("plan") == written[won.index(True)]


def test_a_storm_of_503_passes(proxy: Faulty, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the storage's own client."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
    store = storage_of(request, None)
    proxy.spoil("PUT", *[Fault.BUSY] * 2)
    proxy.spoil("GET", *[Fault.BUSY] * 2)
    store.write("a", BYTES)
    assert store.read("a") == BYTES


@pytest.mark.parametrize(
    "fault", [fault for fault in Fault if fault not in OF_PUTS], ids=lambda fault: fault.name.lower()
)
def test_a_download_that_breaks_is_whole_in_the_end(store: S3Storage, proxy: Faulty, fault: Fault) -> None:
    store.write("a", BYTES)
    for read in (lambda: store.read("a"), lambda: store.read_range("a", 100, 3000), lambda: store.open("a").read()):
        proxy.spoil("GET", fault)
        assert read() in (BYTES, BYTES[100:3000])
    proxy.spoil("GET", fault)
    assert store.digest("a") == hashlib.sha256(BYTES).hexdigest()


def test_a_download_asks_only_for_what_has_not_come(store: S3Storage, proxy: Faulty) -> None:
    store.write("a", BYTES)
    proxy.spoil("GET", Fault.HALF, Fault.HALF, Fault.HALF)
    assert store.read("a") == BYTES
    assert [request for request in proxy.seen if request[0] == "GET"] == [*[("GET", Fault.HALF)] * 3, ("GET", None)]


def test_a_download_that_always_breaks_is_given_up_by_name(store: S3Storage, proxy: Faulty) -> None:
    store.write("a", b"1")
    proxy.spoil("GET", *[Fault.HALF] * BROKEN)  # of one byte: not a single one comes
    with pytest.raises(LakeUnavailableError, match=f"s3://faults/{store.prefix}/a"):
        store.read("a")


def test_what_was_overwritten_in_between_is_never_half_of_each(store: S3Storage, proxy: Faulty) -> None:
    store.write("a", b"x" * 4096)
    proxy.spoil("GET", Fault.SILENT)
    with store.open("a") as stream:
        assert stream.read(1000) == b"x" * 1000
        store.write("a", b"y" * 4096)
        with pytest.raises(LakeUnavailableError, match=r"PreconditionFailed|412"):
            stream.read()


@pytest.mark.parametrize(
    "fault", [Fault.CUT, Fault.BUSY, Fault.HALF, Fault.SILENT], ids=lambda fault: fault.name.lower()
)
def test_what_is_landed_from_a_bucket_is_whole(store: S3Storage, proxy: Faulty, tmp_path: Path, fault: Fault) -> None:
    store.write("a", BYTES)
    pinned = info_of(store, "a")
    proxy.spoil("GET", fault)
    assert LocalStorage(tmp_path).copy_from(store, pinned, "down") == hashlib.sha256(BYTES).hexdigest()
    assert (tmp_path / "down").read_bytes() == BYTES


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.LOST, *FAILED], ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("size", [4096, WHOLE + 3], ids=["small", "parts"])
def test_what_is_landed_in_a_bucket_is_whole(
    store: S3Storage, proxy: Faulty, tmp_path: Path, size: int, fault: Fault
) -> None:
    data = (BYTES * (size // len(BYTES) + 1))[:size]
    folder = LocalStorage(tmp_path)
    folder.write("a", data)
    found = folder.stat("a")
    assert found
    proxy.spoil("PUT", fault)
    assert store.copy_from(folder, found, "up") == hashlib.sha256(data).hexdigest()
    assert store.read("up") == data
