"""What happened to a database as a whole, which no record can do to the table's rows: `value.envelope: debezium`."""

from __future__ import annotations

from onefold.quality.checks.check import Measurement
from onefold.quality.checks.facts import BranchFacts
from onefold.vocabulary import Reason, Verdict


def truncates(facts: BranchFacts) -> Measurement | None:
    """Truncates that the dataset's records have."""
    return _of_database(
        facts,
        Reason.TRUNCATE,
        "the table was emptied in the database, and its rows are live here. If no row was written after that, delete "
        "them by a decision (onefold forget), or fill the table again: let the connector take a new snapshot, and run "
        f"onefold rebuild {facts.dataset.name} without what came before. Waive the check where the rows are to stay",
    )


def schema_changes(facts: BranchFacts) -> Measurement | None:
    """Changes of the database's schema among the dataset's records."""
    return _of_database(
        facts,
        Reason.SCHEMA_CHANGE,
        "the database's schema was changed. Compare it with value.fields, and waive the check once it fits",
    )


def _of_database(facts: BranchFacts, reason: Reason, way_out: str) -> Measurement | None:
    if not facts.dataset.value.envelope.has_changes:
        return None
    count = facts.upserted.counts.get(Verdict.CONTROL, {}).get(reason, 0)
    return Measurement(count, 0, first=facts.of_database.get(reason, ()), way_out=way_out)
