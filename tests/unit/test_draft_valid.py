"""Whatever the records hold, a draft is a dataset file that `validate` takes, or a sentence with exit code 2."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.dataset import load_dataset
from onefold.draft import Export, Sample, Topics, draft_dataset, text_of
from onefold.errors import NoDraftError
from onefold.landing.record import Record

GOOD = ("id", "order_id", "userId", "n", "kind", "version", "updated_at", "event_id", "amount", "seq", "op", "tags")
ODD = (
    "ID", "N", "key", "value", "header", "offset", "timestamp", "topic", "partition", "null", "true", "no", "on", "y",
    "and", "or", "not", "in", "is", "long", "string", "two words", "dot.ted", "a-b", "ünï", "", "_own", "1st", "#",
    "_key", "- x", ": ", "{", "'", '"', "\n", "\u2028", "\ud7ff", "\U0001f600", "a: b", "x" * 70, "before", "after",
    "message-id", "producer", "sequence", "x-id",
)  # fmt: skip
TEXTS = ("2026-03-01", "2026-03-01T08:00:00Z", "12.50", "-0.30", "7", "a", "b", "", "é", "\x00", "'", "null")


@dataclass
class Draw:
    """Logs much alike from one seed: a few keys, headers and shapes of values again and again, and some junk."""

    random: Random

    def log(self) -> list[Record]:
        pick = self.random.choice
        names = [*self.random.sample(GOOD, 3), *self.random.sample(ODD, self.random.randrange(4))]
        shapes = {name: self.random.randrange(7) for name in names}
        keys = [self.key() for _ in range(pick((1, 1, 3, 6)))]
        titles = self.random.sample((*GOOD, *ODD), self.random.randrange(3))
        log = []
        for number in range(pick((1, 3, 12, 40))):
            value = {name: self.value(shape) for name, shape in shapes.items() if self.random.random() < 0.97}
            payload = pick([json.dumps(value).encode()] * 12 + [None, b"oops"])
            headers = tuple((title, pick([str(number), str(number // 2), None])) for title in titles)
            log.append(Record("a.b", number % 2, number, 1_772_323_200_000, pick(keys), payload, headers))
        return log

    def key(self) -> bytes | None:
        names = self.random.sample((*GOOD, *ODD), self.random.randrange(1, 3))
        parts = json.dumps({name: self.value(self.random.randrange(4)) for name in names}).encode()
        return self.random.choice([None, b"a-1", b"\x00\xff", b"17", parts, parts, parts])

    def value(self, shape: int) -> Any:
        match shape if self.random.random() < 0.95 else self.random.randrange(8):
            case 0:
                return self.random.choice(TEXTS)
            case 1:
                return self.random.choice([1, 2, 1_772_323_200_000, 2**63, -(10**40)])
            case 2:
                return str(UUID(int=self.random.randrange(5)))
            case 3:
                return self.random.choice([1, 2, 3])
            case 4:
                return self.random.choice([0.1, 1.25, -3.125, 1e300, 7, True])
            case 5:
                return [self.value(self.random.randrange(8)) for _ in range(self.random.randrange(3))]
            case 6:
                return {name: self.value(self.random.randrange(8)) for name in self.random.sample((*GOOD, *ODD), 2)}
            case _:
                return None


SOURCES = (
    Export("exports/", "kcat"),
    Export("exports/: #'\"\x07 ü/", "connect", "c", "a.b"),
    Topics("no", ("a.b", "^a.*#")),
)


def check(records: list[Record], source: Export | Topics, missing: int = 0) -> bool:
    """Draft and load; False: a sentence instead of a file."""
    sample = Sample("there", records, missing=missing, exact=source is not SOURCES[1])
    try:
        text = text_of(draft_dataset("things", source, sample))
    except NoDraftError:
        return False
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "things.yaml"
        file.write_text(text, encoding="utf-8")
        dataset = load_dataset(file)
    if isinstance(source, Export):
        assert dataset.source.exports is not None
        assert dataset.source.exports.path == source.path
    else:
        assert dataset.source.kafka is not None
        assert dataset.source.kafka.topics == list(source.topics)
    return True


def test_a_field_that_is_called_like_a_part_of_the_key_is_no_version_and_one_that_begins_like_it_is_a_key() -> None:
    def log(key: dict[str, Any] | str, *values: dict[str, Any]) -> list[Record]:
        data = key.encode() if isinstance(key, str) else json.dumps(key).encode()
        return [Record("a.b", 0, n, None, data, json.dumps(one).encode(), ()) for n, one in enumerate(values)]

    assert check(log({"sequence": 2}, *({"n": n, "sequence": n} for n in range(3))), SOURCES[0])
    assert check(log("a-1", *({"key_id": "a-1", "n": n} for n in range(3))), SOURCES[0])


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_a_draft_is_valid(seed: int) -> None:
    draw = Draw(Random(seed))
    made = sum(check(draw.log(), draw.random.choice(SOURCES), draw.random.randrange(3)) for _ in range(8))
    assert made >= 1, "hardly any log is refused: else this would prove nothing"


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"null": 1, "key": 2, "offset": 3, "yes": 4}, {"null": "a"}),
        ({"key": 1, "KEY": 2, "x": 3}, "a"),
        ({"id": "a", "x": 1}, {"id": "a", "ID": "b"}),
        ({"id": "a", "x": 1}, {"in": 1}),
        ({"Id": 1.5, "id": [1]}, None),
        ({"id": "a", "x": 1}, {"_key": 1, "_order": 1}),
        ({"id": "a", "x": 1}, {"_Version": 1, "id": "a"}),
        ({"id": "a", "x": 1}, {"_id": "a"}),
    ],
)
def test_names_that_mean_something_else_are_no_trap(value: Any, key: Any) -> None:
    data = None if key is None else json.dumps(key).encode()
    first = Record("a.b", 0, 0, None, data, json.dumps(value).encode(), (("and", "1"), ("message id", "2")))
    for source in SOURCES:
        check([first, Record("a.b", 0, 1, None, data, None)], source)
