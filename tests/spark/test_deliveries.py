"""A message that is sent again does not bring an old value back: the row is right, or the batch is red by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import GateRedError
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of, verdicts_of
from tests.support.pipeline import Sent, export, run

MakeDataset = Callable[..., Dataset]
Fold = Callable[..., BatchRun]
OF_DELIVERY: dict[str, Any] = {
    "offset": {"from": "offset"},
    "timestamp": {"from": "log.timestamp"},
    "a header that is stamped": {"from": "long(header.v)"},
    "a tie by offset": {"from": "rev", "tie": "last"},
}
OF_MESSAGE = {"a version of the value": {"from": "turn"}}


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of some records."""

    def fold_batch(made: Dataset, records: list[Sent]) -> BatchRun:
        return run(session, lake, made, export(tmp_path / str(len([*tmp_path.iterdir()])), records))

    return fold_batch


def states(dataset: MakeDataset, version: dict[str, Any], **identity: Any) -> Dataset:
    return dataset(
        key={"format": "json"},
        value={"fields": {"state": "string", "rev": "long", "turn": "long"}},
        identity=identity,
        apply={"mode": "upsert", "key": ["key.id"], "version": version},
        quality={"max_duplicate_rate": 1.0},
    )


def delivered(messages: str) -> list[Sent]:
    """The messages of key a in the order of the log; each letter is a message, and delivered at its place."""
    return [
        Sent(0, offset, offset, "a", offset, message, {"state": message, "rev": 1, "turn": ord(message)})
        for offset, message in enumerate(messages)
    ]


@pytest.mark.by_day(
    "a header that is stamped", "offset", why="each kind goes by day in one of the two tests, or is alike"
)
@pytest.mark.parametrize("version", OF_DELIVERY.values(), ids=OF_DELIVERY)
def test_a_copy_after_another_message_of_its_key_is_red_by_name(
    fold: Fold, dataset: MakeDataset, lake: Lake, version: dict[str, Any]
) -> None:
    made = states(dataset, version, message_id="header.m")
    done = fold(made, delivered("ABA"))
    assert isinstance(done.red, GateRedError)
    assert "no message sent again after another one of its key: found 1" in str(done.red)
    assert '(first: key {"id":"a"} at t-0@2, sent before at t-0@0)' in str(done.red)
    assert "declare a version of the value" in str(done.red)
    rows, _ = verdicts_of(lake, made, done.batch)
    assert [(row["verdict"], row["reason"]) for row in rows] == [
        ("superseded", "same_version" if "tie" in version else "in_batch"),
        ("applied", "insert"),
        ("duplicate", "late_copy"),
    ]
    assert rows[2]["survivor"] == {"topic": "t", "partition": 0, "offset": 0}
    assert rows_of(lake, made) == []


@pytest.mark.by_day("before", "a longer run", why="each kind goes by day in one of the two tests, or is alike")
@pytest.mark.parametrize(
    ("messages", "state"),
    [("AAB", "B"), ("ABB", "B"), ("ABAB", "B"), ("ABCABC", "C"), ("ABAC", "C")],
    ids=["before", "the last", "a run", "a longer run", "superseded"],
)
def test_other_copies_are_duplicates_and_the_row_is_right(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake, messages: str, state: str
) -> None:
    made = states(dataset, {"from": "offset"}, message_id="header.m")
    done = fold(made, delivered(messages))
    assert done.published, done.red
    assert "late_copy" not in done.published.counts.get("duplicate", {})
    assert [row["state"] for row in rows_of(lake, made)] == [state]
    assert prove(session, lake, made).holds


@pytest.mark.by_day("a tie by offset", "timestamp", why="each kind goes by day in one of the two tests, or is alike")
@pytest.mark.parametrize("version", OF_DELIVERY.values(), ids=OF_DELIVERY)
def test_a_copy_of_the_tables_row_after_another_message_in_its_batch_is_red(
    fold: Fold, dataset: MakeDataset, lake: Lake, version: dict[str, Any]
) -> None:
    made = states(dataset, version, message_id="header.m")
    log = delivered("ABA")
    assert fold(made, log[:1]).red is None
    red = str(fold(made, log[1:]).red)
    assert '(first: key {"id":"a"} at t-0@2, sent before at t-0@0)' in red
    assert fold(made, delivered("AAA")[1:]).red is None, "nothing came between"


def test_a_copy_in_a_later_batch_than_the_other_message_is_not_found(
    fold: Fold, dataset: MakeDataset, lake: Lake
) -> None:
    """As `validate` and the docs say, until the table keeps what it has seen."""
    made = states(dataset, {"from": "offset"}, message_id="header.m")
    log = delivered("ABA")
    assert fold(made, log[:2]).red is None
    assert fold(made, log[2:]).red is None
    assert [row["state"] for row in rows_of(lake, made)] == ["A"]


def test_a_producers_sequence_is_an_identity_where_there_is_no_message_id(
    fold: Fold, dataset: MakeDataset, lake: Lake
) -> None:
    """Header v is the sequence of the producer."""
    made = states(dataset, {"from": "offset"}, producer={"name": "header.m", "sequence": "header.v"})
    log = delivered("ABA")
    again = [log[0], log[1], Sent(0, 2, 2, "a", 0, "A", log[0].value)]
    assert "no message sent again after another one of its key: found 1" in str(fold(made, again).red)


@pytest.mark.parametrize(
    ("version", "identity"),
    [
        (OF_DELIVERY["offset"], {}),
        (OF_DELIVERY["offset"], {"business_key": ["state"]}),
    ],
    ids=["no identity", "a business key is none"],
)
def test_without_a_message_identity_every_delivery_is_a_version(
    fold: Fold, dataset: MakeDataset, lake: Lake, version: dict[str, Any], identity: dict[str, Any]
) -> None:
    """Open, closed, open again ends open."""
    made = states(dataset, version, **identity)
    assert fold(made, delivered("ABA")).red is None
    assert [row["state"] for row in rows_of(lake, made)] == ["A"]


def test_a_version_of_the_value_is_the_messages_however_often_it_is_sent(
    fold: Fold, dataset: MakeDataset, lake: Lake
) -> None:
    made = states(dataset, OF_MESSAGE["a version of the value"], message_id="header.m")
    done = fold(made, delivered("ABA"))
    assert done.published
    assert done.published.counts["duplicate"] == {"message_id": 1}
    assert [row["state"] for row in rows_of(lake, made)] == ["B"]
