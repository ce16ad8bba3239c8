"""Duplicates, rejected records and conflicts, against the limits of `quality`.

Rates are of the records that the dataset wants: those that were covered before, filtered, skipped, aborted or control
records count in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onefold.dataset import Dataset
from onefold.quality.checks.check import BLOCKING, WARNING, Measurement
from onefold.quality.checks.facts import BranchFacts
from onefold.vocabulary import Finding, Outcome, Reason, Verdict, outcome_of

HALF = 0.5
"""Of a batch of which a larger share is rejected little is usable, however few its records are."""
BACKWARDS = 0.5
"""The share of records with a version below an earlier one, where the file does not say: more are no late retries."""
CONFLICTS_AND = {Finding.IDENTITY_REUSED: "reused identities", Finding.PERIOD_MOVED: "identities in two periods"}
"""What counts with the conflicts, as their title has it."""
NAMED = 5
"""Identities that are named, at most."""
FEW = 3
"""Fields that the gate proposes to leave out of the comparison, at most."""


def conflicts(facts: BranchFacts) -> Measurement:
    """Records in conflict, without those that a law forbids, reused identities, and identities in two periods."""
    upserted = facts.upserted
    return Measurement(
        upserted.waivable_conflicts,
        facts.dataset.quality.max_conflicts,
        title=_title_of_conflicts(upserted.findings - upserted.moved, upserted.moved),
        first=_first_moved(facts),
        way_out="; or ".join(filter(None, _ways_out_of_conflicts(facts))),
    )


def _title_of_conflicts(reused: int, moved: int) -> str:
    counted = [CONFLICTS_AND[finding] for finding, count in zip(Finding, (reused, moved), strict=True) if count]
    return f"conflicts, {' and '.join(counted)} included" if counted else ""


def _first_moved(facts: BranchFacts) -> list[str]:
    """Some identities in two periods, with their records."""
    moved = [reuse.shown(facts.dataset) for reuse in facts.upserted.reused if reuse.level == Finding.PERIOD_MOVED]
    return [
        f"{identity.identity} is in {' and '.join(identity.periods)} ({identity.first}, {identity.last})"
        for identity in moved[:NAMED]
    ]


def _ways_out_of_conflicts(facts: BranchFacts) -> list[str]:
    dataset, upserted = facts.dataset, facts.upserted
    moved = (
        f"identity.within: {dataset.identity.within} promises that this never changes for an identity, and it did: an "
        "identity in two periods has two rows, and a delete in another period deletes nothing. Bound it by a field "
        "that is set once, such as the time of creation, or leave within out; where each period is to have its row, "
        f"make the field a part of the identity itself; then run onefold rebuild {dataset.name}"
    )
    if upserted.moved == upserted.findings and not upserted.counts.get(Verdict.CONFLICT):
        return [moved] if upserted.moved else []
    return [moved if upserted.moved else "", compare_proposal(dataset, facts.conflicts), _other_way_out(facts)]


def duplicate_rate(facts: BranchFacts) -> Measurement | None:
    """The share of duplicates; a warning below `min_records`."""
    limit = facts.dataset.quality.max_duplicate_rate
    if limit is None:
        return None
    duplicates = _count(facts, Verdict.DUPLICATE) - facts.upserted.known.get(Verdict.DUPLICATE, 0)
    return Measurement(_share(duplicates, facts), limit, severity=_severity(facts))


def rejected_rate(facts: BranchFacts) -> Measurement | None:
    """The share of rejected records; a warning below `min_records`, but not of a sum or a chain, which need every one.

    A replay has none: what it rejects again was counted before.
    """
    limit = facts.dataset.max_rejected_rate
    if facts.upserted.replays or limit is None:
        return None
    severity = BLOCKING if _needs_every_record(facts.dataset) else _severity(facts)
    return Measurement(_share(_rejected(facts), facts), limit, severity=severity)


def mostly_rejected(facts: BranchFacts) -> Measurement | None:
    """The share of rejected records of a batch below `min_records`: all of it where the others only wait."""
    dataset, upserted = facts.dataset, facts.upserted
    if _severity(facts) == BLOCKING or _needs_every_record(dataset) or upserted.replays:
        return None
    rejected, held = _rejected(facts), _count(facts, Verdict.HELD)
    unusable = 1.0 if rejected and rejected + held >= _wanted(facts) else _share(rejected, facts)
    return Measurement(unusable, max(HALF, dataset.max_rejected_rate))


def stale_rows(facts: BranchFacts) -> Measurement | None:
    """Rows of which readers see an older state, for a record of their key was rejected."""
    if facts.upserted.replays or not _rejected(facts):
        return None
    return Measurement(facts.stale_rows, 0, first=facts.first_stale)


def nothing_applied(facts: BranchFacts) -> Measurement | None:
    """The records of a batch that applies none, by verdict: a filter that lets nothing in, versions that are all old.

    Not of a batch that is red for its rejected records, that a decision is about, or whose positions are all known.
    """
    upserted = facts.upserted
    counted = {Verdict(verdict): _count(facts, Verdict(verdict)) for verdict in upserted.counts}
    fresh = {verdict: count - upserted.known.get(verdict, 0) for verdict, count in counted.items()}
    decided = facts.bare or upserted.replays or Verdict.SKIPPED in counted
    red = mostly_rejected(facts)
    if decided or Verdict.APPLIED in counted or not any(fresh.values()) or (red and not red.passed):
        return None
    named = [f"{count} {verdict}" for verdict, count in fresh.items() if count]
    return Measurement(sum(fresh.values()), 0, first=named)


def rejected_deletes(facts: BranchFacts) -> Measurement | None:
    """Rejected records that delete, or whose value is null, where the mode deletes."""
    if not facts.dataset.apply.DELETES or facts.upserted.replays:
        return None
    return Measurement(
        facts.upserted.refused_deletes,
        facts.dataset.quality.max_rejected_deletes or 0,
        first=facts.rejected_deletes,
        way_out=_way_out_of_deletes(facts.dataset),
    )


def backwards_rate(facts: BranchFacts) -> Measurement | None:
    """The share of records whose version is below an earlier one of their key and partition, where versions order and
    positions are exact; a warning below `min_records`."""
    dataset = facts.dataset
    if not (dataset.apply.version and dataset.source.exact):
        return None
    limit = BACKWARDS if dataset.quality.max_backwards_rate is None else dataset.quality.max_backwards_rate
    return Measurement(
        _share(facts.upserted.counts.get(Verdict.SUPERSEDED, {}).get(Reason.BACKWARDS, 0), facts),
        limit,
        severity=_severity(facts),
        first=facts.backwards,
        way_out=_way_out_of_backwards(dataset),
    )


def filtered_newer(facts: BranchFacts) -> Measurement | None:
    """Records that the filter left out, and whose key has a live row of a smaller version: readers see what is past."""
    if not facts.dataset.watches_filter:
        return None
    return Measurement(
        facts.filtered_newer,
        facts.dataset.quality.max_filtered_newer or 0,
        first=facts.first_filtered,
        way_out=(
            "source.filter leaves out newer versions of rows, and the rows stay as they were: move the part of the "
            "condition that changes into target.where, which hides a row until a version satisfies it again, and "
            "rebuild; source.filter is for what never changes about a row"
        ),
    )


def compare_proposal(dataset: Dataset, shown: Sequence[dict[str, Any]]) -> str:
    """Which fields a dataset file can leave out of the comparison: those in which the two contents of each conflict
    that is shown differ. Nothing where they are many, where they decide, or where a content is not known."""
    compared = [conflict for conflict in shown if conflict["reason"] in (Reason.SAME_IDENTITY, Reason.SAME_VERSION)]
    sides = [(conflict["record"].get("fields"), conflict["other"].get("fields")) for conflict in compared]
    if not sides or any(_says_nothing(dataset, side) for both in sides for side in both):
        return ""
    names = {name for record, other in sides for name in record if record[name] != other.get(name)} - dataset.excepted
    if not 0 < len(names) <= FEW or not names <= dataset.fields.keys() - dataset.bound_fields.keys():
        return ""
    given = ", ".join(name for name in dataset.fields if name in names)
    declared = ", ".join(name for name in dataset.fields if name in names | dataset.excepted)
    return (
        f"the contents that are shown differ in {given} only: if that does not make them two things, declare "
        f"apply.compare: {{except: [{declared}]}}"
    )


def _says_nothing(dataset: Dataset, fields: dict[str, Any] | None) -> bool:
    """Whether a side of a conflict is not known, or is a tombstone."""
    return fields is None or all(
        value is None or name not in dataset.fields or name in dataset.keyed_fields for name, value in fields.items()
    )


def _other_way_out(facts: BranchFacts) -> str:
    dataset, version = facts.dataset, facts.dataset.apply.version
    tied = facts.upserted.counts.get(Verdict.CONFLICT, {}).get(Reason.SAME_VERSION)
    if version and tied and version.tie == "conflict":
        resolved = (
            "of several contents of one version apply.version.tie: last takes the one at the larger offset (first: the "
            "smaller), within one partition"
        )
        # A chain counts one number: its version has one part.
        parts = ", ".join([version.named, "timestamp"])
        return resolved if dataset.apply.HOLDS else f"{resolved}; or a second part tells them apart: [{parts}]"
    if not version and dataset.identity.business_key:
        return "a wider identity.business_key keeps contents apart that are two things"
    return ""


def _way_out_of_deletes(dataset: Dataset) -> str:
    if dataset.apply.delete_when is None:
        return (
            "say what a null value means: apply.delete_when: tombstone deletes its key (every part of apply.key is "
            "then one of the Kafka key, as key.id), never ignores it"
        )
    if dataset.apply.delete_when != "tombstone":
        return (
            "a null value is taken for the tombstone behind a delete only where the table has that delete; publish an "
            "earlier batch that is missing and run this one again, or write apply.delete_when: never where nulls mean "
            "nothing"
        )
    return ""


def _way_out_of_backwards(dataset: Dataset) -> str:
    if dataset.apply.HOLDS:
        return (
            "their rows keep the greater versions. If the counter began again, no number tells: let the source count "
            "on from there, or take guard newer with an epoch in front of the version ([header.epoch, value.v])"
        )
    version = dataset.apply.version
    parts = version.named if version else ""
    if version and version.by_connector:
        return (
            "their rows keep the greater positions. A connector began again with a new slot or on another server: "
            f"declare apply.version: {{from: offset}}, and run onefold rebuild {dataset.name}"
        )
    return (
        "their rows keep the greater versions. If the counter began again (a key that was created again, a source that "
        "was restored from a backup), put an epoch that the source raises then in front of it: "
        f"apply.version.from: [long(header.epoch), {parts}], and run onefold rebuild {dataset.name}. If they are late "
        "retries, raise quality.max_backwards_rate"
    )


def _outcomes(facts: BranchFacts) -> list[tuple[Outcome, int]]:
    return [
        (outcome_of(verdict, reason), count)
        for verdict, reasons in facts.upserted.counts.items()
        for reason, count in reasons.items()
    ]


def _wanted(facts: BranchFacts) -> int:
    """The records that count in rates."""
    unwanted = sum(count for outcome, count in _outcomes(facts) if not outcome.wanted)
    known = sum(facts.upserted.known.values())
    return facts.upserted.landed + facts.upserted.replayed - known - unwanted


def _rejected(facts: BranchFacts) -> int:
    rejected = sum(count for outcome, count in _outcomes(facts) if outcome.quarantined)
    return rejected - facts.upserted.known.get(Verdict.REJECTED, 0)


def _count(facts: BranchFacts, verdict: Verdict) -> int:
    return sum(facts.upserted.counts.get(verdict, {}).values())


def _share(count: int, facts: BranchFacts) -> float:
    wanted = _wanted(facts)
    return count / wanted if wanted else 0.0


def _severity(facts: BranchFacts) -> str:
    return WARNING if _wanted(facts) < facts.dataset.quality.min_records else BLOCKING


def _needs_every_record(dataset: Dataset) -> bool:
    """Whether no rejected record is allowed because a sum or a chain with a piece missing stays wrong."""
    return dataset.quality.max_rejected_rate is None and not dataset.max_rejected_rate
