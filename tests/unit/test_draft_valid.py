"""Whatever the records hold, a draft is a dataset file that `validate` takes, or a sentence with exit code 2."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.dataset import load_dataset
from onefold.draft import Export, Sample, Topics, draft_dataset, text_of
from onefold.errors import NoDraftError
from onefold.kafka.record import Record
from tests.support.drafts import Draw

SOURCES = (
    Export("exports/", "kcat"),
    Export("exports/: #'\"\x07 ü/", "connect", "c", "a.b"),
    Topics("no", ("a.b", "^a.*#")),
)


def check(records: list[Record], source: Export | Topics, missing: int = 0, *, compacted: bool = False) -> bool:
    """Draft and load; False: a sentence instead of a file."""
    exact = source is not SOURCES[1]
    sample = Sample("there", records, missing=missing, exact=exact, compacted=compacted and exact)
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
        return [Record("a.b", 0, n, None, data, json.dumps(value).encode(), ()) for n, value in enumerate(values)]

    assert check(log({"sequence": 2}, *({"n": n, "sequence": n} for n in range(3))), SOURCES[0])
    assert check(log("a-1", *({"key_id": "a-1", "n": n} for n in range(3))), SOURCES[0])


@pytest.mark.parametrize("named", ["key", "header", "timestamp", "offset", "topic"])
def test_a_field_that_is_called_like_a_word_of_the_log_leaves_the_word_its_meaning(named: str) -> None:
    key = json.dumps({"producer": "p"}).encode()
    values: list[dict[str, Any] | None] = [{"x": n, named: {"producer": n, "v": n}} for n in range(3)]
    log = [
        Record("a.b", n % 2, n, 0, key, None if value is None else json.dumps(value).encode(), (("v", str(n)),))
        for n, value in enumerate([*values, None])
    ]
    for source in (*SOURCES, Export("exports/", "kcat", topic="a.b")):
        assert check(log, source)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_a_draft_is_valid(seed: int) -> None:
    draw = Draw(Random(seed))
    made = sum(
        check(draw.log(), draw.random.choice(SOURCES), draw.random.randrange(3), compacted=draw.random.random() < 0.5)
        for _ in range(8)
    )
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
        ({"id": "a", "x": 1}, {"{": "a", "#": "b"}),
    ],
)
def test_names_that_mean_something_else_are_no_trap(value: Any, key: Any) -> None:
    data = None if key is None else json.dumps(key).encode()
    first = Record("a.b", 0, 0, None, data, json.dumps(value).encode(), (("and", "1"), ("message id", "2")))
    for source in SOURCES:
        check([first, Record("a.b", 0, 1, None, data, None)], source)
