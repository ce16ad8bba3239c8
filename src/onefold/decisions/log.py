"""The log of a batch's decisions: documents 0001, 0002, …, each put only where there is none.

`datasets/<dataset>/decisions/<batch>/<number>.json`; next to a skip that was published `<number>.skipped.json`.
Numbers are a compare-and-set: who looked at a log of two writes the third, or learns that another has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onefold import lake_keys
from onefold.decisions.documents import (
    DECISION,
    TABLE_DECISION,
    Again,
    Clearing,
    Decision,
    Discard,
    Erasure,
    Pinned,
    RolledBack,
    Skip,
    Standing,
    Undone,
)
from onefold.errors import DecidedMeanwhileError, RolledBackError
from onefold.faults import fault_point
from onefold.lake import Lake
from onefold.offsets import Coverage

_PINNED = ".skipped.json"


def log_of(lake: Lake, dataset: str, batch: str) -> list[Decision]:
    """The decisions on a batch, oldest first."""
    found: list[Decision] = []
    while data := lake.storage.read(lake_keys.decision_of(dataset, batch, len(found) + 1)):
        found.append(DECISION.validate_json(data))
    return found


def standing(log: list[Decision]) -> Standing | None:
    """The decision that steps obey; after a discard, a rollback and `again` there is none."""
    last = log[-1] if log else None
    return None if isinstance(last, Discard | Undone | Again) else last


def undone(log: list[Decision]) -> Undone | Discard | None:
    """The rollback, or the rebuild without the batch, that nothing was decided after. A batch that is not published
    is `rolled_back`, or `discarded`, by it, and waits for an operator."""
    last = log[-1] if log else None
    return last if isinstance(last, Undone) or (isinstance(last, Discard) and last.rebuilt) else None


def check_not_rolled_back(log: list[Decision]) -> None:
    """Refuse to process a batch that is not published and waits for an operator since a rollback or a rebuild.

    Raises:
        RolledBackError: nothing was decided of the batch since.
    """
    if decision := undone(log):
        raise RolledBackError(decision.dataset, decision.batch, decision.sentence)


def record(lake: Lake, decision: Decision) -> None:
    """Put a decision on record, as the next of its batch.

    Raises:
        DecidedMeanwhileError: another one has that number.
    """
    fault_point("before_decision")
    key = lake_keys.decision_of(decision.dataset, decision.batch, decision.number)
    data = decision.model_dump_json(indent=1).encode()
    if not lake.storage.put_if_absent(key, data) and lake.storage.read(key) != data:
        raise DecidedMeanwhileError(decision.dataset, decision.batch)
    fault_point("after_decision")


def every_decision(lake: Lake, dataset: str) -> Iterator[Decision]:
    """The decisions on all batches of a dataset, by batch and number."""
    for info in lake.storage.list(lake_keys.decisions(dataset)):
        below = info.key.removeprefix(lake_keys.decisions(dataset))
        if "/" in below and not below.endswith(_PINNED) and (data := lake.storage.read(info.key)):
            yield DECISION.validate_json(data)


def table_decisions(lake: Lake, dataset: str) -> list[RolledBack | Clearing]:
    """The decisions on a dataset's table and on its landings, by name."""
    prefix = lake_keys.decisions(dataset)
    keys = [info.key for info in lake.storage.list(prefix) if "/" not in info.key.removeprefix(prefix)]
    return [TABLE_DECISION.validate_json(data) for key in keys if (data := lake.storage.read(key))]


def pin_skips(lake: Lake, dataset: str, skipped: Mapping[str, Coverage]) -> None:
    """Keep, once, what published skips took out, by batch; called before the chain that says so is left."""
    for batch, covered in skipped.items():
        number = len(log_of(lake, dataset, batch))
        if number:
            key = lake_keys.decision_of(dataset, batch, number, _PINNED)
            lake.put_first(key, Pinned(batch=batch, number=number, covered=covered))


def pinned_skips(lake: Lake, dataset: str) -> dict[str, Coverage]:
    """What skips that still stand took out when they were published, by batch; of those that were pinned."""
    found = {}
    for info in lake.storage.list(lake_keys.decisions(dataset)):
        pinned = lake.get(info.key, Pinned) if info.key.endswith(_PINNED) else None
        if (
            pinned
            and len(log := log_of(lake, dataset, pinned.batch)) == pinned.number
            and isinstance(standing(log), Skip)
        ):
            found[pinned.batch] = pinned.covered
    return found


def erasures_of(lake: Lake, dataset: str) -> list[Erasure]:
    """The decisions to erase keys of a dataset, oldest first."""
    found = (lake.get(info.key, Erasure) for info in lake.storage.list(lake_keys.erasures(dataset)))
    return sorted((erasure for erasure in found if erasure), key=lambda erasure: erasure.at)
