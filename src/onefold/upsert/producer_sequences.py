"""The highest sequence of each producer, carried from batch to batch; what comes below it, behind it, came again."""

from __future__ import annotations

from onefold.dedup.documents import WRAP, Producers, Session
from onefold.upsert.documents import Highest

KEPT = 1_000
"""Sessions that a commit record remembers: those of the batch first, then the latest before."""


def highest_after(producers: Producers | None, before: list[Highest]) -> tuple[list[Highest], int]:
    """What the table has seen after a batch, and how many sessions it forgets: those that are not listed or kept."""
    sessions = producers.listed if producers else []
    unlisted = producers.sessions - len(sessions) if producers else 0
    standing = {_key(one): one for one in before}
    found = {}
    for session in sessions:
        known = standing.get(_key(session))
        mine = Highest(
            partition=session.partition,
            producer=session.producer,
            epoch=session.epoch,
            sequence=session.highest,
            offset=session.highest_at,
        )
        found[_key(session)] = mine if known is None or _ahead(mine.sequence, known) > 0 else known
    seen = [*found.values(), *(one for key, one in standing.items() if key not in found)]
    return seen[:KEPT], unlisted + len(seen[KEPT:])


def come_again(sessions: list[Session], before: list[Highest]) -> list[tuple[Session, Highest]]:
    """Sessions whose records lie behind what the table has seen of them, and yet begin at or below its sequence.

    A broker refuses that: it had lost what it knew of the producer (an old snapshot), or a name was given twice.
    """
    standing = {_key(one): one for one in before}
    met = [(session, standing[_key(session)]) for session in sessions if _key(session) in standing]
    return [
        (session, known)
        for session, known in met
        if session.start > known.offset and _ahead(session.lowest, known) <= 0
    ]


def _key(one: Session | Highest) -> tuple[str, str, int]:
    return one.partition, one.producer, one.epoch


def _ahead(sequence: int, known: Highest) -> int:
    """How far a sequence is ahead of the highest known; of a record batch's the nearer way around the circle."""
    ahead = sequence - known.sequence
    return ahead if known.epoch < 0 else (ahead + WRAP // 2) % WRAP - WRAP // 2
