"""`onefold doctor`: what can cause duplicates, reordering or loss, worst first. It starts no JVM and writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from onefold.cli.app import AsJson, Name, app, open_dataset
from onefold.cli.console import NOTES, OUT, cell, note, print_json

if TYPE_CHECKING:
    from onefold.diagnosis import Diagnosis
    from onefold.diagnosis.diagnose import Judged
    from onefold.report.causes import Change

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan", "unknown": "dim"}
_PLACES = 4
"""How many places of one finding a table names."""


@app.command()
def doctor(name: Name, as_json: AsJson = False) -> None:
    """Topic, broker, client and schedule settings that cause duplicates, reordering or loss, worst first."""
    from onefold.diagnosis import diagnose, gather

    lake, dataset = open_dataset(name)
    with NOTES.status(f"{name}: looking at {dataset.source.place}"):
        facts = gather(lake, dataset)
    found = diagnose(facts)
    if as_json:
        print_json({"dataset": name, "cluster": facts.cluster.id if facts.cluster else None, **document(found)})
        return
    _print(name, found)


def document(found: Diagnosis) -> dict[str, Any]:
    """A diagnosis as JSON values."""
    return {
        "findings": [
            {
                "severity": judged.finding.severity,
                "rule": judged.rule,
                "where": list(judged.places),
                "found": judged.finding.found,
                "why": judged.finding.why,
                "set": _set(judged.finding.change),
                "do": judged.finding.action or None,
            }
            for judged in found.findings
        ],
        "by_hand": [
            {
                "of": setting.of,
                "setting": setting.name,
                "default": setting.default,
                "wanted": setting.wanted,
                "why": setting.why,
            }
            for setting in found.by_hand
        ],
        "writers": [
            {
                "topic": writer.topic,
                "partitions": writer.partitions,
                "batches": writer.batches,
                "records": writer.records,
                "without_id": writer.without_id,
                "transactional": writer.transactional,
                "producers": writer.producers,
                "epochs": writer.epochs,
                "codecs": dict(writer.codecs),
                "append_time": writer.append_time,
                "since": writer.since.isoformat() if writer.since else None,
            }
            for writer in found.writers
        ],
    }


def _set(change: Change | None) -> dict[str, str | None] | None:
    return {"name": change.name, "value": change.value or None, "note": change.note or None} if change else None


def _print(name: str, found: Diagnosis) -> None:
    if found.findings:
        OUT.print(findings_table(name, found))
    if found.writers:
        OUT.print(writers_table(found))
    OUT.print(by_hand_table(found))
    counts = [(kind, sum(judged.finding.severity == kind for judged in found.findings)) for kind in _STYLES]
    note(f"{name}: " + (", ".join(f"{count} {kind}" for kind, count in counts if count) or "nothing found"))


def findings_table(name: str, found: Diagnosis) -> Table:
    """The findings, for people."""
    table = Table(
        title=f"{name}: what can cause duplicates, reordering or loss",
        title_justify="left",
        show_lines=True,
        expand=True,
    )
    table.add_column("severity", no_wrap=True)
    table.add_column("found, and why it matters", ratio=3, overflow="fold")
    table.add_column("set, or do", ratio=2, overflow="fold")
    for judged in found.findings:
        change = str(judged.finding.change or judged.finding.action)
        table.add_row(cell(judged.finding.severity, _STYLES[judged.finding.severity]), _describe(judged), cell(change))
    return table


def _describe(judged: Judged) -> Text:
    more = len(judged.places) - _PLACES
    where = ", ".join(judged.places[:_PLACES]) + (f" and {more} more" if more > 0 else "")
    return Text.assemble(cell(judged.finding.found, "bold"), cell(f"\n{where}\n"), cell(judged.finding.why, "dim"))


def writers_table(found: Diagnosis) -> Table:
    """Who writes, as the newest record batches show it, for people."""
    title = "the newest record batches: who writes, and how"
    table = Table(title=title, title_justify="left", title_style="italic", expand=True)
    table.add_column("topic", overflow="fold")
    for name in ("batches", "no id", "in transactions", "producers", "epochs"):
        table.add_column(name, justify="right")
    table.add_column("compression")
    table.add_column("time of")
    for writer in found.writers:
        clock = ["producer"] * (writer.append_time < writer.batches) + ["broker"] * (writer.append_time > 0)
        numbers = (writer.batches, writer.without_id, writer.transactional, writer.producers, writer.epochs)
        table.add_row(cell(writer.topic), *map(str, numbers), ", ".join(writer.codecs), ", ".join(clock))
    return table


def by_hand_table(found: Diagnosis) -> Table:
    """What to look up by hand, for people: a setting's name is never broken, so that it can be copied."""
    title = "unknown: no broker tells these; look them up where they are set"
    table = Table(title=title, title_justify="left", title_style="italic", expand=True)
    table.add_column("of")
    table.add_column("setting", no_wrap=True)
    table.add_column("wanted", ratio=2, overflow="fold")
    table.add_column("otherwise", ratio=3, overflow="fold")
    for setting in found.by_hand:
        table.add_row(
            *(
                cell(text)
                for text in (setting.of, setting.name, f"{setting.wanted} (default {setting.default})", setting.why)
            )
        )
    return table
