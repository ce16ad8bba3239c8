"""The report's page: one self-contained HTML file, values escaped, nothing from another host.

What is counted and compared is worked out here; the wording is in `templates/meanings.html`, the look in
`templates/style.css`, and a section of the page is a file next to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from onefold.landing.plan import Interval
from onefold.offsets import Position, TopicPartition, size
from onefold.quality.checks import id_of
from onefold.quality.documents import CheckResult
from onefold.report.document import LandedLine, Report
from onefold.upsert.coverage import PartitionAccount
from onefold.visible import visible
from onefold.vocabulary import Finding, Verdict, meaning_of

STEPS = ("plan", "land", "dedup", "upsert", "gate", "publish")
"""A batch's way; the state of each is read off the report."""

ROWS = 1_000
"""Rows of a table of the page, at most."""
_UNDATED = {"new": "everything new", "replay": "replay", "gap": "accepted gap", "forget": "forgotten keys"}
_THIN = "\N{NARROW NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Balance:
    """An equation of L2: `left = Σ right`, in records or offsets."""

    left: int
    right: int

    @property
    def holds(self) -> bool:
        """Whether both sides are equal."""
        return self.left == self.right


@dataclass(frozen=True, slots=True)
class Line:
    """A partition's account, with its equation `span = distinct + explained + unexplained`."""

    account: PartitionAccount
    span: int
    explained: int
    unexplained: int
    balance: Balance

    @property
    def sound(self) -> bool:
        """The equation holds, and no offset is missing without a reason."""
        return self.balance.holds and not self.unexplained


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the two records of a conflict, as JSON."""

    name: str
    record: str
    other: str

    @property
    def differs(self) -> bool:
        """Whether the two records say something else here."""
        return self.record != self.other


def render(report: Report) -> str:
    """The page of a report."""
    judged = report.attempt is not None
    sums = {verdict: sum(report.counts[verdict].values()) for verdict in in_order(report.counts)}
    total = sum(sums.values())
    landed = None if report.landed is None else report.landed + report.replayed
    template = _environment().get_template("report.html")
    return template.render(
        report=report,
        judged=judged,
        sums=sums,
        total=total,
        partitions=by_partition(report),
        balance=Balance(landed + report.woken, total) if judged and landed is not None else None,
        lines=lines_of(report.accounts),
        landed_balance=balance_of_objects(report.objects, landed),
        steps=steps_of(report),
        highest={(highest.partition, highest.producer, highest.epoch): highest for highest in report.highest},
        checks=grouped(report.checks),
        conflicts=[(example, fields_of(example)) for example in report.examples.get("conflicts", [])],
        reused=_findings(report, Finding.IDENTITY_REUSED),
        moved=_findings(report, Finding.PERIOD_MOVED),
    )


def _findings(report: Report, finding: Finding) -> list[tuple[dict[str, Any], list[Field]]]:
    found = [example for example in report.examples.get("reused", []) if example["reason"] == finding]
    return [(example, fields_of(example)) for example in found]


def in_order(counts: Iterable[str]) -> list[str]:
    """Verdicts as the page lists them."""
    known = {str(verdict): place for place, verdict in enumerate(Verdict)}
    return sorted(counts, key=lambda verdict: (known.get(verdict, len(known)), verdict))


def by_partition(report: Report) -> list[tuple[TopicPartition | None, dict[str, int]]]:
    """Records by verdict of each partition, in their order; those that no partition is known of last."""
    places = [(TopicPartition.of(key) if "/" in key else None, counts) for key, counts in report.partitions.items()]
    return sorted(
        ((at, {verdict: sum(reasons.values()) for verdict, reasons in counts.items()}) for at, counts in places),
        key=lambda item: (item[0] is None, tuple(item[0].model_dump().values()) if item[0] else ()),
    )


def lines_of(accounts: list[PartitionAccount]) -> list[Line]:
    """The account of each partition: those that do not add up first, then by topic and number."""
    lines = []
    for account in accounts:
        span, explained, unexplained = (
            account.end - account.start,
            sum(account.explained.values()),
            size(account.unexplained),
        )
        balance = Balance(span, account.distinct + explained + unexplained)
        lines.append(Line(account, span, explained, unexplained, balance))

    def place(line: Line) -> tuple[bool, str, str, int, int]:
        at = line.account.topic_partition
        return line.sound, at.cluster, at.topic, at.incarnation, at.partition

    return sorted(lines, key=place)


def balance_of_objects(objects: list[LandedLine], landed: int | None) -> Balance | None:
    """`landed = Σ records of the objects`; None while they have not been counted."""
    counted = [object_.records for object_ in objects if object_.records is not None]
    return Balance(landed, sum(counted)) if counted and landed is not None else None


def steps_of(report: Report) -> list[tuple[str, str]]:
    """Each step and its state: done, red, next, or pending. A step is done where a later one is."""
    reached = {
        "land": bool(report.objects) or report.landed is not None,
        "dedup": report.landed is not None,
        "upsert": report.attempt is not None,
        "gate": bool(report.checks),
        "publish": report.status == "published",
    }
    last = max((STEPS.index(name) for name, done in reached.items() if done), default=0)
    states = ["done" if place <= last else "pending" for place in range(len(STEPS))]
    if report.status == "red":
        states[STEPS.index("gate")] = "red"
    elif last + 1 < len(STEPS):
        states[last + 1] = "next"
    return list(zip(STEPS, states, strict=True))


def outcome(check: CheckResult) -> str:
    """How a check is shown: errored, failed, waived, warning, passed or not_applicable."""
    if check.waived:
        return "waived"
    if check.status == "failed" and not check.red:
        return "warning"
    return check.status


def grouped(checks: list[CheckResult]) -> dict[str, list[CheckResult]]:
    """Checks by what they mean for the batch, red first; empty groups left out."""
    order = {"errored": "red", "failed": "red", "waived": "waived", "warning": "warning", "passed": "passed"}
    groups: dict[str, list[CheckResult]] = {"red": [], "waived": [], "warning": [], "passed": [], "not_applicable": []}
    for check in checks:
        groups[order.get(outcome(check), "not_applicable")].append(check)
    return {name: found for name, found in groups.items() if found}


def fields_of(conflict: dict[str, Any]) -> list[Field]:
    """The fields of both records of a conflict; none where neither kept its fields."""
    record = (conflict.get("record") or {}).get("fields") or {}
    other = (conflict.get("other") or {}).get("fields") or {}

    def text(fields: dict[str, Any], name: str) -> str:
        return json.dumps(fields[name], ensure_ascii=False, default=str) if name in fields else ""

    return [Field(name, text(record, name), text(other, name)) for name in dict.fromkeys([*record, *other])]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("onefold.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (thin, share, bytes_, instant, interval, undated, position, lasting, id_of)
    environment.filters |= {function.__name__.rstrip("_"): function for function in filters}
    environment.tests |= {"red": lambda check: check.red}
    environment.globals |= {"outcome": outcome, "meaning_of": meaning_of, "ROWS": ROWS}
    return environment


def shown(value: object) -> object:
    """A value for the page: a text with what cannot be seen spelled out."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def thin(count: int | None) -> str:
    """`1234567` as 1 234 567, with narrow no-break spaces; a dash for what is not known."""
    return "–" if count is None else f"{count:,}".replace(",", _THIN)


def share(count: int, total: int) -> str:
    """A percentage that never rounds something to nothing, or a part to the whole."""
    if not total:
        return "–"
    percent = 100 * count / total
    if 0 < percent < 0.1:
        return f"<{_THIN}0.1{_THIN}%"
    if 99.9 < percent < 100:
        return f">{_THIN}99.9{_THIN}%"
    return f"{percent:.1f}{_THIN}%" if 0 < percent < 100 else f"{percent:.0f}{_THIN}%"


def bytes_(count: int) -> str:
    """A size in decimal units: 74.3 kB."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if amount < 999.95 or unit == "PB":
            break
        amount /= 1000
    return f"{count}{_THIN}B" if unit == "B" else f"{amount:.1f}{_THIN}{unit}"


def lasting(seconds: float) -> str:
    """A time in the unit that fits: 250 ms, 1.5 s, 12 min, 3.2 h, 4 d."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= length:
            return f"{seconds / length:.1f}".removesuffix(".0") + f"{_THIN}{unit}"
    return f"{seconds * 1000:.0f}{_THIN}ms"


def instant(at: datetime, *, zone: bool = True) -> str:
    """`2026-03-09 06:00 UTC`, with seconds only where there are any."""
    utc = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    text = f"{utc:%Y-%m-%d %H:%M:%S}" if utc.second else f"{utc:%Y-%m-%d %H:%M}"
    return f"{text} UTC" if zone else text


def interval(between: Interval) -> str:
    """`2026-03-09 05:00 to 06:00 UTC`; the date of the end only where it is another day's."""
    start, end = instant(between.start, zone=False), instant(between.end, zone=False)
    same_day = start.split()[0] == end.split()[0]
    return f"{start} to {end.split()[1] if same_day else end} UTC"


def undated(batch: str) -> str:
    """What a batch without an interval is, as its name begins."""
    return _UNDATED.get(batch.partition("_")[0], "export")


def position(at: dict[str, Any]) -> str:
    """`topic-partition@offset`, or nothing where there is none."""
    return str(Position.of(at) or "") if "topic" in at else ""
