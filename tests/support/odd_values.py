"""JSON values of every declared type, written in many ways, most of them odd: for what reads values twice."""

from __future__ import annotations

import json
from random import Random
from typing import Any

FIELDS: dict[str, Any] = {
    "s": "string?",
    "l": "long?",
    "i": "int?",
    "d": "decimal(18,2)?",
    "x": "double?",
    "b": "boolean?",
    "day": "date?",
    "at": "timestamp?",
    "ms": "timestamp(millis)?",
    "ns": "timestamp(nanos)?",
    "days": "date(days)?",
    "n": "struct<d: decimal(9,3)?, list: list<long>?, s: string>?",
    "bytes": "binary?",
    "u": "decimal(18,2,base64)?",
    "us": "list<decimal(5,3,base64)>?",
    "m": "map<string, long>?",
    "mm": "map<string, struct<a: json?, m: map<string, binary>?>>?",
    "j": "json?",
    "o": "json?",
    "deep": {"type": "string?", "from": 'o."a.b"'},
    "id": "long",
}
TEXTS = (
    '"x"', '"\\ud83d"', '"\\ude00 \\ud83d"', '"\\ud83d\\ude00"', '"\\\\ud83d"', '"\\"1e5\\", 1e5"',
    '"é€𝄞"', '""',
    '"a\\u0000b"', '"1e3"', '" 5"', '"5"', '"-0.50"', '"true"',
)  # fmt: skip
NUMBERS = (
    "0", "-0", "1", "-1", "1.0", "1.50", "1e3", "1E+3", "0E-8", "-12.5e-1", "1e-3", "1e400", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "9007199254740993", "2147483648", "1.00000000000000000001e3",
    "9.223372036854775807e18", "123456789012345678901234567890123456789", "0.1", "1772359200123", "1772359200123456789",
    "1772359200123456000", "253402300799999", "253402300800000", "-62135596800000", "2932896", "-719162", "-719163",
    "9007199254740993.00000000000000000000000", "0.10000000000000000000000000000000000000001", "-0." + "0" * 40,
    "01", "1e", "+1", ".5", "NaN", "1e5x", "0" * 40,
)  # fmt: skip
TIMES = (
    '"2026-03-01"', '"2026-02-30"', '"2026-03-01T10:00Z"', '"2026-03-01 10:00"', '"2026-03-01T10:00:00.1234560+01:00"',
    '"2026-03-01T10:00:00.123456789Z"', '"2026-03-01T10:00:00-0130"', '"2026-03-01T10:00:00+18:00"',
    '"2026-03-01T10:00:00+18:01"', '"2026-03-01T24:00:00Z"', '"2026-03-01T23:59:60Z"', '"2026-3-1"', '"0001-01-01"',
    '"9999-12-31T23:59:59.999999Z"', '"2026-03-01T10:00:00Z\\n"', '"2026-03-01T10Z"',
)  # fmt: skip
MAP = '{"x": {"a": {"q": [1.10, "1e1", -0e2, 0.010e1, 1e9999]}, "m": {"z": "YQ==", "": null}}, "w": null}'
OTHERS = (
    "null", "true", "false", "[]", "[1, 2.0, 1e1]", "{}", '{"d": 1e1, "s": "y"}', '{"s": "\\ud83d"}',
    '{"list": [null, 3], "s": ""}', '{"b": 1, "a": 2, "b": 3.0}', '{"𐀀": 1, "\\uffff": null, "é": 7e0}',
    '{"\\ud83d": 1}', MAP,
    '{"x": {"a": "\\ud83d"}}', '{"x": {"m": {"z": "YQ="}}}', '"YWI="', '"YWJ="', '"YWI"', '"YW I="', '"_-8="', '""',
    '[{"b": "\\u0001\\u007f/\\"\\\\", "a": [1.500e2, 1000000000000000000000000000000000000000000.00, 0.00]}, -0]',
)  # fmt: skip
FITTING = {
    "s": TEXTS, "l": ("7", "1.0", "1e3", "9007199254740993"), "i": ("0", "-0", "2.0"), "x": ("0.1", "5", "1e-3"),
    "d": ("1.50", "1.50" + "0" * 40, "0E-8", "1E+3", '"-0.50"', '"1e3"', "7"),
    "b": ("true", "false"), "day": ('"2026-03-01"', "null"),
    "at": ('"2026-03-01T10:00Z"', '"2026-03-01 10:00"', '"2026-03-01T10:00:00.1234560+01:00"'), "id": ("7", "7e0"),
    "ms": ("1772359200123", "1.7e12"), "ns": ("1772359200123456000",), "days": ("2932896", "-719162", "1e4"),
    "n": ('{"d": 1e1, "s": "y"}', '{"list": [null, 3, 1e0], "s": ""}', "null"), "deep": ("5",),
    "bytes": ('"YWI="', '""', '"' + "QUJD" * 20 + '"', "null"), "m": ("{}", '{"b": 1, "a": 2, "b": 3.0}', '{"é": 7e0}'),
    "u": ('"JxA="', '"/w=="', '"\\/w=="', '"AA=="', '"DeC2s6dj//8="', "1.50", "null"),
    "us": ("[]", '["JxA=", null, 1e0]'),
    "mm": (MAP, "{}", '{"w": null, "v": {"m": {}}}'), "j": (*OTHERS, *NUMBERS[:28]),
}  # fmt: skip
"""Of each field values of its type, written in several ways."""


def value_of(draw: Random) -> bytes | None:
    """A value, most of it JSON, much of it odd."""
    kind = draw.random()
    if kind < 0.04:
        return draw.choice([None, b"", b"null", b"[]", b"{} {}", b"\xff\xfe", draw.randbytes(draw.randrange(12))])
    names = draw.sample([*FIELDS, "unknown", "ID"], draw.randrange(1, 5))
    pools = (TEXTS, NUMBERS, NUMBERS, TIMES, OTHERS)
    odd = draw.random() < 0.4
    parts = [(name, draw.choice(draw.choice(pools) if odd else FITTING.get(name, OTHERS))) for name in names]
    parts += [("id", draw.choice(["7", "7", "7", "1.5", '"7"', "7e0"]))] if draw.random() < 0.9 else []
    parts += [("o", draw.choice(['{"a.b": "z"}', '{"a.b": null}', "5", '{"a": 1}']))] if draw.random() < 0.3 else []
    space = draw.choice(["", " ", "\n\t"])
    text = "{" + ",".join(f"{space}{json.dumps(name)}:{space}{part}" for name, part in parts) + "}"
    data = (draw.choice(["", "", "", "\ufeff"]) + text).encode()
    if draw.random() < 0.05:
        at = draw.randrange(len(data))
        data = data[:at] + draw.choice([b"\xff", b"\xed\xa0\x80", b"\\", b'"']) + data[at:]
    return data
