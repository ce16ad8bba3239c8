"""What never came, or was left out: the warnings of the newest batch's gate, and objects that no run reads."""

from __future__ import annotations

from collections.abc import Iterator

from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import Finding


def warnings_of_the_gate(facts: Facts) -> Iterator[Finding]:
    """What the checks of the newest published batch found and only warned of."""
    for check in facts.landed.warned:
        first = f" ({', '.join(check.first)})" if check.first else ""
        found = f"{check.title}: {check.value}{first}"
        why = f"The batch was published: the check {check.id} only warns."
        yield Finding("warning", "newest batch", found, why, action=check.way_out)


def objects_left_out(facts: Facts) -> Iterator[Finding]:
    """Objects in the place of an export that a run does not read now."""
    exports = facts.dataset.source.exports
    for note in facts.left_out:
        assert exports
        yield Finding("warning", exports.path, note, "Their records are in no batch.")
