"""Leader epochs of what was landed: whether a log is still the log that was read.

An unclean election, or a disk that lost its tail, cuts a log below what was read of it, and new records take the
offsets. Its end tells nothing once it has grown again, but its leader epochs do: each begins where its leader's log
ended, so an epoch that ends below what was read under it was cut (KIP-101; Kafka's OffsetForLeaderEpoch).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from onefold.landing.cuts import OffsetRange
from onefold.offsets import Range, TopicPartition, merged

if TYPE_CHECKING:
    from onefold.kafka.raw_log import RawLog

Marks = dict[int, int]
"""Of one partition: leader epoch to the end of what was landed while it was the newest."""


class Epochs(BaseModel):
    """What is known of a source's logs. It is evidence only: a mark that is lost to a race is set again."""

    model_config = ConfigDict(frozen=True)

    marks: dict[str, Marks] = Field(default_factory=dict, description="By TopicPartition.key")


def suspected(marks: dict[str, Marks], newest: dict[str, int]) -> dict[str, Marks]:
    """The marks of logs that have had another leader since: only those can have been cut."""
    return {key: marks[key] for key, epoch in newest.items() if any(other != epoch for other in marks.get(key, ()))}


def cut_since(suspects: dict[str, Marks], newest: dict[str, int], log: RawLog) -> tuple[list[OffsetRange], list[str]]:
    """The landed ranges of suspected logs whose offsets other records have now; and notes, also on what is unknown."""
    from onefold.kafka.raw_log import NoEvidenceError

    cut, notes = [], []
    for key, marks in suspects.items():
        where = TopicPartition.of(key)
        name = f"{where.topic}, partition {where.partition}"
        try:
            found = replaced(marks, newest[key], partial(log.epoch_end, where.topic, where.partition))
        except NoEvidenceError as error:
            notes.append(f"{name}: its leader changed, and whether its log was cut is not known: {error}")
            continue
        for start, end in found:
            cut.append(OffsetRange(topic_partition=where, start=start, end=end))
            notes.append(
                f"{name}: its log was cut at offset {start} (another leader took over, or a disk lost its tail) after "
                f"offsets up to {end - 1} were landed. The records landed there are not in the log any more, and those "
                "that have these offsets now were not read"
            )
    return cut, notes


def replaced(marks: Marks, newest: int, end_of: Callable[[int], int | None]) -> list[Range]:
    """The offsets that were landed and that other records have now.

    `newest` is the log's newest epoch; `end_of` tells where an older one ended, or None where it is unknown.
    """
    found = []
    for epoch, landed in marks.items():
        end = end_of(epoch) if epoch != newest else None
        if end is not None and end < landed:
            found.append((end, landed))
    return merged(found)


def marked(marks: Marks, newest: int, end: int, cut: list[Range]) -> Marks:
    """The marks after a landing up to `end`; what was `cut` is reported once.

    The fewest that say all: where a later epoch has as high a mark, an earlier epoch has nothing to add.
    """
    lowest = min((start for start, _ in cut), default=None)
    kept = {epoch: landed if lowest is None else min(landed, lowest) for epoch, landed in marks.items()}
    kept[newest] = max(end, kept.get(newest, 0))
    return {
        epoch: landed
        for epoch, landed in sorted(kept.items())
        if not any(later > epoch and other >= landed for later, other in kept.items())
    }
