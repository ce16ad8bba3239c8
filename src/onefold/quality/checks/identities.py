"""Whether what the dataset takes for an identity is one: it is in one period, and it does not begin again."""

from __future__ import annotations

from onefold.dataset import Dataset
from onefold.dedup.documents import Restart
from onefold.offsets import Position, TopicPartition
from onefold.quality.checks.check import Measurement
from onefold.quality.checks.facts import BranchFacts

NAMED = 5
"""Producers that are named, at most."""


def missed_deletes(facts: BranchFacts) -> Measurement | None:
    """Deletes that found no row in their period: where the mode deletes, and a period is part of the identity."""
    dataset = facts.dataset
    if not (dataset.within and dataset.apply.DELETES):
        return None
    return Measurement(
        facts.missed_deletes,
        0,
        first=facts.first_missed,
        way_out=(
            f"a delete looks for its row in its own period alone ({dataset.identity.within}). If the row is in another "
            "one, it stays: let the source send deletes with the value that the row has, or bound the identity by a "
            f"field that is set once, and run onefold rebuild {dataset.name}. If the record that it deletes is not "
            "published yet, nothing is wrong"
        ),
    )


def restarts(facts: BranchFacts) -> Measurement | None:
    """Producers whose sequence begins again at later offsets of a partition, where the file names producers."""
    dataset, named = facts.dataset, facts.dataset.identity.producer
    if named is None:
        return None
    found = facts.upserted.restarts
    shown = [
        f"producer {restart.producer}: {restart.sequence} at {_place(restart)}, after {restart.highest}"
        for restart in found[:NAMED]
    ]
    return Measurement(
        len(found),
        0,
        first=[*shown, *([f"and {len(found) - NAMED} more"] if len(found) > NAMED else [])],
        way_out=(
            "a sequence that begins again gives other messages the identities of earlier ones, and they become "
            "duplicates or conflicts. Declare an epoch that the producer raises when it begins again, next to its "
            f"sequence (identity.producer.epoch: {named.epoch or 'header.epoch'}), or another identity, such as a "
            f"message id, and run onefold rebuild {dataset.name}. If the producer only sent its first records again, "
            "nothing is wrong"
        ),
    )


def late_repeats(facts: BranchFacts) -> Measurement | None:
    """Records that repeat an identity after more than a day of the log, where the file declares identities."""
    dataset = facts.dataset
    if len(dataset.declared_levels) == 1:
        return None
    return Measurement(
        facts.upserted.late_repeats,
        0,
        first=facts.first_late_repeats,
        way_out=(
            "a client sends a message again within minutes. What is sent again after more than a day is often another "
            "message under an identity that is none: a number that began again, a constant, a digest of the content, "
            f"a business key that leaves the occasion out. Declare {_wider(dataset)}, and run onefold rebuild "
            f"{dataset.name}. If the topic was filled again, or a backlog was sent again, nothing is wrong"
        ),
    )


def _place(restart: Restart) -> str:
    at = TopicPartition.of(restart.partition)
    return str(Position(at.topic, at.partition, restart.offset))


def _wider(dataset: Dataset) -> str:
    producer = dataset.identity.producer
    epoch = "an epoch next to the sequence (identity.producer.epoch: header.epoch), or " if producer else ""
    return f"{epoch}an identity that each message has of its own (a message id, a wider identity.business_key)"
