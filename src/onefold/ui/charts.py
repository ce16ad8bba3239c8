"""Bars and strips as numbers; `templates/charts.html` draws them as SVG. No library: rectangles are all there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onefold.offsets import TopicPartition
from onefold.report.history import Entry, Strip
from onefold.report.page import in_order, instant, share, thin
from onefold.ui.dataset_status import Batch, DatasetStatus
from onefold.vocabulary import LOST, Level, Verdict

WIDE = 720.0
"""Units of a chart's width; the page scales it."""
HIGH = 96.0
_STEP = 24.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: where it begins from above, how high it is, and its colour's name."""

    top: float
    height: float
    kind: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One batch."""

    left: float
    width: float
    parts: list[Part]
    batch: Batch
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars over batches, the oldest on the left."""

    id: str
    name: str
    width: float
    height: float
    bars: list[Bar]
    kinds: list[str]
    top: str
    total: int
    tells: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a strip, in thousandths of its width."""

    left: float
    width: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """One partition's strip with its numbers."""

    partition: TopicPartition
    strip: Strip
    pieces: list[Piece]
    unexplained: int
    tells: str


def trend_of(status: DatasetStatus) -> Chart | None:
    """The duplicate rate of the recent batches, small; None while no batch was judged."""
    batches = list(reversed(status.recent))
    rates = [batch.entry.duplicate_rate for batch in batches]
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    highest, height, step = max(known), 26.0, 4.0
    bars = []
    for place, (batch, rate) in enumerate(zip(batches, rates, strict=True)):
        size = 0.0 if not rate or not highest else max(1.0, rate / highest * (height - 2))
        kind = Verdict.DUPLICATE if batch.state == "published" else "alarm"
        bars.append(Bar(place * step, step - 1, [Part(height - size, size, kind)], batch, ""))
    counted = [(batch.entry.counts.get(Verdict.DUPLICATE, 0), batch.entry.records) for batch in batches]
    low, high = (share_of(counted, pick, known) for pick in (min, max))
    tells = f"Duplicate rate of {len(known)} batches, the oldest first: between {low} and {high}."
    width = max(step * len(bars), 40.0)
    return Chart(f"trend-{status.name}", "Duplicate rate", width, height, bars, [], "", 0, tells)


def share_of(counted: Sequence[tuple[int, int]], pick: Callable[[list[float]], float], known: list[float]) -> str:
    """The least or the highest rate, as the report writes shares."""
    wanted = pick(known)
    return next(share(part, whole) for part, whole in counted if whole and part / whole == wanted)


def charts_of(batches: Sequence[Batch]) -> list[Chart]:
    """The history of a dataset's batches (newest first), a chart a question."""

    def level(kind: str) -> Callable[[Entry], int]:
        return lambda entry: entry.duplicates.get(kind, 0)

    def verdict(kind: str) -> Callable[[Entry], int]:
        return lambda entry: entry.counts.get(kind, 0)

    levels = {kind for batch in batches for kind in batch.entry.duplicates}
    ordered = [kind for kind in Level if kind in levels] + sorted(levels.difference(Level))
    verdicts = in_order({kind for batch in batches for kind, count in batch.entry.counts.items() if count})
    return [
        _chart("records", "Records by verdict", batches, {kind: verdict(kind) for kind in verdicts}),
        _chart("duplicates", "Duplicates by level", batches, {kind: level(kind) for kind in ordered}),
        _chart("conflicts", "Conflicts", batches, {"conflict": verdict(Verdict.CONFLICT)}),
        _chart("rejected", "Rejected records", batches, {"rejected": verdict(Verdict.REJECTED)}),
        _chart("unexplained", "Unexplained offsets", batches, {"unexplained": lambda entry: entry.unexplained}),
    ]


def _chart(id_: str, name: str, batches: Sequence[Batch], series: dict[str, Callable[[Entry], int]]) -> Chart:
    found = [(batch, {kind: count(batch.entry) for kind, count in series.items()}) for batch in reversed(batches)]
    highest = max((sum(counts.values()) for _, counts in found), default=0)
    total = sum(sum(counts.values()) for _, counts in found)
    step = min(_STEP, WIDE / max(1, len(found)))
    bars = []
    for place, (batch, counts) in enumerate(found):
        parts, foot = [], HIGH
        for kind, count in counts.items():
            size = count / highest * HIGH if highest else 0.0
            foot -= size
            parts += [Part(foot, size, kind)] if count else []
        said = ", ".join(f"{thin(count)} {_words(kind)}" for kind, count in counts.items() if count) or "none"
        bars.append(Bar(place * step, step * 0.84, parts, batch, f"{instant(batch.entry.at)}: {said} ({batch.words})"))
    kinds = [kind for kind in series if any(counts[kind] for _, counts in found)]
    peak = thin(highest)
    tells = f"{thin(total)} in {len(found)} batches, at most {peak} in a batch. The table of batches has the numbers."
    return Chart(id_, name, WIDE, HIGH, bars, kinds, peak, total, tells)


def lines_of(status: DatasetStatus) -> list[Line]:
    """A strip a partition; what is missing without a reason lies over what is covered."""
    missing: dict[str, list[tuple[int, int]]] = {}
    for batch in status.batches:
        if batch.state in ("waiting", "decided"):
            for partition, start, end in batch.entry.missing:
                missing.setdefault(partition, []).append((start, end))
    return [_line(partition, missing.get(partition.partition, [])) for partition in status.history.coverage or ()]


def _line(strip: Strip, missing: list[tuple[int, int]]) -> Line:
    start, end = strip.start, max([strip.end, *(high for _, high in missing)])
    unit = 1000 / max(1, end - start)
    pieces = [
        Piece((low - start) * unit, (high - low) * unit, _tone(kind), f"[{low}, {high}): {_words(kind)}")
        for low, high, kind in strip.parts
    ]
    for low, high in missing:
        if high > start:
            width = max(4.0, (high - low) * unit)
            left = max(0.0, min((low - start) * unit, 1000 - width))
            pieces.append(Piece(left, width, "unexplained", f"[{low}, {high}): unexplained"))
    unexplained = sum(high - low for low, high in missing)
    said = [f"{thin(count)} {kind}" for kind, count in strip.holes.items()]
    said += [f"{thin(unexplained)} unexplained"] if unexplained else []
    said += [f"{thin(strip.open)} not covered"] if strip.open else []
    tells = f"Offsets [{strip.start}, {strip.end}): {', '.join(said) or 'covered without a hole'}."
    return Line(TopicPartition.of(strip.partition), strip, pieces, unexplained, tells)


def _tone(kind: str) -> str:
    """The colour of a part: what it means for the reader, of several kinds."""
    if kind in ("landed", "open"):
        return kind
    return "lost" if kind in LOST else "hole"


def _words(kind: str) -> str:
    return "not covered" if kind == "open" else kind.replace("_", " ")
