"""The generation is the digest of the dataset's meaning: it changes with that, and with nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import ChangedDatasetError, TargetTakenError
from onefold.generation import (
    Retired,
    begin_rebuild,
    check_generation,
    claim_target,
    end_rebuild,
    fix_generation,
    settle,
    to_rebuild,
)
from onefold.lake import Lake

BASE: dict[str, Any] = {
    "name": "accounts",
    "description": "Accounts",
    "owner": "payments",
    "source": {
        "exports": {
            "path": "exports/",
            "layout": "kcat",
            "origin": {"cluster": "c", "incarnation": 1},
            "holes": "none",
        },
        "filter": "status != 'test'",
    },
    "schedule": {"cron": "0 * * * *", "start": "2026-01-01T00:00:00Z", "settle": "10m"},
    "key": {"format": "json"},
    "value": {"format": "json", "fields": {"status": "string", "rank": "long?"}},
    "identity": {"message_id": "header.message-id"},
    "apply": {"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.version)"}},
    "target": {"table": "p.accounts", "buckets": 4},
    "quality": {"max_duplicate_rate": 0.5},
}


def with_(path: str, value: Any) -> Dataset:
    """The base with one key set."""

    def put(tree: dict[str, Any], parts: list[str]) -> dict[str, Any]:
        head, *rest = parts
        return {**tree, head: put(tree.get(head, {}), rest) if rest else value}

    return Dataset.model_validate(put(BASE, path.split(".")))


MEANING = {
    "source.exports.origin.cluster": "d",
    "source.exports.origin.incarnation": 2,
    "source.exports.layout": "connect",
    "source.exports.holes": "compacted",
    "source.filter": "status = 'live'",
    "key.format": "string",
    "value.fields": {"status": "string", "rank": "long?", "more": "string?"},
    "identity.message_id": "header.other",
    "identity.business_key": ["status"],
    "apply.key": ["header.id"],
    "apply.version": {"from": "long(header.epoch)"},
    "apply.delete_when": "tombstone",
    "target.buckets": 8,
}


def test_a_limit_of_versions_counts_where_it_is_declared_and_its_default_does_not() -> None:
    def of(**more: str) -> dict[str, Any]:
        apply = {**BASE["apply"], "version": {"from": "at", **more}}
        value = {"fields": {"status": "string", "at": "timestamp"}}
        made = Dataset.model_validate(BASE | {"value": value, "apply": apply})
        return dict(made.meaning["apply"]["version"])

    assert of() == {"from": "at", "guard": "newer", "tie": "conflict"}
    assert "max_ahead" in of(max_ahead="2h")
    assert of(max_ahead="2h") != of(max_ahead="1d")


def test_what_the_layout_of_an_export_says_counts_and_a_default_is_as_good_as_said() -> None:
    def of(layout: str, **given: Any) -> str:
        exports = {**BASE["source"]["exports"], "layout": layout, **given}
        return with_("source", {"exports": exports}).generation

    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    assert of("parquet", columns={name: name for name in names}) == of("parquet")
    assert of("parquet", columns={"value": "payload"}) != of("parquet")
    assert of("aiven", encoding={"value": "none"}) == of("aiven")
    assert of("aiven", encoding={"value": "base64"}) != of("aiven")
    assert with_("source", BASE["source"]).source.meaning == {
        "origin": {"cluster": "c", "incarnation": 1}, "layout": "kcat", "holes": "none",
    }  # fmt: skip


def live(topics: list[str], connection: str = "prod") -> Dataset:
    return with_("source", {"kafka": {"connection": connection, "topics": topics}})


def test_the_names_of_live_topics_count_and_not_the_connection() -> None:
    assert live(["a", "b"]).generation == live(["b", "a"], "other").generation
    assert live(["a"]).generation != live(["a", "b"]).generation
    assert live(["a"]).generation != with_("owner", "payments").generation


@pytest.mark.parametrize("path", MEANING)
def test_it_changes_with_each_key_of_the_meaning(path: str) -> None:
    given = MEANING[path]
    changed = with_(path, given) if path != "key.format" else _string_key()
    assert changed.generation != with_("owner", "payments").generation


def _string_key() -> Dataset:
    tree = {**BASE, "key": {"format": "string"}, "apply": {**BASE["apply"], "key": ["header.id"]}}
    assert Dataset.model_validate(tree).generation != with_("apply.key", ["header.id"]).generation
    return Dataset.model_validate(tree)


@pytest.mark.parametrize("tie", ["last", "first"])
def test_it_changes_with_the_tie(tie: str) -> None:
    assert with_("apply.version.tie", tie).generation != with_("apply.version.tie", "conflict").generation


def test_it_changes_with_the_mode_and_a_fields_type_and_optionality() -> None:
    base = with_("owner", "payments").generation
    append = Dataset.model_validate({**BASE, "apply": {"mode": "append"}})
    types = [
        with_("value.fields", {"status": "string", "rank": kind}).generation for kind in ("long", "int?", "double?")
    ]
    assert len({base, append.generation, *types}) == 5


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("description", "Other"),
        ("owner", "others"),
        ("schedule", None),
        ("schedule.settle", "1h"),
        ("quality", {"max_rejected_rate": 1.0, "suite": "other.yaml"}),
        ("source.exports.path", "s3://elsewhere/"),
    ],
)
def test_it_stays_with_what_changes_no_row(path: str, value: Any) -> None:
    assert with_(path, value).generation == with_("owner", "payments").generation


def test_it_is_the_same_in_every_process_and_release() -> None:
    # A change here makes every published table refuse its dataset: it needs a rebuild and an ADR.
    assert with_("owner", "payments").generation == "9ff7487414b9"


def test_spelling_of_a_type_is_no_meaning() -> None:
    spellings = ("decimal(18,2)", "decimal( 18, 2 )", " decimal(18,2) ")
    assert len({with_("value.fields", {"status": "string", "amount": kind}).generation for kind in spellings}) == 1


def test_a_changed_meaning_is_refused_by_name(lake: Lake) -> None:
    check_generation(lake, with_("owner", "payments"))
    fix_generation(lake, with_("owner", "payments"))
    check_generation(lake, with_("quality", {}))
    with pytest.raises(ChangedDatasetError) as raised:
        check_generation(lake, with_("apply.version.tie", "last"))
    assert raised.value.changed == ("apply",)
    exports = {**BASE["source"]["exports"], "holes": "compacted"}
    tree = {**BASE, "target": {"table": "p.accounts", "buckets": 8}, "source": {**BASE["source"], "exports": exports}}
    with pytest.raises(ChangedDatasetError, match=r"buckets, holes"):
        check_generation(lake, Dataset.model_validate(tree))


@pytest.mark.parametrize(
    ("number", "key", "sentence"),
    [("LAYOUT", "table_layout", "lays its tables out"), ("RULES", "rules", "decodes or judges some records")],
)
def test_a_table_of_another_release_is_refused_until_it_is_rebuilt(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, number: str, key: str, sentence: str
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(f"onefold.dataset.model.{number}", 0)
        fix_generation(lake, with_("owner", "payments"))
    now = settle(lake, with_("owner", "payments"))
    with pytest.raises(ChangedDatasetError, match=rf"in {key} \(this Onefold {sentence} .*onefold rebuild accounts"):
        check_generation(lake, now)
    assert begin_rebuild(lake, to_rebuild(lake, now)) == (key,)
    check_generation(lake, now, rebuilding=True)


def test_a_change_that_is_taken_back_ends_its_rebuild(lake: Lake) -> None:
    published, changed = with_("target.buckets", 4), with_("target.buckets", 8)
    fix_generation(lake, published)
    begin_rebuild(lake, to_rebuild(lake, changed))
    check_generation(lake, settle(lake, changed), rebuilding=True)
    assert begin_rebuild(lake, to_rebuild(lake, published)) == ()
    check_generation(lake, settle(lake, published))
    with pytest.raises(ChangedDatasetError):
        check_generation(lake, changed, rebuilding=True)


def test_a_renamed_table_is_refused(lake: Lake) -> None:
    fix_generation(lake, with_("owner", "payments"))
    with pytest.raises(ChangedDatasetError) as raised:
        check_generation(lake, with_("target.table", "p.renamed"))
    assert raised.value.changed == ("target.table",)


def test_a_table_is_one_datasets_own(lake: Lake) -> None:
    claim_target(lake, with_("owner", "payments"))
    claim_target(lake, with_("owner", "others"))
    with pytest.raises(TargetTakenError, match=r"p\.accounts is the table of dataset accounts"):
        claim_target(lake, with_("name", "copy_of_it"))
    claim_target(lake, Dataset.model_validate({**BASE, "name": "other", "target": {"table": "p.other"}}))


def test_the_first_driver_fixes_the_generation(lake: Lake) -> None:
    fix_generation(lake, with_("owner", "payments"))
    with pytest.raises(ChangedDatasetError):
        fix_generation(lake, with_("target.buckets", 8))
    check_generation(lake, with_("owner", "payments"))


def test_a_generation_that_readers_were_led_away_from_is_never_begun_again(lake: Lake) -> None:
    narrow, wide = with_("target.buckets", 4), with_("target.buckets", 8)
    fix_generation(lake, narrow)
    seen = [narrow.generation]
    for file in (wide, narrow, wide, narrow):
        begun = to_rebuild(lake, file)
        assert begin_rebuild(lake, begun) == ("buckets",)
        assert to_rebuild(lake, file) == settle(lake, file) == begun, "stopped, it goes on with the same"
        end_rebuild(lake, begun)
        assert begin_rebuild(lake, to_rebuild(lake, file)) == ()
        check_generation(lake, settle(lake, file))
        seen.append(begun.generation)
    assert len(set(seen)) == 5


def test_killed_before_the_swap_is_on_record_the_published_generation_is_still_the_files_own(lake: Lake) -> None:
    narrow = with_("target.buckets", 4)
    fix_generation(lake, narrow)
    begin_rebuild(lake, to_rebuild(lake, with_("target.buckets", 8)))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    lake.put(
        lake_keys.retired(narrow, narrow.generation), Retired(generation=narrow.generation, table="p.accounts", at=at)
    )
    check_generation(lake, settle(lake, narrow))
    assert begin_rebuild(lake, to_rebuild(lake, narrow)) == ()
