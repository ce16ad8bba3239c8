"""S9: characters that cannot be seen are spelled out wherever people read what records brought."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.cli.console import print_json, print_json_rows, print_rows
from onefold.dataset import Dataset
from onefold.decisions import Release
from onefold.operations.decision_requests import Request
from onefold.orchestration.approval import body_of, subject_of
from onefold.orchestration.notify import Message
from onefold.quality.documents import CheckResult, GateResult
from onefold.visible import visible, visible_json, visible_line

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
HOSTILE = "acc\u202e123\u200b\u2066x\u009b31m\x1b[2J\u2060\u3164\ufe0f\U000e0041\u00ad\ufeff\x7f"
SPELLED = "acc\\u202e123\\u200b\\u2066x\\u009b31m\\u001b[2J\\u2060\\u3164\\ufe0f\\U000e0041\\u00ad\\ufeff\\u007f"


def hidden(text: str) -> list[str]:
    return [char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_s9_control_bidirectional_and_zero_width_characters_are_spelled_out() -> None:
    assert visible(HOSTILE) == SPELLED
    assert visible_line("a\nb\tc") == "a\\nb\\tc"
    assert visible("Grüße, 口座, naïve, 👍\n\ttwo") == "Grüße, 口座, naïve, 👍\n\ttwo"


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))
def test_s9_json_has_the_same_value_and_nothing_that_a_terminal_obeys(value: Any) -> None:
    text = visible_json(json.dumps(value, indent=2, ensure_ascii=False))
    assert json.loads(text) == value
    assert hidden(text) == []


def test_s9_the_command_line_prints_json_and_tables_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"key": HOSTILE, HOSTILE: 1}]
    print_json(rows)
    assert json.loads(first := capsys.readouterr().out) == rows
    print_json_rows(rows, {"name": HOSTILE})
    assert json.loads(second := capsys.readouterr().out) == {"name": HOSTILE, "rows": rows}
    print_rows("rows", [{"key": HOSTILE}])
    third = capsys.readouterr().out
    assert [hidden(text) for text in (first, second, third)] == [[], [], []]
    assert "acc\\u202e123" in third


def test_s9_an_approval_shows_what_a_key_holds_and_no_two_keys_alike(
    dataset: Callable[..., Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.orchestration.approval.report_link", lambda *_: "/report")

    def show_approval(name: str) -> str:
        sides = [{"topic": "t", "partition": 0, "offset": n, "fields": {"id": name, "n": n}} for n in (1, 2)]
        conflict = {"reason": "same_version", "scope": "stored", "won": True, "record": sides[1], "other": sides[0]}
        conflict["other"]["fields"]["id"] = "plain"
        check = CheckResult(id=name, title=name, by="great_expectations", status="failed", observed="1", expected="0")
        gate: dict[str, Any] = {"branch": "b", "head": 2, "base": 1, "staging": "s", "code": "c", "judged": NOON}
        found = GateResult(
            batch="1", attempt="c", green=False, checks=[check], examples={"conflicts": [conflict]}, **gate
        )
        made = Release(dataset="d", batch="1", number=1, by="x", reason=name, at=NOON, waivers=[], attempt="c")
        request = Request(batch="1", decision="release", reason=name, waivers=())
        return body_of(dataset(), request, made, found, asked_by=name)

    text = show_approval(HOSTILE)
    assert hidden(text) == []
    assert text.count("acc\\u202e123") == 4, "asked by, reason, check, key"
    names = ["a b", "a  b", "a\tb", "a\nb", "a'b", "a`b", "a\u200bb", "a\u2028b"]
    assert len({show_approval(name) for name in names}) == len(names)
    assert hidden(subject_of(dataset(), Request(batch=HOSTILE, decision="skip", reason="x", waivers=()))) == []


def test_s9_a_notification_has_none_of_them_in_any_part() -> None:
    message = Message("d", HOSTILE, f"{HOSTILE}\nsecond line", "/link", "b", (HOSTILE,), HOSTILE)
    parts = [message.subject, message.happened, *message.checks, message.advice, message.text, message.html]
    assert [hidden(part) for part in parts] == [[]] * len(parts)
    assert message.happened == f"{SPELLED}\nsecond line"
