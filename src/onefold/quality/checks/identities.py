"""Whether what the dataset takes for an identity is one: it is in one period, and it does not begin again."""

from __future__ import annotations

from onefold.quality.checks.check import Measurement
from onefold.quality.checks.facts import BranchFacts


def missed_deletes(facts: BranchFacts) -> Measurement | None:
    """Deletes that found no row in their period: where the mode deletes, and a period is part of the identity."""
    dataset = facts.dataset
    if not (dataset.within and dataset.apply.DELETES):
        return None
    return Measurement(
        facts.missed_deletes,
        0,
        first=facts.first_missed,
        way_out=(
            f"a delete looks for its row in its own period alone ({dataset.identity.within}). If the row is in another "
            "one, it stays: let the source send deletes with the value that the row has, or bound the identity by a "
            f"field that is set once, and run onefold rebuild {dataset.name}. If the record that it deletes is not "
            "published yet, nothing is wrong"
        ),
    )
