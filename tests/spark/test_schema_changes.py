"""Fields that change in place: what was folded before and what is read again stay what they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.evolution import Origin
from onefold.dataset.types import FieldType
from onefold.errors import ChangedDatasetError, StepMissingError
from onefold.generation import settle
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.replay import plan_replay, replay
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.prove import prove
from onefold.publish import publish_batch
from onefold.records import envelope as E
from onefold.report.changes import changes_of
from onefold.report.ledger import records_of, rows_of
from onefold.values.canonical import content_hash, same_content
from onefold.values.decode import REJECTED, decode
from tests.support.envelopes import envelope, record
from tests.support.pipeline import Sent, export, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeDataset = Callable[..., Dataset]
pytestmark = pytest.mark.spark


class Table:
    """A dataset whose file changes between its batches."""

    def __init__(self, session: SparkSession, lake: Lake, make: MakeDataset, folder: Path, **keys: Any) -> None:
        self.session, self.lake, self._make, self._folder, self._keys = session, lake, make, folder, keys
        self.batches = 0

    def file(self, fields: dict[str, str], **value: Any) -> Dataset:
        """The dataset with these fields, as the lake has it."""
        self.raw = self._make("things", value={"fields": fields, **value}, **self._keys)
        self.dataset = settle(self.lake, self.raw)
        return self.dataset

    def fold(self, *records: Sent) -> BatchRun:
        """A batch of records."""
        self.batches += 1
        return self.again(export(self._folder / f"in-{self.batches}", records))

    def again(self, folder: Path) -> BatchRun:
        """A batch of what a folder holds."""
        self.dataset = settle(self.lake, self.raw)
        done = run(self.session, self.lake, self.dataset, folder)
        assert done.published, done.red
        return done

    def rows(self) -> list[dict[str, Any]]:
        """What readers see, by id; from the command and from the view alike."""
        rows = sorted(rows_of(self.lake, self.dataset), key=lambda row: str(row["id"]))
        seen = [row.asDict() for row in self.session.table("onefold.tests.things").orderBy("id").collect()]
        assert [list(row) for row in rows] == [list(row) for row in seen]
        assert [[str(value) for value in row.values()] for row in rows] == [
            [str(value) for value in row.values()] for row in seen
        ]
        return rows

    def proved(self) -> dict[str, int]:
        """What a proof finds wrong."""
        return prove(self.session, self.lake, settle(self.lake, self.raw)).differences


def sent(offset: int, id_: str, at: int | None = None, **value: Any) -> Sent:
    """A record of the id; its version is its offset."""
    return Sent(0, offset, at or 1000 + offset, id_, offset, f"m-{id_}", {"id": id_, **value})


APPEND: dict[str, Any] = {"identity": {"message_id": "id"}}
UPSERT: dict[str, Any] = {
    "identity": {"message_id": "header.m"},
    "apply": {"mode": "upsert", "key": ["id"], "version": {"from": "long(header.v)"}},
}
CHAIN: dict[str, Any] = {
    "apply": {"mode": "upsert", "key": ["id"], "version": {"from": "long(header.v)", "guard": "contiguous"}},
}
INCREMENT: dict[str, Any] = {
    "identity": {"message_id": "header.m"},
    "apply": {"mode": "increment", "key": ["id"], "add": {"total": "n"}},
}
MODES = {"append": APPEND, "upsert": UPSERT}


@pytest.fixture
def table(session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path) -> Callable[..., Table]:
    def make(keys: dict[str, Any]) -> Table:
        return Table(session, lake, dataset, tmp_path, **keys)

    return make


@pytest.mark.by_day("upsert", why="contents are compared alike in each mode")
@pytest.mark.parametrize("mode", MODES)
def test_an_added_field_is_null_for_what_was_folded_before(table: Callable[..., Table], mode: str) -> None:
    """L1: read again with the field, a record is the same message, in place of which nothing is put."""
    made = table(MODES[mode])
    began = made.file({"id": "string", "n": "int"})
    first = [sent(0, "a", n=1, note="early"), sent(1, "b", n=2, note=5)]
    made.fold(*first)
    changed = made.file({"id": "string", "n": "int", "note": "string?"})
    assert changed.generation == began.generation
    made.fold(sent(2, "c", n=3, note="late"))
    rows = [{"id": "a", "n": 1, "note": None}, {"id": "b", "n": 2, "note": None}, {"id": "c", "n": 3, "note": "late"}]
    assert made.rows() == rows
    again = made.fold(*first[:1], sent(2, "c", n=3, note="late"), sent(3, "d", n=4))
    assert again.published
    assert again.published.counts == {"applied": {"insert": 1}, "duplicate": {"position": 2}}
    assert made.rows() == [*rows, {"id": "d", "n": 4, "note": None}]
    assert made.proved() == {}
    assert [record.shape for record in records_of(made.lake, made.dataset)] == [changed.shape, changed.shape, ""]


@pytest.mark.nightly(reason="tests/process/test_rebuild goes back with a file by day")
def test_rebuild_fills_an_added_field_and_the_file_may_go_back_by_another(table: Callable[..., Table]) -> None:
    made = table(APPEND)
    began = made.file({"id": "string"})
    made.fold(sent(0, "a", note="early"))
    made.file({"id": "string", "note": "string?"})
    made.fold(sent(1, "b", note="late"))
    spark = InSession(made.lake, made.session)
    assert rebuild(made.lake, made.raw, spark).swapped
    made.dataset = settle(made.lake, made.raw)
    assert made.rows() == [{"id": "a", "note": "early"}, {"id": "b", "note": "late"}]
    assert made.proved() == {}
    # The generation of the old file has the field by now: a file without it makes another one.
    made.file({"id": "string"})
    assert rebuild(made.lake, made.raw, spark).swapped
    made.dataset = settle(made.lake, made.raw)
    assert made.dataset.generation not in (began.generation, "")
    assert made.rows() == [{"id": "a"}, {"id": "b"}]
    assert rebuild(made.lake, made.raw, spark).changed == ()


@pytest.mark.nightly(
    reason="a field is added in place by day, and tests/unit/test_schema_changes.py has each kind of change"
)
def test_fields_are_widened_made_optional_and_renamed_in_place(table: Callable[..., Table]) -> None:
    made = table(UPSERT)
    made.file({"id": "string", "n": "int", "price": "decimal(4,2)", "note": "string"})
    first = [sent(0, "a", n=1, price="1.10", note="x"), sent(1, "b", n=2, price="2.00", note="y")]
    before = made.fold(*first)
    assert before.published
    began = made.dataset
    fields = {"text": "string?", "id": "string", "n": "long", "price": "decimal(20,2)?"}
    made.file(fields, renamed={"text": "note"})
    large = 1 << 40
    done = made.fold(*first, sent(2, "a", n=large, price="123456789.00", text="z"), sent(3, "c", n=3))
    assert done.published
    assert done.published.counts == {"applied": {"insert": 1, "update": 1}, "duplicate": {"position": 2}}
    a, b = ({"text": "x", "id": "a", "n": 1, "price": "1.10"}, {"text": "y", "id": "b", "n": 2, "price": "2.00"})
    c = {"text": None, "id": "c", "n": 3, "price": None}
    assert made.rows() == [{"text": "z", "id": "a", "n": large, "price": "123456789.00"}, b, c]
    assert made.proved() == {}
    # As of then, by the names and types of now.
    at = sorted(rows_of(made.lake, made.dataset, before.batch), key=lambda row: str(row["id"]))
    assert at == [a, b]
    found = changes_of(made.lake, made.dataset, before.batch)
    assert sorted((row["change"], row["row"]["id"]) for row in found.rows) == [("inserted", "c"), ("updated", "a")]
    # An older file on the table is refused, whenever its process began.
    with pytest.raises(ChangedDatasetError, match="use that one"):
        run(made.session, made.lake, began, export(made.lake.settings.home / "old", [sent(9, "z", n=1, note="q")]))


@pytest.mark.nightly(reason="unit tests find columns of the same name by day")
def test_a_record_may_call_a_field_as_tables_call_a_column_of_their_own(table: Callable[..., Table]) -> None:
    """Before the change and with it: the field is read, and no column of Onefold's own becomes it (L7)."""
    made = table(UPSERT)
    made.file({"id": "string", "n": "long"}, renamed={"n": "_version"})
    made.fold(sent(0, "a", _version=7))
    both = {"n": "_version", "at": "_order_timestamp"}
    made.file({"id": "string", "n": "long", "at": "long?"}, renamed=both)
    made.fold(sent(1, "b", _version=8, _order_timestamp=9))
    made.fold(sent(0, "a", _version=7), sent(2, "c", _version=9))
    assert [tuple(row.values()) for row in made.rows()] == [("a", 7, None), ("b", 8, 9), ("c", 9, None)]
    assert made.proved() == {}


def test_a_batch_of_the_old_file_is_not_published_behind_the_change(
    table: Callable[..., Table], tmp_path: Path
) -> None:
    made = table(APPEND)
    old = made.file({"id": "string"})
    made.fold(sent(0, "a"))
    spark = InSession(made.lake, made.session)
    plan = plan_batch(made.lake, old, export=str(export(tmp_path / "slow", [sent(1, "b", note="x")])))
    land_batch(made.lake, old, plan.batch)
    spark.run("dedup", old, plan.batch)
    attempt = spark.run("upsert", old, plan.batch, "slow").attempt
    spark.run("gate", old, plan.batch, attempt)
    made.file({"id": "string", "note": "string?"})
    made.fold(sent(2, "c", note="y"))

    with pytest.raises(ChangedDatasetError, match="use that one"):
        publish_batch(made.lake, old, plan.batch, attempt, spark)
    with pytest.raises(StepMissingError, match="dedup"):  # its staging has no such field
        publish_batch(made.lake, made.dataset, plan.batch, attempt, spark)
    assert made.rows() == [{"id": "a", "note": None}, {"id": "c", "note": "y"}]
    assert made.again(tmp_path / "slow").published
    assert made.rows()[1] == {"id": "b", "note": "x"}


@pytest.mark.nightly(reason="fields are changed in place by day without held versions")
def test_a_held_version_wakes_behind_a_change_as_it_was_folded(table: Callable[..., Table]) -> None:
    made = table(CHAIN)
    made.file({"id": "string", "n": "int"})
    made.fold(sent(1, "a", n=1), sent(3, "a", n=3, note="held"))
    made.file({"id": "string", "n": "long", "note": "string?"})
    assert made.fold(sent(2, "a", n=2, note="gap"), sent(3, "a", n=3, note="held")).published
    assert made.rows() == [{"id": "a", "n": 3, "note": None}]
    assert made.proved() == {}


@pytest.mark.nightly(reason="fields are added to an upsert by day")
def test_sums_stay_what_they_are_when_their_messages_gain_a_field(table: Callable[..., Table]) -> None:
    made = table(INCREMENT)
    made.file({"id": "string", "n": "int"})
    first = sent(0, "a", n=1, note="early")
    made.fold(first, sent(1, "b", n=2))
    made.file({"id": "string", "n": "int", "note": "string?"})
    made.fold(first, Sent(0, 2, 1002, "a", 2, "m-2", {"id": "a", "n": 5, "note": "late"}))
    assert made.rows() == [{"id": "a", "total": 6}, {"id": "b", "total": 2}]
    assert made.proved() == {}


@pytest.mark.nightly(reason="a combination with a replay; tests/unit/test_schema_changes.py has the policy")
def test_what_the_policy_put_in_quarantine_is_replayed_once_the_file_names_the_field(
    table: Callable[..., Table],
) -> None:
    made = table(APPEND)
    made.file({"id": "string"}, schema_changes="quarantine")
    first = made.fold(sent(0, "a"), sent(1, "b", note="x"))
    assert first.published
    assert first.published.counts == {"applied": {"insert": 1}, "rejected": {"unknown_schema": 1}}
    changed = made.file({"id": "string", "note": "string?"}, schema_changes="quarantine")
    plan = plan_replay(made.lake, changed, first.batch).plan
    replay(made.lake, changed, plan, "mia", "the field is named")
    assert run_batch(made.lake, changed, plan, InSession(made.lake, made.session)).published
    assert made.rows() == [{"id": "a", "note": None}, {"id": "b", "note": "x"}]
    assert made.proved() == {}


FIRST = {"id": Origin("id", FieldType("string"), added=False)}
NOTE = {"note": Origin("note", FieldType("string", nullable=True), added=True)}
MORE = {"more": Origin("more", FieldType("long", nullable=True), added=True)}
SAME = [
    # the fields and the row that one was folded with, those of the other, and whether they say the same
    (FIRST, ("a", None, None), FIRST | NOTE, ("a", "x", None), True),
    (FIRST, ("a", None, None), FIRST | NOTE, ("b", "x", None), False),
    (FIRST | NOTE, ("a", "x", None), FIRST | NOTE, ("a", "x", None), True),
    (FIRST | NOTE, ("a", "x", None), FIRST | NOTE, ("a", "y", None), False),
    (FIRST | NOTE, ("a", "x", None), FIRST | NOTE, ("a", None, None), False),
    (FIRST | NOTE, ("a", "x", None), FIRST | NOTE | MORE, ("a", "x", 5), True),
    (FIRST | NOTE, ("a", "x", None), FIRST | NOTE | MORE, ("b", "x", 5), False),
]


@pytest.mark.parametrize(("known", "first", "later", "other", "same"), SAME)
def test_contents_are_compared_as_far_as_both_were_folded_with_the_fields(
    spark: SparkSession, known: Any, first: Any, later: Any, other: Any, same: bool
) -> None:
    def hashed(fields: Any, row: Any) -> bytes:
        frame = spark.createDataFrame([row], "id string, note string, more bigint")
        return bytes(frame.select(content_hash(fields, F.lit(False))).head()[0])  # type: ignore[index]

    pair = spark.createDataFrame([(hashed(known, first), hashed(later, other))], "one binary, other binary")
    forth, back = (same_content(F.col(left), F.col(right)) for left, right in (("one", "other"), ("other", "one")))
    assert list(pair.select(forth, back).head()) == [same, same]  # type: ignore[arg-type]


def test_a_hash_keeps_the_name_and_type_of_the_generations_beginning(spark: SparkSession) -> None:
    row = spark.createDataFrame([("a", 7, 7)], "id string, n int, number bigint")
    began = content_hash({"n": Origin("n", FieldType("int"), added=False)}, F.lit(False))
    now = content_hash({"number": Origin("n", FieldType("int"), added=False)}, F.lit(False))
    other = content_hash({"number": Origin("number", FieldType("long"), added=False)}, F.lit(False))
    assert list(row.select(began == now, began == other).head()) == [True, False]  # type: ignore[arg-type]


def test_a_record_is_read_by_a_fields_former_names_and_its_own_counts_first(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    fields = {"id": "string", "text": "string?"}
    made = dataset(value={"fields": fields, "renamed": {"text": ["note", "memo"]}})
    values = ["text", "note", "memo"], ["note", "memo"], ["memo"], []
    texts = [json.dumps({"id": "a", **{name: f"by {name}" for name in names}}) for names in values]
    texts.append('{"id": "a", "text": null, "note": "by note"}')
    records = envelope(spark, [record("", text.encode(), number) for number, text in enumerate(texts)])
    found = [row.text for row in decode(records, made).orderBy(E.OFFSET).collect()]
    assert found == ["by text", "by note", "by memo", None, None]


UNKNOWN = [
    ('{"id": "a"}', None),
    ('{"id": "a", "x": 1, "\\u0079": {"id": 2}, "x": 2}', "value.fields does not name x, y"),
    ('{"x": 1}', "id is absent"),
    ('{"id": "a", "old": "b"}', None),
]


@pytest.mark.parametrize("policy", ["evolve", "freeze", "quarantine"])
def test_a_record_with_a_field_that_the_file_does_not_name_is_rejected_by_policy_only(
    spark: SparkSession, dataset: MakeDataset, policy: str
) -> None:
    fields = {"id": "string", "new": "string?"}
    made = dataset(value={"fields": fields, "renamed": {"new": "old"}, "schema_changes": policy})
    records = envelope(spark, [record("", text.encode(), number) for number, (text, _) in enumerate(UNKNOWN)])
    found = [row[REJECTED] for row in decode(records, made).orderBy(E.OFFSET).collect()]
    expected = [said if policy == "quarantine" or said == "id is absent" else None for _, said in UNKNOWN]
    assert [rejected and rejected.detail for rejected in found] == expected
    assert {rejected.reason for rejected in found if rejected} == (
        {"unknown_schema", "missing_field"} if policy == "quarantine" else {"missing_field"}
    )
