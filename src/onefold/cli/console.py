"""What people see: progress and notes on standard error, results on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from onefold.visible import visible, visible_json

_WIDTH = None if sys.stdout.isatty() else 140
OUT = Console(highlight=False, width=_WIDTH)
NOTES = Console(stderr=True, highlight=False)
_SHOWN = 8
"""Ranges in a cell of a table; JSON has them all."""


def print_json(value: Any) -> None:
    """One JSON document on standard output, exactly; what a terminal would obey is escaped."""
    sys.stdout.write(_json(value) + "\n")


def print_json_rows(rows: Iterable[dict[str, Any]], head: dict[str, Any] | None = None) -> None:
    """What `print_json` says of the list of rows (`head`: of an object that ends with them as `rows`), row by row."""
    start, end, inset = "[", "]", ""
    if head is not None:
        start, end, inset = _json(head).removesuffix("\n}") + ',\n  "rows": [', "]\n}", "  "
    sys.stdout.write(start)
    between = ""
    for row in rows:
        text = _json(row).replace("\n", f"\n{inset}  ")
        sys.stdout.write(f"{between}\n{inset}  {text}")
        between = ","
    sys.stdout.write(f"\n{inset}{end}\n" if between else f"{end}\n")


def _json(value: Any) -> str:
    return visible_json(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_rows(title: str, rows: Iterable[dict[str, Any]], empty: str = "nothing yet") -> None:
    """A table of rows with equal keys."""
    listed = list(rows)
    if not listed:
        print_line(f"{title}: {empty}")
        return
    table = Table(title=escape(visible(title)), title_justify="left", header_style="bold")
    for name in listed[0]:
        table.add_column(name, overflow="fold")
    for row in listed:
        table.add_row(*(cell("" if value is None else str(value)) for value in row.values()))
    OUT.print(table)


def print_line(text: str) -> None:
    """A line of the result."""
    OUT.print(visible(text), markup=False, soft_wrap=True)


def cell(text: str, style: str = "") -> Text:
    """A cell's text, which records may have written: [x] is no markup, and a terminal obeys no character of it."""
    return Text(visible(text), style)


def answer(
    title: str,
    rows: Iterable[dict[str, Any]],
    as_json: bool,
    shown: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    empty: str = "nothing yet",
) -> None:
    """Rows as JSON, or as a table of what is `shown` of each."""
    print_json_rows(rows) if as_json else print_rows(title, (shown(row) for row in rows), empty)


def note(text: str) -> None:
    """A line next to the result."""
    NOTES.print(visible(text), markup=False, soft_wrap=True)


def with_ranges(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose lists of ranges are text: `[0, 5), [7, 9)`, holes by kind: `2 aborted: [5, 7)`; of many the first."""
    return {key: _range_texts(value) if isinstance(value, list) else value for key, value in row.items()}


def _range_texts(value: list[Any]) -> str:
    kinds: dict[str, list[tuple[int, int]]] = {}
    for item in value:
        kind, *bounds = (item["kind"], item["start"], item["end"]) if isinstance(item, dict) else ("", *item)
        kinds.setdefault(kind, []).append((bounds[0], bounds[1]))
    counted = {kind: sum(end - start for start, end in ranges) for kind, ranges in kinds.items()}
    return "; ".join((f"{counted[kind]} {kind}: " if kind else "") + _first(ranges) for kind, ranges in kinds.items())


def _first(ranges: list[tuple[int, int]]) -> str:
    left = len(ranges) - _SHOWN
    shown = [f"[{start}, {end})" for start, end in ranges[:_SHOWN]]
    return ", ".join([*shown, f"and {left} more"] if left > 0 else shown)
