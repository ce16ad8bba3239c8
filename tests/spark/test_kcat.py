"""kcat's JSON lines: one object a line is a record; anything else keeps its bytes and is unreadable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset.source import Origin
from onefold.records import envelope as E
from onefold.records.layouts.kcat import read_kcat
from onefold.records.text_lines import TextObject

GOOD = b'{"topic":"t","partition":3,"offset":7,"tstype":"create","ts":1000,"broker":1,%s"key":"k","payload":"p"}'
LINE = GOOD % b""
NOT_A_LINE = "not a line of kcat -J with topic, partition and offset"
NOT_BYTES = "payload and key of a line of kcat -J are strings or null"


def text_object(name: str, file: Path) -> TextObject:
    return TextObject(name, file.as_uri(), file.stat().st_size)


def good(**differs: Any) -> dict[str, Any]:
    """The envelope of `LINE`."""
    row = {"_topic": "t", "_partition": 3, "_offset": 7, "_timestamp": 1000, "_key_bytes": b"k", "_value_bytes": b"p"}
    return {**row, "_headers": [], "_unreadable": None, **differs}


def unreadable(line: bytes) -> dict[str, Any]:
    """The envelope of a line that is no record."""
    none = dict.fromkeys(("_topic", "_partition", "_offset", "_timestamp", "_key_bytes", "_headers"))
    return {**none, "_value_bytes": line, "_unreadable": NOT_A_LINE}


def not_bytes(line: bytes) -> dict[str, Any]:
    """The envelope of a record whose position can be read, but not its payload or key."""
    return good(_key_bytes=None, _headers=None, _value_bytes=line, _unreadable=NOT_BYTES)


def undecoded(line: bytes, part: str, error: str) -> dict[str, Any]:
    """The envelope of a record whose payload or key kcat could not decode: a null, but no tombstone."""
    return not_bytes(line) | {"_unreadable": f"kcat could not decode the {part}: {error}"}


def pair(key: str, value: str | bytes | None) -> dict[str, str | bytes | None]:
    """A header."""
    return {"key": key, "value": value.encode() if isinstance(value, str) else value}


def named(*words: bytes) -> bytes:
    """`LINE` with headers."""
    return GOOD % (b'"headers":[' + b",".join(words) + b"],")


BAD_KEY = LINE.replace(b'"k"', b'"\xff"')
BAD_VALUE = LINE.replace(b'"p"', b'"\xc3("')
ANY = b'"' + b"".join(b"\\u%04x" % n if n < 32 or n in b'"\\' else bytes([n]) for n in range(256)) + b'"'
MIXED = LINE.replace(b'"k"', b'"\xff\\ue080"')
NO_PAYLOAD = LINE.replace(b',"payload":"p"', b"")
HUGE = LINE.replace(b'"p"', b'"' + b"p" * 16_000_000 + b'"')
HALF = LINE[:-20]
DEEP, TOO_DEEP = (LINE.replace(b'"p"', b"[" * levels + b"]" * levels) for levels in (499, 500))
FAILED = LINE.replace(b'"p"', b'null,"payload_error":"Failed to fetch schema: Host not found"')
FAILED_KEY = LINE.replace(b'"k"', b'null,"key_error":"no schema 7"')
FAILED_LONG = LINE.replace(b'"p"', b'null,"payload_error":"' + b"e" * 400 + b'"')
FAILED_ODDLY = LINE.replace(b'"p"', b'null,"payload_error":{"code":7}')
NOT_FAILED = LINE.replace(b'"p"', b'null,"payload_error":null,"key_error":null')
LINES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "a record": (LINE, good()),
    "white space around": (b"  " + LINE + b" \t", good()),
    "a carriage return": (LINE + b"\r", good()),
    "no timestamp": (LINE.replace(b'"tstype":"create","ts":1000,', b""), good(_timestamp=None)),
    "null key": (LINE.replace(b'"k"', b"null"), good(_key_bytes=None)),
    "empty key": (LINE.replace(b'"k"', b'""'), good(_key_bytes=b"")),
    "null payload": (LINE.replace(b'"p"', b"null"), good(_value_bytes=None)),
    "empty payload": (LINE.replace(b'"p"', b'""'), good(_value_bytes=b"")),
    "escapes": (LINE.replace(b'"p"', b'"\\"\\\\\\n\\u0001\xc3\xa9"'), good(_value_bytes=b'"\\\n\x01\xc3\xa9')),
    "brackets inside the payload": (LINE.replace(b'"p"', b'"[{}]}]"'), good(_value_bytes=b"[{}]}]")),
    "offset above 2^53": (LINE.replace(b":7,", b":9007199254740993,"), good(_offset=9007199254740993)),
    "headers": (named(b'"a"', b'"1"', b'"b"', b"null"), good(_headers=[pair("a", "1"), pair("b", None)])),
    "equal headers": (named(b'"a"', b'"1"', b'"a"', b'"2"'), good(_headers=[pair("a", "1"), pair("a", "2")])),
    "a header without a name": (named(b'"a"', b'"1"', b"null", b'"2"'), good(_headers=None)),
    "a number as a header's name": (named(b"5", b'"1"'), good(_headers=None)),
    "a number as a header's value": (named(b'"a"', b"1.10"), good(_headers=[pair("a", "1.10")])),
    "no headers": (named(), good()),
    "one word too many": (named(b'"a"', b'"1"', b'"b"'), good(_headers=[pair("a", "1")])),
    "one word": (named(b'"a"'), good()),
    "two objects": (LINE + LINE, unreadable(LINE + LINE)),
    "two objects with a comma": (LINE + b"," + LINE, unreadable(LINE + b"," + LINE)),
    "junk behind": (LINE + b" junk", unreadable(LINE + b" junk")),
    "junk before": (b"% " + LINE, unreadable(b"% " + LINE)),
    "a bracket behind": (LINE + b" ]", unreadable(LINE + b" ]")),
    "a bracket and an object behind": (LINE + b"],[" + LINE, unreadable(LINE + b"],[" + LINE)),
    "a brace behind": (LINE + b"}", unreadable(LINE + b"}")),
    "an array": (b"[" + LINE + b"]", unreadable(b"[" + LINE + b"]")),
    "cut off": (HALF, unreadable(HALF)),
    "blank": (b"", unreadable(b"")),
    "spaces": (b"  ", unreadable(b"  ")),
    "null": (b"null", unreadable(b"null")),
    "an empty object": (b"{}", unreadable(b"{}")),
    "no offset": (LINE.replace(b'"offset":7,', b""), unreadable(LINE.replace(b'"offset":7,', b""))),
    "no payload": (NO_PAYLOAD, not_bytes(NO_PAYLOAD)),
    "a number as payload": (LINE.replace(b'"p"', b"1.10"), not_bytes(LINE.replace(b'"p"', b"1.10"))),
    "an object as payload": (LINE.replace(b'"p"', b'{"a":1}'), not_bytes(LINE.replace(b'"p"', b'{"a":1}'))),
    "a payload of 499 levels": (DEEP, not_bytes(DEEP)),
    "a payload of 500 levels": (TOO_DEEP, unreadable(TOO_DEEP)),
    "a number as key": (LINE.replace(b'"k"', b"1"), not_bytes(LINE.replace(b'"k"', b"1"))),
    "a payload that was not decoded": (
        FAILED,
        undecoded(FAILED, "payload", "Failed to fetch schema: Host not found"),
    ),
    "a key that was not decoded": (FAILED_KEY, undecoded(FAILED_KEY, "key", "no schema 7")),
    "a long error": (FAILED_LONG, undecoded(FAILED_LONG, "payload", "e" * 300)),
    "an error that is no text": (FAILED_ODDLY, undecoded(FAILED_ODDLY, "payload", '{"code": 7}')),
    "no error": (NOT_FAILED, good(_value_bytes=None)),
    "no key": (LINE.replace(b'"key":"k",', b""), good(_key_bytes=None)),
    "a line of 16 MB": (HUGE, unreadable(HUGE) | {"_unreadable": "the line has more than 16,000,000 bytes"}),
    "key not UTF-8": (BAD_KEY, good(_key_bytes=b"\xff")),
    "payload not UTF-8": (BAD_VALUE, good(_value_bytes=b"\xc3(")),
    "every byte, some of them escaped": (LINE.replace(b'"k"', ANY), good(_key_bytes=bytes(range(256)))),
    "bytes that look like others once they are shifted": (
        LINE.replace(b'"k"', b'"\xee\x82\x80\xee\x83\xbf\xff\xee\x83\x82"'),
        good(_key_bytes=b"\xee\x82\x80\xee\x83\xbf\xff\xee\x83\x82"),
    ),
    "text next to bytes that are no text": (
        LINE.replace(b'"k"', b'"\xff"').replace(b'"p"', '"é€𝄞\\u00e9\\ud834\\udd1e"'.encode()),
        good(_key_bytes=b"\xff", _value_bytes="é€𝄞é𝄞".encode()),
    ),
    "half of a surrogate pair": (LINE.replace(b'"k"', b'"a\\ud83d"'), good(_key_bytes=b"a\xed\xa0\xbd")),
    "the other half, and a pair": (
        LINE.replace(b'"p"', b'"\\ude00\\ud83d\\ude00\\ud83d\\ud83d\\ude00"'),
        good(_value_bytes=b"\xed\xb8\x80" + "😀".encode() + b"\xed\xa0\xbd" + "😀".encode()),
    ),
    "an escaped backslash before a u": (
        LINE.replace(b'"p"', b'"\\\\ud83d \\\\\\ud83d"'),
        good(_value_bytes=b"\\ud83d \\\xed\xa0\xbd"),
    ),
    "headers that are no text": (
        named(b'"a\xc3\xa9"', b'"\xff"', b'"b"', b'"\\udc00"'),
        good(_headers=[pair("aé", b"\xff"), pair("b", b"\xed\xb0\x80")]),
    ),
    "headers as a map": (
        GOOD % b'"headers":{"a":"1","b":null},',
        good(_headers=[pair("a", "1"), pair("b", None)]),
    ),
    "headers that are neither": (GOOD % b'"headers":"a=1",', good(_headers=None)),
    "a byte order mark": (b"\xef\xbb\xbf" + LINE, good()),
    "letters that stand for bytes": (
        MIXED,
        good(_key_bytes=b"\xff\xee\x82\x80"),
    ),
    "what nothing reads is not UTF-8": (LINE.replace(b'"create"', b'"\xff"'), good()),
    "line not UTF-8": (b"\xff\xfe", unreadable(b"\xff\xfe")),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Every line, each as a file of its own, read in one job."""
    folder = tmp_path_factory.mktemp("kcat")
    for number, (line, _) in enumerate(LINES.values()):
        (folder / f"{number:06d}-x.jsonl").write_bytes(line + b"\n")
    objects = [text_object(case, folder / f"{number:06d}-x.jsonl") for number, case in enumerate(LINES)]
    rows = read_kcat(spark, objects, Origin(cluster="c", incarnation=2)).toArrow().to_pylist()
    assert sorted(row[E.OBJECT] for row in rows) == sorted(LINES)
    return {row.pop(E.OBJECT): row for row in rows}


@pytest.mark.parametrize("case", LINES)
def test_a_line_gives_its_record_or_is_kept_as_it_is(found: dict[str, dict[str, Any]], case: str) -> None:
    own = {"_cluster": "c", "_incarnation": 2, "_line": None} | dict.fromkeys(E.OF_THE_LOG)
    assert found[case] == LINES[case][1] | own


def test_a_file_without_a_last_line_end_and_an_empty_file_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE + b"\n" + LINE.replace(b":7,", b":8,"))
    (tmp_path / "b.jsonl").write_bytes(b"")
    objects = [text_object(name, tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    rows = read_kcat(spark, objects, Origin(cluster="c")).select(E.OBJECT, E.OFFSET).collect()
    assert sorted(tuple(row) for row in rows) == [("a.jsonl", 7), ("a.jsonl", 8)]
