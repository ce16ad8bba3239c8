"""Erased keys: nothing of them is left in any file of the lake, and everything else is as it was (L1, L2, L6)."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import Erasure, erasures_of
from onefold.errors import ErasureDisturbedError, UsageError
from onefold.faults import ERASE_POINTS
from onefold.formats.avro import read_avro
from onefold.generation import begin_rebuild, to_rebuild
from onefold.iceberg.state_table import StateTable, generations_of
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.land import manifest_of
from onefold.landing.manifest import LandedObject, Manifest
from onefold.landing.plan import RangesPlan, find_plan, put_plan, take_plan, taken_plans
from onefold.maintenance import erase as tables
from onefold.offsets import Position, TopicPartition
from onefold.operations import decide
from onefold.operations import erase as command
from onefold.operations.erase import comes_back, erase_keys, meant
from onefold.operations.forget import forget
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.replay import plan_replay
from onefold.operations.rollback import roll_back
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.prove import prove
from onefold.records.layouts.kafka import LANDED
from onefold.report.decisions import decisions_of
from onefold.report.ledger import batches_of, offsets_of, rows_of, verdicts_of
from onefold.report.quarantine import quarantine_of
from onefold.spark.result import StepResult, result_key
from onefold.tables.names import STAGING
from sample import kcat
from tests.support.pipeline import Sent, accounts, entries, export, run

MakeDataset = Callable[..., Dataset]
QUALITY = {"max_rejected_rate": 1.0, "min_records": 0, "max_conflicts": 1000}
PERSON = ("annelise", "Quux", "m-ann")
"""Words of the person's records alone: of the key, the value and the message id."""
KEY = {"id": "annelise-4711"}


def text_of(file: Path) -> str:
    """All that a file holds, unpacked; and its bytes as they are."""
    data = file.read_bytes()
    text = data.decode("latin-1")
    if file.name.endswith(".parquet"):
        text += str(pq.read_table(file).to_pylist())
    if file.name.endswith(".avro"):
        text += str(list(read_avro(memoryview(data))[1]))
    return text + gzip.decompress(data).decode("latin-1") if file.name.endswith(".gz") else text


def files_with(lake: Lake, *words: str) -> list[str]:
    """The files of a lake that hold one of some words, wherever they lie."""
    root = Path(lake.storage.uri)
    files = (file for file in sorted(root.rglob("*")) if file.is_file())
    return [str(file.relative_to(root)) for file in files if any(word in text_of(file) for word in words)]


def erase(session: SparkSession, lake: Lake, dataset: Dataset, *keys: dict[str, Any]) -> Erasure:
    return erase_keys(lake, dataset, keys or [KEY], "mia", "asked to", InSession(lake, session))


def run_all(session: SparkSession, lake: Lake, dataset: Dataset) -> Iterator[BatchRun]:
    """Every batch once more."""
    for plan in taken_plans(lake, dataset.name):
        yield run_batch(lake, dataset, plan, InSession(lake, session))


def ann(offset: int, version: int, owner: str = "Quux") -> Sent:
    value = {"id": KEY["id"], "owner": f"Annelise {owner} Quux", "credit": "7.00"}
    return Sent(0, offset, offset, KEY["id"], version, f"m-ann-{offset}", value)


def gone(offset: int, version: int) -> Sent:
    """A record of hers that a filter or `target.where` leaves out, without naming her in the dataset file."""
    value = {"id": KEY["id"], "owner": "gone", "credit": "7.00"}
    return Sent(0, offset, offset, KEY["id"], version, f"m-ann-{offset}", value)


def bob(offset: int, version: int, **more: Any) -> Sent:
    return Sent(0, offset, offset, "bob", version, f"m{offset}", {"id": "bob", "owner": "Bob", "credit": "1.00"} | more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where exports lie: not in the lake."""
    return tmp_path / "exports"


@pytest.mark.nightly(
    reason="what was filtered, skipped and rejected goes by day, and files are searched for the person there, too"
)
def test_L1_nothing_of_the_person_is_left_and_all_else_stays_through_reruns_and_a_rebuild(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = accounts(dataset, quality=QUALITY)
    more = [Sent(0, n, n, key, 1, f"m{n}", {"owner": key, "credit": "1.00"}) for n, key in ((6, "cas"), (7, "dan"))]
    first = run(session, lake, made, export(folder / "1", [ann(0, 1), bob(1, 1), ann(2, 1, "other"), bob(3, 2)]))
    run(session, lake, made, export(folder / "2", [ann(2, 1, "other"), ann(4, 2), bob(5, 3), *more]))  # 2 once more
    both, _ = forget(lake, made, [{"id": "cas"}, {"id": "dan"}], None, "mia", "asked to")
    assert both
    run_batch(lake, made, find_plan(lake, made, both.batch), InSession(lake, session))
    judged = InSession(lake, session).run("gate", made, first.batch, first.published.attempt if first.published else "")
    left = StepResult(step="gate", document=judged.model_dump(mode="json"))
    lake.put(result_key(made.name, first.batch, judged.attempt, "gate"), left)
    spans, verdicts = offsets_of(lake, made), [batch["verdicts"] for batch in batches_of(lake, made)]
    held = files_with(lake, *PERSON)
    for place in (
        "landed/",
        "state_",
        "verdicts_",
        "staged_",
        "actions_",
        "reports/",
        "/gate.json",
        "/audit.json",
        "-gate.json",
        ".avro",
        ".parquet",
    ):
        assert any(place in file for file in held), (place, "the test looks where there was something", held)
    looked = meant(lake, made, [KEY], InSession(lake, session))
    assert (looked.rows, looked.records, sorted(looked.objects.values())) == ({"live": 1}, 3, [2, 2])
    assert files_with(lake, *PERSON) == held, "looking changes nothing"

    done = erase(session, lake, made)
    assert (done.records, done.objects) == (3, 2)
    assert files_with(lake, *PERSON) == []
    assert files_with(lake, "Bob") != []
    rows = rows_of(lake, made)
    assert [row["id"] for row in rows] == ["bob"]
    assert (offsets_of(lake, made), [batch["verdicts"] for batch in batches_of(lake, made)][:3]) == (spans, verdicts)
    assert prove(session, lake, made).differences == {}
    assert all(done.published and not done.red for done in run_all(session, lake, made))
    assert rows_of(lake, made) == rows
    with pytest.raises(UsageError, match=r"snapshot of batch .* has expired"):
        roll_back(lake, made, first.batch, "mia", "no way back")
    assert [(row["decision"], row["state"]) for row in decisions_of(lake, made)] == [
        ("forget", "published"), ("erase", "done"), ("forget", "published")
    ]  # fmt: skip

    target = {"table": made.target.table, "buckets": 3}
    again = Dataset.model_validate(made.model_dump(by_alias=True) | {"target": target})
    assert rebuild(lake, again, InSession(lake, session)).swapped
    assert rows_of(lake, again) == rows
    assert files_with(lake, *PERSON) == []
    # Their verdicts are of the generation before: the landed bytes say whose they are.
    assert erase(session, lake, again, {"id": "cas"}).records == 1
    assert {"landed"} <= {part for file in files_with(lake, "dan") for part in file.split("/")}, "not asked for"

    run(session, lake, again, export(folder / "3", [ann(0, 1), bob(8, 4)]))  # the export still holds her
    assert [row["id"] for row in rows_of(lake, again)] == ["bob"]
    assert files_with(lake, *PERSON) != []
    assert erase(session, lake, again).objects == 1
    assert files_with(lake, *PERSON) == []


def land_live(session: SparkSession, lake: Lake, dataset: Dataset, records: list[Sent]) -> str:
    """A landing of a live topic, as Spark's reader leaves it: its batch."""
    where = TopicPartition(cluster="c", topic="t", incarnation=1, partition=0)
    spans = [OffsetRange(topic_partition=where, start=records[0].offset, end=records[-1].offset + 1)]
    plan = RangesPlan(source=dataset.source_id, ranges=spans)
    put_plan(lake, plan)
    prefix = lake_keys.landed(plan.source, plan.batch, "a1", "")
    rows = [
        ("c", "t", 1, 0, record.offset, record.at, 0,
         json.dumps({"id": record.id}).encode(), json.dumps(record.value).encode(),
         [("m", record.message_id.encode()), ("v", str(record.version).encode())])
        for record in records
    ]  # fmt: skip
    session.createDataFrame(rows, LANDED).coalesce(1).write.parquet(lake.storage.uri_of(prefix))
    found = [info for info in lake.storage.list(prefix) if info.key.endswith(".parquet")]
    objects = [
        LandedObject(
            name=object_.key.rpartition("/")[2],
            key=object_.key,
            size=object_.size,
            sha256=lake.storage.digest(object_.key),
        )
        for object_ in found
    ]
    made = Manifest(
        batch=plan.batch, source=plan.source, attempt="a1", objects=objects, layout="kafka", ranges=spans, examined=True
    )
    lake.put_first(lake_keys.manifest(plan.source, plan.batch), made)
    take_plan(lake, dataset.name, plan)
    return plan.batch


@pytest.mark.nightly(
    reason="tests/unit/test_erase.py rewrites the object of a live topic, and an upsert is erased by day"
)
def test_L1_a_live_topic_appended_by_message_loses_one_and_keeps_all_others(
    session: SparkSession, lake: Lake, dataset: MakeDataset
) -> None:
    made = entries(dataset, source={"kafka": {"topics": ["t"]}}, quality=QUALITY)
    batch = land_live(session, lake, made, [ann(0, 1), bob(1, 1), ann(2, 1, "other")])
    other = land_live(session, lake, made, [bob(3, 1, id="cas"), bob(4, 1, id="dan")])
    for name in (batch, other):
        assert run_batch(lake, made, find_plan(lake, made, name), InSession(lake, session)).published
    untouched = manifest_of(lake, made, other)
    was = verdicts_of(lake, made, batch)[0]
    assert {"landed", "warehouse"} <= {part for file in files_with(lake, *PERSON) for part in file.split("/")}

    assert (done := erase(session, lake, made)).objects == 1
    assert done.records == 2
    assert files_with(lake, *PERSON) == []
    assert manifest_of(lake, made, other) == untouched
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["bob", "cas", "dan"]
    places = ("offset", "verdict", "reason", "survivor")
    assert [[row[name] for name in places] for row in verdicts_of(lake, made, batch)[0]] == [
        [row[name] for name in places] for row in was
    ]
    assert prove(session, lake, made).differences == {}
    assert all(done.published for done in run_all(session, lake, made))
    assert meant(lake, made, [KEY], InSession(lake, session)).objects == {}


LANDING_POINTS = ("before_erased", "before_new_manifest", "before_old_objects")
"""Passed in `tests/unit/test_erase.py`, without a table."""


class KilledError(BaseException):
    """The process ends here."""


def test_L6_killed_anywhere_the_same_command_ends_it(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no row goes, too, and stays away: what is filtered, rejected or skipped, and what is in a batch that was
    red, which is published behind it."""
    made = with_what_has_no_verdict(session, lake, dataset, folder)
    red = run_red(session, lake, made, export(folder / "red", [ann(10, 1, "third"), bob(11, 3)]))
    looked = meant(lake, made, [KEY], InSession(lake, session))
    unseen = {"filtered": 1, "not published": 1, "rejected": 1, "skipped or forgotten": 1}
    assert (looked.records, looked.unseen, len(looked.objects)) == (5, unseen, 3)
    assert (looked.unreadable, looked.unreadable_at, looked.unread) == (1, ["t-0@4"], [])
    for point in [point for point in ERASE_POINTS if point not in LANDING_POINTS]:

        def die(name: str, point: str = point) -> None:
            if name == point:
                raise KilledError

        with monkeypatch.context() as patched:
            for room in (command, tables):
                patched.setattr(room, "fault_point", die)
            with pytest.raises(KilledError):
                erase(session, lake, made)
        assert "bob" in {row["id"] for row in rows_of(lake, made)}
    [standing] = erasures_of(lake, made.name)
    assert standing.ended is None
    # What an expiry leaves that is killed between its commit and the files that it removes.
    left = Path(lake.storage.uri) / f"warehouse/tests/{StateTable(lake, made).identifier[-1]}/data/left.parquet"
    pq.write_table(pa.table({"id": [KEY["id"]]}), left)
    os.utime(left, (0, 0))
    # What a drop leaves that is killed between the catalog's row and the table's files.
    dropped = Path(lake.storage.uri) / f"warehouse/{STAGING}/{made.name}__staged_0123456789ab/data/left.parquet"
    dropped.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": [KEY["id"]]}), dropped)
    assert files_with(lake, *PERSON) != []
    done = erase(session, lake, made)
    assert (done.name, done.at) == (standing.name, standing.at)
    assert files_with(lake, *PERSON) == []
    again = run_batch(lake, made, find_plan(lake, made, red), InSession(lake, session))
    assert again.published
    assert again.published.counts == {"applied": {"update": 1}, "rejected": {"forgotten": 1}}
    retry = run(session, lake, made, export(folder / "3", [ann(7, 1), ann(9, 9, "whole"), gone(8, 8)]))
    assert retry.published
    assert retry.published.counts == {"rejected": {"forgotten": 3}}
    assert [row["id"] for row in rows_of(lake, made)] == ["bob"]
    assert prove(session, lake, made).differences == {}


@pytest.mark.nightly(reason="a red batch is erased and judged again by day: test_L6_killed_anywhere")
def test_L1_a_red_batch_loses_what_it_holds_of_the_key_and_is_judged_again(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = accounts(dataset, quality=QUALITY | {"max_conflicts": 0})
    run(session, lake, made, export(folder / "1", [ann(0, 1), bob(1, 1)]))
    red = run(session, lake, made, export(folder / "2", [ann(2, 1, "other"), ann(3, 5), bob(4, 2)]))
    assert red.red
    looked = meant(lake, made, [KEY], InSession(lake, session))
    assert (looked.records, looked.unseen) == (3, {"not published": 2})
    done = erase(session, lake, made)
    assert (done.records, done.objects, done.unseen) == (3, 2, {"not published": 2})
    assert files_with(lake, *PERSON) == []
    again = run_batch(lake, made, find_plan(lake, made, red.batch), InSession(lake, session))
    assert again.published, "the conflict was hers"
    assert again.published.counts == {"applied": {"update": 1}, "rejected": {"forgotten": 2}}
    retry = run(session, lake, made, export(folder / "3", [ann(5, 5), ann(6, 6, "new")]))
    assert retry.published
    assert retry.published.counts == {"applied": {"insert": 1}, "rejected": {"forgotten": 1}}
    assert prove(session, lake, made).differences == {}


@pytest.mark.nightly(
    reason="what another process does meanwhile is a combination; an erasure that was killed ends by day"
)
def test_a_batch_that_is_judged_meanwhile_disturbs_it(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = accounts(dataset, quality=QUALITY | {"max_conflicts": 0})
    run(session, lake, made, export(folder / "1", [ann(0, 1), bob(1, 1)]))
    red = run(session, lake, made, export(folder / "2", [ann(2, 1, "other")]))

    def say(step: str) -> None:
        if step == "forget":
            InSession(lake, session).run("upsert", made, red.batch)

    with pytest.raises(ErasureDisturbedError, match=f"batch {red.batch} has begun meanwhile"):
        erase_keys(lake, made, [KEY], "mia", "asked to", InSession(lake, session), say)
    erase(session, lake, made)
    assert files_with(lake, *PERSON) == []


@pytest.mark.nightly(
    reason="a batch that is red is erased by day, next to one that is published: test_L6_killed_anywhere"
)
def test_nothing_was_ever_published_and_what_is_landed_of_the_key_goes(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = accounts(dataset, quality=QUALITY | {"max_conflicts": 0})
    red = run(session, lake, made, export(folder / "1", [ann(0, 1), ann(1, 1, "other"), bob(2, 1)]))
    assert red.red
    assert erase(session, lake, made).unseen == {"not published": 2}
    assert files_with(lake, *PERSON) == []
    assert run_batch(lake, made, find_plan(lake, made, red.batch), InSession(lake, session)).published
    assert [row["id"] for row in rows_of(lake, made)] == ["bob"]


@pytest.mark.nightly(reason="a red batch goes by day")
def test_L1_a_batch_that_was_rolled_back_before_the_erasure_brings_nothing_back_when_it_runs_again(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = accounts(dataset, quality=QUALITY)
    first = run(session, lake, made, export(folder / "1", [bob(0, 1)]))
    second = run(session, lake, made, export(folder / "2", [ann(1, 1), ann(2, 2), bob(3, 2)]))
    roll_back(lake, made, first.batch, "mia", "wrong")
    assert erase(session, lake, made).unseen == {"not published": 2}
    assert files_with(lake, *PERSON) == []
    decide.take_up(lake, made, second.batch, "mia", "it was right")
    again = run_batch(lake, made, find_plan(lake, made, second.batch), InSession(lake, session))
    assert again.published
    assert again.published.counts == {"applied": {"update": 1}, "rejected": {"forgotten": 2}}
    assert prove(session, lake, made).differences == {}


@pytest.mark.nightly(reason="what is landed and not published is erased by day: test_L6_killed_anywhere")
def test_L1_what_another_dataset_landed_before_the_erasure_goes_before_it_is_ever_folded(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = accounts(dataset, quality=QUALITY)
    other = made.model_copy(
        update={"name": "others", "target": made.target.model_copy(update={"table": "tests.others"})}
    )
    run(session, lake, made, export(folder / "1", [ann(0, 1), bob(1, 1)]))
    shared = export(folder / "2", [ann(2, 2), ann(3, 3), bob(4, 2)])
    assert run(session, lake, other, shared).published
    looked = meant(lake, made, [KEY], InSession(lake, session))
    assert (looked.records, looked.unseen) == (3, {"not published": 2})
    assert erase(session, lake, made).records == 3
    landed = run(session, lake, made, shared)
    assert landed.published
    assert landed.published.counts == {"applied": {"update": 1}, "rejected": {"forgotten": 2}}
    assert prove(session, lake, made).differences == {}


@pytest.mark.nightly(reason="by day where an erasure is killed: test_L6_killed_anywhere")
def test_L1_what_was_filtered_skipped_or_rejected_of_the_key_goes_too_and_stays_away(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = erased_with_what_has_no_verdict(session, lake, dataset, folder)
    retry = run(session, lake, made, export(folder / "3", [ann(7, 1), ann(9, 9, "whole"), gone(8, 8)]))
    assert retry.published
    assert retry.published.counts == {"rejected": {"forgotten": 3}}
    assert prove(session, lake, made).differences == {}


@pytest.mark.nightly(reason="by day a retry stays away from the same table, and test_forget takes a filter away")
def test_L1_what_was_filtered_skipped_or_rejected_stays_away_from_a_table_without_the_filter(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    erased_with_what_has_no_verdict(session, lake, dataset, folder)
    source = {"exports": EXPORTS}
    plain = accounts(dataset, quality=QUALITY, source=source)
    assert rebuild(lake, plain, InSession(lake, session)).swapped
    assert [row["id"] for row in rows_of(lake, plain)] == ["bob"]
    retry = run(session, lake, plain, export(folder / "3", [ann(7, 1), gone(8, 8), ann(9, 9, "whole")]))
    assert retry.published
    assert retry.published.counts == {"rejected": {"forgotten": 3}}
    assert [row["id"] for row in rows_of(lake, plain)] == ["bob"]
    assert prove(session, lake, plain).differences == {}
    assert erase(session, lake, plain).records == 7, "the retry's bytes go when it is asked again"
    assert files_with(lake, *PERSON) == []


EXPORTS = {"path": "exports", "layout": "kcat", "origin": {"cluster": "c"}}


def with_what_has_no_verdict(session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path) -> Dataset:
    """A table with a key of which a record is filtered, one rejected, and one in a batch that is skipped."""
    source = {"exports": EXPORTS}
    quality = QUALITY | {"max_filtered_newer": 9}
    made = accounts(dataset, quality=quality, source=source | {"filter": "owner <> 'gone'"})
    broken = Sent(0, 3, 3, KEY["id"], 9, "m-ann-3", '{"owner": "Annelise')
    keyless = kcat.line(kcat.Record("t", 0, 4, 4, 1, (), b"{no key", b"{}"))
    first = export(folder / "1", [ann(0, 1), gone(1, 8), bob(2, 1), broken])
    with (first / "t-0.jsonl").open("ab") as file:
        file.write(keyless)
    run(session, lake, made, first)
    red = run_red(session, lake, made, export(folder / "2", [ann(5, 1, "other"), bob(6, 2)]))
    decide.skip(lake, made, red, "mia", "not wanted")
    assert run_batch(lake, made, find_plan(lake, made, red), InSession(lake, session)).published
    return made


def run_red(session: SparkSession, lake: Lake, made: Dataset, records: Path) -> str:
    """A batch that is red for its conflicts."""
    strict = made.model_copy(update={"quality": made.quality.model_copy(update={"max_conflicts": 0})})
    red = run(session, lake, strict, records)
    assert red.red
    return red.batch


def erased_with_what_has_no_verdict(session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path) -> Dataset:
    """Erase a key of which a record is filtered, one rejected, and one in a batch that is skipped."""
    made = with_what_has_no_verdict(session, lake, dataset, folder)
    looked = meant(lake, made, [KEY], InSession(lake, session))
    assert (looked.records, looked.unseen) == (4, {"filtered": 1, "rejected": 1, "skipped or forgotten": 1})
    assert (looked.unreadable, looked.unreadable_at, looked.unread) == (1, ["t-0@4"], [])

    done = erase(session, lake, made)
    assert (done.records, done.objects, done.unreadable) == (4, 2, 1)
    assert done.unseen == looked.unseen
    assert files_with(lake, *PERSON) == []
    return made


@pytest.mark.nightly(reason="test_filters hides rows by day, and a live row is erased")
def test_L1_a_hidden_row_is_erased_and_neither_a_rebuild_nor_a_retry_shows_it(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    target = {"table": "tests.accounts", "buckets": 2, "where": "value.owner <> 'gone'"}
    made = accounts(dataset, quality=QUALITY, target=target)
    run(session, lake, made, export(folder / "1", [ann(0, 1), gone(1, 2), bob(2, 1)]))
    looked = meant(lake, made, [KEY], InSession(lake, session))
    assert (looked.rows, looked.records, looked.unseen) == ({"hidden": 1}, 2, {})
    erase(session, lake, made)
    assert files_with(lake, *PERSON) == []
    again = Dataset.model_validate(made.model_dump(by_alias=True) | {"target": target | {"buckets": 3}})
    assert rebuild(lake, again, InSession(lake, session)).swapped
    retry = run(session, lake, again, export(folder / "2", [ann(3, 1), bob(4, 2)]))
    assert retry.published
    assert retry.published.counts == {"applied": {"update": 1}, "rejected": {"forgotten": 1}}
    assert [row["id"] for row in rows_of(lake, again)] == ["bob"]
    assert prove(session, lake, again).differences == {}


@pytest.mark.nightly(reason="tests/unit/test_erase.py says when a retry comes back")
def test_an_erasure_says_that_a_retry_comes_back_where_nothing_identifies_it(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    version = {"from": "offset"}
    more = {"apply": {"mode": "upsert", "key": ["key.id"], "version": version}, "identity": {}}
    made = dataset("accounts", key={"format": "json"}, value={"fields": {"owner": "string"}}, quality=QUALITY, **more)
    run(session, lake, made, export(folder / "1", [ann(0, 1), bob(1, 1)]))
    looked = meant(lake, made, [KEY], InSession(lake, session))
    assert looked.comes_back
    assert "its version is read from offset" in looked.comes_back
    erase(session, lake, made)
    run(session, lake, made, export(folder / "2", [ann(2, 1)]))
    assert sorted(row["id"] for row in rows_of(lake, made)) == [KEY["id"], "bob"]
    named = accounts(dataset, quality=QUALITY)
    assert comes_back(named) is None


@pytest.mark.nightly(reason="rejected records are erased by day, and test_situations rejects a version from the future")
def test_a_version_from_the_future_that_was_rejected_does_not_bar_the_key(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = dataset(
        "accounts",
        key={"format": "json"},
        value={"fields": {"owner": "string", "at": "timestamp(millis)"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": "value.at"}},
        quality=QUALITY,
    )

    def at(offset: int, millis: int) -> Sent:
        return Sent(0, offset, offset, KEY["id"], 0, f"m{offset}", {"owner": "Annelise", "at": millis})

    run(session, lake, made, export(folder / "1", [at(0, 0), at(1, 4_000_000_000_000), bob(2, 1, at=2)]))
    assert erase(session, lake, made).unseen == {"rejected": 1}
    assert files_with(lake, "nnelise", "4000000000000", "2096-10-02") == []
    again = run(session, lake, made, export(folder / "2", [at(3, 0), at(4, 3)]))
    assert again.published
    assert again.published.counts == {"applied": {"insert": 1}, "rejected": {"forgotten": 1}}


def published_and_changed(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> tuple[Dataset, Dataset]:
    """A dataset with one published batch; and one of its name and table, whose rebuild has not begun."""
    made = accounts(dataset, quality=QUALITY)
    run(session, lake, made, export(folder / "1", [ann(0, 1), bob(1, 1)]))
    changed = accounts(dataset, quality=QUALITY, target={"table": made.target.table, "buckets": 3})
    return made, to_rebuild(lake, changed)


def fold(session: SparkSession, lake: Lake, begun: Dataset) -> None:
    """Begin a rebuild and fold all that is landed, without leading readers to it."""
    begin_rebuild(lake, begun)
    for plan in taken_plans(lake, begun.name):
        assert run_batch(lake, begun, plan, InSession(lake, session), rebuilding=True).published


@pytest.mark.nightly(reason="by day an erasure reaches every published table")
def test_a_generation_that_was_never_published_is_refused_while_it_is_made_and_goes_as_a_whole_behind_it(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made, begun = published_and_changed(session, lake, dataset, folder)
    fold(session, lake, begun)
    assert set(generations_of(lake, made)) == {made.generation, begun.generation}
    with pytest.raises(UsageError, match="a rebuild is under way"):
        erase(session, lake, made)
    assert rebuild(lake, made, InSession(lake, session)).changed == (), "the change was taken back"
    erase(session, lake, made)
    assert files_with(lake, *PERSON) == []
    assert generations_of(lake, made) == [made.generation]


@pytest.mark.nightly(reason="by day what is at work before an erasure is refused by name")
def test_a_rebuild_that_begins_meanwhile_keeps_its_table(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made, begun = published_and_changed(session, lake, dataset, folder)

    def say(step: str) -> None:
        if step == "forget":
            fold(session, lake, begun)

    with pytest.raises(ErasureDisturbedError, match="a rebuild has begun meanwhile"):
        erase_keys(lake, made, [KEY], "mia", "asked to", InSession(lake, session), say)
    assert begun.generation in generations_of(lake, made)


@pytest.mark.nightly(reason="one key goes by day")
def test_keys_that_were_forgotten_together_are_erased_apart_while_their_verdicts_tell_whose_is_what(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = accounts(dataset, quality=QUALITY)
    run(session, lake, made, export(folder / "1", [ann(0, 1), bob(1, 1), bob(2, 2)]))
    both, _ = forget(lake, made, [KEY, {"id": "bob"}], None, "mia", "asked to")
    assert both
    run_batch(lake, made, find_plan(lake, made, both.batch), InSession(lake, session))
    assert erase(session, lake, made).records == 1
    assert files_with(lake, *PERSON) == []
    assert "landed" in {part for file in files_with(lake, "Bob") for part in file.split("/")}, "his were not asked for"


@pytest.mark.nightly(
    reason="tests/unit/test_replay.py finds what is erased by its place, and rejected records are erased by day"
)
def test_L6_a_quarantined_record_has_no_key_and_is_erased_by_its_place(
    session: SparkSession, lake: Lake, dataset: MakeDataset, folder: Path
) -> None:
    made = accounts(dataset, quality=QUALITY)
    broken = Sent(0, 2, 2, "bob", 1, "m2", '{"owner": "annelise')
    batch = run(session, lake, made, export(folder / "1", [bob(0, 1), ann(1, 1), broken, bob(3, 2)])).batch
    spans = offsets_of(lake, made)
    erase(session, lake, made)
    left = files_with(lake, *PERSON)
    assert {"landed", "warehouse"} == {part for file in left for part in file.split("/")} & {"landed", "warehouse"}

    spark = InSession(lake, session)
    with pytest.raises(UsageError, match="not in quarantine: t-0@0"):
        erase_keys(lake, made, [], "mia", "asked to", spark, places=[Position("t", 0, 2), Position("t", 0, 0)])
    done = erase_keys(lake, made, [], "mia", "asked to", spark, places=[Position("t", 0, 2)])
    assert (done.keys, done.positions, done.records, done.objects) == ([], {"c/t/1/0": [(2, 3)]}, 1, 1)
    assert files_with(lake, *PERSON) == []
    [entry] = quarantine_of(lake, made)
    assert (entry["offset"], entry["reason"], entry["value"], entry["headers"]) == (2, "undecodable", None, [])
    assert (offsets_of(lake, made), prove(session, lake, made).differences) == (spans, {})
    assert plan_replay(lake, made, batch).plan.records == 1, "a replay finds it, and would reject it again"
