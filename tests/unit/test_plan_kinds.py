"""Kinds of plans: each answers for itself, and no other file tests for one."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, get_args

import pytest

import onefold
from onefold.landing.cuts import OffsetRange
from onefold.landing.plan import (
    ForgetPlan,
    GapPlan,
    ObjectsPlan,
    PinnedObject,
    Plan,
    RangesPlan,
    ReplayPlan,
    is_decided,
    of_kind,
)
from onefold.offsets import TopicPartition

SOURCE = Path(onefold.__file__).parent
RANGE = OffsetRange(topic_partition=TopicPartition(cluster="c", topic="t", incarnation=1, partition=0), start=3, end=9)
RANGES = RangesPlan(source="s", ranges=[RANGE], notes=["a note"])
OBJECTS = ObjectsPlan(source="s", place="p", objects=[PinnedObject(name="a", size=7, etag="e")], ignored=["x"])
REPLAY = ReplayPlan(source="s", origin="b", objects=["a"], ranges=[RANGE], records=4, code="c")
GAP = GapPlan(source="s", dataset="d", key={"id": "a"}, version=3)
FORGET = ForgetPlan(source="s", dataset="d", keys=["00"], deleted_before=None, behind="r")
ALL: tuple[Plan, ...] = (RANGES, OBJECTS, REPLAY, GAP, FORGET)
KINDS = get_args(get_args(Plan)[0])


def test_every_kind_is_tried_here() -> None:
    assert {type(plan) for plan in ALL} == set(KINDS)


@pytest.mark.parametrize(
    ("plan", "batch", "row"),
    [
        (RANGES, "new", {"partitions": 1, "offsets": 6, "notes": ["a note"]}),
        (OBJECTS, "export", {"objects": 1, "bytes": 7, "ignored": 1, "notes": []}),
        (REPLAY, "replay", {"replays": "b", "records": 4}),
        (GAP, "gap", {"accepts": {"key": {"id": "a"}, "version": 3}}),
        (FORGET, "forget", {"forgets": {"keys": ["00"], "deleted_before": None}}),
    ],
)
def test_a_plan_says_what_it_would_do(plan: Plan, batch: str, row: dict[str, Any]) -> None:
    assert plan.preview == {"batch": plan.batch, "interval": None, **row}
    assert plan.batch.partition("_")[0] == batch
    assert is_decided(plan.batch) is plan.decided is (plan in (REPLAY, GAP, FORGET))


def test_only_a_plan_with_records_has_bytes_for_a_driver() -> None:
    assert [plan.estimated_bytes for plan in ALL] == [6 << 10, 7, 4 << 10, 0, 0]


def test_only_a_forgetting_forgets_and_only_a_replay_has_another_landing() -> None:
    assert [plan.forgets_only([]) or plan.forgets_only(["00"]) for plan in ALL] == [False] * 4 + [True]
    assert [plan.landing == (plan.origin or plan.batch) for plan in ALL] == [True] * 5
    assert [plan.origin for plan in ALL] == [None, None, "b", None, None]
    assert of_kind(ALL, GapPlan) == [GAP]


def test_no_other_file_tests_the_kind_of_a_plan() -> None:
    found = [
        (file.relative_to(SOURCE).as_posix(), node.lineno)
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Compare | ast.Call)
        and is_test_of_a_kind(node)
        and file != SOURCE / "landing" / "plan.py"
    ]
    assert found == []


def is_test_of_a_kind(node: ast.Compare | ast.Call) -> bool:
    """`plan.kind == …`, `plan.kind in …` or `isinstance(…, GapPlan)`."""
    if isinstance(node, ast.Compare):
        return ast.unparse(node.left) == "plan.kind"
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return ast.unparse(node.func) == "isinstance" and not names.isdisjoint(kind.__name__ for kind in KINDS)
