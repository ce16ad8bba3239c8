"""Exports of other tools are refused with what they are taken for, and what makes a layout of them."""

from __future__ import annotations

import json

import pytest

from onefold.draft.foreign import taken_for

RPK = {"topic": "t", "key": "k", "value": "{}", "timestamp": 1, "partition": 0, "offset": 0}
LENSES = {"key": "k", "value": {}, "metadata": {"topic": "t", "partition": 0, "offset": 0}}
CASES: dict[str, tuple[str, bytes, str, str]] = {
    "rpk, a line": ("t.jsonl", json.dumps(RPK).encode(), "records of `rpk topic consume`", "payload: .value"),
    "rpk, several lines": ("t.json", json.dumps(RPK, indent=2).encode(), "over several lines", "payload: .value"),
    "jq": ("t.json", b'{\n  "a": 1\n}\n', "JSON over several lines, as `jq .` prints it", "jq -c"),
    "an array": ("t-0-0.json", b'[\n{"offset": 0}\n]', "one JSON array", "format.output.type=jsonl"),
    "the console consumer": (
        "t.txt",
        b"CreateTime:1\tPartition:0\tOffset:0\tk\t{}\n",
        "kafka-console-consumer",
        "kcat",
    ),
    "Aiven's CSV": ("t-0-0", b"azE=,eyJpZCI6Im0xIn0=,0,2026-01-01T00:00:00Z,\n", "CSV, as Aiven's sink", "=jsonl"),
    "Lenses": ("4.json", json.dumps(LENSES).encode(), "Lenses' S3 sink with an envelope", "kcat"),
    "another file.delim": ("topics/t-0-0000000000.json", b'{"id": 1}\n', "another file.delim", "file.delim=+"),
    "values alone": ("t/1_22_0.json", b'{"id": 1}\n', "JSON values without topic", "keeps no offsets"),
    "Firehose": ("a.json", b'{"id": 1}{"id": 2}', "Amazon Data Firehose", "new line"),
    "kcat -s": (
        "a.jsonl",
        b'{"topic":"t","partition":0,"offset":0,"payload":{"a":1}}\n',
        "`kcat -J -s …`, whose payload kcat has decoded",
        "without -s",
    ),
    "bytes": ("t+0+0000000000.bin", b"{}", "ByteArrayFormat", "format.class"),
    "UTF-16": ("t.jsonl", '{"topic": "t"}'.encode("utf-16"), "text in UTF-16", "UTF-8"),
    "UTF-16 without a mark": ("t.jsonl", '{"topic": "t"}'.encode("utf-16-be"), "text in UTF-16", "UTF-8"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_export_of_another_tool_is_named_with_what_to_do(case: str) -> None:
    key, begins, what, advice = CASES[case]
    found = taken_for(key, begins)
    assert found
    assert what in found.what
    assert advice in found.advice


@pytest.mark.parametrize("begins", [b"", b"a b\n", b"7\n", b'{"topic":"t","partition":0,"offset":0}', b"\xff\x00\xfe"])
def test_an_unknown_format_is_not_guessed(begins: bytes) -> None:
    assert taken_for("t.jsonl", begins) is None
