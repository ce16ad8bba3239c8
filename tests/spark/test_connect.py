"""The Connect sink's JSON objects: a value a line, keys and headers in companions, offsets inferred."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset.source import Origin
from onefold.errors import ObjectTooLargeError
from onefold.formats.connect import LARGEST
from onefold.landing.manifest import LandedObject
from onefold.records import envelope as E
from onefold.records.layouts.connect import read_connect

UNEVEN = "keys or headers do not have one line a value"
NAME = "topics/t/partition=0/t+0+%010d%s.json"


def landed(folder: Path, files: dict[tuple[int, str], bytes]) -> list[tuple[LandedObject, str]]:
    """Objects as the landing holds them, by (first offset, role)."""
    found = []
    for number, ((start, role), content) in enumerate(files.items()):
        file = folder / f"{number:06d}-t_0_{start:010d}.json"
        file.write_bytes(content)
        name = NAME % (start, "" if role == "values" else f".{role}")
        object_ = LandedObject(
            name=name, key=file.name, size=len(content), sha256="", role=role, topic="t", partition=0, start=start
        )
        found.append((object_, file.as_uri()))
    return found


def read(spark: SparkSession, folder: Path, files: dict[tuple[int, str], bytes]) -> list[dict[str, Any]]:
    """The envelope in the order of offsets, without what is the same in every row."""
    rows = read_connect(spark, landed(folder, files), Origin(cluster="c", incarnation=2)).toArrow().to_pylist()
    same = {"_cluster": "c", "_topic": "t", "_incarnation": 2, "_partition": 0, "_timestamp": None}
    same |= dict.fromkeys(E.OF_THE_LOG)
    assert all({name: row.pop(name) for name in same} == same for row in rows)
    return sorted(rows, key=lambda row: row["_offset"])


def row(start: int, line: int, value: bytes | None, key: bytes | None = None, **differs: Any) -> dict[str, Any]:
    """One record of the object that begins at `start`."""
    own = {"_offset": start + line - 1, "_line": line, "_object": NAME % (start, "")}
    return own | {"_value_bytes": value, "_key_bytes": key, "_headers": [], "_unreadable": None} | differs


def test_values_meet_their_keys_and_headers_line_by_line(spark: SparkSession, tmp_path: Path) -> None:
    files = {
        (5, "values"): b'{"a":1}\nnull\n  \n{"b":"\xff"}\n',
        (5, "keys"): b'"k1"\n{"id":7}\nnull\n8\n',
        (5, "headers"): (
            b'{"headers":[{"key":"h","value":"1"},{"key":"h","value":"2"}]}\n{"headers":[]}\nnull\n'
            b'{"headers":[{"key":"h","value":null}]}\n'
        ),
        (90, "values"): b"{}",
        (90, "keys"): b'"\\u00e9\\""',
        (90, "headers"): b'{"headers":[]}',
    }
    assert read(spark, tmp_path, files) == [
        row(5, 1, b'{"a":1}', b"k1", _headers=[{"key": "h", "value": b"1"}, {"key": "h", "value": b"2"}]),
        row(5, 2, None, b'{"id":7}'),
        row(5, 3, b"  ", None),
        row(5, 4, b'{"b":"\xff"}', b"8", _headers=[{"key": "h", "value": None}]),
        row(90, 1, b"{}", 'é"'.encode()),
    ]


def test_values_alone_have_no_keys(spark: SparkSession, tmp_path: Path) -> None:
    assert read(spark, tmp_path, {(0, "values"): b"1\n\n2\n"}) == [
        row(0, 1, b"1"),
        row(0, 2, b""),
        row(0, 3, b"2"),
    ]


def test_a_companion_that_lacks_a_line_makes_its_object_unreadable_and_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = {
        (0, "values"): b"1\n2\n",
        (0, "keys"): b'"a"\n',
        (10, "values"): b"3\n",
        (10, "keys"): b'"c"\n',
    }
    assert read(spark, tmp_path, files) == [
        row(0, 1, b"1", b"a", _unreadable=UNEVEN),
        row(0, 2, b"2", None, _unreadable=UNEVEN),
        row(10, 1, b"3", b"c"),
    ]


def test_bytes_that_are_not_utf8_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    every = bytes(byte for byte in range(256) if byte != 10)
    assert read(spark, tmp_path, {(0, "values"): every + b"\nnext\n", (0, "keys"): b'\xff\n"k"\n'}) == [
        row(0, 1, every, b"\xff"),
        row(0, 2, b"next", b"k"),
    ]


def test_an_empty_object_holds_no_record(spark: SparkSession, tmp_path: Path) -> None:
    files = {(0, "values"): b"", (0, "keys"): b"", (10, "values"): b"1\n", (10, "keys"): b'"k"\n'}
    assert read(spark, tmp_path, files) == [row(10, 1, b"1", b"k")]


def test_an_object_that_a_task_cannot_hold_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    [(object_, uri)] = landed(tmp_path, {(0, "values"): b"1\n"})
    huge = object_.model_copy(update={"size": LARGEST + 1})
    with pytest.raises(ObjectTooLargeError, match=r"t\+0\+0000000000"):
        read_connect(spark, [(huge, uri)], Origin(cluster="c"))
