"""S6: a regular expression that meets a producer's bytes costs linear time: it never tries what it took again."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.dataset.types import parse_type
from onefold.values import exact, expressions, text

PATTERNS = {
    "long": expressions._WHOLE_NUMBER,
    "double": expressions._NUMBER,
    "whole": text._WHOLE,
    "decimal": text.fits(parse_type("decimal(18,2)")),
    "timestamp": text.TIMESTAMP,
    "date": text.DATE,
    "last zeros": text._LAST_ZEROS,
    "pg_lsn": expressions._PG_LSN,
    "hex": expressions._HEX,
    "sql server": expressions._SQL_SERVER_LSN,
    "exact number": exact._NUMBER.pattern,
    "exact timestamp": exact._TIMESTAMP.pattern,
    "exact finer": exact._FINER.pattern,
}
BEFORE = {
    "double": r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z",
    "whole": r"^(-?\d+)(?:\.0+)?\Z",
    "decimal": r"^-?(?=\d)0*\d{0,16}(\.(?=\d)\d{0,2}0*)?\Z",
}
"""The same languages, written so that they may be tried again and again."""


def python(pattern: str) -> str:
    return pattern.replace(r"\z", r"\Z")


@pytest.mark.parametrize("name", PATTERNS)
def test_s6_whatever_is_repeated_without_a_bound_is_possessive(name: str) -> None:
    plain = re.sub(r"\\.|\[[^\]]*\]", "x", PATTERNS[name])  # without classes and escapes
    repeats = re.findall(r"(?:[*+?]|\{\d+(?:,\d*)?\})\+?", plain.replace("(?", "("))
    assert [found for found in repeats if found in ("*", "+") or found.endswith(",}")] == []


@pytest.mark.parametrize("name", BEFORE)
@settings(max_examples=500)
@given(data=st.data())
def test_possessive_patterns_take_what_they_took(name: str, data: st.DataObject) -> None:
    given_text = data.draw(st.text("0123456789.eE+-, :[x0", max_size=50) | st.from_regex(BEFORE[name]))
    mine, other = (re.search(python(pattern), given_text, re.ASCII) for pattern in (PATTERNS[name], BEFORE[name]))
    assert (mine and (mine.span(), mine.groups())) == (other and (other.span(), other.groups())) or name == "double"
    assert bool(mine) == bool(other)


_TRY = """
import json, re, sys

size = 1 << 20
texts = ["1" * size + "x", "0" * size + "x", "1." + "0" * size + "x", "0" * (size // 2) + "." + "0" * (size // 2) + "x"]
texts += [", " * (size // 2), "," + " " * size, "[1" + "1" * size + "e", "0" * size + "1", "1e" + "1" * size + "x"]
for pattern in json.loads(sys.argv[1]):
    for text in texts:
        re.search(pattern, text, re.ASCII)
print("done")
"""


def test_s6_a_megabyte_of_digits_costs_a_pattern_no_minute() -> None:
    """In a process that is ended after a minute of one core; the same patterns are Java's in Spark."""
    patterns = json.dumps([python(pattern) for pattern in PATTERNS.values()])
    done = subprocess.run(
        [sys.executable, "-c", _TRY, patterns],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]
