"""Lines of Aiven's sink: exactly one JSON object, whose value stays the text as it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.dataset.layouts.aiven import Encoding
from onefold.formats import aiven
from onefold.formats.aiven import Line, read_exactly, read_line

PLAIN = Encoding()
NO_VALUE = "the line has no value: format.output.fields must name it"
NO_OBJECT = "the line is not one JSON object"
NO_OFFSET = "the line has no offset: format.output.fields must name it"
NO_TIME = "the timestamp is no instant such as 2026-01-01T00:00:01Z"
NO_HEADERS = "the headers are no list of objects with key and value"

LINES: dict[str, tuple[bytes, Line]] = {
    "all fields": (
        b'{"key":"k","value":"v","offset":7,"timestamp":"2026-01-01T00:00:01Z","headers":[{"key":"h","value":"1"}]}',
        Line(7, 1767225601000, b"k", b"v", (("h", b"1"),)),
    ),
    "another order, and spaces": (b' { "offset" : 7 , "value" : "v" } \r', Line(7, None, None, b"v")),
    "milliseconds": (
        b'{"value":"v","offset":7,"timestamp":"2026-01-01T00:00:01.5Z"}', Line(7, 1767225601500, None, b"v"),
    ),
    "a timestamp in numbers": (
        b'{"value":"v","offset":7,"timestamp":1767225601500}', Line(7, 1767225601500, None, b"v"),
    ),
    "no timestamp": (b'{"value":"v","offset":7,"timestamp":null}', Line(7, None, None, b"v")),
    "a tombstone": (b'{"key":"k","value":null,"offset":0,"headers":null}', Line(0, None, b"k", None)),
    "an empty value": (b'{"value":"","offset":7}', Line(7, None, None, b"")),
    "a value of JSON stays its text": (
        b'{"value":{"a" : 1.10, "b":1e2,"n":12345678901234567890123456789012345678901234567890.5,"a":2},"offset":7}',
        Line(7, None, None, b'{"a" : 1.10, "b":1e2,"n":12345678901234567890123456789012345678901234567890.5,"a":2}'),
    ),
    "a key of JSON, too": (b'{"key":{"id": 1},"value":1.0,"offset":7}', Line(7, None, b'{"id": 1}', b"1.0")),
    "escapes": (b'{"value":"{\\"a\\":\\"\\u00e9\\"}","offset":7}', Line(7, None, None, '{"a":"é"}'.encode())),
    "the last of equal names counts": (b'{"value":"v","offset":1,"offset":7}', Line(7, None, None, b"v")),
    "headers that are no texts": (
        b'{"value":"v","offset":7,"headers":[{"key":"h","value":7},{"key":"h","value":null},{"key":"j","value":{"a":1}}]}',
        Line(7, None, None, b"v", (("h", b"7"), ("h", None), ("j", b'{"a": 1}'))),
    ),
    "the largest offset": (b'{"value":"v","offset":9223372036854775807}', Line(2**63 - 1, None, None, b"v")),
    "junk behind": (b'{"value":"v","offset":7} junk', Line(problem=NO_OBJECT)),
    "two objects": (b'{"value":"v","offset":7}{}', Line(problem=NO_OBJECT)),
    "cut off": (b'{"value":"v","offs', Line(problem=NO_OBJECT)),
    "an array": (b'[{"value":"v","offset":7}]', Line(problem=NO_OBJECT)),
    "NaN": (b'{"value":NaN,"offset":7}', Line(problem=NO_OBJECT)),
    "a comma too many": (b'{"value":"v","offset":7,}', Line(problem=NO_OBJECT)),
    "a name that is none": (b'{7:"v","offset":7}', Line(problem=NO_OBJECT)),
    "blank": (b"", Line(problem=NO_OBJECT)),
    "an endless nest": (b'{"value":' + b"[" * 100_000, Line(problem=NO_OBJECT)),
    "not UTF-8": (b'{"value":"\xff","offset":7}', Line(7, None, None, b"\xff")),
    "a key and a header that are not UTF-8": (
        b'{"key":"\\u0000\x80","value":"v","offset":7,"headers":[{"key":"h","value":"\xe9"}]}',
        Line(7, None, b"\x00\x80", b"v", (("h", b"\xe9"),)),
    ),
    "a byte order mark": (b'\xef\xbb\xbf{"value":"v","offset":7}', Line(7, None, None, b"v")),
    "a number in a header, digit by digit": (
        b'{"value":"v","offset":7,"headers":[{"key":"h","value":1.10}]}', Line(7, None, None, b"v", (("h", b"1.10"),)),
    ),
    "no offset": (b'{"value":"v"}', Line(problem=NO_OFFSET)),
    "an offset that is text": (b'{"value":"v","offset":"7"}', Line(problem=NO_OFFSET)),
    "an offset that is true": (b'{"value":"v","offset":true}', Line(problem=NO_OFFSET)),
    "a negative offset": (b'{"value":"v","offset":-1}', Line(problem=NO_OFFSET)),
    "an empty object": (b"{}", Line(problem=NO_OFFSET)),
    "no value": (b'{"key":"k","offset":7}', Line(7, problem=NO_VALUE)),
    "a timestamp that is no long": (
        b'{"value":"v","offset":7,"timestamp":9223372036854775808}', Line(7, problem="the timestamp is no long"),
    ),
    "a local time": (b'{"value":"v","offset":7,"timestamp":"2026-01-01T00:00:01"}', Line(7, problem=NO_TIME)),
    "no such day": (b'{"value":"v","offset":7,"timestamp":"2026-02-30T00:00:01Z"}', Line(7, problem=NO_TIME)),
    "headers of another kind": (b'{"value":"v","offset":7,"headers":{"h":"1"}}', Line(7, problem=NO_HEADERS)),
    "half of a surrogate pair": (b'{"value":"a\\ud800","offset":7}', Line(7, None, None, b"a\xed\xa0\x80")),
    "in a header, too": (
        b'{"value":"v","offset":7,"headers":[{"key":"h","value":"\\ude00"}]}',
        Line(7, None, None, b"v", (("h", b"\xed\xb8\x80"),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_a_line_is_a_record_or_says_why_it_is_none(case: str) -> None:
    line, expected = LINES[case]
    assert read_line(line, PLAIN) == expected


def test_base64_is_unpacked_only_where_the_dataset_file_says_so() -> None:
    line = b'{"key":"aw==","value":"/wA=","offset":7,"headers":[{"key":"h","value":"MQ=="},{"key":"b","value":"/w=="}]}'
    packed = Encoding(key="base64", value="base64", headers="base64")
    assert read_line(line, packed) == Line(7, None, b"k", b"\xff\x00", (("h", b"1"), ("b", b"\xff")))
    assert read_line(line, PLAIN).value == b"/wA="
    broken = read_line(b'{"value":"v!","offset":7}', Encoding(value="base64"))
    assert broken == Line(7, problem="the value is not base64, as source.exports.encoding.value says")
    assert read_line(b'{"value":{"a":1},"offset":7}', Encoding(value="base64")).problem == broken.problem


BASE64 = Encoding(key="base64", value="base64", headers="base64")
SOUND = [
    "null",
    '"text"',
    '"eHg="',
    '""',
    "7",
    "0",
    "-0",
    "1.10",
    "true",
    "false",
    '{"a" : [1.0]}',
    "{}",
    "[]",
    "1e999",
]
BROKEN = ['"\\ud83d"', '"\\u00e9\\q"', "NaN", "01", "[", '"\x01"']
TEXTS: dict[str, list[str]] = {
    "offset": ["0", "9223372036854775807", "9223372036854775808", "-1"],
    "key": [],
    "value": [],
    "timestamp": ['"2026-01-01T00:00:01.5Z"', "1767225601500", "9223372036854775808"],
    "headers": [
        *(f'[{{"key":"h","value":{value}}}]' for value in SOUND),
        "[{}]",
        '[{"key":7}]',
        '[{"key":"h"}]',
        "[null]",
        '{"key":"h"}',
    ],
    "other": BROKEN,
}
MEMBERS = {name: [*SOUND, *more] for name, more in TEXTS.items()}
"""Texts that members of a line may have."""


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in MEMBERS for text in MEMBERS[name]])
@pytest.mark.parametrize("encoding", [PLAIN, BASE64], ids=["plain", "base64"])
def test_each_member_is_read_fast_as_it_is_read_exactly(name: str, text: str, encoding: Encoding) -> None:
    members = {"offset": "7", "value": '"eHg="'} | {name: text}
    line = f"{{{','.join(f'{json.dumps(word)}:{said}' for word, said in members.items())}}}".encode()
    assert read_line(line, encoding) == read_exactly(line, encoding)


@given(
    names=st.lists(st.sampled_from(sorted(MEMBERS)), max_size=8),
    data=st.data(),
    behind=st.sampled_from(["", "", "", " ", "\r", "x", "{}"]),
    encoding=st.sampled_from([PLAIN, BASE64]),
)
def test_a_line_is_read_fast_as_it_is_read_exactly(
    names: list[str], data: st.DataObject, behind: str, encoding: Encoding
) -> None:
    members = ",".join(f'"{name}":{data.draw(st.sampled_from(MEMBERS[name]))}' for name in names)
    line = f"{{{members}}}{behind}".encode()
    assert read_line(line, encoding) == read_exactly(line, encoding)


def test_what_the_sink_writes_goes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiven, "read_exactly", lambda *_: pytest.fail("the exact way"))
    for case in ("all fields", "a timestamp in numbers", "a tombstone", "a value of JSON stays its text", "escapes"):
        line, said = LINES[case]
        assert read_line(line, PLAIN) == said


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_is_read_fast_as_it_is_read_exactly(value: Any) -> None:
    line = json.dumps({"key": value, "offset": 1, "value": {"in": value}}, ensure_ascii=False)
    data = line.encode("utf-8", "surrogatepass")
    assert read_line(data, PLAIN) == read_exactly(data, PLAIN)
