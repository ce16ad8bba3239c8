"""Exports that are of no layout: what their first lines look like, and what makes a layout of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from onefold.formats.text import line_of

LOOKED = 4096
"""Bytes of an object that are looked at."""
_CONSOLE = re.compile(r"(CreateTime|LogAppendTime|NoTimestampType):-?\d+\t|Partition:\d+\t|Offset:\d+\t")
_CSV = re.compile(r"(?:[A-Za-z0-9+/]*={0,2},){2,}\S*")
_NUMBERED = re.compile(r"(?:^|/)[^/]+-\d+-\d{8,}\.json(?:\.gz)?$")
_BY_KCAT = "Consume the topic with `kcat -C -J` in place of it."


@dataclass(frozen=True, slots=True)
class Foreign:
    """What an object is taken for, and what to do."""

    what: str
    advice: str


def taken_for(key: str, begins: bytes) -> Foreign | None:
    """What an object of no layout is, by its name and its first `LOOKED` bytes; None if unknown."""
    if key.removesuffix(".gz").endswith(".bin"):
        what = "bytes of Kafka Connect's ByteArrayFormat, which keep no border between records"
        return Foreign(what, "Set format.class to JsonFormat, AvroFormat or ParquetFormat.")
    if begins[:2] in (b"\xff\xfe", b"\xfe\xff") or begins[1:8:2] == b"\0\0\0\0" or begins[0:8:2] == b"\0\0\0\0":
        return Foreign("text in UTF-16", "Write it in UTF-8: some shells (PowerShell's `>`) write UTF-16.")
    text = line_of(begins).lstrip()
    first = text.partition("\n")[0].rstrip("\r")
    if first.startswith("["):
        what = "one JSON array"
        return Foreign(
            what, "Aiven's sink writes lines with format.output.type=jsonl; `jq -c '.[]'` makes lines of a file."
        )
    if first.rstrip() == "{":
        rpk = all(f'"{name}":' in text for name in ("topic", "value", "partition", "offset"))
        what = (
            "records of `rpk topic consume`, over several lines"
            if rpk
            else "JSON over several lines, as `jq .` prints it"
        )
        return Foreign(what, _RPK if rpk else "Print it with `jq -c .`, an object a line.")
    if _CONSOLE.match(first):
        return Foreign("lines of kafka-console-consumer", _BY_KCAT)
    if _CSV.fullmatch(first):
        what = "CSV, as Aiven's sink writes it by default"
        return Foreign(
            what, "Set format.output.type=jsonl and format.output.fields=key,value,offset,timestamp,headers."
        )
    return _of_json(key, first)


_RPK = (
    "Print what kcat would: `rpk topic consume TOPIC | jq -c '{topic, partition, offset, ts: .timestamp, key, payload: "
    ".value, headers: [.headers[]? | .key, .value]}'`. What is no text is lost by rpk; `kcat -C -J` keeps it."
)


def _of_json(key: str, line: str) -> Foreign | None:
    try:
        value, end = json.JSONDecoder().raw_decode(line)
    except (ValueError, RecursionError):
        return None
    if line[end:].lstrip().startswith("{"):
        what = "JSON objects one behind the other on a line, as Amazon Data Firehose writes them"
        return Foreign(what, "Let it add a new line behind each record (AppendDelimiterToRecord).")
    if not isinstance(value, dict):
        return None
    placed = _is_placed(value)
    if placed and isinstance(value.get("payload"), dict | list):
        what = "lines of `kcat -J -s …`, whose payload kcat has decoded"
        return Foreign(
            what,
            "Export without -s: then the payload is the bytes that Kafka has. Land Avro by Parquet or from the topic.",
        )
    if placed and "value" in value:
        return Foreign("records of `rpk topic consume`", _RPK)
    if placed:
        return None
    if isinstance(value.get("metadata"), dict) and _is_placed(value["metadata"]):
        what = "lines of Lenses' S3 sink with an envelope"
        return Foreign(what, f"Its lines keep topic, partition and offset below metadata. {_BY_KCAT}")
    if _NUMBERED.search(key):
        what = "values as Kafka Connect's sink writes them, with another file.delim than +"
        return Foreign(what, "Set file.delim=+ (the default): the names then say topic, partition and offset.")
    what = "JSON values without topic, partition and offset"
    advice = (
        "What keeps no offsets cannot be accounted for: Aiven's sink has format.output.fields, Connect has its names."
    )
    return Foreign(what, advice)


def _is_placed(value: dict[str, Any]) -> bool:
    return {"topic", "partition", "offset"} <= value.keys()
