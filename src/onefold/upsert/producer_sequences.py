"""The highest sequence of each producer, carried from batch to batch; what comes below it, behind it, came again."""

from __future__ import annotations

from onefold.dedup.documents import LEFT, WRAP, Producers, Restart, Session
from onefold.upsert.documents import Counted, Highest

KEPT = 1_000
"""Sessions that a commit record remembers: those of the batch first, then the latest before."""


def highest_after(producers: Producers | None, before: list[Highest]) -> tuple[list[Highest], int]:
    """What the table has seen after a batch, and how many sessions it forgets: those that are not listed or kept."""
    sessions = producers.listed if producers else []
    unlisted = producers.sessions - len(sessions) if producers else 0
    standing = {_key(highest): highest for highest in before}
    found = {}
    for session in sessions:
        known = standing.get(_key(session))
        found[_key(session)] = _after(session, known)
    seen = [*found.values(), *(highest for key, highest in standing.items() if key not in found)]
    return seen[:KEPT], unlisted + len(seen[KEPT:])


def _after(session: Session, known: Highest | None) -> Highest:
    counted = _counted(session)
    mine = Highest(
        partition=session.partition,
        producer=session.producer,
        epoch=session.epoch,
        sequence=session.highest,
        offset=session.highest_at,
        counted=counted,
    )
    if known is None:
        return mine
    highest = mine if _ahead(mine.sequence, known) > 0 else known
    return highest.model_copy(update={"counted": _joined(counted, known.counted)})


def _counted(session: Session) -> Counted | None:
    if session.epoch >= 0 or session.first is None or session.last is None:
        return None
    return Counted(start=session.start, first=session.first, end=session.end, last=session.last)


def _joined(first: Counted | None, other: Counted | None) -> Counted | None:
    """Of both together: the order of batches does not matter."""
    if first is None or other is None:
        return first or other
    early, late = min(first, other, key=lambda of: of.start), max(first, other, key=lambda of: of.end)
    return Counted(start=early.start, first=early.first, end=late.end, last=late.last)


def restarted(sessions: list[Session], before: list[Highest]) -> list[Restart]:
    """Named producers that begin again with a batch, after all that the table has seen of them (`dedup.restarts`)."""
    standing = {_key(highest): highest for highest in before}
    met = [(session, _counted(session), standing[_key(session)]) for session in sessions if _key(session) in standing]
    return [
        Restart(
            partition=session.partition,
            producer=session.producer,
            offset=counted.start,
            sequence=counted.first,
            highest=known.sequence,
        )
        for session, counted, known in met
        if counted and known.counted and _begins_again(counted, known.counted, known.sequence)
    ]


def _begins_again(new: Counted, known: Counted, highest: int) -> bool:
    behind, fell = new.start >= known.end, new.first < known.last
    return behind and fell and (new.first - known.first) * LEFT <= highest - known.first


def come_again(sessions: list[Session], before: list[Highest]) -> list[tuple[Session, Highest]]:
    """Sessions whose records lie behind what the table has seen of them, and yet begin at or below its sequence.

    A broker refuses that: it had lost what it knew of the producer (an old snapshot), or a name was given twice.
    """
    standing = {_key(highest): highest for highest in before}
    met = [(session, standing[_key(session)]) for session in sessions if _key(session) in standing]
    return [
        (session, known)
        for session, known in met
        if session.start > known.offset and _ahead(session.lowest, known) <= 0
    ]


def _key(session: Session | Highest) -> tuple[str, str, int]:
    return session.partition, session.producer, session.epoch


def _ahead(sequence: int, known: Highest) -> int:
    """How far a sequence is ahead of the highest known; of a record batch's the nearer way around the circle."""
    ahead = sequence - known.sequence
    return ahead if known.epoch < 0 else (ahead + WRAP // 2) % WRAP - WRAP // 2
