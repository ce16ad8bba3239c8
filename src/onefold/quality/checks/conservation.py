"""Every record has a verdict, and every offset is a record or explained (L2); and what was lost before landing."""

from __future__ import annotations

from onefold.offsets import Range, meet, merged, size
from onefold.quality.checks.check import BLOCKING, WARNING, Measurement, exactly
from onefold.quality.checks.facts import BranchFacts
from onefold.upsert.coverage import name_unexplained
from onefold.vocabulary import Reason, Verdict

NAMED = 5
"""Unexplained ranges that the check names; the accounts have them all."""


def verdicts(facts: BranchFacts) -> Measurement:
    """Verdicts of the attempt, and records that it landed or replays and held ones that it wakes."""
    records = "records replayed" if facts.upserted.replays else "records landed"
    woken = " (and woken)" if facts.upserted.woken else ""
    title = f"{records}{woken} = verdicts given"
    return exactly(facts.counts.verdicts, facts.landed + facts.upserted.woken, title)


def unexplained_offsets(facts: BranchFacts) -> Measurement:
    """Offsets between landed ones that are neither a record nor explained."""
    accounts = facts.upserted.accounts
    missing = sum(size(account.unexplained) for account in accounts)
    return Measurement(missing, 0, first=name_unexplained(accounts, NAMED), way_out=_way_out_of_long_holes(facts))


def _way_out_of_long_holes(facts: BranchFacts) -> str:
    """What `holes: transactional` can say of more offsets in a row than it explains; else nothing."""
    longest = facts.dataset.source.longest_hole
    runs = [end - start for account in facts.upserted.accounts for start, end in account.unexplained]
    if longest is None or max(runs, default=0) <= longest:
        return ""
    return (
        f"source.exports.holes: transactional explains {longest} missing offsets in a row, and {max(runs)} are "
        "missing. If they are records of aborted transactions, declare source.exports.holes: "
        f"{{kind: transactional, longest: {max(runs)}}}; else export them again and run that folder"
    )


def damaged_places(facts: BranchFacts) -> Measurement | None:
    """Places in landed segments that are no record batch: a warning where other segments have all that is missing for
    them. Where nothing is missing it is unknown what was there."""
    if not facts.damage:
        return None
    missing: dict[str, list[Range]] = {}
    for account in facts.upserted.accounts:
        missing.setdefault(account.partition, []).extend(account.unexplained)
    bad = [
        damage
        for damage in facts.damage
        if not damage.lost or meet(damage.lost, merged(missing.get(damage.topic_partition.key, [])))
    ]
    places = [place for damage in bad or facts.damage for place in damage.places]
    way_out = "copy the segment again, or from another replica, and run that; release the batch if no copy is better"
    severity = BLOCKING if bad else WARNING
    return Measurement(len(places), 0, severity=severity, first=places[:NAMED], way_out=way_out if bad else "")


def lost_offsets(facts: BranchFacts) -> Measurement:
    """Offsets that were gone before they were landed: a warning where the dataset tolerates loss."""
    refused = facts.dataset.quality.loss == "refused"
    lost = sum(account.lost for account in facts.upserted.accounts)
    return Measurement(lost, 0, severity=BLOCKING if refused else WARNING)


def positions(facts: BranchFacts) -> Measurement:
    """Records whose position has another content, too."""
    return Measurement(_conflicts(facts, Reason.INCONSISTENT_POSITION), 0)


def versions(facts: BranchFacts) -> Measurement:
    """Records that do not compare with another record of their key: by their versions, or by their offsets in a tie."""
    dataset, version = facts.dataset, facts.dataset.apply.version
    why, way_out = "an offset orders the records of one partition only", "declare a version of the value, or {}"
    parts = ["timestamp", "offset"]
    if version and dataset.ties_by_offset:
        larger = "larger" if version.tie == "last" else "smaller"
        why = f"apply.version.tie: {version.tie} takes the {larger} offset, and {why}"
        way_out, parts = "declare a second part of the version, such as {}", [*version.parts, "timestamp"]
    clocks = f"[{', '.join(parts)}], which trusts the producers' clocks"
    way_out = "let the source count on within a version" if dataset.apply.HOLDS else way_out.format(clocks)
    return Measurement(
        _conflicts(facts, Reason.INCOMPARABLE_VERSION),
        0,
        way_out=f"{why}: {way_out}, and run onefold rebuild {dataset.name}",
    )


def _conflicts(facts: BranchFacts, reason: Reason) -> int:
    return facts.upserted.counts.get(Verdict.CONFLICT, {}).get(reason, 0)
