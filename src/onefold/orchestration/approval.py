"""What the approver of a decision reads: Markdown, in which nothing that others wrote can pass for ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from onefold.dataset import Dataset
from onefold.decisions import Clearable, Decision
from onefold.instants import span_text
from onefold.operations.decision_requests import Request
from onefold.orchestration.links import report_link
from onefold.quality.documents import CheckResult, GateResult
from onefold.quality.waivers import why_not, with_id
from onefold.report.page import fields_of, position
from onefold.visible import visible_line

_MEANS = {
    "release": "It is published as it is, if its gate finds the same values again.",
    "discard": "It goes back to landed: branch, staging and attempts are dropped. Then clear its own run from dedup "
    "on, or let `onefold run` fold it again.",
    "skip": "It is covered and nothing of it is used: no row changes.",
    "again": "It was rolled back, and is judged again as if it were new: nothing that was decided before counts.",
    "without": "It is published, and is taken out: every other landed batch is folded into a new table, which readers "
    "see at once. It waits for an operator then, and a corrected batch can be published in its place.",
    "replay": "What is in its quarantine is folded again, as a batch of its own with a gate of its own.",
}


SIDES = 5
"""Conflicts whose two sides are shown; the report has more."""


def subject_of(dataset: Dataset, request: Request) -> str:
    """The question, in one line."""
    if request.decision == "without":
        return visible_line(f"Take batch {request.batch} out of {dataset.name}?")
    return visible_line(f"{request.decision.capitalize()} batch {request.batch} of {dataset.name}?")


def body_of(
    dataset: Dataset, request: Request, made: Decision, gate: GateResult | None, asked_by: str | None = None
) -> str:
    """What is red, what is waived, why and by whom it is asked for, and where the report is."""
    parts = [
        _MEANS[request.decision],
        f"Table: {_code(dataset.target.table)}. Decision {made.number} on batch {_code(made.batch)}.",
        _reason(request.reason, asked_by),
    ]
    if made.kind == "replay":
        parts.append(f"**Records**: {made.records}, of batch {_code(made.origin)}")
    elif request.decision != "without":
        parts.append("**Red checks**\n\n" + "\n".join(_red(gate, request)))
    if made.kind == "release" and made.carried:
        parts.append("**Stays waived**\n\n" + "\n".join(f"- {_code(waiver.words)}" for waiver in made.carried))
    if made.kind == "release" and gate and (sides := list(_sides(gate))):
        parts.append("**Which record wins, once it is published**\n\n" + "\n".join(sides))
    return "\n\n".join([*parts, f"[Report]({report_link(dataset.name, request.batch)})"])


def _red(gate: GateResult | None, request: Request) -> list[str]:
    if gate is None:
        return ["- none: it was not judged yet"]
    return [f"- {_describe(check, request)}" for check in gate.checks if check.red] or ["- none"]


def _describe(check: CheckResult, request: Request) -> str:
    wanted = f", wanted {_code(check.expected)}" if check.expected else ""
    name = _code(check.title) if check.id == check.title else f"{_code(check.title)} ({_code(check.id)})"
    over = f" {check.looked_at}" if check.looked_at else ""
    description = f"{name}: found {_code(check.value)}{over}{wanted}"
    if request.decision != "release":
        return description
    if why := why_not(check):
        fate = f"cannot be waived: {why}"
    else:
        fate = "waived" if f"{check.id}={check.value}" in map(with_id, request.waivers) else "not waived"
    return f"{description} ({fate})"


def _sides(gate: GateResult) -> Iterator[str]:
    """Of each conflict the record that wins, the record that loses, and the values in which they differ."""
    conflicts = gate.examples.get("conflicts", [])
    for conflict in conflicts[:SIDES]:
        of_table = " of the table" if conflict["scope"] == "stored" else ""
        sides = [_code(position(conflict["record"])), _code(position(conflict["other"])) + of_table]
        values = [(field.name, [field.record, field.other]) for field in fields_of(conflict) if field.differs]
        winner, loser = (0, 1) if conflict["won"] else (1, 0)
        differences = [f"{_code(name)} {_code(of[winner])}, not {_code(of[loser])}" for name, of in values]
        listed = f": {'; '.join(differences)}" if differences else ""
        yield f"- {sides[winner]} wins, {sides[loser]} does not{listed}"
    if len(conflicts) > SIDES:
        yield "- more of them: see the report"


def clearing_body(
    found: Mapping[str, Sequence[Clearable]], age: timedelta, reason: str, asked_by: str | None = None
) -> str:
    """Which landed bytes would be deleted, of which datasets, why, and who asks for it."""
    parts = [
        f"Landed bytes that are older than {span_text(age)} are deleted. **Nothing brings them back**: without them "
        "there is no rebuild, no replay and no proof, and no rollback to before them. Rows stay as they are.",
        _reason(reason, asked_by),
    ]
    lines = [
        f"- {_code(dataset)}, source {_code(part.source)}: {len(part.landings)} landings, {part.objects} objects, "
        f"{part.bytes:,} bytes, landed from {part.oldest:%Y-%m-%d %H:%M} to {part.newest:%Y-%m-%d %H:%M} UTC"
        for dataset, some in found.items()
        for part in some
    ]
    return "\n\n".join([*parts, "**What is deleted**\n\n" + "\n".join(lines)])


def _reason(reason: str, asked_by: str | None) -> str:
    lines = "\n".join(f"> {_code(line)}" for line in reason.splitlines() if line.strip())
    return f"**Reason given**{f', by {_code(asked_by)}' if asked_by else ''}\n\n{lines}"


def _code(text: str) -> str:
    """As a code span, in which Markdown reads nothing; what cannot be seen is spelled out, so that no two texts look
    alike that are not."""
    line = visible_line(text.strip("\n")).replace("`", "\\u0060")
    return f"`{line or ' '}`"
