"""Erasing without Spark: what leaves the landing and what stays in its place, whatever is killed (L2, L6)."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.source import Origin
from onefold.decisions import erasures_of
from onefold.errors import UsageError
from onefold.lake import Lake
from onefold.landing import erase as landing
from onefold.landing.cuts import OffsetRange
from onefold.landing.erase import check_erasable, erase_landed, holding
from onefold.landing.land import _check
from onefold.landing.manifest import LandedObject, Manifest, Replays
from onefold.landing.plan import GapPlan, put_plan, take_plan
from onefold.offsets import TopicPartition
from onefold.operations import erasure_scope as erasing
from onefold.operations.erase import comes_back, erase_keys

MakeDataset = Callable[..., Dataset]
ORIGIN = Origin(cluster="c", incarnation=1)
MEANT = {"c/t/1/0": [(1, 2)]}


def line(offset: int, key: str, **more: Any) -> bytes:
    known = {"topic": "t", "partition": 0, "offset": offset, "ts": offset, "headers": ["h", key], "key": key}
    return json.dumps(known | {"payload": f'{{"of": "{key}"}}'} | more).encode() + b"\n"


def land(lake: Lake, batch: str, data: bytes, name: str = "0.jsonl", **more: Any) -> Manifest:
    key = lake_keys.landed("s", batch, "a1", f"000000-{name}")
    lake.storage.write(key, data)
    object_ = LandedObject(name=name, key=key, size=len(data), sha256=hashlib.sha256(data).hexdigest())
    made = Manifest(batch=batch, source="s", attempt="a1", objects=[object_], layout="kcat", origin=ORIGIN)
    return lake.put_first(lake_keys.manifest("s", batch), made.model_copy(update=more))


def manifest(lake: Lake, batch: str) -> Manifest:
    found = lake.get(lake_keys.manifest("s", batch), Manifest)
    assert found
    return found


def erase(lake: Lake) -> int:
    return erase_landed(lake, "s", "accounts", "e-0001", MEANT, lambda _: None)


def landed(lake: Lake) -> list[str]:
    return [info.key for info in lake.storage.list("sources/s/landed/")]


def test_L2_a_line_keeps_its_place_and_loses_its_payload_and_all_others_stay_as_they_were(lake: Lake) -> None:
    data = [line(0, "bob"), line(1, "ann"), b"no line of kcat, and ann\n", line(1, "ann", partition=1), line(2, "ann")]
    before = land(lake, "b1", b"".join(data)).objects[0]
    assert holding(lake, "s", MEANT) == {before.key: 1}
    assert erase(lake) == 1
    [after] = manifest(lake, "b1").objects
    assert (after.name, landed(lake)) == (before.name, [after.key]), "the old object is gone"
    lines = (lake.storage.read(after.key) or b"").splitlines(keepends=True)
    assert [*lines[:1], *lines[2:]] == [*data[:1], *data[2:]]
    kept = {"topic": "t", "partition": 0, "offset": 1, "ts": 1, "headers": [], "key": None, "payload": None}
    assert json.loads(lines[1]) == kept
    _check(lake, manifest(lake, "b1"))
    assert after.sha256 == lake.storage.digest(after.key)
    assert holding(lake, "s", MEANT) == {}
    assert erase(lake) == 0, "once more changes nothing"


def test_a_line_that_nests_as_deep_as_spark_reads_loses_its_payload_and_a_deeper_one_is_no_record(lake: Lake) -> None:
    def nested(levels: int) -> bytes:
        return line(1, "ann").replace(
            b'"payload": "{\\"of\\": \\"ann\\"}"', b'"payload": ' + b"[" * levels + b"]" * levels
        )

    deepest, deeper = nested(999), nested(200_000)
    assert b'"payload": [[' in deepest
    land(lake, "b1", deeper + deepest + line(2, "ann"))
    limit = sys.getrecursionlimit()
    assert erase(lake) == 1
    assert sys.getrecursionlimit() == limit
    [after] = manifest(lake, "b1").objects
    lines = (lake.storage.read(after.key) or b"").splitlines(keepends=True)
    assert (lines[0], json.loads(lines[1])["payload"], lines[2]) == (deeper, None, line(2, "ann"))


def test_a_packed_object_stays_packed_and_one_without_such_records_is_not_touched(lake: Lake) -> None:
    land(lake, "b1", gzip.compress(line(0, "bob") + line(1, "ann")), "0.jsonl.gz")
    other = land(lake, "b2", line(7, "cas"))
    assert erase(lake) == 1
    [packed] = manifest(lake, "b1").objects
    assert packed.key.endswith(".jsonl.gz")
    assert b"ann" not in gzip.decompress(lake.storage.read(packed.key) or b"")
    assert manifest(lake, "b2") == other


def test_a_live_topics_object_keeps_its_columns_positions_and_timestamps(lake: Lake) -> None:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    schema = pa.schema(
        [("cluster", pa.string()), ("topic", pa.string()), ("incarnation", pa.int32()), ("partition", pa.int32()),
         ("offset", pa.int64()), ("timestamp", pa.int64()), ("timestamp_type", pa.int32()), ("key", pa.binary()),
         ("value", pa.binary()), ("headers", headers)]
    )  # fmt: skip
    rows = [
        {"cluster": "c", "topic": "t", "incarnation": 1, "partition": 0, "offset": n, "timestamp": n, "key": b"ann",
         "timestamp_type": 0, "value": b"v", "headers": [{"key": "h", "value": b"ann"}]}
        for n in range(3)
    ]  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, row_group_size=2)
    where = TopicPartition(cluster="c", topic="t", incarnation=1, partition=0)
    ranges = [OffsetRange(topic_partition=where, start=0, end=3)]
    land(lake, "b1", sink.getvalue().to_pybytes(), "p.zstd.parquet", layout="kafka", origin=None, ranges=ranges)
    elsewhere = [OffsetRange(topic_partition=where, start=5, end=9)]
    land(lake, "b2", b"unreadable: it is not read", "p.zstd.parquet", layout="kafka", ranges=elsewhere)
    assert erase(lake) == 1
    [after] = manifest(lake, "b1").objects
    table = pq.read_table(pa.BufferReader(lake.storage.read(after.key)))
    rows[1] |= {"key": None, "value": None, "headers": None}
    assert (table.to_pylist(), table.schema) == (rows, schema)
    assert erase(lake) == 0


POINTS = ("before_erased", "before_new_manifest", "before_old_objects")


class KilledError(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("point", POINTS)
def test_L6_killed_anywhere_every_manifest_names_objects_that_are_there_and_the_same_call_ends_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    first = land(lake, "b1", line(0, "bob") + line(1, "ann"))
    replay = first.model_copy(update={"batch": "r1", "replays": Replays(batch="b1", records=1)})
    lake.put_first(lake_keys.manifest("s", "r1"), replay)
    land(lake, "b2", line(1, "ann"))

    def die(name: str) -> None:
        if name == point:
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(landing, "fault_point", die)
        with pytest.raises(KilledError):
            erase(lake)
    for batch in ("b1", "b2", "r1"):
        _check(lake, manifest(lake, batch))
    erase(lake)
    assert manifest(lake, "r1").objects == manifest(lake, "b1").objects
    assert sorted(landed(lake)) == sorted(
        object_.key for batch in ("b1", "b2") for object_ in manifest(lake, batch).objects
    )
    assert not [key for key in landed(lake) if b"ann" in (lake.storage.read(key) or b"")]


def test_L6_killed_before_the_old_object_went_the_same_erasure_of_more_removes_it_too(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(lake, "b1", line(0, "ann") + line(1, "ann"))

    def die(name: str) -> None:
        if name == "before_old_objects":
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(landing, "fault_point", die)
        with pytest.raises(KilledError):
            erase(lake)
    erase_landed(lake, "s", "accounts", "e-0001", {"c/t/1/0": [(0, 2)]}, lambda _: None)
    assert landed(lake) == [object_.key for object_ in manifest(lake, "b1").objects]
    assert not [key for key in landed(lake) if b"ann" in (lake.storage.read(key) or b"")]


def test_a_second_erasure_of_an_object_goes_on_from_the_first(lake: Lake) -> None:
    land(lake, "b1", line(0, "bob") + line(1, "ann"))
    erase(lake)
    erase_landed(lake, "s", "accounts", "e-0002", {"c/t/1/0": [(0, 1)]}, lambda _: None)
    [after] = manifest(lake, "b1").objects
    assert landed(lake) == [after.key]
    assert after.key.count("erased-") == 1
    assert [json.loads(text)["key"] for text in (lake.storage.read(after.key) or b"").splitlines()] == [None, None]


@pytest.mark.parametrize("layout", ["segments", "connect", "aiven", "parquet"])
def test_a_layout_whose_objects_cannot_be_rewritten_is_refused(lake: Lake, layout: str) -> None:
    land(lake, "b1", b"x", layout=layout)
    with pytest.raises(UsageError, match=rf"batch b1 was landed in layout {layout}.*Nothing was erased.*--landing AGE"):
        check_erasable(lake, "s")


def test_nothing_is_decided_where_it_is_refused(lake: Lake, dataset: MakeDataset) -> None:
    made = dataset(
        "sums",
        identity={"message_id": "id"},
        value={"fields": {"id": "string", "sku": "string", "n": "long"}},
        apply={"mode": "increment", "key": ["sku"], "add": {"n_sum": "n"}},
    )
    spark: Any = None
    with pytest.raises(UsageError, match="mode increment is not supported yet"):
        erase_keys(lake, made, [{"sku": "a"}], "mia", "asked to", spark)
    with pytest.raises(UsageError, match="say which keys"):
        erase_keys(lake, made, [], "mia", "asked to", spark)
    assert erasures_of(lake, "sums") == []


GAP: dict[str, Any] = {"region": "north", "id": "7"}


@pytest.mark.parametrize(
    ("parts", "key", "refused"),
    [
        (["region", "id"], {"region": "north", "id": "7"}, True),
        (["region", "id"], {"region": "south", "id": "7"}, False),
        (["id"], {"id": 7}, True),
        (["id"], {"id": "8"}, False),
        (["long(key.id)"], {"id": "07"}, True),
        (["long(key.region)"], {"region": "5"}, False),
        (["id", "kind"], {"id": "7", "kind": "k"}, True),
        (["kind"], {"kind": "7"}, False),
    ],
)
def test_a_gap_that_was_accepted_with_other_parts_of_the_key_refuses_where_the_common_ones_agree(
    lake: Lake, dataset: MakeDataset, parts: list[str], key: dict[str, Any], refused: bool
) -> None:
    given = [part if "(" in part else f"key.{part}" for part in parts]
    version = {"from": "long(header.v)", "guard": "contiguous"}
    made = dataset(
        "accounts",
        key={"format": "json"},
        value={"fields": {"owner": "string"}},
        apply={"mode": "upsert", "key": given, "version": version},
    )
    plan = GapPlan(source=made.source_id, dataset="accounts", key=GAP, version=6)
    put_plan(lake, plan)
    take_plan(lake, "accounts", plan)
    if refused:
        with pytest.raises(UsageError, match=f"batch {plan.batch} accepted a gap of such a key"):
            erasing.check(lake, made, [key])
    else:
        assert len(erasing.check(lake, made, [key])) == 1


def test_a_decision_on_the_same_keys_is_in_force_until_it_has_ended_and_keeps_digests_only(
    lake: Lake, dataset: MakeDataset
) -> None:
    made = dataset()
    with pytest.raises(UsageError, match="needs a reason"):
        erasing.decide(lake, made, [b"\1"], {}, "mia", " ")
    first = erasing.decide(lake, made, [b"\1"], {}, "mia", "asked to")
    assert erasing.decide(lake, made, [b"\1"], {}, "tom", "again") == first
    assert first.keys == ["01"]
    done = erasing.end(lake, first, 3, 1)
    second = erasing.decide(lake, made, [b"\1"], {}, "tom", "again")
    assert (second.who.name, second.ended) == ("tom", None)
    assert erasures_of(lake, made.name) == [done, second]


@pytest.mark.parametrize(
    ("version", "identity", "returns"),
    [
        ("value.v", {}, None),
        ("offset", {"message_id": "header.m"}, None),
        ("offset", {"producer": {"name": "header.p", "sequence": "header.s"}}, None),
        ("offset", {}, "its version is read from offset"),
        ("long(header.v)", {}, "its version is read from long(header.v)"),
    ],
)
def test_a_retry_comes_back_where_its_version_is_the_deliverys_and_the_file_declares_no_identity(
    dataset: MakeDataset, version: str, identity: dict[str, Any], returns: str | None
) -> None:
    made = dataset(
        "things",
        source={"kafka": {"topics": ["t"]}},  # the log shows a producer, but of a retry another sequence
        value={"fields": {"id": "string", "v": "long"}},
        identity=identity,
        apply={"mode": "upsert", "key": ["id"], "version": {"from": version}},
    )
    found = comes_back(made)
    assert (found is None) if returns is None else (returns in str(found))
