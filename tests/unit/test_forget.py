"""Forgetting without Spark: what may be forgotten, once, what is kept of it, and what it is to later batches (L1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from onefold.cli import app
from onefold.dataset import Dataset
from onefold.decisions import Forget, HighestVersion, Mark
from onefold.decisions.accepted_gaps import Link, links_of
from onefold.decisions.marks import identities_of, marks_in_force, marks_named, pin_marks, put_mark
from onefold.dedup.documents import Staged, StagedPartition
from onefold.errors import LandedBytesMissingError, UsageError
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.manifest import Forgets, LandedObject, Manifest
from onefold.landing.plan import taken_plans
from onefold.offsets import TopicPartition
from onefold.operations.forget import Found, digests_of, forget
from onefold.report.decisions import decisions_of
from onefold.tables.key_digest import digest_of_key
from onefold.upsert.decisions_in_force import Obeyed, forgotten_records
from onefold.upsert.marks_met import landed_before
from tests.support.held_versions import chained, publish

MakeDataset = Callable[..., Dataset]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MARK = Mark(batch="forget_1", attempt="aa", keys=["00"], partitions={"c/t/1/0": [(2, 4), (8, 9)]}, lines={})


@pytest.fixture
def made(lake: Lake, dataset: MakeDataset) -> Dataset:
    """Published, a second after another: ann at 1 with 3 held; b and c deleted, of c version 7 held; d deleted."""
    made = chained(dataset)
    rows = [("ann", 1, "live"), ("ann", 3, "held"), ("b", 1, "deleted"), ("c", 1, "deleted"), ("c", 7, "held")]
    publish(lake, made, [*rows, ("d", 2, "deleted")])
    return made


def ask(lake: Lake, made: Dataset, *keys: str, seconds: int | None = None, **more: bool) -> tuple[Forget | None, Found]:
    before = None if seconds is None else EPOCH + timedelta(seconds=seconds)
    return forget(lake, made, [{"id": key} for key in keys], before, "mia", "asked to", **more)


def test_a_mark_is_a_landed_batch_without_records_and_keeps_digests_only(lake: Lake, made: Dataset) -> None:
    done, found = ask(lake, made, "ann")
    assert done
    assert (found, done.found, done.rows) == (Found(1, {"held": 1, "live": 1}), 1, 2)
    digest = digest_of_key(made, {"id": "ann"}).hex()
    manifest = manifest_of(lake, made, done.batch)
    assert (manifest.forgets, manifest.objects) == (Forgets(keys=[digest], deleted_before=None), [])
    assert [plan.batch for plan in taken_plans(lake, made.name)] == [done.batch]
    assert done.sentence == "1 key forgotten by mia: asked to"
    for info in lake.storage.list("datasets"):
        assert b"ann" not in (lake.storage.read(info.key) or b"")


def test_asked_twice_it_is_decided_once(lake: Lake, made: Dataset) -> None:
    assert ask(lake, made, "ann") == ask(lake, made, "ann")
    assert len(decisions_of(lake, made)) == 1


def test_nothing_is_recorded_for_a_key_that_the_table_does_not_have(lake: Lake, made: Dataset) -> None:
    assert ask(lake, made, "absent") == (None, Found(0, {}))
    assert decisions_of(lake, made) == []


def test_deletes_of_an_age_are_those_before_it_that_nothing_waits_behind(lake: Lake, made: Dataset) -> None:
    assert ask(lake, made, seconds=2)[1] == Found(0, {})
    assert ask(lake, made, seconds=3, dry_run=True)[1] == Found(1, {"deleted": 1})  # b
    assert ask(lake, made, seconds=60, dry_run=True)[1] == Found(2, {"deleted": 2})  # not c
    assert ask(lake, made, "ann", "b", seconds=60, dry_run=True)[1] == Found(3, {"deleted": 2, "held": 1, "live": 1})


def test_it_needs_a_reason_and_keys_of_the_dataset(lake: Lake, made: Dataset, dataset: MakeDataset) -> None:
    with pytest.raises(UsageError, match="needs a reason"):
        forget(lake, made, [{"id": "ann"}], None, "mia", " ")
    with pytest.raises(UsageError, match="say which keys"):
        ask(lake, made)
    with pytest.raises(UsageError, match="the key of accounts is"):
        forget(lake, made, [{"number": 1}], None, "mia", "asked to")
    with pytest.raises(UsageError, match="has no key but the position"):
        digests_of(dataset("places"), {"offset": 1})


def test_a_pinned_mark_is_in_force_whatever_the_chain_says(lake: Lake) -> None:
    put_mark(lake, "accounts", MARK)
    assert marks_in_force(lake, "accounts", {}) == {}
    assert marks_in_force(lake, "accounts", {"forget_1": "aa"}) == {"forget_1": MARK}
    pin_marks(lake, "accounts", {"forget_1": "aa"})
    assert marks_in_force(lake, "accounts", {}) == {"forget_1": MARK}
    assert marks_named(lake, "accounts", {}) == {}
    with pytest.raises(LandedBytesMissingError):
        marks_named(lake, "accounts", {"forget_1": "bb"})


def test_the_rows_of_a_key_go_with_the_first_attempt_that_does_not_know_its_mark() -> None:
    assert Obeyed(forgotten={"forget_1": MARK}).fresh == [MARK]
    assert Obeyed(forgotten={"forget_1": MARK}, known={"forget_1": "aa"}).fresh == []


def test_a_batch_takes_out_what_it_holds_of_a_mark() -> None:
    object_ = LandedObject(name="x.json", key="k", size=1, sha256="s")
    manifest = Manifest(batch="b", source="s", attempt="a", objects=[object_])
    landed = {"c/t/1/0": [(0, 3), (8, 20)], "c/t/1/1": [(2, 4)]}
    assert forgotten_records([MARK], landed, manifest) == ({"c/t/1/0": [(2, 3), (8, 9)]}, {})
    lined = MARK.model_copy(update={"lines": {object_.digest: [(5, 6)], "another": [(7, 8)]}})
    assert forgotten_records([lined], {}, manifest) == ({}, {"x.json": [(5, 6)]})


def test_the_command_says_what_would_go_and_writes_nothing(
    lake: Lake, made: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("onefold.cli.forget.open_dataset", lambda name: (lake, made))
    words = ["forget", "accounts", "--reason", "asked to", "--who", "mia", "--dry-run"]
    app([*words, "--key", '{"id": "ann"}', "--deleted-before", "7d", "--json"], standalone_mode=False)
    printed = capsys.readouterr()
    [row] = json.loads(printed.out)
    assert (row["decision"], row["state"]) == ("forget", "not recorded")
    assert "accounts: 3 keys (2 deleted, 1 held, 1 live), as batch forget_" in " ".join(printed.err.split())
    app([*words, "--key", '{"id": "absent"}'], standalone_mode=False)
    assert "there is nothing to forget" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(UsageError, match="--deleted-before 'soon'"):
        app([*words, "--deleted-before", "soon"], standalone_mode=False)
    assert (decisions_of(lake, made), taken_plans(lake, made.name)) == ([], [])


def test_identities_of_a_mark_are_kept_as_digests_next_to_it_and_their_loss_is_an_error(lake: Lake) -> None:
    kept = put_mark(lake, "accounts", MARK, [b"b" * 16, b"a" * 16, b"b" * 16])
    assert kept.identities == 2
    assert identities_of(lake, "accounts", kept) == [b"a" * 16, b"b" * 16]
    assert identities_of(lake, "accounts", MARK) == []
    with pytest.raises(LandedBytesMissingError, match="identities of the forget mark are gone"):
        identities_of(lake, "accounts", kept.model_copy(update={"attempt": "bb"}))


def test_a_chain_goes_on_after_the_highest_version_of_a_mark_that_was_made_for_the_same_version(
    dataset: MakeDataset,
) -> None:
    made = chained(dataset)
    highest = {"0a": [HighestVersion(version=["7"])], "0b": [HighestVersion(version=[str(2**63 - 1)])]}
    mark = MARK.model_copy(update={"highest": highest, "versioned_by": made.versioned_by})
    assert links_of(made, [], marks=[mark]) == [Link(b"\x0a", 8)]
    other = mark.model_copy(
        update={"versioned_by": "value.other: long", "highest": {"0a": [HighestVersion(version=["x"])]}}
    )
    assert links_of(made, [], marks=[other]) == []


def test_what_of_a_batch_was_landed_before_a_mark() -> None:
    some = StagedPartition(present=[(2, 4)], quarantined=[(4, 5)], undecided=[(6, 7)])
    staged = Staged(
        batch="b", generation="g", code="c", attempt="a", table="t", records=4, partitions={"c/t/1/0": some}, objects={}
    )
    where = TopicPartition.of("c/t/1/0")
    whole = MARK.model_copy(update={"landed": {"c/t/1/0": [(0, 9)]}})
    assert landed_before(whole, staged) == [(where, (2, 5)), (where, (6, 7))]
    part = MARK.model_copy(update={"landed": {"c/t/1/0": [(4, 6)], "c/t/1/1": [(0, 9)]}})
    assert landed_before(part, staged) == [(where, (4, 5))]
    assert landed_before(MARK, staged) == []
