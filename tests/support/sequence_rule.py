"""The sequence rule as a loop that keeps a state, as a broker does: the oracle of `onefold.dedup.sequences`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from onefold.dedup.documents import WRAP

Sent = tuple[int, str | None, int, int]
"""(offset, producer, epoch, sequence); no producer: the record tells none."""
Outcome = tuple[int, str, int]
"""(offset, outcome, missing)"""


@dataclass(slots=True)
class Broker:
    """What a broker knows of the producers of one partition."""

    epochs: dict[str, int] = field(default_factory=dict)
    last: dict[tuple[str, int], int] = field(default_factory=dict)

    def take(self, name: str, epoch: int, sequence: int) -> tuple[str, int]:
        """The outcome of a record, and how many sequences it leaves out."""
        top = self.epochs.get(name)
        if top is not None and epoch < top:
            return "fenced", 0
        self.epochs[name] = epoch
        if (last := self.last.get((name, epoch))) is None:
            self.last[name, epoch] = sequence
            skipped = sequence if top is not None and epoch >= 0 else 0
            return ("gap", skipped) if skipped else ("accepted", 0)
        ahead = sequence - last if epoch < 0 else (sequence - last) % WRAP
        if epoch >= 0 and ahead >= WRAP // 2:
            ahead -= WRAP
        if ahead <= 0:
            return "repeat", 0
        self.last[name, epoch] = sequence
        return ("accepted", 0) if ahead == 1 else ("gap", ahead - 1)


def expected(log: Iterable[Sent]) -> list[Outcome]:
    """A loop over the offsets; after a hole, the broker knows nothing."""
    found, broker, before = [], Broker(), None
    for offset, name, epoch, sequence in sorted(set(log), key=lambda sent: sent[0]):
        if before is not None and offset > before + 1:
            broker = Broker()
        if name is not None:
            found.append((offset, *broker.take(name, epoch, sequence)))
        before = offset
    return found
