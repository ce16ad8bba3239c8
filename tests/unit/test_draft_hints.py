"""What a draft says of a topic beyond its fields: compaction, CloudEvents, and keys and contents that may surprise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onefold.draft import Topics, text_of
from onefold.kafka.record import Record
from tests.support.drafts import drafted, entry, loaded, notes, record

LIVE = Topics("kafka_default", ("shop.things",))


def keys(draft: Any) -> set[str]:
    return {item.key for item in draft.entries if item.value is not None}


# Compacted topics.


def accounts(count: int = 8) -> list[Record]:
    return [record(n, {"status": f"s{n}", "version": n}, {"account_id": f"a-{n % 4}"}) for n in range(count)]


def test_a_compacted_topic_is_an_upsert_whose_tombstones_delete_though_the_sample_has_none(tmp_path: Path) -> None:
    draft = drafted(accounts(), LIVE, compacted=True)
    assert entry(draft, "apply.mode") == (
        "upsert", "the topic is compacted, no tombstone in the sample: a null value deletes its key",
    )  # fmt: skip
    dataset = loaded(draft, tmp_path)
    assert (dataset.apply.key, dataset.apply.delete_when) == (["key.account_id"], "tombstone")
    assert entry(draft, "apply.version.from")[0] == "offset"
    assert "delete_when" not in text_of(drafted(accounts(), LIVE))


def test_a_draft_says_what_the_two_conditions_are_for_where_rows_change() -> None:
    assert "source.filter says which records belong to the table" in notes(drafted(accounts(), LIVE, compacted=True))
    events = [record(n, {"event_id": f"e-{n}", "n": n}, b"k-%d" % n) for n in range(9)]
    assert "source.filter" not in notes(drafted(events, LIVE))


def test_a_compacted_topic_with_tombstones_says_both() -> None:
    draft = drafted([*accounts(), record(8, None, {"account_id": "a-1"})], LIVE, compacted=True)
    assert entry(draft, "apply.mode")[1] == "the topic is compacted, 1 tombstone: a null value deletes its key"


def test_events_of_a_compacted_topic_are_rows_of_its_keys(tmp_path: Path) -> None:
    records = [record(n, {"event_id": f"e-{n}", "n": n}, b"k-%d" % (n % 3)) for n in range(9)]
    assert entry(drafted(records, LIVE), "apply.mode")[0] == "append"
    assert loaded(drafted(records, LIVE, compacted=True), tmp_path).apply.delete_when == "tombstone"


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (b"\x00\xff\x01", "there is no key that can be read"),
        ({"_key": "a"}, "the key cannot key a row (its part _key has the name of a column"),
    ],
)
def test_a_compacted_topic_whose_key_cannot_be_used_is_drafted_by_its_fields(
    key: Any, problem: str, tmp_path: Path
) -> None:
    records = [record(n, {"id": f"a-{n % 3}", "status": n, "version": n}, key) for n in range(9)]
    draft = drafted(records, LIVE, compacted=True)
    assert f"the topic is compacted, but {problem}" in notes(draft)
    assert "a tombstone can delete no row and will be rejected (null_value)" in notes(draft)
    without = {item.key: item.value for item in drafted(records, LIVE).entries if item.value}
    assert {item.key: item.value for item in draft.entries if item.value} == without
    loaded(draft, tmp_path)


def test_a_compacted_topic_of_values_that_are_nothing_but_the_key_is_no_upsert(tmp_path: Path) -> None:
    draft = drafted([record(0, {"id": "a"}, {"id": "a"}), record(1, {"id": "b"}, {"id": "b"})], LIVE, compacted=True)
    assert "the topic is compacted" in notes(draft)
    assert loaded(draft, tmp_path).apply.mode == "append"


def test_an_unknown_policy_is_noted_where_it_would_change_the_draft() -> None:
    draft = drafted(accounts(), LIVE, policy_unknown="the brokers do not tell it")
    assert "cleanup.policy of the topic is unknown (the brokers do not tell it): if it is compacted" in notes(draft)
    deletes = [*accounts(), record(8, None, {"account_id": "a-1"})]
    assert "cleanup.policy" not in text_of(drafted(deletes, LIVE, policy_unknown="the brokers do not tell it"))


# Keys that are spelled in two ways.


def test_a_part_of_the_key_that_is_a_number_and_text_is_two_keys_to_kafka() -> None:
    ids = [7, 7, "7", 8, "9", "7"]
    draft = drafted(record(n, {"n": n}, {"id": id_, "region": "eu"}) for n, id_ in enumerate(ids))
    assert (
        "1 value of key.id spelled in two ways, a number in 2 records and text in 2 records: Kafka takes them for two "
        "keys, which may lie in two partitions and are compacted apart; the table has one row for both"
    ) in notes(draft)
    assert "region" not in notes(draft)


def test_a_number_of_the_key_and_its_text_are_one_value_as_an_expression_reads_them() -> None:
    same = drafted([record(0, {"n": 0}, b'{"id": 1.50}'), record(1, {"n": 1}, b'{"id": "1.5"}')])
    assert "1 value of key.id spelled in two ways" in notes(same)
    other = drafted([record(0, {"n": 0}, b'{"id": true}'), record(1, {"n": 1}, b'{"id": "True"}')])
    assert "spelled" not in notes(other)


def test_a_key_that_is_bare_and_in_quotes_is_two_rows() -> None:
    texts = [b"7", b"7", b'"7"', b"abc", b'"abc"', b"8", b'"9"']
    draft = drafted(record(n, {"n": n}, key) for n, key in enumerate(texts))
    assert entry(draft, "key")[0] == "{format: string}"
    assert (
        "2 keys spelled in two ways, bare in 3 records and in JSON's quotes in 2 records: they are two keys, and two "
        "rows; where every key is JSON, `{format: json}` reads both as the same key"
    ) in notes(draft)
    assert "spelled" not in notes(drafted(record(n, {"n": n}, key) for n, key in enumerate(texts[:2])))


# CloudEvents.


def event(offset: int, source: str, id_: str, **data: Any) -> Record:
    envelope = {"specversion": "1.0", "id": id_, "source": source, "type": "made", "data": {"n": offset} | data}
    return record(offset, envelope, b"k-%d" % (offset % 3))


def in_headers(n: int, **more: str) -> Record:
    """An event in binary mode, each sent twice."""
    named = {"ce_specversion": "1.0", "ce_id": f"e-{n // 4}", "ce_source": f"/s/{n // 2 % 2}"} | more
    return Record("shop.things", 0, n, None, b"k", b'{"n": %d}' % (n // 2), tuple(named.items()))


def test_cloud_events_are_an_envelope_around_the_fields_of_their_data(tmp_path: Path) -> None:
    draft = drafted([event(n, f"/s/{n % 2}", f"e-{n // 2}", name="x") for n in range(20)])
    value, why = entry(draft, "identity.business_key")
    assert value == "[envelope.source, envelope.id]"
    assert why.startswith("CloudEvents (attributes): source and id together are unique for each event; in all records")
    assert entry(draft, "value.envelope") == ("cloudevents", "20 in structured mode")
    assert "identity.message_id" not in keys(draft)
    made = loaded(draft, tmp_path)
    assert (made.deciding, [*made.fields], made.value.envelope) == ("business_key", ["n", "name"], "cloudevents")


def test_cloud_events_in_headers_are_the_same_envelope(tmp_path: Path) -> None:
    """Next to one in structured mode, one without data, and a value that is no event."""
    kind = {"Content-Type": "application/json"}
    sent = [in_headers(n, ce_type="made" if n % 5 else "it's", **kind) for n in range(20)]
    others = [event(20, "/s/9", "e-9"), event(21, "/s/9", "e-10"), record(22, {"n": 1})]
    others[1] = replace(others[1], value=(others[1].value or b"").replace(b'"data": {"n": 21}', b'"data": null'))
    draft = drafted([*sent, *others])
    value, why = entry(draft, "identity.business_key")
    assert value == "[envelope.source, envelope.id]"
    assert "11 distinct; 10 repeated: what Onefold folds" in why
    assert entry(draft, "value.envelope") == ("cloudevents", "2 in structured mode and 20 in binary mode")
    assert "1 is a CloudEvent without an object as its data; 1 is no CloudEvent" in entry(draft, "value.format")[1]
    assert "events of several types: made (18), it's (4). If each has its own fields" in notes(draft)
    assert "filter: \"envelope.type = 'made'\"" in notes(draft)
    made = loaded(draft, tmp_path)
    assert made.identity.business_key == ["envelope.source", "envelope.id"]
    assert [*made.fields] == ["n"]


def test_headers_without_a_type_are_an_identity_and_no_envelope(tmp_path: Path) -> None:
    draft = drafted(in_headers(n) for n in range(20))
    value, why = entry(draft, "identity.business_key")
    assert value == "[header.ce_source, header.ce_id]"
    assert "10 distinct; 10 repeated: what Onefold folds" in why
    assert loaded(draft, tmp_path).identity.business_key == ["header.ce_source", "header.ce_id"]


def test_what_lacks_a_name_of_cloud_events_is_none() -> None:
    plain = [record(n, {"id": f"e-{n}", "source": "s", "type": "t"}) for n in range(9)]
    assert entry(drafted(plain), "identity.message_id")[0] == "id"
    other = [record(n, {"n": n}, ce_id=f"e-{n}", ce_source="s") for n in range(9)]
    assert "CloudEvents" not in text_of(drafted(other))


@pytest.mark.parametrize("shared", [1, 2])
def test_the_message_id_of_cloud_events_that_change_rows_is_their_source_and_id(tmp_path: Path, shared: int) -> None:
    draft = drafted([event(n, f"/s/{n % 2}", f"e-{n // shared}") for n in range(9)], LIVE, compacted=True)
    assert entry(draft, "identity.message_id")[0] == "[envelope.source, envelope.id]"
    assert "identity.business_key" not in keys(draft)
    made = loaded(draft, tmp_path)
    assert (made.apply.mode, made.identity.message_parts) == ("upsert", ["envelope.source", "envelope.id"])


def test_cloud_events_with_several_contents_of_one_id_are_taken_for_none() -> None:
    draft = drafted(event(n, "/s", "e-1") for n in range(9))
    assert "CloudEvents" not in text_of(draft)


# Rows in parts.


def test_fields_that_later_records_of_a_key_leave_out_are_named(tmp_path: Path) -> None:
    records = [
        record(2 * n, {"name": "x", "city": "y", "note": "z", "kind": "k", "version": 1}, {"id": n}) for n in range(5)
    ]
    part = {"version": 2, "city": "y"}
    records += [record(2 * n + 1, {"name": f"x{n}"} | (part if n else {"version": 2}), {"id": n}) for n in range(4)]
    draft = drafted(records)
    assert entry(draft, "apply.mode")[0] == "upsert"
    assert (
        "a record is the whole row, and what it leaves out is NULL: of 4 keys the first record has note, kind, city, "
        "and later records do not. If these are partial updates, let the producer send whole rows"
    ) in notes(draft)
    loaded(draft, tmp_path)


def test_a_field_that_first_records_lack_too_or_that_is_null_is_no_part_of_a_row() -> None:
    def sent(first: dict[str, Any], later: dict[str, Any]) -> str:
        rows = [row for n in range(5) for row in ((n, first | {"n": n, "version": 1}), (n, later | {"version": 2}))]
        return notes(drafted(record(n, value | {"n": n}, {"id": key}) for n, (key, value) in enumerate(rows)))

    assert "whole row" in sent({"city": "y"}, {})
    assert "whole row" not in sent({"city": "y"}, {"city": None})
    assert "whole row" not in sent({}, {"city": "y"})
    mixed = [({"city": "y"}, {}), ({}, {"city": "y"})] * 3
    rows = [(key, row) for key, pair in enumerate(mixed) for row in pair]
    records = [record(n, row | {"n": n, "version": n}, {"id": key}) for n, (key, row) in enumerate(rows)]
    assert "whole row" not in notes(drafted(records))


def test_a_tombstone_begins_its_key_again() -> None:
    values = [{"city": "y", "n": 1}, None, {"n": 2}, {"n": 3}]
    draft = drafted(record(n, value, {"id": 1}) for n, value in enumerate(values))
    assert entry(draft, "apply.delete_when")[0] == "tombstone"
    assert "whole row" not in notes(draft)


# Contents that differ.


def resent(count: int, again: int, **change: Any) -> list[Record]:
    """Messages with an id, of which the first `again` are sent again with a changed field."""
    rows = [{"text": f"t{n}", "total": n, "sent_at": "2026-03-01T08:00:00Z"} for n in range(count)]
    rows += [row | change for row in rows[:again]]
    ids = [*range(count), *range(again)]
    return [record(n, row, message_id=f"m-{id_}") for n, (id_, row) in enumerate(zip(ids, rows, strict=True))]


def test_the_fields_in_which_contents_of_a_message_differ_are_named_and_may_be_left_out(tmp_path: Path) -> None:
    draft = drafted(resent(100, 3, sent_at="2026-03-01T09:00:00Z"))
    value, why = entry(draft, "identity.message_id")
    assert value == "header.message-id"
    assert why.endswith("3 with several contents: a conflict, which the gate stops; differing in sent_at (3)")
    assert "perhaps, too: compare: {except: [sent_at]} (if it says nothing of the row)" in notes(draft)
    assert "compare" not in keys(draft)
    loaded(draft, tmp_path)


def test_the_fields_that_differ_most_often_come_first_and_many_are_not_left_out() -> None:
    records = resent(100, 4, text="x", total=-1, sent_at="2026-03-01T09:00:00Z")
    draft = drafted([*records, *(record(200 + n, {"text": "y", "total": n, "sent_at": "2026-03-01T08:00:00Z"},
                                        message_id=f"m-{n}") for n in range(50, 51))])  # fmt: skip
    assert entry(draft, "identity.message_id")[1].endswith("differing in text (5), total (4), sent_at (4)")
    assert "compare" not in text_of(draft)


def test_only_the_kafka_key_may_differ() -> None:
    rows = [record(n, {"x": n % 100}, b"k-%d" % n, message_id=f"m-{n % 100}") for n in range(104)]
    draft = drafted(rows)
    assert entry(draft, "identity.message_id")[1].endswith("differing in the Kafka key (4)")
    assert "compare" not in text_of(draft)


def test_the_fields_in_which_contents_of_a_key_and_version_differ_are_named(tmp_path: Path) -> None:
    rows = [{"id": f"a-{n % 10}", "version": n // 10, "status": f"s{n}", "read_at": n} for n in range(100)]
    rows += [rows[99] | {"read_at": -1}, rows[98] | {"read_at": -1}]
    draft = drafted(record(n, row, str(row["id"]).encode()) for n, row in enumerate(rows))
    assert entry(draft, "apply.version.from")[1].endswith("which the gate stops; differing in read_at (2)")
    assert "perhaps, too: compare: {except: [read_at]}" in notes(draft)
    loaded(draft, tmp_path)


def test_an_id_whose_contents_differ_only_in_times_is_proposed_with_them_left_out() -> None:
    draft = drafted(resent(20, 10, sent_at="2026-03-01T09:00:00Z"))
    assert "identity.message_id" not in keys(draft)
    assert (
        "perhaps: message_id: header.message-id, and compare: {except: [sent_at]} (if it says nothing of the row): 10 "
        "of 20 values of header message-id have several contents, differing in sent_at (10)"
    ) in notes(draft)
    assert "perhaps: message_id" not in notes(drafted(resent(20, 10, text="other")))


def test_a_key_of_rows_whose_times_differ_is_no_message_id() -> None:
    rows = [{"id": n % 4, "read_at": f"2026-03-01T00:00:{n:02}Z"} for n in range(20)]
    draft = drafted(record(n, row, str(row["id"]).encode(), version=str(n)) for n, row in enumerate(rows))
    assert (entry(draft, "apply.key")[0], entry(draft, "apply.version.from")[0]) == ("[id]", "long(header.version)")
    assert "compare" not in text_of(draft)


def test_a_version_in_which_contents_of_a_message_differ_is_not_left_out() -> None:
    rows = [{"id": f"a-{n % 10}", "version": n // 10, "status": f"s{n}"} for n in range(100)]
    rows += [row | {"version": 11} for row in rows[-2:]]
    ids = [*range(100), 98, 99]
    draft = drafted(
        record(n, row, str(row["id"]).encode(), message_id=f"m-{id_}")
        for n, (id_, row) in enumerate(zip(ids, rows, strict=True))
    )
    assert entry(draft, "identity.message_id")[1].endswith("differing in version (2)")
    assert entry(draft, "apply.version.from")[0] == "version"
    assert "compare" not in text_of(draft)
