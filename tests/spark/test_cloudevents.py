"""CloudEvents of both modes in one topic: each event is one row, whichever mode it comes in."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of
from tests.support.pipeline import run

Record = tuple[str | None, dict[str, str]]
"""Value, headers"""
STRUCTURED = {"content-type": "application/cloudevents+json"}


def attributes(id_: str, **more: str) -> dict[str, str]:
    named = {"specversion": "1.0", "id": id_, "source": "/shop", "type": "order.placed", "subject": f"s-{id_}"}
    return named | {"time": "2026-03-01T08:00:00Z"} | more


def structured(id_: str, data: Any = None, headers: dict[str, str] | None = None, **more: str) -> Record:
    """Without data if it is None."""
    event = attributes(id_, **more) | ({} if data is None else {"data": data})
    return json.dumps(event), headers or {}


def binary(id_: str, value: str | None, **more: str) -> Record:
    return value, {f"ce_{name}": text for name, text in attributes(id_, **more).items()}


def placed(order: int) -> dict[str, Any]:
    return {"order_id": order, "note": f"n{order}"}


@pytest.fixture
def orders(dataset: Callable[..., Dataset]) -> Callable[..., Dataset]:
    def make(condition: str, **more: Any) -> Dataset:
        given: dict[str, Any] = {
            "source": dataset().source.model_dump(exclude_none=True) | {"filter": condition},
            "value": {"envelope": "cloudevents", "fields": {"order_id": "long", "note": "string?"}},
        }
        return dataset(**given | more)

    return make


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Callable[..., BatchRun]:
    def fold_records(made: Dataset, records: Sequence[Record], first: int = 0) -> BatchRun:
        folder = tmp_path / f"in-{len(list(tmp_path.glob('in-*')))}"
        folder.mkdir()
        lines = [
            {
                "topic": "t",
                "partition": 0,
                "offset": first + number,
                "ts": 1_772_500_000_000,
                "key": None,
                "payload": value,
            }
            | {"headers": [word for pair in headers.items() for word in pair]}
            for number, (value, headers) in enumerate(records)
        ]
        (folder / "x.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return run(session, lake, made, folder)

    return fold_records


def test_an_event_is_one_row_in_whichever_mode_it_is_sent(
    fold: Callable[..., BatchRun], orders: Callable[..., Dataset], session: SparkSession, lake: Lake
) -> None:
    """Next to copies in the other mode, other types of any data, events without data, and what is no event."""
    made = orders("envelope.type = 'order.placed'", identity={"business_key": ["envelope.source", "envelope.id"]})
    encoded = attributes("e-3") | {"data_base64": b64encode(json.dumps(placed(3)).encode()).decode()}
    done = fold(
        made,
        [
            structured("e-1", placed(1)),
            binary("e-2", json.dumps(placed(2))),
            (json.dumps(encoded), STRUCTURED),
            binary("e-1", json.dumps(placed(1))),
            structured("e-2", placed(2), STRUCTURED),
            structured("e-1", placed(4), source="/other"),
            structured("e-5", "text", type="order.noted"),
            binary("e-6", "no JSON", type="order.noted"),
            structured("e-7", type="order.noted"),
            binary("e-8", None, type="order.noted"),
            structured("e-9"),
            binary("e-10", None),
            (None, {}),
            ("[]", {"content-type": "application/cloudevents-batch+json"}),
            (json.dumps(placed(5)), {}),
            structured("e-11", {"note": "x"}),
        ],
    )
    assert done.published, done.red or done.error
    assert done.published.counts == {
        "applied": {"insert": 4},
        "duplicate": {"business_key": 2},
        "filtered": {"filter": 4},
        "rejected": {"null_value": 3, "undecodable": 2, "missing_field": 1},
    }
    assert sorted((row["order_id"], row["note"]) for row in rows_of(lake, made)) == [
        (number, f"n{number}") for number in (1, 2, 3, 4)
    ]
    done = fold(made, [binary("e-3", json.dumps(placed(3))), structured("e-12", placed(12))], first=16)
    assert done.published, done.red or done.error
    assert done.published.counts == {"applied": {"insert": 1}, "duplicate": {"business_key": 1}}
    assert prove(session, lake, made).holds


def test_events_change_the_rows_of_their_subjects_and_delete_them_without_data(
    fold: Callable[..., BatchRun], orders: Callable[..., Dataset], session: SparkSession, lake: Lake
) -> None:
    made = orders(
        "envelope.type in ('order.placed', 'order.deleted')",
        identity={"message_id": ["envelope.source", "envelope.id"]},
        apply={
            "mode": "upsert",
            "key": ["envelope.subject"],
            "version": {"from": "timestamp(envelope.time)"},
            "delete_when": "envelope.type = 'order.deleted'",
        },
    )
    later = {"time": "2026-03-01T09:00:00.5+01:00"}
    last = {"time": "2026-03-01T10:00:00Z", "type": "order.deleted"}
    done = fold(
        made,
        [
            *(structured(f"e-{n}", placed(n), subject=f"s-{n}") for n in range(5)),
            binary("e-6", json.dumps(placed(10)), subject="s-0", **later),
            structured("e-7", subject="s-1", **last),
            binary("e-8", None, subject="s-2", **last),
            structured("e-9", {}, subject="s-3", **last),
            structured("e-6", placed(10), subject="s-0", **later),
            structured("e-1", placed(1), subject="s-1"),
        ],
    )
    assert done.published, done.red or done.error
    assert done.published.counts["duplicate"] == {"message_id": 2}
    assert done.published.counts["applied"] == {"insert": 2, "delete": 3}
    assert {row["subject"]: row["note"] for row in rows_of(lake, made)} == {"s-0": "n10", "s-4": "n4"}
    assert prove(session, lake, made).holds
