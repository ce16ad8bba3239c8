"""`apply.compare: {except: […]}`: what a dataset file may say, and when the gate proposes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from onefold.dataset import Dataset, load_dataset
from onefold.errors import InvalidDatasetError
from onefold.quality.checks.rates import compare_proposal

MakeDataset = Callable[..., Dataset]
FIELDS = {"id": "string", "op": "string", "n": "long", "booked_at": "date", "sent_at": "timestamp?", "host": "string?"}
MODES: dict[str, dict[str, Any]] = {
    "append": {"apply": {"mode": "append"}},
    "upsert": {"apply": {"mode": "upsert", "key": ["id"], "version": {"from": "n"}, "delete_when": "op = 'd'"}},
    "increment": {"apply": {"mode": "increment", "key": ["id"], "add": {"total": "n"}}},
}


def make_dataset(dataset: MakeDataset, mode: str, excepted: list[str], **more: Any) -> Dataset:
    keys = MODES[mode] | {"value": {"fields": FIELDS}, "identity": {"message_id": "header.m"}} | more
    return dataset(**{**keys, "apply": keys["apply"] | {"compare": {"except": excepted}}})


@pytest.mark.parametrize("mode", MODES)
def test_any_mode_may_except_fields(dataset: MakeDataset, mode: str) -> None:
    assert make_dataset(dataset, mode, ["sent_at", "host"]).excepted == {"sent_at", "host"}
    assert dataset(**MODES["append"]).excepted == set()


@pytest.mark.parametrize("mode", MODES)
def test_what_is_compared_is_part_of_the_meaning_and_its_order_is_not(dataset: MakeDataset, mode: str) -> None:
    keys = MODES[mode] | {"value": {"fields": FIELDS}, "identity": {"message_id": "header.m"}}
    whole, some = dataset(**keys), make_dataset(dataset, mode, ["sent_at", "host"])
    generations = {whole.generation, some.generation, make_dataset(dataset, mode, ["sent_at"]).generation}
    assert len(generations) == 3
    assert some.generation == make_dataset(dataset, mode, ["host", "sent_at", "host"]).generation


@pytest.mark.parametrize(
    ("mode", "excepted", "more", "said"),
    [
        ("append", "sentat", {}, "value.fields has no sentat (did you mean sent_at?)"),
        ("append", "address", {}, "value.fields has no address (there are booked_at, host, id, n, op, sent_at)"),
        ("append", "id", {"identity": {"message_id": "id"}}, "id is used by identity.message_id"),
        ("append", "id", {"identity": {"business_key": ["lower(id)"]}}, "id is used by identity.business_key"),
        (
            "append",
            "n",
            {"identity": {"producer": {"name": "header.p", "sequence": "n"}}},
            "n is used by identity.producer.sequence",
        ),
        (
            "append",
            "booked_at",
            {"identity": {"message_id": "header.m", "within": "day(booked_at)"}},
            "booked_at is used by identity.within",
        ),
        ("upsert", "id", {}, "id is used by apply.key"),
        ("upsert", "n", {}, "n is used by apply.version.from"),
        ("upsert", "op", {}, "op is used by apply.delete_when"),
        ("increment", "id", {}, "id is used by apply.key"),
        ("increment", "n", {}, "n is used by apply.add.total"),
    ],
)
def test_a_field_that_decides_or_is_none_cannot_be_excepted(
    dataset: MakeDataset, mode: str, excepted: str, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=re.escape(f"apply.compare.except: {said}")):
        make_dataset(dataset, mode, [excepted], **more)


def test_a_field_that_the_key_fills_cannot_be_excepted(dataset: MakeDataset) -> None:
    apply = {"mode": "upsert", "key": ["key.id"], "version": {"from": "n"}}
    with pytest.raises(ValidationError, match=r"apply\.compare\.except: id is used by apply\.key"):
        make_dataset(dataset, "upsert", ["id"], key={"format": "json"}, apply=apply)


def test_a_field_that_only_the_filter_reads_may_be_excepted(dataset: MakeDataset) -> None:
    """The filter says of each record alone whether it is wanted."""
    source = {"exports": {"path": "e", "layout": "kcat", "origin": {"cluster": "c"}}, "filter": "host is not null"}
    assert make_dataset(dataset, "append", ["host"], source=source).excepted == {"host"}


FILE = """\
name: events
source: {exports: {path: e/, layout: kcat, origin: {cluster: c}}}
value: {fields: {id: string, sent_at: timestamp}}
identity: {message_id: id}
apply:
  mode: append
  compare:
    except: [sent_at]
target: {table: t.events}
"""


@pytest.mark.parametrize(
    ("old", "new", "key", "line", "said"),
    [
        ("except: [sent_at]", "except: [sent]", "apply.compare.except", 8, "did you mean sent_at?"),
        ("except: [sent_at]", "except: []", "apply.compare.except", 8, "at least 1"),
        ("except: [sent_at]", "except: sent_at", "apply.compare.except", 8, "list"),
        ("except: [sent_at]", "exept: [sent_at]", "apply.compare.exept", 8, "did you mean 'except'?"),
        ("  compare:", "  comparison:", "apply.comparison", 7, "unknown key"),
    ],
)
def test_a_complaint_names_key_and_line(tmp_path: Path, old: str, new: str, key: str, line: int, said: str) -> None:
    file = tmp_path / "events.yaml"
    file.write_text(FILE)
    assert load_dataset(file).excepted == {"sent_at"}
    file.write_text(FILE.replace(old, new))
    with pytest.raises(InvalidDatasetError) as raised:
        load_dataset(file)
    assert (raised.value.key, raised.value.line) == (key, line)
    assert said in raised.value.problem


def conflict(record: dict[str, Any] | None, other: dict[str, Any] | None, reason: str = "same_identity") -> Any:
    return {"reason": reason, "record": {"fields": record}, "other": {"fields": other}}


ROW = {"id": "a", "op": "c", "n": 1, "booked_at": "2026-01-01", "sent_at": "09:00", "host": "x"}
TOMBSTONE = dict.fromkeys(ROW)


def test_the_gate_proposes_the_fields_in_which_the_shown_contents_differ(dataset: MakeDataset) -> None:
    plain = dataset(**MODES["append"], value={"fields": FIELDS}, identity={"message_id": "header.m"})
    shown = [conflict(ROW, ROW | {"host": "y"}), conflict(ROW, ROW | {"sent_at": None})]
    assert compare_proposal(plain, shown) == (
        "the contents that are shown differ in sent_at, host only: if that does not make them two things, declare "
        "apply.compare: {except: [sent_at, host]}"
    )
    declared = make_dataset(dataset, "append", ["host"])
    assert "differ in sent_at only" in compare_proposal(declared, shown)
    assert "{except: [sent_at, host]}" in compare_proposal(declared, shown)


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [conflict(ROW, ROW)],
        [conflict(ROW, None)],
        [conflict(ROW, {name: f"{value}?" for name, value in ROW.items()})],
        [conflict(ROW, ROW | {"sent_at": "10:00"}), conflict(ROW, ROW | {"n": 2})],
        [conflict(ROW, ROW | {"sent_at": "10:00"}), conflict(ROW, TOMBSTONE)],
        [conflict(ROW, ROW | {"sent_at": "10:00"}, "inconsistent_position")],
        [conflict(ROW, ROW | {"sent_at": "10:00"}, "incomparable_version")],
    ],
    ids=["none", "equal", "unknown", "many", "what decides", "tombstone", "one position", "no order"],
)
def test_the_gate_proposes_nothing_where_it_would_not_help(dataset: MakeDataset, shown: list[Any]) -> None:
    keys = MODES["upsert"] | {"value": {"fields": FIELDS}, "identity": {"message_id": "header.m"}}
    assert not compare_proposal(dataset(**keys), shown)
