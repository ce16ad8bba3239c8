"""What an operator can decide of a batch that is not published: release, skip or discard it, or run it again.

Each checks, and puts one document on record. A release and a skip are carried out by the batch's ordinary steps, which
obey what is on record: there is no second way around the gate. The same decision once more finds itself on record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import (
    OWN_BATCH,
    Again,
    Decider,
    Decision,
    Discard,
    Release,
    Skip,
    check_not_rolled_back,
    checked_reason,
    log_of,
    record,
    standing,
    undone,
)
from onefold.dedup.documents import Staged
from onefold.errors import StepMissingError, UsageError
from onefold.faults import fault_point
from onefold.generation import check_generation
from onefold.iceberg.connection import drop_table
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.plan import find_plan
from onefold.publish.publish import Published, find_published
from onefold.quality.documents import GateResult
from onefold.quality.waivers import by_id, still_waived, under, waivers_of, with_id
from onefold.upsert.documents import Upserted, upserted_of


def release(
    lake: Lake, dataset: Dataset, batch: str, waive: Sequence[str], who: Decider, reason: str, *, dry_run: bool = False
) -> Release:
    """Record that a red batch shall be published although the checks that `waive` names are red: `check=value`
    each, with the check's id or its title.

    What the release before waived, and the gate found with that value again, stays waived.

    Raises:
        NotWaivableError: a check is red that guards a law, or that could not be made.
        UsageError: the batch is not red, is published, or `waive` is not what the gate found.
        RolledBackError: the batch was rolled back: it has to be judged again first.
        ForeignCommitError: the table has a head that Onefold did not write.
        DecidedMeanwhileError: somebody else decided at the same time.
    """
    given = checked_reason(reason)
    found = _published(lake, dataset, batch)
    if found and isinstance(found.decision, Release) and _same(found.decision, waive):
        return found.decision
    _refuse_published(dataset, batch, found)
    log = log_of(lake, dataset.name, batch)
    check_not_rolled_back(log)
    last = standing(log)
    attempt = upserted_of(lake, dataset, batch).attempt
    gate = lake.get(lake_keys.attempt(dataset, batch, attempt, "gate"), GateResult)
    if isinstance(last, Release) and _same(last, waive) and (gate is None or _suffices(last, gate)):
        return last
    if gate is None:
        raise StepMissingError(batch, "release", "a gate")
    if gate.green:
        raise UsageError(
            f"{dataset.name}: batch {batch} is green: there is nothing to release. It is published by running it."
        )
    carried = still_waived(gate.checks, last.in_force if isinstance(last, Release) else [])
    decision = Release(
        dataset=dataset.name,
        batch=batch,
        number=len(log) + 1,
        who=who,
        reason=given,
        at=datetime.now(UTC),
        waivers=waivers_of(dataset.name, batch, gate.checks, waive, carried),
        carried=carried,
        attempt=attempt,
    )
    if not dry_run:
        record(lake, decision)
    return decision


def skip(lake: Lake, dataset: Dataset, batch: str, who: Decider, reason: str, *, dry_run: bool = False) -> Skip:
    """Record that a landed batch shall be covered without using a record of it.

    Raises:
        UsageError: the batch is published, a replay, or a person's word alone.
        StepMissingError: it is not landed.
        DecidedMeanwhileError: somebody else decided at the same time.
    """
    given = checked_reason(reason)
    found = _published(lake, dataset, batch)
    if found and isinstance(found.decision, Skip):
        return found.decision
    _refuse_published(dataset, batch, found)
    manifest = manifest_of(lake, dataset, batch)
    if manifest.bare:
        does = "accepts a gap" if manifest.accepts else "forgets keys"
        raise UsageError(
            f"{dataset.name}: batch {batch} {does} and holds no record: there is nothing to skip. Leave it, or "
            "discard it for the next run."
        )
    if manifest.replays:
        raise UsageError(
            f"{dataset.name}: batch {batch} replays quarantined records, which are not used until it is published: "
            "there is nothing to skip. Leave it, or discard it for the next run."
        )
    log = log_of(lake, dataset.name, batch)
    last = standing(log)
    if isinstance(last, Skip):
        return last
    decision = Skip(dataset=dataset.name, batch=batch, number=len(log) + 1, who=who, reason=given, at=datetime.now(UTC))
    if not dry_run:
        record(lake, decision)
    return decision


def discard(
    lake: Lake, dataset: Dataset, batch: str, who: Decider, reason: str, *, dry_run: bool = False
) -> Discard | None:
    """Return a batch to landed: its attempts, their branches and staging go. None: there is nothing to discard.

    Raises:
        UsageError: the batch is published.
        DecidedMeanwhileError: somebody else decided at the same time.
    """
    given = checked_reason(reason)
    _refuse_published(dataset, batch, _published(lake, dataset, batch))
    log = log_of(lake, dataset.name, batch)
    latest = lake.get(lake_keys.latest(dataset, batch), Upserted)
    last = log[-1] if log else None
    begun = next(iter(lake.storage.list(f"{lake_keys.of_batch(dataset, batch)}/")), None) is not None
    if isinstance(last, Discard) and not last.rebuilt and (latest is None or latest.decided < last.number):
        decision = last  # a process that recorded it ended before it was done
    elif begun or standing(log) or undone(log):
        gate = lake.get(lake_keys.attempt(dataset, batch, latest.attempt, "gate"), GateResult) if latest else None
        decision = Discard(
            dataset=dataset.name,
            batch=batch,
            number=len(log) + 1,
            who=who,
            reason=given,
            at=datetime.now(UTC),
            failures=[check.id for check in gate.checks if check.red] if gate else [],
        )
        if not dry_run:
            record(lake, decision)
    else:
        return None
    if not dry_run:
        _drop(lake, dataset, batch)
    return decision


def take_up(
    lake: Lake, dataset: Dataset, batch: str, who: Decider, reason: str = "", *, dry_run: bool = False
) -> Again:
    """Record that a batch that was rolled back shall be judged again; nothing that was decided before counts.

    Raises:
        UsageError: the batch is published, or is not rolled back.
        StepMissingError: there is no such batch.
        DecidedMeanwhileError: another process decided at the same time.
    """
    found = _published(lake, dataset, batch)
    log = log_of(lake, dataset.name, batch)
    if log and isinstance(last := log[-1], Again):
        return last
    _refuse_published(dataset, batch, found)
    if not undone(log):
        raise UsageError(
            f"{dataset.name}: batch {batch} is not rolled back: there is nothing to take up again. Nothing was run. "
            f"A batch that is not finished is taken up by onefold run {dataset.name}; `onefold batches {dataset.name}` "
            "lists the states."
        )
    given = {"who": who, "reason": reason.strip(), "at": datetime.now(UTC)}
    decision = Again(dataset=dataset.name, batch=batch, number=len(log) + 1, **given)
    if not dry_run:
        record(lake, decision)
    return decision


def _drop(lake: Lake, dataset: Dataset, batch: str) -> None:
    """Branches and tables first, the documents that name them last: interrupted, the next call goes on."""
    folder = f"{lake_keys.of_batch(dataset, batch)}/"
    attempts, tables = [], []
    for document in _documents(lake, folder):
        if isinstance(document, Upserted):
            attempts.append(document.branch)
            tables += [document.actions, document.staging]
        else:
            tables.append(document.table)
    if table := find_state(lake, dataset):
        for branch in dict.fromkeys(attempts):
            table.drop_branch(branch)
        if _published(lake, dataset, batch):  # by a process that was past the gate; without their branches none can
            raise UsageError(
                f"{dataset.name}: batch {batch} was published meanwhile: nothing was dropped. To undo the publication: "
                f"onefold rollback {dataset.name} --to BATCH."
            )
    for name in dict.fromkeys(name for name in tables if name):
        drop_table(lake, name)
    fault_point("after_drop")
    lake.storage.remove_below(folder)


def _documents(lake: Lake, folder: str) -> Iterator[Upserted | Staged]:
    for info in lake.storage.list(folder):
        name = info.key.rsplit("/", 1)[-1]
        found: Upserted | Staged | None = None
        if name in ("upsert.json", "latest.json"):
            found = lake.get(info.key, Upserted)
        elif name.startswith("staged-"):
            found = lake.get(info.key, Staged)
        if found:
            yield found


def check_carried_out(lake: Lake, decision: Decision, published: Published | None) -> None:
    """Whether what was published is what was decided; another process may have been faster.

    Raises:
        UsageError: the batch was published as it was, before the decision, which is taken back.
    """
    if published is None or published.decision is not None or isinstance(decision, OWN_BATCH):
        return
    number, reason = decision.number + 1, "the batch was published before it could be carried out"
    back = {"number": number, "who": decision.who, "reason": reason, "at": datetime.now(UTC)}
    record(lake, Discard(dataset=decision.dataset, batch=decision.batch, **back))
    raise UsageError(
        f"{decision.dataset}: batch {decision.batch} was published meanwhile, and the decision taken back. To undo the "
        f"publication: onefold rollback {decision.dataset} --to BATCH."
    )


def _published(lake: Lake, dataset: Dataset, batch: str) -> Published | None:
    check_generation(lake, dataset, rebuilding=True)
    find_plan(lake, dataset, batch)
    table = find_state(lake, dataset)
    return find_published(lake, dataset, table, batch) if table else None


def _refuse_published(dataset: Dataset, batch: str, found: Published | None) -> None:
    if found is None:
        return
    how = f" ({found.decision.sentence})" if found.decision else ""
    raise UsageError(
        f"{dataset.name}: batch {batch} is published{how}: there is nothing to decide. Readers are led back by "
        f"onefold rollback {dataset.name} --to BATCH; a batch that is wrong is taken out by onefold rebuild "
        f"{dataset.name} --without {batch} --reason WHY."
    )


def _suffices(release: Release, gate: GateResult) -> bool:
    """Whether a recorded release waives all that is red, so that there is nothing to decide again."""
    return not any(check.red for check in under(gate.checks, release))


def _same(release: Release, waive: Sequence[str]) -> bool:
    named, in_force = ({by_id(waiver).words for waiver in waivers} for waivers in (release.waivers, release.in_force))
    return named <= set(map(with_id, waive)) <= in_force
