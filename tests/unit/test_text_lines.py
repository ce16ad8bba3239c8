"""Objects of lines are read in parts: each line by the part that it begins in, whole, and once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.formats.kcat import read_line, read_lines
from onefold.records import text_lines
from onefold.records.text_lines import part_of, whole_lines
from onefold.storage import LocalStorage

TEXTS = [b"", b"\n", b"one", b"one\n", b"one\ntwo", b"\n\none\n\ntwo\n", b"a long line, longer than a look\nb\nc"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("look", [1, 3, 64])
def test_each_line_is_in_one_part(text: bytes, look: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "_LOOK", look)
    monkeypatch.setattr(text_lines, "_PIECE", look)
    (tmp_path / "x").write_bytes(text)
    store, size = LocalStorage(tmp_path), len(text)
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    for step in range(1, size + 2):
        pieces = [
            piece
            for start in range(0, size, step)
            for piece in whole_lines(part_of(store, "x", size, start, min(start + step, size)))
        ]
        assert [line for piece in pieces for line in piece.split(b"\n")] == lines, step


PLAIN = {
    "topic": "t",
    "partition": 0,
    "offset": 1,
    "tstype": "create",
    "ts": 5,
    "broker": 0,
    "key": None,
    "payload": "p",
}
ODD = [
    b"",
    b" ",
    b"{}",
    b"no line",
    json.dumps(PLAIN | {"other": 1}).encode(),
    json.dumps(PLAIN | {"headers": ["a", "b", "c", None]}).encode(),
    json.dumps(PLAIN | {"headers": [None, "b"]}).encode(),
    json.dumps(PLAIN | {"payload": None, "payload_error": "no schema"}).encode(),
    json.dumps(PLAIN | {"payload": "\ud83d"}).encode(),
    json.dumps(PLAIN | {"payload": "}\n{"}).encode(),
    json.dumps(PLAIN | {"payload": "\u2028 \u00e9"}, ensure_ascii=False).encode(),
    json.dumps(PLAIN).encode().replace(b'"p"', b'"\xff"'),
    json.dumps(PLAIN).encode() + b"\r",
    json.dumps(PLAIN).encode() + b",",
    json.dumps(PLAIN).encode() + b"," + json.dumps(PLAIN).encode(),
    # Parts of lines that are a record together.
    b'{"topic":"t","partition":0,"offset":1,"payload":"}',
    b'{"}',
    b'{"topic":"t","partition":0,"offset":1,"payload":null,"other":[{}',
    b'{"x":1}],"ts":1}',
    b'{"topic":"t","partition":0,"offset":1,"payload":null,"headers":["}',
    b'{"]}',
]
LINES = st.sampled_from([json.dumps(PLAIN).encode(), *ODD]) | st.integers(0, 2**63 - 1).map(
    lambda offset: json.dumps(PLAIN | {"offset": offset}).encode()
)


@given(st.lists(LINES, min_size=1, max_size=5))
def test_lines_that_are_decoded_together_are_what_each_is_alone(lines: list[bytes]) -> None:
    _expect_alike(lines)


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_line_changes_none_of_its_neighbours(odd: bytes) -> None:
    plain = json.dumps(PLAIN).encode()
    for others in ([odd], [plain, odd], [odd, plain], [plain, odd, plain], [odd, odd]):
        _expect_alike(others)


def test_two_lines_that_are_one_object_together_are_no_record_though_another_line_is_two() -> None:
    plain = json.dumps(PLAIN).encode()
    whole, half = plain[:-1] + b',"other":[{}', b'{"x":1}],"ts":1}'
    _expect_alike([whole, half, plain + b"," + plain])
    assert [problem is None for problem in read_lines(b"\n".join([whole, half, plain])).problem] == [False, False, True]


def _expect_alike(lines: list[bytes]) -> None:
    found, alone = read_lines(b"\n".join(lines)), [read_line(line) for line in lines]
    for name in ("topic", "partition", "offset", "timestamp", "headers", "problem"):
        assert getattr(found, name) == [getattr(record, name) for record in alone], name
    given = [text.encode() if isinstance(text, str) else text for text in found.key]
    assert given == [record.key for record in alone]
    given = [text.encode() if isinstance(text, str) else text for text in found.value]
    assert given == [line if record.problem else record.value for line, record in zip(lines, alone, strict=True)]
