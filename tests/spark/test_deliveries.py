"""A message that is sent again changes no row, whichever batch brings which delivery; or the batch is red by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import GateRedError
from onefold.generation import settle
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.quality.documents import CheckResult, gate_of
from onefold.report.ledger import rows_of, verdicts_of
from onefold.tables.names import branch_table
from onefold.upsert.documents import Upserted
from onefold.upsert.merge import enter_messages
from onefold.upsert.state import read_messages
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
ROWS = {"AAB": "B", "ABA": "B", "ABB": "B", "ABAB": "B", "ABCABC": "C", "ABAC": "C"}
"""By the messages of a key, in the order of the log, the message that is its row. Each is a key of its own."""


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
    return sent("a", messages, range(len(messages)))


def sent(key: str, messages: str, offsets: Sequence[int]) -> list[Sent]:
    return [
        Sent(0, at, at, key, at, f"{key}-{message}", {"state": message, "rev": 1, "turn": ord(message)})
        for at, message in zip(offsets, messages, strict=True)
    ]


def all_keys() -> list[Sent]:
    """The records of each key of `ROWS`, one after the other in turn."""
    of_keys = [sent(key, key, range(number, 600, 100)[: len(key)]) for number, key in enumerate(ROWS)]
    return sorted((record for records in of_keys for record in records), key=lambda record: record.offset)


def checks_of(lake: Lake, made: Dataset, done: BatchRun) -> list[CheckResult]:
    latest = lake.get(lake_keys.latest(made, done.batch), Upserted)
    assert latest
    return gate_of(lake, made, done.batch, latest.attempt).checks


def rows(lake: Lake, made: Dataset) -> dict[str, str]:
    return {row["id"]: row["state"] for row in rows_of(lake, made)}


@pytest.mark.by_day("a header that is stamped", why="a tie, a version of the log and the rest go in other tests")
@pytest.mark.parametrize("version", OF_DELIVERY.values(), ids=OF_DELIVERY)
def test_in_one_batch_a_message_counts_once(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake, version: dict[str, Any]
) -> None:
    made = states(dataset, version, message_id="header.m")
    done = fold(made, all_keys())
    assert done.published, done.red
    assert rows(lake, made) == ROWS
    assert done.published.counts["duplicate"] == {"late_copy": 5, "message_id": 4}
    found, _ = verdicts_of(lake, made, done.batch)
    late = next(row for row in found if row["offset"] == 201)  # the second A of ABA
    assert (late["verdict"], late["reason"], late["scope"]) == ("duplicate", "late_copy", "in_batch")
    assert late["survivor"] == {"topic": "t", "partition": 0, "offset": 1}
    assert prove(session, lake, made).holds


@pytest.mark.by_day("offset", why="a header goes by day in one batch; the property test has ties")
@pytest.mark.parametrize("version", OF_DELIVERY.values(), ids=OF_DELIVERY)
def test_in_later_batches_the_ledger_knows_it(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake, version: dict[str, Any]
) -> None:
    """Three batches, in the order of the log."""
    made = states(dataset, version, message_id="header.m")
    log = all_keys()
    for start, end in ((0, 200), (200, 300), (300, 600)):
        done = fold(made, [record for record in log if start <= record.offset < end])
        assert done.published, done.red
    assert rows(lake, made) == ROWS
    assert done.published.counts["duplicate"]["late_copy"] == 2
    found, _ = verdicts_of(lake, made, done.batch)
    stored = next(row for row in found if row["offset"] == 304)  # A of ABCABC
    assert (stored["verdict"], stored["reason"], stored["scope"]) == ("duplicate", "late_copy", "stored")
    assert stored["survivor"] == {"topic": "t", "partition": 0, "offset": 4}
    assert prove(session, lake, made).holds
    known = read_messages(session, made, StateTable(lake, made).main.snapshot)
    assert known.count() == sum(len({*key}) for key in ROWS), "a message has one row in the ledger"


def test_an_earlier_delivery_lowers_the_row_or_is_red_and_a_rebuild_of_the_log_is_right(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    """The later deliveries come first: of key `low` the row's message alone was sent before, of key `red` another one
    is the row then."""
    made = states(dataset, OF_DELIVERY["offset"], message_id="header.m")
    low, red = sent("low", "ABA", (0, 2, 4)), sent("red", "ABBA", (1, 3, 5, 7))
    assert fold(made, [low[2], red[2], red[3]]).red is None
    assert rows(lake, made) == {"low": "A", "red": "A"}
    lowered = fold(made, low[:2])
    assert lowered.published, lowered.red
    assert rows(lake, made) == {"low": "B", "red": "A"}
    assert lowered.published.changes == {"lower": 1}
    assert prove(session, lake, made).holds
    stuck = fold(made, red[:1])
    assert isinstance(stuck.red, GateRedError)
    assert '(first: key {"id":"red"} at t-0@1, later at t-0@7)' in str(stuck.red)
    assert "onefold rebuild things --again" in str(stuck.red)
    assert rows(lake, made) == {"low": "B", "red": "A"}
    done = rebuild(lake, made, InSession(lake, session), again=True)
    assert (done.swapped, done.changed) == (True, ("again",))
    assert not [end for end in done.batches if end.error]
    assert rows(lake, settle(lake, made)) == {"low": "B", "red": "B"}


WRONG = ("INSERT INTO {branch} SELECT * FROM {branch} {old}", "DELETE FROM {branch} {old}")
"""A message that another batch brought comes into the ledger twice, or is lost."""


def test_a_ledger_that_gains_or_loses_a_message_of_another_batch_is_red(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is in a bucket that the batch reads, and it is none of the batch's own."""
    made = states(dataset, OF_DELIVERY["offset"], message_id="header.m")
    assert fold(made, delivered("A")).published
    for offset, wrong in enumerate(WRONG, 1):

        def enter_wrongly(
            session: SparkSession, dataset: Dataset, upserted: Upserted, actions: DataFrame, wrong: str = wrong
        ) -> None:
            enter_messages(session, dataset, upserted, actions)
            old = "WHERE _state = 'message' AND _version = 0"
            session.sql(wrong.format(branch=branch_table(dataset, upserted.branch), old=old))

        monkeypatch.setattr("onefold.upsert.merge.enter_messages", enter_wrongly)
        stuck = fold(made, sent("a", "B", (offset,)))
        assert isinstance(stuck.red, GateRedError)
        assert [check.id for check in checks_of(lake, made, stuck) if check.red] == ["actions_applied"]
        assert rows(lake, made) == {"a": "A"}


@pytest.mark.nightly(reason="message ids go by day, and test_forget has the digest of a sequence")
def test_a_producers_sequence_is_an_identity_where_there_is_no_message_id(
    fold: Fold, dataset: MakeDataset, lake: Lake
) -> None:
    """Header v is the sequence of the producer."""
    made = states(dataset, OF_DELIVERY["offset"], producer={"name": "header.m", "sequence": "header.v"})
    log = delivered("ABA")
    assert fold(made, log[:2]).red is None
    done = fold(made, [Sent(0, 2, 2, "a", 0, "a-A", log[0].value)])
    assert done.published
    assert done.published.counts["duplicate"] == {"late_copy": 1}
    assert rows(lake, made) == {"a": "B"}


@pytest.mark.by_day("no identity", why="a business key identifies no message either")
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


@pytest.mark.nightly(reason="those with an identity go by day")
def test_messages_without_an_identity_stay_in_the_ledger_when_their_row_changes(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    """A snapshot's rows may have no id, and the changes that follow one."""
    made = states(dataset, OF_DELIVERY["offset"], message_id="header.m")
    of_a, of_b = delivered("ABCB"), sent("b", "AB", (10, 11))
    without = [replace(record, message_id="") for record in (of_a[0], of_b[0])]
    for batch in (without, [*of_a[1:3], of_b[1]], of_a[3:]):
        done = fold(made, batch)
        assert done.published, done.red
    assert done.published.counts == {"duplicate": {"late_copy": 1}}
    assert rows(lake, made) == {"a": "C", "b": "B"}
    known = read_messages(session, made, StateTable(lake, made).main.snapshot)
    assert known.count() == len([*of_a[:3], *of_b])
    assert prove(session, lake, made).holds


def test_a_version_of_the_value_is_the_messages_however_often_it_is_sent(
    fold: Fold, dataset: MakeDataset, lake: Lake
) -> None:
    made = states(dataset, OF_MESSAGE["a version of the value"], message_id="header.m")
    done = fold(made, delivered("ABA"))
    assert done.published
    assert done.published.counts["duplicate"] == {"message_id": 1}
    assert [row["state"] for row in rows_of(lake, made)] == ["B"]
