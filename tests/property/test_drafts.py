"""What `init` takes for good, a run takes: its types are those of the strict decoder, and its identity folds no two
events, on drawn samples."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.dataset.names import parse_place
from onefold.dataset.types import parse_type
from onefold.draft.choices import Choices
from onefold.draft.fields import contents_of
from onefold.draft.sample import Sample
from onefold.draft.values import open_sample
from onefold.errors import NoDraftError
from onefold.kafka.record import Record
from onefold.proof.decode import fields_of
from tests.support.drafts import Draw

TIMES = ("2026-03-01T09:01Z", "2026-03-01T09:01:02.1234560Z", "2026-03-01T09:01:02.123456789Z", "2026-03-01 09:01")
NUMBERS = ("1e3", "1.0", "0E-8", "1E+3", "1.5e2", "12345678901234567890", "1e-7", "0.10", "-0", "1e300")


def numbers_as_written(draw: Random, records: list[Record]) -> list[Record]:
    """The same log with more ways to write numbers and times in a field."""
    made = []
    for record in records:
        value = record.value
        if value is not None and value.endswith(b"}") and value != b"{}":
            at = json.dumps(draw.choice(TIMES[:2] if draw.random() < 0.9 else TIMES))
            text = b', "written": %s, "written at": %s}' % (draw.choice(NUMBERS).encode(), at.encode())
            value = value[:-1] + text
        made.append(
            Record(record.topic, record.partition, record.offset, record.timestamp, record.key, value, record.headers)
        )
    return made


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_what_a_draft_takes_for_good_is_read(seed: int) -> None:
    draw, made = Random(seed), 0
    for _ in range(8):
        records = numbers_as_written(draw, Draw(draw).log())
        sample = Sample("there", records)
        try:
            opened = open_sample("things", sample)
            chosen = Choices("things", sample, opened).fields
        except NoDraftError:
            continue
        kinds = {field.name: parse_type(field.type) for field in chosen.declared}
        places = {field.name: [parse_place(_place(field.read_as))] for field in chosen.declared}
        for index, message in enumerate(opened.messages):
            if message.value is not None and index not in chosen.rejected:
                faults = fields_of(message.record.value, kinds, places, None)[1]
                assert faults == [], [(name, str(kinds.get(name)), message.value) for name in faults]
                made += 1
    assert made > 0, "hardly any log is refused: else this would prove nothing"


def _place(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'"{quoted}"'


def events_sent(draw: Random) -> tuple[list[Record], list[int]]:
    """A log of events much alike, some of them sent again, and the number of the event that each record is of.

    Ids and sequences, where there are any, are right: each of one event, of all events or of some.
    """
    names = draw.sample(["shop_id", "visitor_no", "page_id", "amount", "status", "line", "ticket_no"], 3)
    sizes = {name: draw.choice((1, 2, 3, 8, 1000)) for name in names}
    share = {mark: draw.choice((0.0, 0.0, 0.6, 1.0)) for mark in ("message-id", "sequence", "event_id")}
    repeats = draw.choice((0, 1, 5))
    count = draw.choice((3, 20, 60))
    bodies = [{name: draw.randrange(size) for name, size in sizes.items()} for _ in range(count)]
    given = [{mark for mark, part in share.items() if draw.random() < part} for _ in range(count)]
    numbers = [*range(count), *(draw.randrange(count) for _ in range(repeats))]
    log = []
    for offset, number in enumerate(numbers):
        body = bodies[number] | ({"event_id": f"e-{number}"} if "event_id" in given[number] else {})
        headers = [("producer", "p"), ("sequence", str(number))] if "sequence" in given[number] else []
        headers += [("message-id", f"m-{number}")] if "message-id" in given[number] else []
        log.append(Record("a.b", 0, offset, offset, None, json.dumps(body).encode(), tuple(headers)))
    return log, numbers


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), exact=st.booleans())
def test_the_drafted_identity_folds_no_two_events(seed: int, exact: bool) -> None:
    """L6 of a draft: each event has a row, by a fold that is written here. What differs is a conflict, and seen."""
    records, numbers = events_sent(Random(seed))
    sample = Sample("there", records, exact=exact)
    try:
        chosen = Choices("sales", sample, open_sample("sales", sample))
    except NoDraftError:
        return
    found = chosen.drafted_business_key or chosen.message_id
    if found is None:
        assert exact, "without an identity only an exact position keeps messages apart"
        return
    contents = contents_of(chosen.kept, chosen.fields.declared)
    survivors: dict[tuple[str | None, ...], tuple[int, str]] = {}
    for record, number, content in zip(records, numbers, contents, strict=True):
        parts = {f"header.{name}": value for name, value in record.headers}
        parts |= {name: str(value) for name, value in json.loads(record.value or b"").items()}
        key = tuple(parts.get(expression) for expression in found.expressions)
        if None not in key:  # else it is rejected, and seen
            of, first = survivors.setdefault(key, (number, content))
            assert of == number or first != content, (found, key)
