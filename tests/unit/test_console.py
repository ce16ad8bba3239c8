"""What people see on a terminal: tables and notes, whose text records may have written."""

from __future__ import annotations

import pytest

from onefold.cli import console
from onefold.cli.console import note, print_rows

EVIL = "x\x1b[2J\x1b]0;t\x07 \u202e \x9b31m \r\x00 \ud800"
SPELLED = r"x\u001b[2J\u001b]0;t\u0007 \u202e \u009b31m \u000d\u0000 \ud800"


def test_a_terminal_obeys_nothing_that_a_record_says(capfd: pytest.CaptureFixture[str]) -> None:
    print_rows(f"q {EVIL}", [{"a": EVIL, "b": [EVIL], "c": None}])
    print_rows("empty", [], EVIL)
    note(f"error: {EVIL}")
    done = capfd.readouterr()
    assert (done.out.count(SPELLED), done.err) == (3, f"error: {SPELLED}\n")
    assert not {"\x1b", "\u202e", "\x9b", "\r", "\0"} & set(done.out + done.err)


def test_what_can_be_seen_stays_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    print_rows("Grüße [b]", [{"a": "口座 [x]\nline two"}])
    note("Grüße [x]\nnext: two")
    done = capfd.readouterr()
    assert all(text in done.out for text in ("Grüße [b]", "口座 [x]", "line two"))
    assert done.err == "Grüße [x]\nnext: two\n"
    assert console.cell("a\tb", "bold").plain == "a\tb"
