"""The overview: one row a dataset, what needs a person first, filtered and paged."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from onefold.lake import Lake
from onefold.report.history import READERS, History
from onefold.ui.dataset_status import DatasetStatus, status_of
from onefold.ui.histories import Decided, Histories, unless_broken

ROWS = 25
"""Datasets of a page."""


@dataclass(frozen=True, slots=True)
class Overview:
    """One page of the overview. The sums are over everything that the user may read, whatever the filter says."""

    rows: list[DatasetStatus]
    datasets: int
    waiting: int
    late: int
    damaged: int
    found: int
    page: int
    pages: int
    query: str
    now: datetime


def overview_of(lake: Lake, histories: Histories, allowed: set[str], query: str, page: int, now: datetime) -> Overview:
    """A page of the datasets among `allowed`.

    Decisions are asked for where they can change what is seen: of the rows of the page, and of red batches.
    """
    every = histories.overview(lake, allowed)

    def bare_of(name: str) -> DatasetStatus:
        return _status(name, every[name], lambda: ([], 0), now)

    def asked(name: str) -> DatasetStatus:
        return _status(name, every[name], lambda: histories.decisions(lake, name), now)

    bare = {name: bare_of(name) for name in every}

    with ThreadPoolExecutor(READERS) as pool:
        red = [name for name, status in bare.items() if status.waiting]
        statuses = bare | dict(zip(red, pool.map(asked, red), strict=True))
        matching = [status for status in statuses.values() if _matches(status.history, query)]
        ordered = sorted(matching, key=_need)
        pages = max(1, -(-len(ordered) // ROWS))
        page = min(max(page, 1), pages)
        shown = [status.name for status in ordered[(page - 1) * ROWS : page * ROWS]]
        rest = [name for name in shown if name not in red]
        statuses |= dict(zip(rest, pool.map(asked, rest), strict=True))
    return Overview(
        rows=sorted((statuses[name] for name in shown), key=_need),
        datasets=len(statuses),
        waiting=sum(len(status.waiting) for status in statuses.values()),
        late=sum(status.late for status in statuses.values()),
        damaged=sum(len(status.damaged) for status in statuses.values()),
        found=len(ordered),
        page=page,
        pages=pages,
        query=query,
        now=now,
    )


def _status(
    name: str, history: History | None, decisions: Callable[[], tuple[list[Decided], int]], now: datetime
) -> DatasetStatus:
    """The status of a dataset, or that it is unknown: the others are shown all the same."""

    def look() -> DatasetStatus | None:
        if history is None:
            return None
        status = status_of(history, *decisions(), now)
        _need(status)  # what it is sorted by is worked out here
        return status

    return unless_broken(name, look) or DatasetStatus(History(dataset=name), [], [], 0, now, broken=True)


def _matches(history: History, query: str) -> bool:
    text = " ".join((history.dataset, history.table, history.owner, history.description)).casefold()
    return all(word in text for word in query.casefold().split())


def _need(status: DatasetStatus) -> tuple[int, int, str]:
    return status.rank, -len(status.waiting), status.name
