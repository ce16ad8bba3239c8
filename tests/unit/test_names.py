"""Names of a record's parts: where a field lies, what an expression names, and names that mean two things."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from onefold.dataset import Dataset
from onefold.dataset.advice import notes_of
from onefold.dataset.names import parse_place
from onefold.dataset.types import FieldType

MakeDataset = Callable[..., Dataset]
UPSERT = {"mode": "upsert", "key": ["key.id"]}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("__deleted", ("__deleted",)),
        ("@timestamp", ("@timestamp",)),
        ("Date Time", ("Date Time",)),
        ("address.city", ("address", "city")),
        ('"event.id"', ("event.id",)),
        ('a."b.c".d', ("a", "b.c", "d")),
        ('"say ""hi"""', ('say "hi"',)),
    ],
)
def test_where_a_field_lies(text: str, place: tuple[str, ...]) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', 'a"b"', '""'])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(ValueError, match="no name in the record"):
        parse_place(text)


def test_expressions_may_name_a_field_by_its_place(dataset: MakeDataset) -> None:
    fields = {
        "event_id": {"type": "string", "from": '"event.id"'},
        "city": {"type": "string?", "from": "address.city"},
        "of": "struct<id: long>",
    }
    identity = {"message_id": 'value."event.id"', "business_key": ["value.address.city", "of.id", '"event.id"']}
    made = dataset(value={"fields": fields}, identity=identity, source=_filtered("address.city = 'x.y'"))
    assert made.identity.message_id == "value.event_id"
    assert made.identity.business_key == ["value.city", "of.id", "value.event_id"]
    assert made.source.filter == "value.city = 'x.y'"
    assert made.read_places["city"] == [("address", "city")]
    assert [*made.read_fields] == ["event.id", "of", "address"]
    plain = dataset(value={"fields": fields}, identity={"message_id": "event_id"}, source=_filtered("city = 'x.y'"))
    assert plain.generation != made.generation, "another identity"
    same = identity | {"message_id": "value.event_id"}
    assert dataset(value={"fields": fields}, identity=same, source=_filtered("value.city = 'x.y'")) == made


def _filtered(condition: str) -> dict[str, Any]:
    exports = {"path": "e", "layout": "kcat", "origin": {"cluster": "c"}, "holes": "transactional"}
    return {"exports": exports, "filter": condition}


def test_another_place_is_another_meaning(dataset: MakeDataset) -> None:
    made = [
        dataset(value={"fields": {"id": {"type": "string", "from": place}}}, identity={"message_id": "id"})
        for place in ("a", "b")
    ]
    assert made[0].generation != made[1].generation


@pytest.mark.parametrize(
    ("version", "fields", "said"),
    [
        ("timestamp", {"timestamp": "timestamp"}, "write log.timestamp (what it meant before) or value.timestamp"),
        ("offset", {"offset": "long"}, "write log.offset (what it meant before) or value.offset"),
        ("log.offset", {"log": "struct<offset: long>"}, "write value.log.offset (what it meant before) or offset"),
        (["a", "offset"], {"a": "long", "offset": "long"}, "write log.offset (what it meant before) or value.offset"),
        (
            "long(header.v)",
            {"header": "struct<v: string>"},
            "write log.header.v (what it meant before) or value.header.v",
        ),
    ],
)
def test_a_name_that_means_two_things_is_refused(
    dataset: MakeDataset, version: str | list[str], fields: dict[str, str], said: str
) -> None:
    given = {"key": {"format": "json"}, "value": {"fields": fields}, "apply": UPSERT | {"version": {"from": version}}}
    with pytest.raises(ValidationError) as raised:
        dataset(**given)
    assert said in str(raised.value)


@pytest.mark.parametrize("version", ["log.timestamp", "value.timestamp", '"timestamp"', "log.offset"])
def test_both_of_its_spellings_are_taken(dataset: MakeDataset, version: str) -> None:
    fields = {"timestamp": "timestamp", "offset": "long"}
    given = {"key": {"format": "json"}, "value": {"fields": fields}, "apply": UPSERT | {"version": {"from": version}}}
    assert dataset(**given).apply.version


def test_a_header_as_a_version_needs_its_cast(dataset: MakeDataset) -> None:
    given = {"key": {"format": "json"}, "value": {"fields": {"a": "long?"}}}
    with pytest.raises(ValidationError, match=r"write long\(header.v\), timestamp\(header.v\) or"):
        dataset(**given, apply=UPSERT | {"version": {"from": "header.v"}})
    made = dataset(**given, apply=UPSERT | {"version": {"from": "string(header.v)"}})
    assert [note for note in notes_of(made) if "letter by letter" in note]


def test_offsets_of_several_topics_are_no_version(dataset: MakeDataset) -> None:
    given = {"key": {"format": "json"}, "value": {"fields": {"a": "long"}}}
    for topics in (["a", "b"], ["^a.*"]):
        with pytest.raises(ValidationError, match="an offset orders the records of one topic partition"):
            dataset(**given, source={"kafka": {"topics": topics}}, apply=UPSERT | {"version": {"from": "offset"}})
    both = ["timestamp", "offset"]
    made = dataset(**given, source={"kafka": {"topics": topics}}, apply=UPSERT | {"version": {"from": both}})
    assert made.before_offset == 1


def test_notes_say_what_may_surprise(dataset: MakeDataset) -> None:
    given = {"key": {"format": "json"}, "value": {"fields": {"a": "long?", "b": "string"}}}
    [resent, whole] = notes_of(dataset(**given, apply=UPSERT | {"version": {"from": "offset"}}))
    assert "counts as a newer version" in resent
    assert "leaves out a, the row has NULL" in whole
    assert "so every delivery is a version" in resent
    thing = {"business_key": ["header.b"]}
    [no_message, _] = notes_of(dataset(**given, identity=thing, apply=UPSERT | {"version": {"from": "offset"}}))
    assert no_message == f"{resent}; a business key names a thing, and no message"
    known = {"message_id": "header.m"}
    for version in ({"from": "offset"}, {"from": "long(header.v)"}, {"from": "a", "tie": "last"}):
        [late, _] = notes_of(dataset(**given, identity=known, apply=UPSERT | {"version": version}))
        assert "keeps a ledger of all messages, by message_id: one that is sent again counts once" in late
        [late, _] = notes_of(dataset(**given, identity=known | thing, apply=UPSERT | {"version": version}))
        assert late.endswith("an id of its own; a business key names a thing, and no message")
    assert notes_of(dataset(**given, identity=known, apply=UPSERT | {"version": {"from": "a"}})) == [whole]
    assert notes_of(dataset()) == []


@pytest.mark.parametrize(("filtered", "noted"), [("b = 'x'", True), ("key.id != 'x'", True), ("header.k = 'x'", False)])
def test_a_note_says_what_a_filter_is_for_where_it_may_leave_newer_versions_out(
    dataset: MakeDataset, filtered: str, noted: bool
) -> None:
    made = dataset(
        source=dataset().source.model_dump() | {"filter": filtered},
        key={"format": "json"},
        value={"fields": {"b": "string"}},
        apply=UPSERT | {"version": {"from": "long(header.v)"}},
    )
    assert len([note for note in notes_of(made) if "belongs in target.where" in note]) == int(noted)


def test_a_key_that_is_a_field_too_is_one_column(dataset: MakeDataset) -> None:
    given = {"key": {"format": "json"}, "apply": UPSERT | {"version": {"from": "offset"}}}
    made = dataset(**given, value={"fields": {"id": "long", "owner": "string?"}})
    assert (made.key_columns, made.published_columns, made.key_names) == ([], ["id", "owner"], ["id"])
    assert made.type_of(made.key_expressions[0]) == FieldType("long")
    with pytest.raises(ValidationError, match="cannot be a part of the key, too"):
        dataset(**given, value={"fields": {"id": "list<long>"}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("coalesce(a, b)", "coalesce takes values of one type, not long and string"),
        ("pg_lsn(a)", "pg_lsn reads text, and this is a long"),
    ],
)
def test_functions_say_what_they_take(dataset: MakeDataset, text: str, said: str) -> None:
    apply = {"mode": "upsert", "key": ["b"], "version": {"from": text}}
    with pytest.raises(ValidationError) as raised:
        dataset(value={"fields": {"a": "long", "b": "string"}}, apply=apply)
    assert said in str(raised.value)


def test_validate_notes_what_a_period_promises_and_that_a_sequence_may_begin_again(
    dataset: Callable[..., Dataset],
) -> None:
    fields = {"value": {"fields": {"id": "string", "at": "timestamp", "op": "string"}}}
    within = {"message_id": "header.m", "within": "day(at)"}
    [note] = notes_of(dataset(**fields, identity=within))
    assert note.startswith("identity.within: at must never change for an identity")
    assert "delete" not in note
    deletes = UPSERT | {"key": ["id"], "version": {"from": "long(header.v)"}, "delete_when": "op = 'd'"}
    assert "a delete must have the at of its row" in notes_of(dataset(**fields, identity=within, apply=deletes))[0]
    producer = {"name": "header.p", "sequence": "header.s"}
    [note] = notes_of(dataset(identity={"producer": producer}))
    assert "declare it (epoch: header.epoch)" in note
    assert notes_of(dataset(identity={"producer": producer | {"epoch": "header.e"}})) == []
    assert notes_of(dataset(identity={"producer": producer, "message_id": "header.m"})) == []
