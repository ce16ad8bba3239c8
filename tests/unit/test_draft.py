"""Drafts from literal records: what is guessed, why it says so, and what it refuses to guess."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from onefold.draft import Draft, Export, Topics, draft_dataset, text_of
from onefold.draft.sample import Sample, sample_of
from onefold.errors import NoDraftError
from onefold.kafka.record import Record
from tests.support.drafts import CONNECT, KCAT, drafted, entry, loaded, notes, record


def fields(values: Iterable[Any]) -> dict[str, str | None]:
    """The drafted types of the field `x`, if any, and of the fields next to it."""
    draft = drafted(record(offset, {"x": value, "n": offset}) for offset, value in enumerate(values))
    return {item.path[-1]: item.value for item in draft.entries if item.path[:2] == ("value", "fields")}


# Types.


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b", ""], "string"),
        ([1, -(2**63), 2**63 - 1], "long"),
        ([1, 2**63], '"decimal(38,0)"'),
        ([True, False], "boolean"),
        ([10.5, 3.25, 7], '"decimal(18,2)"'),
        ([52.5200066, 13.404954, 1], "double"),
        (["2026-03-01", "2026-02-28"], "date"),
        (["2026-02-30", "2026-02-28"], "string"),
        (["2026-03-01T08:00:00Z", "2026-03-01 08:00:00.123456+01:00"], "timestamp"),
        (["2026-03-01T08:00:00.123456789Z"], "string"),
        (["00123", "04109"], "string"),
        (["12.50", "0.30"], '"decimal(18,2)"'),
        (["12.5", "0.333"], "string"),
        (["a", None], "string?"),
    ],
    ids=str,
)
def test_a_type_is_one_that_takes_every_value_as_it_is(values: list[Any], kind: str) -> None:
    assert fields(values)["x"] == kind


def test_amounts_are_decimals_however_they_are_written() -> None:
    values = [{"total_price": 10.1255, "fee": "3", "amount": "12345678901234567.89", "tax": 3} for _ in range(3)]
    values[1]["fee"] = "3.5"
    draft = drafted(record(offset, value) for offset, value in enumerate(values))
    assert entry(draft, "value.fields.total_price")[0] == '"decimal(18,4)"'
    assert entry(draft, "value.fields.fee")[0] == '"decimal(18,2)"'
    assert entry(draft, "value.fields.amount")[0] == '"decimal(38,2)"'
    assert entry(draft, "value.fields.tax") == ("long", "")


def test_a_number_with_an_exponent_is_what_its_digits_say() -> None:
    draft = drafted([record(0, b'{"amount": 1e2}'), record(1, b'{"amount": 3.5}')])
    assert entry(draft, "value.fields.amount")[0] == '"decimal(18,2)"'
    values = (b'{"a": 1, "n": 1e300, "x": 1e99999999999999999999}', b'{"a": 1, "n": 2, "x": 2}')
    large = drafted(record(number, value) for number, value in enumerate(values))
    assert entry(large, "value.fields.n")[0] == "double"
    assert "'x': numbers beyond every type" in notes(large)


def test_numbers_and_strings_of_numbers_are_one_decimal() -> None:
    values = [{"amount": 1.5}, {"amount": "2.25"}, {"amount": 3}]
    value, why = entry(drafted(record(i, value) for i, value in enumerate(values)), "value.fields.amount")
    assert (value, "a decimal reads both" in why) == ('"decimal(18,2)"', True)


@pytest.mark.parametrize(
    ("name", "start", "unit"),
    [("created_at", 1_772_323_200, "seconds"), ("ts", 1_772_323_200_000, "milliseconds"), ("n", 1_772_323_200, "")],
)
def test_epoch_numbers_stay_numbers_with_a_word_about_it(name: str, start: int, unit: str) -> None:
    value, why = entry(drafted(record(i, {name: start + i}) for i in range(30)), f"value.fields.{name}")
    assert value == "long"
    read_by = {"seconds": "timestamp(seconds)", "milliseconds": "timestamp(millis)"}
    assert why == (f"looks like {unit} since 1970: {read_by[unit]} would read it as a time" if unit else "")


def test_absent_and_null_make_a_field_optional_and_are_counted() -> None:
    draft = drafted(record(i, {"a": 1} | ({"b": None} if i < 2 else {"b": "x"} if i < 7 else {})) for i in range(10))
    assert entry(draft, "value.fields.b") == ("string?", "null in 2, absent in 3 of 10")


def test_a_few_values_of_another_type_are_counted_as_rejected() -> None:
    records = [record(i, {"id": f"i-{i}", "n": i}) for i in range(99)]
    draft = drafted([*records, record(99, {"id": "i-99", "n": "many"})])
    assert entry(draft, "value.fields.n") == ("long", "1 of 100 of another type: rejected")
    assert entry(draft, "quality.max_rejected_rate")[0] == "0.02"


def test_what_no_column_can_be_called_says_where_it_lies_and_what_none_can_hold_is_left_out() -> None:
    value = {"id": "a", "bad name": 1, "_own": 1, "ID": 2, "x" * 65: 1, "nothing": None, "ünïcode": 1, "a.b": 1}
    draft = drafted([record(0, value), record(1, value | {"mixed": 1}), record(2, value | {"mixed": "a"})])
    declared = {
        item.path[-1]: item.value for item in draft.entries if item.path[:2] == ("value", "fields") and item.value
    }
    assert declared == {
        "id": "string",
        "bad_name": '{type: long, from: "bad name"}',
        "own": "{type: long, from: _own}",
        "ID_2": "{type: long, from: ID}",
        "n_code": '{type: long, from: "ünïcode"}',
        "a_b": '{type: long, from: "\\"a.b\\""}',
    }
    text = notes(draft)
    for word in ("a name of none, or of more than 64 letters", "null in all 3"):
        assert word in text
    assert "'mixed': of several types: 1 numbers, 1 strings" in text


def test_nested_fields_are_written_as_types_whether_they_are_built_or_not(tmp_path: Path) -> None:
    value = {"id": "a", "tags": ["x"], "at": {"lat": 1, "lon": 2, "note": None}}
    draft = drafted(record(i, value) for i in range(3))
    text = text_of(draft)
    assert "list<string>" in text
    assert "struct<lat: long, lon: long>" in text
    loaded(draft, tmp_path)


def test_a_part_of_another_type_rejects_the_whole_value_and_is_counted_so() -> None:
    """An object's member, an array's elements, and both in one another; 8 of 200 values have such a part."""
    bad = range(0, 200, 25)
    shapes: dict[str, tuple[Callable[[Any], Any], str]] = {
        "struct<a: long>": (lambda x: {"a": x}, "a: 8 of 200 of another type"),
        "list<long>": (lambda x: [1, x, x], "16 of 600 elements of another type"),
        "list<struct<a: long, b: long?>>": (
            lambda x: [{"a": 1, "b": 2}, {"a": x}],
            "a: 8 of 400 of another type; 8 of 400 elements of another type, in whole or in a part",
        ),
        "struct<a: list<long>>": (
            lambda x: {"a": [1, x]},
            "a: 8 of 200 of another type, in whole or in a part; a: 8 of 400 elements of another type",
        ),
    }
    for kind, (value, why) in shapes.items():
        values = [{"id": i, "s": value("x" if i in bad else i)} for i in range(200)]
        draft = drafted(record(i, value) for i, value in enumerate(values))
        found, reason = entry(draft, "value.fields.s")
        assert (found or "").strip('"') == kind
        assert reason == f"{why}; 8 of 200 of another type, in whole or in a part: rejected"
        rate, comment = entry(draft, "quality.max_rejected_rate")
        assert (rate, comment.partition(";")[0]) == ("0.08", "8 of 200 records in the sample would be rejected")


def test_few_elements_of_another_type_in_many_arrays_leave_the_field_out() -> None:
    values = [{"id": i, "s": [*range(30), "x" if i % 2 else 1]} for i in range(100)]
    draft = drafted(record(i, value) for i, value in enumerate(values))
    assert "'s': 50 of 3100 elements of another type; in 50 of 100 arrays" in notes(draft)
    assert not [item for item in draft.entries if item.key == "value.fields.s"]


def test_members_bring_their_reasons_and_those_left_out_are_named() -> None:
    value = {"at_ms": 1_772_323_200_000, "note": None, "bad name": 1}
    draft = drafted(record(i, {"id": i, "s": value | {"mixed": ["a", 1][i % 2]}}) for i in range(10))
    assert entry(draft, "value.fields.s") == (
        '"struct<at_ms: long>"',
        "at_ms: looks like milliseconds since 1970: timestamp(millis) would read it as a time; without note: null in "
        "all 10 that have it; without 'bad name': no name of a column; without mixed: of several types: 5 strings, "
        "5 numbers",
    )
    many = {f"amount_{number}": 1.5 for number in range(30)}
    _, why = entry(drafted(record(i, {"id": i, "s": many}) for i in range(3)), "value.fields.s")
    assert (why.count("amount_"), why.rpartition("; ")[2]) == (10, "and 20 more")


# Keys and values.


def test_the_keys_format_is_what_most_keys_are() -> None:
    for key, wanted in ((b'{"id": 1}', "json"), (b"a-1", "string"), (b"17", "string"), (b"\x00\xff\x01", "bytes")):
        assert entry(drafted([record(0, {"a": 1}, key), record(1, {"a": 2}, key)]), "key")[0] == f"{{format: {wanted}}}"
    assert entry(drafted([record(0, {"a": 1})]), "key") == ("{format: string}", "no record in the sample has a key")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"\x00\x00\x00\x00\x07abc", "wire format, schema id 7 (Avro, Protobuf or JSON Schema)"),
        (b"\xff\xfe", "bytes that are not UTF-8"),
        (b"<a/>", "text that is not JSON (XML?)"),
        (b"plain", "text that is not JSON"),
        (b"[1, 2]", "a JSON array, no object"),
        (b"17", "a JSON number, no object"),
        (b"null", "a JSON null, no object"),
        (b"", "empty"),
    ],
)
def test_values_that_are_no_json_objects_are_named_and_refused(value: bytes, said: str) -> None:
    with pytest.raises(NoDraftError, match="No dataset file was written") as refused:
        drafted([record(0, value), record(1, value)])
    assert said in str(refused.value)
    assert refused.value.exit_code == 2


def test_only_tombstones_are_refused() -> None:
    with pytest.raises(NoDraftError, match="2 are null"):
        drafted([record(0, None, b"a"), record(1, None, b"b")])


def test_undecodable_records_are_counted_and_the_limit_says_so() -> None:
    good = [record(i, {"id": f"i-{i}"}) for i in range(95)]
    bad = [record(95 + i, b"oops") for i in range(4)]
    draft = drafted([*good, *bad], unreadable=1)
    assert entry(draft, "value.format") == ("json", "of 99 values 4 are text that is not JSON")
    value, why = entry(draft, "quality.max_rejected_rate")
    assert (value, "5 of 100 records" in why) == ("0.1", True)


# Identity.


def test_a_header_with_a_message_ids_name_is_the_message_id() -> None:
    draft = drafted(record(i, {"n": i // 2}, message_id=f"m-{i // 2}") for i in range(20))
    value, why = entry(draft, "identity.message_id")
    assert value == "header.message-id"
    assert why == "header message-id: in all records, 10 distinct; 10 repeated: what Onefold folds"


def test_a_header_shared_by_many_contents_is_no_message_id() -> None:
    draft = drafted(record(i, {"n": i}, event_id=f"m-{i // 5}") for i in range(50))
    assert not [item for item in draft.entries if item.key == "identity.message_id"]


@pytest.mark.parametrize(("name", "taken"), [("x-ref", True), ("correlation-id", False), ("traceparent", False)])
def test_an_unnamed_header_of_distinct_uuids_is_the_message_id_unless_it_is_of_others(name: str, taken: bool) -> None:
    ids = [str(uuid.UUID(int=number)) for number in range(20)]
    records = [record(i, {"n": i}, **{name.replace("-", "_"): ids[i]}) for i in range(20)]
    found = [item.value for item in drafted(records).entries if item.key == "identity.message_id"]
    assert found == ([f"header.{name}"] if taken else [])


def test_a_field_with_a_message_ids_name_is_taken_where_no_header_is() -> None:
    draft = drafted(record(i, {"event_id": f"e-{i}", "user_id": f"u-{i % 3}"}) for i in range(20))
    assert entry(draft, "identity.message_id") == ("event_id", "field event_id: in all records, all distinct")


def test_the_smallest_compound_of_ids_that_tells_contents_apart_is_the_business_key() -> None:
    values = [{"transfer_id": f"t-{i // 2}", "account_id": f"a-{i % 7}", "amount": i} for i in range(40)]
    draft = drafted(record(i, value) for i, value in enumerate(values))
    assert entry(draft, "identity.business_key")[0] == "[transfer_id, account_id]"


def test_a_business_key_next_to_a_message_id_is_a_comment_with_what_it_would_fold_more() -> None:
    values = [{"order_id": f"o-{i}", "total": i} for i in range(20)]
    records = [record(i, value, message_id=f"m-{i}") for i, value in enumerate(values)]
    draft = drafted([*records, record(20, values[3], message_id="m-3")])
    assert "perhaps, too: business_key: [order_id] (in all records, 20 distinct; 1 repeated" in notes(draft)
    assert "none sent again under another message id in the sample" in notes(draft)
    again = record(20, values[3], message_id="m-20")
    draft = drafted([*records, again])
    assert (
        "perhaps, too: business_key: [order_id] (it would fold 1 of 21 records that have message ids of their own: "
        "right only if the application sent them again)"
    ) in notes(draft)
    assert not [item for item in draft.entries if item.key == "identity.business_key"]


def test_without_any_id_the_position_decides_and_the_file_says_what_that_means(tmp_path: Path) -> None:
    draft = drafted(record(i, {"text": "same"}) for i in range(5))
    assert "what the producer sent twice is not" in notes(draft)
    assert loaded(draft, tmp_path).deciding == "position"


def test_without_any_id_and_exact_positions_all_required_fields_decide_loudly(tmp_path: Path) -> None:
    draft = drafted((record(i, {"text": f"t{i}", "ratio": 1.12345, "x": i}) for i in range(5)), CONNECT)
    value, why = entry(draft, "identity.business_key")
    assert (value, why.startswith("NOTHING TELLS MESSAGES APART")) == ("[text, x]", True)
    assert loaded(draft, tmp_path).deciding == "business_key"


def test_producer_headers_are_only_mentioned(tmp_path: Path) -> None:
    draft = drafted(record(i, {"n": i}, producer="p", sequence=str(i)) for i in range(5))
    assert "perhaps, too: producer: {name: header.producer, sequence: header.sequence}" in notes(draft)
    assert loaded(draft, tmp_path).identity.producer is None
    assert entry(draft, "apply.mode")[0] == "append"


# Append or upsert.


def changes(offset: int, account: str, version: int, **more: Any) -> Record:
    return record(offset, {"status": f"s{version}"} | more, {"account_id": account}, version=str(version))


def test_tombstones_make_an_upsert_by_the_key_with_the_version_of_a_header(tmp_path: Path) -> None:
    records = [changes(i, f"a-{i % 4}", i // 4) for i in range(20)]
    draft = drafted([*records, record(20, None, {"account_id": "a-1"}, version="9")])
    dataset = loaded(draft, tmp_path)
    assert (dataset.apply.mode, dataset.apply.key, dataset.apply.delete_when) == (
        "upsert", ["key.account_id"], "tombstone",
    )  # fmt: skip
    assert dataset.apply.version is not None
    assert dataset.apply.version.from_ == "long(header.version)"
    assert "grows at 17 of 17 changes" in entry(draft, "apply.version.from")[1]


def test_tombstones_without_a_version_in_a_header_go_by_the_offset(tmp_path: Path) -> None:
    records = [record(i, {"version": i}, b"k-%d" % (i % 3)) for i in range(9)]
    draft = drafted([*records, record(9, None, b"k-1")])
    value, why = entry(draft, "apply.version.from")
    assert (value, "tombstones do not have it" in why) == ("offset", True)
    assert loaded(draft, tmp_path).key_names == ["key"]


def test_tombstones_of_an_inexact_layout_without_a_version_are_said_to_be_rejected(tmp_path: Path) -> None:
    draft = drafted([record(0, {"id": "a"}, b"a"), record(1, {"id": "b"}, b"b"), record(2, None, b"b")], CONNECT)
    assert entry(draft, "apply.mode")[0] == "append"
    assert "they will be rejected (null_value)" in notes(draft)
    loaded(draft, tmp_path)


def test_a_field_with_the_name_of_a_part_of_the_key_gives_way_to_it(tmp_path: Path) -> None:
    records = [record(i, {"account_id": f"a-{i}", "n": i}, {"account_id": f"a-{i}"}) for i in range(5)]
    draft = drafted([*records, record(5, None, {"account_id": "a-1"})])
    assert "'account_id': the part of the key has this column" in notes(draft)
    assert list(loaded(draft, tmp_path).fields) == ["n"]


@pytest.mark.parametrize("deleted", [None, {"id": "a", "n": 9}])
def test_a_part_of_the_key_that_is_a_column_of_onefolds_own_keys_no_row(deleted: Any, tmp_path: Path) -> None:
    def sent(deleted: Any, **same: str) -> Draft:
        key = {"_key": "a", "_order": 1}
        records = [record(n, {"n": n, "x": n, **same}, key, version=str(n)) for n in range(9)]
        return drafted([*records, record(9, deleted, key, version="9")])

    draft = sent(deleted)
    assert entry(draft, "apply.mode")[0] == "append"
    assert "its part _key has the name of a column that tables have" in notes(draft) + entry(draft, "apply.mode")[1]
    loaded(draft, tmp_path)


def test_fields_that_say_the_same_as_such_a_part_are_the_key(tmp_path: Path) -> None:
    draft = drafted([record(n, {"of": "a", "n": n}, {"_key": "a"}, version=str(n)) for n in range(9)])
    assert entry(draft, "apply.key")[0] == "[of]"
    loaded(draft, tmp_path)


def test_the_id_of_a_mongo_document_keys_rows(tmp_path: Path) -> None:
    draft = drafted([record(n, {"n": n}, {"_id": "a"}, version=str(n)) for n in range(9)])
    assert entry(draft, "apply.key")[0] == "[key._id]"
    assert loaded(draft, tmp_path).published_columns == ["_id", "n"]


def test_values_that_are_nothing_but_the_key_are_no_upsert(tmp_path: Path) -> None:
    draft = drafted([record(0, {"id": "a"}, {"id": "a"}), record(1, None, {"id": "a"})])
    assert "nothing but the parts of the key" in notes(draft)
    assert loaded(draft, tmp_path).apply.mode == "append"


@pytest.mark.parametrize("name", ["version", "rev", "seq", "lsn", "updated_at", "lastModified"])
def test_keys_that_repeat_with_a_growing_version_make_an_upsert(name: str, tmp_path: Path) -> None:
    def at(number: int) -> Any:
        return f"2026-03-01T00:{number:02}:00Z" if name in ("updated_at", "lastModified") else number

    draft = drafted(record(i, {"id": f"a-{i % 4}", "status": i, name: at(i)}, b"a-%d" % (i % 4)) for i in range(20))
    dataset = loaded(draft, tmp_path)
    assert (dataset.apply.mode, dataset.apply.key) == ("upsert", ["id"])
    assert dataset.apply.version is not None
    assert dataset.apply.version.from_ == name


@pytest.mark.parametrize(
    ("end", "version"), [("T00:00", "timestamp(header.updated-at)"), ("", "date(header.updated-at)")]
)
def test_a_version_of_a_header_is_cast_to_what_its_text_is(end: str, version: str, tmp_path: Path) -> None:
    records = [
        record(i, {"id": f"a-{i % 4}", "n": i}, b"a-%d" % (i % 4), updated_at=f"2026-03-{i + 1:02}{end}")
        for i in range(20)
    ]
    made = loaded(drafted(records), tmp_path)
    assert (made.apply.mode, made.apply.version and made.apply.version.from_) == ("upsert", version)


def test_events_of_a_key_are_no_upsert_though_they_are_numbered() -> None:
    values = [{"event_id": f"e-{i}", "user_id": f"u-{i % 4}", "seq": i} for i in range(20)]
    draft = drafted(record(i, value, value["user_id"].encode()) for i, value in enumerate(values))
    assert entry(draft, "apply.mode") == ("append", "each record has a event_id of its own")
    assert "if only the newest of each counts, it is an upsert" in notes(draft)


def test_a_version_that_jumps_about_is_none() -> None:
    versions = [5, 1, 4, 2, 8, 3, 9, 1, 7, 0]
    draft = drafted(record(i, {"status": i, "version": v}, b"k") for i, v in enumerate(versions))
    assert entry(draft, "apply.mode")[0] == "append"


# The source, and the text.


def test_missing_offsets_of_an_export_are_explained_and_said_to_be_a_guess() -> None:
    draft = drafted([record(0, {"a": 1}), record(1, {"a": 2}), record(3, {"a": 3})], spans=[("shop.things", 0, 0, 3)])
    value, why = entry(draft, "source.exports.holes")
    assert (value, "1 offset missing between 3" in why) == ("transactional", True)
    assert entry(drafted([record(0, {"a": 1})]), "source.exports.holes")[0] == "none"


def test_a_position_that_is_read_twice_counts_once() -> None:
    found = sample_of("there", [record(1, {}), record(0, {}), record(1, {})], spans=[("shop.things", 0, 0, 1)] * 2)
    assert ([sampled.offset for sampled in found.records], found.repeated, found.missing) == ([0, 1], 1, 0)


def test_several_topics_of_an_export_need_a_choice(tmp_path: Path) -> None:
    other = Record("other", 0, 0, None, None, b'{"a": 1}')
    mixed = Sample("there", [other, record(0, {"a": 1})])
    with pytest.raises(NoDraftError, match=r"other \(1\), shop\.things \(1\).*--topic"):
        draft_dataset("things", KCAT, mixed)
    sample = Sample("there", [record(0, {"a": 1})])
    draft = draft_dataset("things", Export("exports/", "kcat", topic="shop.things"), sample)
    assert loaded(draft, tmp_path).source.filter == "topic = 'shop.things'"


def test_the_name_of_a_topic_may_hold_a_quote(tmp_path: Path) -> None:
    draft = drafted([record(0, {"id": 1})], Export("exports/", "kcat", topic="it's"))
    assert loaded(draft, tmp_path).source.filter == "topic = 'it''s'"


def test_the_whole_file_of_a_small_topic() -> None:
    records = [
        Record("shop.things", 0, i, 1_772_323_200_000, None, b'{"id": "t-%d", "price": %d.50}' % (i % 3, i % 3), ())
        for i in range(4)
    ]
    draft = draft_dataset("things", Topics("kafka_default", ("shop.things",)), sample_of("there", records))
    assert (
        text_of(draft)
        == """\
# Drafted by `onefold init` from 4 records: shop.things, 1 partition, 2026-03-01 to 2026-03-01. Few records: the
# reasons are weak.
# Every line is a guess with its reason: read it, mend it, take the comments out. Until the first run anything may
# change; after it, what can change a row takes `onefold rebuild`.
# Next: onefold validate things --sample 1000
name: things
description: ""
owner: ""
source:
  kafka:
    connection: kafka_default
    topics: [shop.things]
# schedule: {cron: "0 * * * *", start: 2026-03-01}
key: {format: string}  # no record in the sample has a key
value:
  format: json
  fields:
    id: string
    price: "decimal(18,2)"  # at most 1 digit before and 1 behind the point
identity:
  message_id: id  # field id: in all records, 3 distinct; 1 repeated: what Onefold folds
apply:
  mode: append  # no tombstones, and no key that comes again with a growing version: each message is a row
target: {table: shop.things, buckets: 8}
quality:
  max_duplicate_rate: 0.5  # 1 of 4 records in the sample is a duplicate; twice that, 0.05 at least, 0.5 at most
  max_rejected_rate: 0.01
  max_conflicts: 0
"""
    )


def test_the_file_contains_no_value_of_a_record() -> None:
    records = [record(i, {"id": f"secret-{i}", "n": 4_711}, b"hidden-%d" % i, message_id=f"mid-{i}") for i in range(3)]
    text = text_of(drafted(records))
    assert not [word for word in ("secret", "hidden", "mid-", "4711", "4_711") if word in text]


def test_a_field_repeats_the_key_only_where_it_says_what_the_key_says() -> None:
    """Neither a boolean, which no key has, nor a field that is there once."""
    for first in ({"active": True}, {"once": None}):
        values = [{**first, "id": f"a-{n % 3}", "status": f"s{n}", "version": n} for n in range(12)]
        if "once" in first:
            values = [{**({"once": "a-0"} if not n else {}), **value} for n, value in enumerate(values)]
            values = [{name: of for name, of in value.items() if of is not None} for value in values]
        draft = drafted(record(n, value, str(value["id"]).encode()) for n, value in enumerate(values))
        assert entry(draft, "apply.key")[0] == "[id]", text_of(draft)


@pytest.mark.parametrize(
    "parts",
    [
        [{"tenant": {"id": n % 2}, "id": n % 4} for n in range(12)],
        [{"tenant": "t" if n % 2 else None, "id": n % 4} for n in range(12)],
        [{"ID": n % 2, "id": n % 4} for n in range(12)],
        [{"eu": n % 2 == 0, "id": n % 4} for n in range(12)],
    ],
)
def test_a_key_of_which_a_part_cannot_be_named_keys_no_rows(parts: list[dict[str, Any]], tmp_path: Path) -> None:
    """Rows keyed by the other part would be rows of several keys, and a tombstone of one would delete the other's."""
    records = [record(n, {"status": f"s{n}"}, key, v=str(n)) for n, key in enumerate(parts)]
    draft = drafted([*records, record(12, None, parts[0], v="12")])
    assert loaded(draft, tmp_path).apply.mode == "append"
    assert "the key cannot key a row" in notes(draft)


def test_a_part_of_the_key_that_is_the_same_everywhere_is_no_hindrance(tmp_path: Path) -> None:
    keys = [{"tenant": {"id": 1}, "id": n % 4} for n in range(12)]
    records = [record(n, {"status": f"s{n}"}, key) for n, key in enumerate(keys)]
    assert loaded(drafted([*records, record(12, None, keys[0])]), tmp_path).apply.key == ["key.id"]
