"""What `init` takes for good, a run takes: its types are those of the strict decoder, on drawn samples."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.dataset.names import parse_place
from onefold.dataset.types import parse_type
from onefold.draft.choices import Choices
from onefold.draft.sample import Sample
from onefold.draft.values import open_sample
from onefold.errors import NoDraftError
from onefold.landing.record import Record
from onefold.proof.decode import fields_of
from tests.support.drafts import Draw

TIMES = ("2026-03-01T09:01Z", "2026-03-01T09:01:02.1234560Z", "2026-03-01T09:01:02.123456789Z", "2026-03-01 09:01")
NUMBERS = ("1e3", "1.0", "0E-8", "1E+3", "1.5e2", "12345678901234567890", "1e-7", "0.10", "-0", "1e300")


def numbers_as_written(draw: Random, records: list[Record]) -> list[Record]:
    """The same log with more ways to write numbers and times in a field."""
    made = []
    for one in records:
        value = one.value
        if value is not None and value.endswith(b"}") and value != b"{}":
            at = json.dumps(draw.choice(TIMES[:2] if draw.random() < 0.9 else TIMES))
            text = b', "written": %s, "written at": %s}' % (draw.choice(NUMBERS).encode(), at.encode())
            value = value[:-1] + text
        made.append(Record(one.topic, one.partition, one.offset, one.timestamp, one.key, value, one.headers))
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
                assert faults == [], [(str(kinds[name]), places[name], message.value) for name in faults]
                made += 1
    assert made > 0, "hardly any log is refused: else this would prove nothing"


def _place(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'"{quoted}"'
