"""What a replay names, as plan, manifest, decision and coverage; without Spark (L1, L2, L6)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold import lake_keys
from onefold.cli import app
from onefold.cli.app import position_of
from onefold.dataset import Dataset
from onefold.decisions import Decider, Discard, Release, Replay, Waiver, log_of, record, standing
from onefold.dedup.code_digest import code_digest
from onefold.dedup.documents import Staged, StagedPartition
from onefold.errors import LandingClearedError, UsageError
from onefold.iceberg.commits import RECORD_PROPERTY
from onefold.iceberg.connection import open_catalog
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.earlier_landings import find_earlier_landings
from onefold.landing.land import land_batch, manifest_of
from onefold.landing.manifest import Cleared, Hole, LandedObject, Manifest, Replays
from onefold.landing.plan import ObjectsPlan, PinnedObject, ReplayPlan, find_plan, put_plan, take_plan, taken_plans
from onefold.maintenance.landings import old_landings
from onefold.offsets import Coverage, Position, Present, TopicPartition, merged, size
from onefold.operations import decide
from onefold.operations.erasure_scope import quarantined_positions
from onefold.operations.replay import Replayable, plan_replay, replay
from onefold.operations.run import unfinished
from onefold.quality.documents import CheckResult
from onefold.quality.waivers import under
from onefold.report.decisions import decisions_of
from onefold.report.ledger import batches_of, offsets_of
from onefold.tables.names import state_name
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.coverage import account_for, covered_objects
from tests.support.orders import ORDER, flat

MakeDataset = Callable[..., Dataset]
KEY = "c/t/1/0"
NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
CONNECT = {
    "source": {"exports": {"path": "exports", "layout": "connect", "origin": {"cluster": "c"}, "holes": "none"}},
    "identity": {"business_key": ["id"]},
}
KEPT = pa.struct(
    [
        ("batch", pa.string()),
        ("reason", pa.string()),
        ("object", pa.string()),
        ("line", pa.int32()),
        ("key", pa.binary()),
    ]
)
STATE = pa.schema([("_state", pa.string()), *ORDER, ("_quarantine", KEPT)])


def entry(offset: int | None, key: bytes | None = b'{"id": "a"}', **more: Any) -> dict[str, Any]:
    """A quarantined record of the batch `origin`."""
    place = {"cluster": "c", "topic": "t", "incarnation": 1, "partition": 0} if offset is not None else {}
    kept = {"batch": None, "reason": "undecodable", "object": "0.jsonl", "line": None, "key": key} | more
    return {"_state": "quarantined", **flat(timestamp=1, offset=offset, **place), "_quarantine": kept}


class Table:
    """A dataset with one published batch, `origin`, and what lies in quarantine."""

    def __init__(self, lake: Lake, dataset: Dataset) -> None:
        self.lake, self.dataset = lake, dataset
        pinned = [PinnedObject(name=name, size=3, etag="e") for name in ("0.jsonl", "1.jsonl")]
        plan = ObjectsPlan(source=dataset.source_id, place="exports", objects=pinned)
        self.origin = plan.batch
        put_plan(lake, plan)
        take_plan(lake, dataset.name, plan)
        objects = [
            LandedObject(
                name=object_.name,
                key=lake_keys.landed(plan.source, plan.batch, "cafe", object_.name),
                size=3,
                sha256=object_.name,
            )
            for object_ in pinned
        ]
        for object_ in objects:
            lake.storage.write(object_.key, b"{}\n")
        made = Manifest(
            batch=plan.batch, source=plan.source, attempt="cafe", objects=objects, layout=dataset.source.layout
        )
        lake.put_first(lake_keys.manifest(plan.source, plan.batch), made)
        catalog = open_catalog(lake)
        catalog.create_namespace(dataset.target.namespace)
        self.table = catalog.create_table((dataset.target.namespace, state_name(dataset)), STATE)
        self.records: list[str] = []

    def publish(
        self,
        entries: list[dict[str, Any]],
        batch: str = "",
        replays: str | None = None,
        coverage: Coverage = Coverage(),  # noqa: B008
    ) -> None:
        """Another batch, after which this is in quarantine."""
        name = f"attempt{len(self.records)}"
        commit = CommitRecord(
            name=name, parent=self.records[-1] if self.records else "root", dataset=self.dataset.name,
            generation=self.dataset.generation, batch=batch or self.origin, interval=None, attempt=name, staging="s",
            verdicts="v", landed=0, replays=replays, counts={}, coverage=coverage, written=NOON,
        )  # fmt: skip
        self.lake.put_first(lake_keys.record(self.dataset, name), commit)
        rows = [
            item | {"_quarantine": item["_quarantine"] | {"batch": item["_quarantine"]["batch"] or self.origin}}
            for item in entries
        ]
        self.table.overwrite(pa.Table.from_pylist(rows, STATE), snapshot_properties={RECORD_PROPERTY: name})
        self.records.append(name)

    def plan(self, key: str | None = None, *positions: Position) -> Replayable:
        return plan_replay(self.lake, self.dataset, self.origin, key, positions)


@pytest.fixture
def exact(lake: Lake, dataset: MakeDataset) -> Table:
    return Table(lake, dataset())


@pytest.fixture
def inexact(lake: Lake, dataset: MakeDataset) -> Table:
    return Table(lake, dataset(**CONNECT))


def ranges(plan: ReplayPlan) -> list[tuple[str, int, int]]:
    return [(range_.topic_partition.key, range_.start, range_.end) for range_ in plan.ranges]


# Which records


def test_all_of_a_batch_are_named_by_position_and_lines_without_one_stay(exact: Table) -> None:
    other = entry(9, batch="another")
    exact.publish([entry(3), entry(4), entry(7, object="1.jsonl", reason="wrong_type"), entry(None), other])
    found = exact.plan()
    assert ranges(found.plan) == [(KEY, 3, 5), (KEY, 7, 8)]
    assert (found.plan.objects, found.plan.records, found.plan.lines) == (["0.jsonl", "1.jsonl"], 3, {})
    assert (found.reasons, found.tried, found.unplaced) == ({"undecodable": 2, "wrong_type": 1}, 0, 1)


def test_where_positions_are_inferred_they_are_named_by_line(inexact: Table) -> None:
    inexact.publish([entry(3, line=4), entry(4, line=5), entry(9, line=1, object="1.jsonl")])
    plan = inexact.plan(None, Position("t", 0, 3), Position("t", 0, 9)).plan
    assert (plan.lines, plan.ranges, plan.records) == ({"0.jsonl": [(4, 5)], "1.jsonl": [(1, 2)]}, [], 2)


@pytest.mark.parametrize(
    ("key", "found"),
    [('{"id":"a"}', [0]), ('"plain"', [1]), ('"a"', []), ("null", [3]), ("7", [2]), ('{"id": "b"}', [])],
)
def test_a_key_is_the_kafka_key_as_json_or_as_text(exact: Table, key: str, found: list[int]) -> None:
    exact.publish([entry(0), entry(1, b"plain"), entry(2, b"7"), entry(3, None), entry(4, b"\xff")])
    assert [start for _, start, _ in ranges(exact.plan(key).plan)] == found


def test_a_key_that_is_no_json_is_refused(exact: Table) -> None:
    exact.publish([entry(0)])
    with pytest.raises(UsageError, match="is not JSON"):
        exact.plan("{id: a}")


def test_positions_restrict_it_and_what_is_not_in_quarantine_is_not_named(exact: Table) -> None:
    exact.publish([entry(3), entry(4)])
    assert ranges(exact.plan(None, Position("t", 0, 4), Position("t", 0, 5), Position("u", 0, 3)).plan) == [(KEY, 4, 5)]
    assert exact.plan(None, Position("t", 1, 4)).plan.empty


def in_log(offset: int, cluster: str, incarnation: int) -> dict[str, Any]:
    """A quarantined record of another log of the same topic and partition."""
    row = entry(offset)
    return row | {"_order_cluster": cluster, "_order_incarnation": incarnation}


@pytest.fixture
def several_logs(exact: Table) -> Table:
    """Quarantined at one place: of two incarnations and of another cluster; all cover their neighbours."""
    keys = (KEY, "c/t/2/0", "d/t/1/0")
    covered = Coverage(partitions={key: Present(present=[(0, 3)]) for key in keys})
    exact.publish([entry(3), in_log(3, "c", 2), in_log(4, "c", 2), in_log(3, "d", 1)], coverage=covered)
    return exact


def test_a_position_may_name_its_cluster_and_incarnation(several_logs: Table) -> None:
    every = several_logs.plan(None, Position("t", 0, 3)).plan
    assert ranges(every) == [(KEY, 3, 4), ("c/t/2/0", 3, 4), ("d/t/1/0", 3, 4)]
    assert ranges(several_logs.plan(None, position_of("c/t/2/0/3")).plan) == [("c/t/2/0", 3, 4)]


def test_what_is_quarantined_of_one_log_is_not_reported_of_another(several_logs: Table) -> None:
    quarantined = {
        (row["cluster"], row["incarnation"]): row["quarantined"]
        for row in offsets_of(several_logs.lake, several_logs.dataset)
    }
    assert quarantined == {("c", 1): [[3, 4]], ("c", 2): [[3, 5]], ("d", 1): [[3, 4]]}


def test_what_is_erased_by_its_place_is_one_record_or_none(several_logs: Table) -> None:
    lake, made = several_logs.lake, several_logs.dataset
    with pytest.raises(
        UsageError, match=r"t-0@3 is the place of 3 .*: c/t/1/0/3, c/t/2/0/3, d/t/1/0/3\. Nothing was erased"
    ):
        quarantined_positions(lake, made, [position_of("t/0/3")])
    named = [position_of(text) for text in ("c/t/2/0/3", "c/t/1/0/3", "t/0/4", "c/t/2/0/4")]
    assert quarantined_positions(lake, made, named) == {KEY: [(3, 4)], "c/t/2/0": [(3, 5)]}
    with pytest.raises(UsageError, match=r"not in quarantine: c/t/1/0/4, t-1@3\. Nothing"):
        quarantined_positions(lake, made, [position_of("t/1/3"), position_of("c/t/1/0/4"), position_of("t/0/4")])


def test_all_records_at_a_named_position_come_along(exact: Table) -> None:
    """Two lines of one position with other keys: the landing is read by position, and L2 counts both."""
    exact.publish([entry(3), entry(3, b"b"), entry(4, b"b")])
    plan = exact.plan('{"id": "a"}').plan
    assert (ranges(plan), plan.records) == ([(KEY, 3, 4)], 2)


@pytest.mark.parametrize("text", ["payments.a-b/0/17", "payments.a-b-0@17"])
def test_a_position_is_written_as_a_path_or_as_explain_has_it(text: str) -> None:
    assert position_of(text) == Position("payments.a-b", 0, 17)


def test_a_position_in_one_log_is_written_as_its_partition_is_elsewhere() -> None:
    assert position_of("prod/payments.a-b/2/0/17") == Position("payments.a-b", 0, 17, "prod", 2)
    assert str(position_of("prod/payments.a-b/2/0/17")) == "prod/payments.a-b/2/0/17"


@pytest.mark.parametrize("text", ["t", "t/0", "t/0/x", "t-0", "t@0", "/0/1", "t/0/1/2", "c/t/0/1/2/3", "c/t/x/0/1"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no TOPIC-PARTITION@OFFSET"):
        position_of(text)


def test_a_batch_that_is_not_published_has_no_quarantine(exact: Table) -> None:
    exact.publish([entry(3)])
    with pytest.raises(UsageError, match="batch nonsense is not published"):
        plan_replay(exact.lake, exact.dataset, "nonsense")


def test_bytes_that_were_cleared_cannot_be_replayed(exact: Table) -> None:
    exact.publish([entry(3)])
    cleared = lake_keys.cleared(exact.dataset.source_id, exact.origin)
    exact.lake.put_first(cleared, Cleared(batch=exact.origin, bytes=3, at=NOON))
    with pytest.raises(LandingClearedError):
        exact.plan()


# Once


def test_the_batch_depends_on_what_is_replayed_and_by_which_code(exact: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    exact.publish([entry(3), entry(4)])
    plan = exact.plan().plan
    assert plan.batch == exact.plan().plan.batch
    assert plan.batch.startswith("replay_")
    assert plan.batch != exact.plan(None, Position("t", 0, 3)).plan.batch
    monkeypatch.setattr("onefold.dedup.code_digest.code_digest", lambda: "mended")
    assert plan.batch != exact.plan().plan.batch


def test_it_is_recorded_once_and_lands_no_bytes(exact: Table) -> None:
    exact.publish([entry(3), entry(4, object="1.jsonl")])
    plan = exact.plan(None, Position("t", 0, 3)).plan
    before = {info.key for info in exact.lake.storage.list("sources/") if "/landed/" in info.key}
    made = replay(exact.lake, exact.dataset, plan, "mia", " the decoder is mended ")
    assert (made.who.name, made.reason, made.origin, made.records, made.number) == (
        "mia", "the decoder is mended", exact.origin, 1, 1
    )  # fmt: skip
    assert replay(exact.lake, exact.dataset, plan, "noa", "again") == made
    assert log_of(exact.lake, exact.dataset.name, plan.batch) == [made]
    assert {info.key for info in exact.lake.storage.list("sources/") if "/landed/" in info.key} == before
    assert find_plan(exact.lake, exact.dataset, plan.batch) == plan
    [object_] = manifest_of(exact.lake, exact.dataset, plan.batch).objects
    assert object_.name == "0.jsonl"
    assert [plan.batch for plan in unfinished(exact.lake, exact.dataset)] == [plan.batch], "any run carries it out"


def test_a_dry_run_writes_nothing(exact: Table) -> None:
    exact.publish([entry(3)])
    before = [info.key for info in exact.lake.storage.list("")]
    assert replay(exact.lake, exact.dataset, exact.plan().plan, "mia", "", dry_run=True).records == 1
    assert [info.key for info in exact.lake.storage.list("")] == before


def test_the_first_of_two_requests_at_once_is_on_record_and_both_go_on(
    exact: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact.publish([entry(3)])
    plan = exact.plan().plan
    first = replay(exact.lake, exact.dataset, plan, "mia", "")
    seen = iter([[]])  # as the log was before the first one wrote
    monkeypatch.setattr("onefold.operations.own_batch.log_of", lambda *words: next(seen, log_of(*words)))
    assert replay(exact.lake, exact.dataset, plan, "noa", "") == first


def test_what_this_code_has_rejected_again_is_not_tried_again(exact: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three one was folded and left; pressed again, two are left, of which one was never asked for."""
    exact.publish([entry(3), entry(4), entry(5)])
    plan = exact.plan(None, Position("t", 0, 3), Position("t", 0, 4)).plan
    replay(exact.lake, exact.dataset, plan, "mia", "")
    exact.publish([entry(4), entry(5)], plan.batch, exact.origin)
    found = exact.plan()
    assert (ranges(found.plan), found.tried) == ([(KEY, 5, 6)], 1)
    assert exact.plan(None, Position("t", 0, 4)).plan.empty
    monkeypatch.setattr("onefold.dedup.code_digest.code_digest", lambda: "mended")
    assert (ranges(exact.plan().plan), exact.plan().tried) == ([(KEY, 4, 6)], 0)


# Decisions


def test_a_replay_is_in_force_and_waives_nothing(lake: Lake) -> None:
    made = Replay(dataset="d", batch="r", number=1, by="mia", reason="", at=NOON, origin="b", records=2)
    red = CheckResult(id="duplicate_rate", title="duplicate rate", by="spark", status="failed", observed="0.5")
    assert standing([made]) == made
    assert under([red], made) == [red]
    assert made.sentence == "2 quarantined records of b replayed by mia"
    record(lake, made)
    assert log_of(lake, "d", "r") == [made]


def test_a_replay_cannot_be_skipped(exact: Table) -> None:
    exact.publish([entry(3)])
    plan = exact.plan().plan
    replay(exact.lake, exact.dataset, plan, "mia", "")
    with pytest.raises(UsageError, match="there is nothing to skip"):
        decide.skip(exact.lake, exact.dataset, plan.batch, "mia", "away with it")
    assert len(log_of(exact.lake, exact.dataset.name, plan.batch)) == 1


def test_it_is_listed_as_waiting_until_its_batch_is_published(exact: Table) -> None:
    exact.publish([entry(3)])
    plan = exact.plan().plan
    made = replay(exact.lake, exact.dataset, plan, "mia", "mended")
    waiver = Waiver(check="x", value="1")
    later = Release(
        dataset=made.dataset, batch=made.batch, number=2, by="noa", reason="y", at=NOON, waivers=[waiver], attempt="a"
    )
    record(exact.lake, later)

    def states() -> dict[str, str]:
        return {decision["decision"]: decision["state"] for decision in decisions_of(exact.lake, exact.dataset)}

    assert states() == {"replay": "waiting", "release": "waiting"}
    exact.publish([], plan.batch, exact.origin)
    assert states()["replay"] == "published"


def test_discarded_and_asked_again_it_is_the_same_decision(exact: Table) -> None:
    exact.publish([entry(3)])
    plan = exact.plan().plan
    made = replay(exact.lake, exact.dataset, plan, "mia", "")
    record(exact.lake, Discard(dataset=made.dataset, batch=made.batch, number=2, by="noa", reason="no", at=NOON))
    assert replay(exact.lake, exact.dataset, plan, "mia", "") == made
    decide.check_carried_out(exact.lake, made, None)


def test_batches_tell_what_it_replays_and_other_datasets_of_the_source_do_not_see_it(
    exact: Table, dataset: MakeDataset
) -> None:
    exact.publish([entry(3)])
    plan = exact.plan().plan
    put_plan(exact.lake, plan)  # killed before the decision
    assert len(batches_of(exact.lake, exact.dataset)) == 1
    replay(exact.lake, exact.dataset, plan, "mia", "mended")
    row = batches_of(exact.lake, exact.dataset)[1]
    assert (row["batch"], row["landed"], row["replays"], row["published"]) == (plan.batch, 0, exact.origin, False)
    assert row["decision"] == {
        "kind": "replay",
        "by": "mia",
        "who": Decider.earlier("mia").model_dump(),
        "reason": "mended",
    }
    other = dataset("others")
    assert other.source_id == exact.dataset.source_id
    assert plan.batch not in {batch["batch"] for batch in batches_of(exact.lake, other)}


# The landing


def test_landed_bytes_stay_while_a_replay_under_way_needs_them(exact: Table) -> None:
    exact.publish([entry(3)])
    source = exact.dataset.source_id

    def clearable() -> list[str]:
        return [landing.batch for landing in old_landings(exact.lake, source, [exact.dataset], timedelta(0))]

    assert clearable() == [exact.origin]
    plan = exact.plan().plan
    replay(exact.lake, exact.dataset, plan, "mia", "")
    assert clearable() == []
    exact.publish([], plan.batch, exact.origin)
    assert clearable() == [exact.origin], "and a replay has none of its own"


def test_the_landing_of_a_replay_is_used_by_no_other_batch(lake: Lake) -> None:
    """Its ranges are of objects that the batch it replays has landed, and that may be cleared."""
    range_ = OffsetRange(topic_partition=TopicPartition.of(KEY), start=3, end=5)
    made = Manifest(
        batch="r", source="s", attempt="a", objects=[], ranges=[range_], replays=Replays(batch="b", records=2)
    )
    lake.put_first(lake_keys.manifest("s", "r"), made)
    gone = [Hole(topic_partition=range_.topic_partition, start=3, end=5, kind="retention")]
    assert find_earlier_landings(lake, "s", gone) == ([], gone)


def test_companions_of_the_objects_it_reads_come_along(lake: Lake, dataset: MakeDataset) -> None:
    made = dataset(**CONNECT)
    names = {"t+0+0.json": "values", "t+0+0.keys.json": "keys", "t+0+9.json": "values", "t+0+9.headers.json": "headers"}
    objects = [LandedObject(name=name, key=name, size=1, sha256=name, role=role) for name, role in names.items()]
    for object_ in objects:
        lake.storage.write(object_.key, b"x")
    source = made.source_id
    landed = Manifest(batch="b", source=source, attempt="a", objects=objects, layout=made.source.layout)
    lake.put_first(lake_keys.manifest(source, "b"), landed)
    plan = ReplayPlan(
        source=source, origin="b", objects=["t+0+0.json"], lines={"t+0+0.json": [(2, 3)]}, records=1, code="c"
    )
    put_plan(lake, plan)
    manifest = land_batch(lake, made, plan.batch)
    assert [object_.name for object_ in manifest.objects] == ["t+0+0.json", "t+0+0.keys.json"]
    assert manifest.landing == plan.landing == "b"
    assert land_batch(lake, made, plan.batch) == manifest
    assert taken_plans(lake, made.name) == [plan]


# Coverage and account


def staged(**given: Any) -> Staged:
    words = {"partitions": {}, "objects": {}} | given
    return Staged(batch="r", generation="g", code=code_digest(), attempt="a", table="t", records=1, **words)


def replaying(objects: list[LandedObject], named: list[tuple[int, int]] = [], **lines: Any) -> Manifest:  # noqa: B006
    where = TopicPartition.of(KEY)
    offsets = [OffsetRange(topic_partition=where, start=start, end=end) for start, end in named]
    return Manifest(
        batch="r", source="s", attempt="a", objects=objects, ranges=offsets, examined=bool(offsets),
        replays=Replays(batch="b", records=1, lines=lines),
    )  # fmt: skip


def test_the_account_of_a_partition_is_one_line_and_covers_what_was_folded(dataset: MakeDataset) -> None:
    """3 to 6 and 9 are replayed, 4 is rejected again; 6 to 9 is no concern of the replay."""
    offsets = {KEY: StagedPartition(present=[(3, 4), (5, 6), (9, 10)], quarantined=[(4, 5)])}
    own, [account] = account_for(dataset(), staged(partitions=offsets), replaying([], [(3, 6), (9, 10)]), Coverage())
    assert (account.start, account.end, account.distinct, account.quarantined) == (3, 10, 4, 1)
    assert (account.explained, account.unexplained) == ({"not replayed": 3}, [])
    assert own.partitions == {KEY: Present(present=[(3, 4), (5, 6), (9, 10)], uncovered=[(4, 5)])}


def test_a_named_record_that_its_landing_does_not_give_is_unexplained(dataset: MakeDataset) -> None:
    offsets = {KEY: StagedPartition(present=[(3, 4)], quarantined=[])}
    before = Coverage(partitions={KEY: Present(present=[(0, 9)])})
    _, [account] = account_for(dataset(), staged(partitions=offsets), replaying([], [(3, 5)]), before)
    assert account.unexplained == [(4, 5)]


ONE = LandedObject(name="o", key="k", size=1, sha256="1")


def test_rejected_lines_of_an_object_are_not_covered_and_a_replay_covers_what_it_folds(dataset: MakeDataset) -> None:
    """L1: in either order the same lines are covered; line 5 stays in quarantine."""
    made = dataset(**CONNECT)
    landed = Manifest(batch="b", source="s", attempt="a", objects=[ONE])
    first, _ = account_for(made, staged(objects={"o": 9}, refused={"o": [(4, 6)]}), landed, Coverage())
    again, _ = account_for(
        made, staged(objects={"o": 2}, refused={"o": [(5, 6)]}), replaying([ONE], o=[(4, 6)]), Coverage()
    )
    assert first == Coverage(objects={ONE.digest: 9}, refused={ONE.digest: [(4, 6)]})
    for both in (first.with_(again), again.with_(first)):
        assert both == Coverage(objects={ONE.digest: 9}, refused={ONE.digest: [(5, 6)]})
    assert covered_objects(staged(objects={"o": 9}), landed, first) == {"o": [(4, 6)]}
    [(start, end), (behind, _)] = covered_objects(staged(objects={"o": 9}), landed, again)["o"]
    assert (start, end, behind) == (0, 4, 5), "before the batch itself has come, only the line that was folded"


# Whatever the order

OBJECTS = {name: LandedObject(name=name, key=name, size=1, sha256=name) for name in ("o", "p")}
LINES = range(1, 5)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["batch", "replay"]),
        st.sets(st.sampled_from(["o", "p"]), min_size=1),
        st.integers(0, 2),
        st.sets(st.sampled_from(LINES), min_size=1),
    ),
    min_size=1,
    max_size=7,
)
"""(what, objects, which decoder, of a replay which lines); a later decoder reads more."""
NEEDS = st.fixed_dictionaries({(name, line): st.integers(0, 3) for name in OBJECTS for line in LINES})
"""The first decoder that reads a line; none reads the third kind."""


class Lines:
    """A table over objects with inferred positions, as upsert keeps it: which lines had an effect, and how often."""

    def __init__(self, dataset: Dataset, needs: dict[tuple[str, int], int]) -> None:
        self.dataset, self.needs = dataset, needs
        self.coverage = Coverage()
        self.effects: Counter[tuple[str, int]] = Counter()
        self.quarantine: set[tuple[str, int]] = set()

    def step(self, what: str, names: set[str], decoder: int, lines: set[int]) -> None:
        held = {(name, line) for name in names for line in LINES}
        if what == "replay":
            held = {(name, line) for name, line in held & self.quarantine if line in lines}
        if not held:
            return
        refused = {place for place in held if self.needs[place] > decoder}
        ranges = {name: ranges_of(held, name) for name in {name for name, _ in held}}
        objects = [OBJECTS[name] for name in sorted(ranges)]
        manifest = (
            replaying(objects, **ranges)
            if what == "replay"
            else Manifest(batch="b", source="s", attempt="a", objects=objects)
        )
        judged = staged(
            objects={name: size(some) for name, some in ranges.items()},
            refused={name: ranges_of(refused, name) for name in ranges},
        )
        known = covered_objects(judged, manifest, self.coverage)
        covered = {(name, line) for name, line in held if name in known and not inside(line, known[name])}
        self.effects.update(held - refused - covered)
        own, _ = account_for(self.dataset, judged, manifest, self.coverage)
        self.coverage = self.coverage.with_(own)
        self.quarantine = self.quarantine - held | refused if what == "replay" else self.quarantine | refused


def ranges_of(places: set[tuple[str, int]], name: str) -> list[tuple[int, int]]:
    return merged((line, line + 1) for object_, line in places if object_ == name)


def inside(line: int, ranges: list[tuple[int, int]]) -> bool:
    return any(start <= line < end for start, end in ranges)


@given(steps=STEPS, needs=NEEDS)
def test_a_line_has_its_effect_once_as_soon_as_some_batch_or_replay_can_read_it(
    dataset: MakeDataset, steps: list[tuple[str, set[str], int, set[int]]], needs: dict[tuple[str, int], int]
) -> None:
    """L1, L6: what no decoder could read is in quarantine, what one could is there once, in any order."""
    table = Lines(dataset(**CONNECT), needs)
    wanted: set[tuple[str, int]] = set()
    waiting: set[tuple[str, int]] = set()  # of what a batch has brought, the lines that could never be read
    for what, names, decoder, lines in steps:
        table.step(what, names, decoder, lines)
        brought = set(needs) if what == "batch" else {place for place in waiting if place[1] in lines}
        offered = {place for place in brought if place[0] in names}
        wanted |= {place for place in offered if needs[place] <= decoder}
        waiting = (waiting | offered) - wanted
    assert table.effects == Counter(dict.fromkeys(wanted, 1))
    assert waiting <= table.quarantine


# The command, as far as it needs no Spark


@pytest.fixture
def command(exact: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """`onefold replay things` on the table of this test: its JSON and its notes."""
    monkeypatch.setattr("onefold.cli.replay.open_dataset", lambda name: (exact.lake, exact.dataset))

    def onefold(*words: str) -> tuple[Any, str]:
        app(["replay", "things", "--batch", exact.origin, "--json", *words], standalone_mode=False)
        printed = capsys.readouterr()
        return json.loads(printed.out), " ".join(printed.err.split())

    return onefold


def test_the_command_says_what_it_would_replay_and_writes_nothing(exact: Table, command: Callable[..., Any]) -> None:
    exact.publish([entry(3), entry(4, reason="wrong_type"), entry(None)])
    before = [info.key for info in exact.lake.storage.list("")]
    [row], notes = command("--dry-run", "--who", "mia", "--reason", "decoder 2")
    assert (row["decision"], row["by"], row["reason"], row["state"]) == ("replay", "mia", "decoder 2", "not recorded")
    assert row["batch"] == exact.plan().plan.batch
    assert f"2 records of batch {exact.origin} (1 undecodable, 1 wrong_type)" in notes
    assert "1 lines have no position and stay in quarantine" in notes
    assert [info.key for info in exact.lake.storage.list("")] == before


def test_the_command_with_nothing_to_do_says_so(exact: Table, command: Callable[..., Any]) -> None:
    exact.publish([entry(3)])
    row, notes = command("--position", "t/0/4")
    assert row == {"batch": None, "state": "nothing", "replays": exact.origin, "records": 0}
    assert "nothing of batch" in notes
