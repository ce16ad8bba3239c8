"""Runs the rules over the facts and puts what they find in order, worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onefold.diagnosis.by_hand import Unseen, unseen_by
from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import SEVERITIES, Finding
from onefold.diagnosis.rules import RULES, Rule
from onefold.diagnosis.writers import Writers, writers_of


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding, the name of its rule, and all places that it was found at."""

    rule: str
    finding: Finding
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, worst first, what has to be looked at by hand, and who writes, by the newest record batches."""

    findings: tuple[Judged, ...]
    by_hand: tuple[Unseen, ...]
    writers: tuple[Writers, ...] = ()


def diagnose(facts: Facts, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """What all rules find, worst first, within a severity in the order of the rules; once what is equal but for its
    place."""
    found: dict[tuple[str, Finding], list[str]] = {}
    for rule in rules:
        for finding in rule(facts):
            found.setdefault((rule.__name__, replace(finding, where="")), []).append(finding.where)
    judged = [Judged(rule, finding, tuple(dict.fromkeys(places))) for (rule, finding), places in found.items()]
    ordered = sorted(judged, key=lambda entry: SEVERITIES.index(entry.finding.severity))
    return Diagnosis(tuple(ordered), unseen_by(facts), writers_of(facts))
