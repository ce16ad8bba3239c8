"""`onefold erase`: keys are forgotten, and nothing of what they were made of is left in the lake."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onefold.cli.app import AsJson, Name, app, key_of, launching, open_dataset, position_of
from onefold.cli.batches import Say
from onefold.cli.console import NOTES, note, print_json, print_rows
from onefold.cli.decide import Keys, Reason, Who, user
from onefold.cli.run import run_batch
from onefold.dataset import Dataset
from onefold.errors import ErasureDisturbedError, UsageError
from onefold.faults import fault_point
from onefold.lake import Lake
from onefold.offsets import Range
from onefold.operations.launcher import Launcher

if TYPE_CHECKING:
    from onefold.offsets import Position
    from onefold.publish.erase import Erasure


@dataclass(frozen=True, slots=True)
class Meant:
    """What would go, before anything is decided."""

    rows: dict[str, int]
    """Rows of the table by state"""
    records: int
    """Landed records that the table has covered of the keys"""
    objects: dict[str, int]
    """Landed objects that hold their payload, by key, and of how many"""

    def __bool__(self) -> bool:
        return bool(self.rows or self.records)


@app.command()
def erase(
    name: Name,
    reason: Reason,
    keys: Keys = None,
    position: Annotated[
        list[str] | None,
        typer.Option("--position", metavar="TOPIC-PARTITION@OFFSET", help="A record in quarantine; may be repeated"),
    ] = None,
    who: Who = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: what is erased cannot be brought back")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase keys for good: forget them, and take what they were made of out of landing, tables and reports.

    The topic or the export is not touched: erase there first, or the next export brings the bytes again.
    """
    from onefold.publish import erase as erasing

    lake, dataset = open_dataset(name)
    wanted, places = [key_of(one, dataset) for one in keys or []], [position_of(text) for text in position or []]
    if not reason.strip():
        raise UsageError("a decision needs a reason (--reason), which is kept with it")
    found = meant(lake, dataset, wanted, places)
    also = erasing.others(lake, dataset)
    told = asdict(found) | {"others": also}
    if not found:
        note(f"{name}: neither the table nor a forget mark has anything of what is named: there is nothing to erase")
        if as_json:
            print_json(told)
        return
    if dry_run:
        _answer(f"{name}: would erase", found, told, as_json)
        _warn(also)
        return
    if not yes:
        _ask(name, found)
    with launching(lake) as spark, NOTES.status(f"{name}: erase") as status:
        done = erase_keys(
            lake,
            dataset,
            wanted,
            who or user(),
            reason,
            spark,
            lambda said: status.update(f"{name}: {said}"),
            places,
        )
    note(f"{name}: erased {done.records} landed records for good ({done.objects} objects written anew), as {done.name}")
    if as_json:
        print_json(done.model_dump(mode="json") | {"others": also})
    _warn(also)


def meant(lake: Lake, dataset: Dataset, keys: Sequence[dict[str, Any]], places: Sequence[Position] = ()) -> Meant:
    """What is there of keys, and of quarantined records: rows of the table, landed records and objects.

    Raises:
        UsageError: they cannot be erased, or not yet.
    """
    from onefold.landing.erase import holding
    from onefold.publish import erase as erasing
    from onefold.publish.forget import forget

    digests, positions = _asked(lake, dataset, keys, places)
    states: dict[str, int] = {}
    if keys:
        states = forget(lake, dataset, keys, None, "", "to be erased", dry_run=True)[1].states
        for some in (erasing.covered_positions, erasing.forgotten_positions):
            positions = erasing.together(positions, some(lake, dataset, digests))
    objects: dict[str, int] = {}
    for source in erasing.sources(lake, dataset) if positions else ():
        objects |= holding(lake, source, positions)
    return Meant(states, erasing.count(positions), objects)


def _asked(
    lake: Lake, dataset: Dataset, keys: Sequence[dict[str, Any]], places: Sequence[Position]
) -> tuple[list[bytes], dict[str, list[Range]]]:
    """The digests of keys and the positions of quarantined records, if they can be erased now."""
    from onefold.publish import erase as erasing

    if not (keys or places):
        raise UsageError("say which keys: --key; or which records in quarantine: --position. Nothing was erased.")
    return erasing.check(lake, dataset, keys), erasing.quarantined_positions(lake, dataset, places)


def erase_keys(
    lake: Lake,
    dataset: Dataset,
    keys: Sequence[dict[str, Any]],
    by: str,
    reason: str,
    spark: Launcher,
    say: Say = lambda _: None,
    places: Sequence[Position] = (),
) -> Erasure:
    """Forget keys by a batch of its own, then take what they were made of, and the quarantined records at `places`, out
    of the lake; the decision, ended.

    Raises:
        UsageError: it cannot be done, or not yet.
        GateRedError: the batch that forgets them is red. Nothing has left the landing.
        ErasureDisturbedError: another process is at work there.
    """
    from onefold.landing.erase import erase_landed
    from onefold.landing.plan import find_plan
    from onefold.proof.documents import remove_shown
    from onefold.publish import erase as erasing
    from onefold.publish.forget import forget
    from onefold.publish.lease import hold
    from onefold.report.samples import remove_samples

    digests, quarantined = _asked(lake, dataset, keys, places)
    erasure = erasing.decide(lake, dataset, digests, quarantined, by, reason)
    fault_point("before_forgotten")
    mark, _ = forget(lake, dataset, keys, None, erasure.by, erasure.reason) if keys else (None, None)
    if mark:
        say("forget")
        ended = run_batch(lake, dataset, find_plan(lake, dataset, mark.batch), spark, say, rebuilding=True)
        if ended.red:
            raise ended.red
    positions = erasing.together(quarantined, erasing.forgotten_positions(lake, dataset, digests))
    sources = erasing.sources(lake, dataset)
    objects = 0
    for source in sources:
        with hold(lake, f"landing-{source}", lambda: say("waiting for another erasure")) as got:
            if not got:
                raise ErasureDisturbedError(dataset.name, "another erasure is at work in its landing")
            objects += erase_landed(lake, source, dataset.name, erasure.name, positions, say)
    with hold(lake, dataset.target.table, lambda: say("waiting for another batch")) as got:
        if not got:
            raise ErasureDisturbedError(dataset.name, "another batch holds its table")
        if erasing.is_rebuilt(lake, dataset):
            raise ErasureDisturbedError(dataset.name, "a rebuild has begun meanwhile")
        if batch := erasing.waiting(lake, dataset, digests):
            raise ErasureDisturbedError(dataset.name, f"batch {batch} has begun meanwhile, and is not published")
        say("tables")
        spark.erase(dataset, positions)
    say("reports")
    erasing.clear_attempts(lake, dataset)
    fault_point("before_samples")
    remove_shown(lake, dataset.name)
    remove_samples(lake, dataset)
    return erasing.end(lake, erasure, erasing.count(positions), objects)


def _answer(title: str, found: Meant, told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    counted = ", ".join(f"{count} {state}" for state, count in found.rows.items()) or "no rows any more"
    note(f"{title} {found.records} landed records ({counted}), for good")
    rows = [{"object": key, "records": count} for key, count in found.objects.items()]
    print_rows("landed objects that would be written anew", rows, "none")


def _ask(name: str, found: Meant) -> None:
    if not sys.stdin.isatty():
        raise UsageError("what is erased cannot be brought back: say --yes, or --dry-run to look. Nothing was erased.")
    asked = f"{name}: erase {found.records} landed records for good? Snapshots before this one go, too"
    typer.confirm(asked, abort=True, err=True)


def _warn(others: Sequence[str]) -> None:
    if others:
        commands = ", ".join(f"onefold erase {one}" for one in others)
        note(f"The same landing is folded by {', '.join(others)}. Their tables may still hold it: run {commands}")
