"""A draft folds nothing away: what only looks the same stays apart, unless an id or a sequence says it is the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onefold.draft import Draft
from onefold.errors import NoDraftError
from onefold.kafka.record import Record
from tests.support.drafts import CONNECT, drafted, entry, loaded, notes, record

NOTHING_SAYS = "and nothing else says that they are duplicates: each may be an event of its own"


def values(draft: Draft) -> dict[str, str]:
    return {item.key: item.value for item in draft.entries if item.value is not None}


def identity(draft: Draft) -> dict[str, str]:
    return {key: value for key, value in values(draft).items() if key.startswith("identity.")}


def clicks(count: int = 200) -> list[dict[str, Any]]:
    """Few visitors on few pages, several times within one second."""
    draw = Random(3)
    return [{"visitor_id": draw.randrange(6), "page_id": draw.randrange(4), "at": n // 40} for n in range(count)]


def pulses(count: int = 120) -> list[dict[str, Any]]:
    """Each device reports every second, some twice within it."""
    return [{"device_id": f"d{n % 5}", "status": "up", "at": f"2026-03-01T00:00:{n // 10:02}Z"} for n in range(count)]


def events(rows: Iterable[dict[str, Any]]) -> list[Record]:
    return [record(offset, row) for offset, row in enumerate(rows)]


# Events that look the same.


@pytest.mark.parametrize(
    "rows",
    [
        [{"visitor_id": n % 7, "page_id": n % 3} for n in range(100)],
        [{"customer_no": n % 9, "product_code": f"p{n % 2}", "price": "4.50"} for n in range(100)],
        [{"device_id": f"d{n % 4}", "status": "up"} for n in range(100)],
        [{"sku": f"k{n % 4}", "delta": n % 4, "depot_id": "w"} for n in range(100)],
        [{"amount": 4.5, "shop": f"s{n % 3}"} for n in range(100)],
        [{"amount": 4.5, "shop_id": f"s{n % 3}"} for n in range(100)],
        clicks(),
        pulses(),
    ],
    ids=["views", "sales", "heartbeats", "moves", "sales of a shop", "of a shop id", "clicks", "pulses"],
)
def test_events_of_equal_content_are_rows_of_their_own(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    draft = drafted(events(rows))
    assert identity(draft) == {}
    assert loaded(draft, tmp_path).deciding == "position"
    assert entry(draft, "quality.max_duplicate_rate") == ("0.05", "no duplicates in the sample")


def test_a_business_key_that_would_fold_events_is_a_comment_with_its_figure() -> None:
    draft = drafted(events({"visitor_id": n % 7, "page_id": n % 3} for n in range(100)))
    assert f"perhaps, too: business_key: [visitor_id, page_id] (it would fold 79 of 100 records, {NOTHING_SAYS})" in (
        notes(draft)
    )
    once = drafted(events([*({"ticket_no": n} for n in range(50)), {"ticket_no": 7}]))
    assert f"perhaps, too: business_key: [ticket_no] (it would fold 1 of 51 records, {NOTHING_SAYS})" in notes(once)
    assert identity(once) == {}


def test_message_ids_of_their_own_are_stronger_than_equal_content() -> None:
    draft = drafted(record(n, {"visitor_id": n % 7, "page_id": n % 3}, message_id=f"m-{n}") for n in range(100))
    assert identity(draft) == {"identity.message_id": "header.message-id"}
    assert "business_key: [visitor_id, page_id] (it would fold 79 of 100 records that have message ids" in notes(draft)


def test_a_business_key_that_folds_nothing_is_drafted(tmp_path: Path) -> None:
    orders = [{"order_id": n // 3, "line": n % 3, "amount": n % 5} for n in range(60)]
    draft = drafted(events(orders))
    assert entry(draft, "identity.business_key") == ("[order_id, line]", "together in all records, all distinct")
    assert loaded(draft, tmp_path).deciding == "business_key"


def test_fields_that_fold_nothing_go_before_fewer_that_fold_something() -> None:
    """All but two of 60 orders have one line: their ids alone nearly tell the contents apart."""
    orders = [{"order_id": n, "line_no": 1} for n in range(60)] + [{"order_id": n, "line_no": 2} for n in range(2)]
    assert identity(drafted(events(orders))) == {"identity.business_key": "[order_id, line_no]"}


# What says that two records are the same message.


def test_a_retry_with_the_message_id_of_an_earlier_offset_is_folded(tmp_path: Path) -> None:
    rows = pulses(60)
    sent = [record(n, row, message_id=f"m-{n}") for n, row in enumerate(rows)]
    sent += [record(60 + n, row, message_id=f"m-{n}") for n, row in enumerate(rows[:6])]
    draft = drafted(sent)
    assert identity(draft) == {"identity.message_id": "header.message-id"}
    assert entry(draft, "quality.max_duplicate_rate") == (
        "0.19", "6 of 66 records in the sample are duplicates; twice that, 0.05 at least, 0.5 at most",
    )  # fmt: skip
    assert loaded(draft, tmp_path).deciding == "message_id"


TICKETS = [{"ticket_no": n, "seat": n % 4} for n in range(20)]


@pytest.mark.parametrize("headers", ["message ids of some", "sequences"])
def test_a_business_key_is_drafted_if_all_that_it_folds_is_known_as_the_same_message(headers: str) -> None:
    def mark(n: int) -> dict[str, str]:
        some = {"message_id": f"m-{n}"} if n < 10 else {}
        return some if headers == "message ids of some" else {"producer": "p", "sequence": f"{n}"}

    sent = [record(n, row, **mark(n)) for n, row in enumerate(TICKETS)]
    again = [record(20 + n, TICKETS[n], **mark(n)) for n in range(3)]
    draft = drafted([*sent, *again])
    value, why = entry(draft, "identity.business_key")
    assert (value, why.endswith("3 repeated: what Onefold folds; each with the message id, or producer's sequence, of "
                                "an earlier record")) == ("[ticket_no]", True)  # fmt: skip
    assert entry(draft, "quality.max_duplicate_rate")[0] == "0.27"
    other = record(23, TICKETS[15], **mark(99))
    assert identity(drafted([*sent, *again, other])) == {}


def test_a_sequence_of_another_partition_or_one_of_several_contents_says_nothing() -> None:
    sent = [record(n, row, producer="p", sequence=f"{n}") for n, row in enumerate(TICKETS)]
    again = record(20, TICKETS[3], producer="p", sequence="3")
    assert identity(drafted([*sent, again])) == {"identity.business_key": "[ticket_no]"}
    moved = Record("shop.things", 1, 20, again.timestamp, None, again.value, again.headers)
    assert identity(drafted([*sent, moved])) == {}
    constant = [record(n, row, producer="p", sequence="0") for n, row in enumerate([*TICKETS, TICKETS[3]])]
    assert identity(drafted(constant)) == {}


# Message ids that are none.


def test_an_id_made_of_the_content_is_none_where_producers_count_its_records_apart() -> None:
    rows = pulses(60)
    made = [f"{row['device_id']}/{row['at']}" for row in rows]
    sent = [
        record(n, row, event_id=made[n], producer=f"{row['device_id']}", sequence=f"{n}") for n, row in enumerate(rows)
    ]
    draft = drafted(sent)
    assert identity(draft) == {}
    assert (
        "perhaps: message_id: header.event-id (it would fold 30 of 60 records, but 30 records repeat one under another "
        "sequence of the producer)"
    ) in notes(draft)
    plain = [record(n, row, event_id=made[n]) for n, row in enumerate(rows)]
    assert identity(drafted(plain)) == {"identity.message_id": "header.event-id"}


@pytest.mark.parametrize("name", ["event_id", "content_uuid", "ce_id"])
def test_one_record_under_another_sequence_of_its_producer_is_enough(name: str) -> None:
    """Of a named id, of one that looks like a UUID, and of CloudEvents."""

    def sent(sequence: int, producer: str = "p") -> dict[str, str]:
        event = {"ce_source": "/s", "ce_specversion": "1.0"} if name == "ce_id" else {}
        return {"producer": producer, "sequence": f"{sequence}"} | event

    ids = [f"{n:08}-0000-4000-8000-000000000000" for n in range(20)]
    rows = [record(n, {"n": n}, **{name: ids[n]}, **sent(n)) for n in range(20)]
    retry = record(20, {"n": 7}, **{name: ids[7]}, **sent(7))
    restarted = record(21, {"n": 7}, **{name: ids[7]}, **sent(21, "q"))
    other = record(22, {"n": 7}, **{name: ids[7]}, **sent(22))
    assert any("id" in value for value in identity(drafted([*rows, retry, restarted])).values())
    assert identity(drafted([*rows, retry, restarted, other])) == {}


def test_an_id_of_which_most_values_are_repeated_is_that_of_a_thing() -> None:
    def readings(things: int, name: str = "id") -> Draft:
        return drafted(events({name: f"d{n % things}", "status": "up"} for n in range(30)))

    draft = readings(4)
    assert identity(draft) == {}
    assert (
        "perhaps: message_id: id (it would fold 26 of 30 records, but fewer than half are distinct, as where it is the "
        "id of a thing)"
    ) in notes(draft)
    assert identity(readings(15)) == {"identity.message_id": "id"}
    assert identity(readings(4, "event_id")) == {"identity.message_id": "event_id"}


# Layouts without offsets.


def test_an_inexact_layout_in_which_nothing_tells_messages_apart_is_refused_if_contents_repeat() -> None:
    with pytest.raises(NoDraftError) as refused:
        drafted(events({"visitor_id": n % 7, "page_id": n % 3} for n in range(100)), CONNECT)
    assert refused.value.exit_code == 2
    message = str(refused.value)
    assert (
        "79 of 100 records repeat the visitor_id, page_id of an earlier record, and folding them could lose" in message
    )
    for advice in ("a header such as message-id", "InsertField", "kcat, aiven, parquet, segments", "business_key"):
        assert advice in message
    once = drafted(events({"device": n % 5, "status": "up", "second": n // 5} for n in range(50)), CONNECT)
    assert identity(once) == {"identity.business_key": "[device, status, second]"}


def test_an_inexact_layout_of_records_that_only_an_added_offset_tells_apart_is_drafted_by_it() -> None:
    """As the advice says: Connect's InsertField writes the record's place into its value."""
    rows = [row | {"kafka_partition": 0, "kafka_offset": n} for n, row in enumerate(clicks())]
    value = identity(drafted(events(rows), CONNECT))["identity.business_key"]
    assert {"kafka_partition", "kafka_offset"} <= {*value.strip("[]").split(", ")}


def test_an_inexact_layout_whose_repeated_records_have_equal_sequences_is_drafted() -> None:
    rows = [{"text": f"t{n}"} for n in range(10)]
    sent = [record(n, row, producer="p", sequence=f"{n}") for n, row in enumerate(rows)]
    again = record(10, rows[3], producer="p", sequence="3")
    assert identity(drafted([*sent, again], CONNECT)) == {"identity.business_key": "[text]"}
    with pytest.raises(NoDraftError, match="1 of 11 records repeats the text of an earlier record"):
        drafted([*sent, record(10, rows[3], producer="p", sequence="10")], CONNECT)


# The limit for duplicates.


@pytest.mark.parametrize(("again", "limit"), [(0, "0.05"), (2, "0.05"), (3, "0.06"), (20, "0.34"), (90, "0.5")])
def test_the_limit_is_twice_the_samples_rate_between_five_and_fifty_percent(again: int, limit: str) -> None:
    numbers = [*range(100), *range(again)]
    draft = drafted(record(n, {"n": number}, message_id=f"m-{number}") for n, number in enumerate(numbers))
    assert entry(draft, "quality.max_duplicate_rate")[0] == limit


def test_a_sample_of_which_most_records_are_duplicates_says_that_its_like_is_red() -> None:
    draft = drafted(record(n, {"n": n % 10}, message_id=f"m-{n % 10}") for n in range(40))
    limit, why = entry(draft, "quality.max_duplicate_rate")
    assert (limit, why.endswith("a batch like the sample is red, for the identity may be wrong")) == ("0.5", True)


def test_conflicts_and_rejected_records_are_no_duplicates_but_count_as_wanted() -> None:
    """100 messages, two sent again, one of them with other content; one without an id, and four that are no JSON."""
    sent = [record(n, {"n": n}, message_id=f"m-{n}") for n in range(100)]
    sent += [record(100, {"n": 5}, message_id="m-5"), record(101, {"n": -1}, message_id="m-6")]
    sent += [record(102, {"n": 5}), *(record(103 + n, b"oops", message_id="m-5") for n in range(4))]
    _, why = entry(drafted(sent), "quality.max_duplicate_rate")
    assert why.startswith("1 of 107 records in the sample is a duplicate")


def test_records_that_an_export_holds_twice_are_duplicates() -> None:
    records = [record(n, {"n": n}, message_id=f"m-{n}") for n in range(10)]
    assert entry(drafted([*records, *records[:2]]), "quality.max_duplicate_rate")[0] == "0.34"


def test_in_an_upsert_a_version_that_is_sent_again_is_a_duplicate_and_an_older_one_is_not() -> None:
    rows = [{"id": f"a-{n % 4}", "version": n // 4, "status": f"s{n}"} for n in range(40)]
    draft = drafted(record(n, row, str(row["id"]).encode()) for n, row in enumerate([*rows, *rows[-3:]]))
    assert entry(draft, "apply.mode")[0] == "upsert"
    assert entry(draft, "quality.max_duplicate_rate")[1].startswith("3 of 43 records")


def test_in_an_upsert_by_offsets_a_message_id_tells_the_duplicates() -> None:
    def account(offset: int, n: int, **headers: str) -> Record:
        return record(offset, {"status": f"s{n}"}, b"k-%d" % (n % 4), **headers)

    def log(*, ids: bool) -> list[Record]:
        sent = [*range(40), 5, 6]
        rows = [account(n, of, **({"message_id": f"m-{of}"} if ids else {})) for n, of in enumerate(sent)]
        return [*rows, record(42, None, b"k-1", **({"message_id": "m-40"} if ids else {}))]

    with_ids = drafted(log(ids=True))
    assert values(with_ids)["apply.version.from"] == "offset"
    assert entry(with_ids, "quality.max_duplicate_rate")[1].startswith("2 of 43 records")
    assert entry(drafted(log(ids=False)), "quality.max_duplicate_rate")[1] == "no duplicates in the sample"


def test_what_is_rejected_is_no_duplicate() -> None:
    sent = [record(n, {"n": n}, message_id=f"m-{n}") for n in range(100)]
    sent += [record(100 + n, {"n": "many"}, message_id="m-100") for n in range(3)]
    draft = drafted([*sent, record(103, {"n": 5}, message_id="m-5")])
    assert entry(draft, "quality.max_rejected_rate")[1].startswith("3 of 104 records")
    assert entry(draft, "quality.max_duplicate_rate")[1].startswith("1 of 104 records")


def test_duplicates_are_those_of_the_survivor_the_first_of_an_append_and_the_last_of_an_upsert() -> None:
    """Three deliveries with contents a, b, b: b survives where it is the first by time, or the last of its version."""
    sent = [record(n, {"text": f"t{n}"}, message_id=f"m-{n}") for n in range(60)]

    def delivery(offset: int, stamp: int, text: str) -> Record:
        again = record(offset, {"text": text}, message_id="m-60")
        return Record(again.topic, 0, offset, stamp, None, again.value, again.headers)

    first = sent[0].timestamp or 0
    early = [delivery(60, first + 2, "a"), delivery(61, first + 1, "b"), delivery(62, first + 3, "b")]
    assert entry(drafted([*sent, *early]), "quality.max_duplicate_rate")[1].startswith("1 of 63 records")
    late = [delivery(60, first + 1, "a"), delivery(61, first + 2, "b"), delivery(62, first + 3, "b")]
    assert entry(drafted([*sent, *late]), "quality.max_duplicate_rate")[1] == "no duplicates in the sample"

    rows = [{"id": f"a-{n % 4}", "version": n // 4, "status": f"s{n}"} for n in range(80)]
    rows += [rows[-1] | {"status": "b"}] * 2
    upsert = drafted(record(n, row, str(row["id"]).encode()) for n, row in enumerate(rows))
    assert entry(upsert, "apply.mode")[0] == "upsert"
    assert entry(upsert, "quality.max_duplicate_rate")[1].startswith("1 of 82 records")


def test_a_header_that_is_blank_in_some_records_is_no_message_id_that_a_run_would_reject() -> None:
    records = [record(number, {"n": number}, message_id="" if number % 2 else f"m-{number}") for number in range(40)]
    assert not [item for item in drafted(records).entries if item.path == ("identity", "message_id") and item.value]
