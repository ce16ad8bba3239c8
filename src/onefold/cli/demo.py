"""The demo: three datasets, batches that are late, repeated and overlapping, and two that are meant to be red."""

from __future__ import annotations

import importlib
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from onefold.cli.console import NOTES, OUT, note, print_rows
from onefold.cli.process import InProcess
from onefold.cli.run import BatchRun, run_batch
from onefold.dataset import find_dataset
from onefold.errors import OnefoldError, UsageError
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.report.ledger import rows_of
from onefold.settings import Settings


@dataclass(frozen=True, slots=True)
class Arrival:
    """One export folder that arrives, and how its batch is expected to end."""

    dataset: str
    folder: str
    what: str
    red: bool = False


_KCAT, _CONNECT, _VIEWS = "sample/exports/kcat", "sample/exports/connect", "exports/page_views"
ARRIVALS = (
    Arrival("accounts", f"{_KCAT}/1-first", "first export"),
    Arrival("accounts", f"{_KCAT}/2-overlap", "overlaps the first: records read twice"),
    Arrival("accounts", f"{_KCAT}/3-next", "next export"),
    Arrival("accounts", f"{_KCAT}/4-late", "late: older offsets, older versions"),
    Arrival("accounts", f"{_KCAT}/2-overlap", "repeated: somebody pressed the button twice"),
    Arrival("account_entries", f"{_CONNECT}/1-first", "first export, Connect layout"),
    Arrival("account_entries", f"{_CONNECT}/2-more", "overlapping objects of a crashed worker"),
    Arrival("account_entries", f"{_CONNECT}/3-late", "late objects"),
    Arrival("page_views", f"{_VIEWS}/1-first", "large export, 17 % duplicates"),
    Arrival("page_views", f"{_VIEWS}/2-next", "next export"),
    Arrival("page_views", f"{_VIEWS}/3-late", "late export"),
    Arrival("accounts", f"{_KCAT}/5-conflict", "one version with two contents: meant to be red", red=True),
)


def run_demo(settings: Settings, folder: Path, views: int) -> None:
    """Run every arrival on a fresh lake in `folder`, and say what readers see after each.

    Raises:
        UsageError: the sample is not there, or `folder` is not the demo's.
        OnefoldError: a batch did not end as it is meant to.
    """
    home = settings.path(folder)
    if not settings.path("sample/exports").is_dir():
        raise UsageError(f"the demo needs the shipped sample: no {settings.path('sample/exports')}")
    if home.exists() and not {found.name for found in home.iterdir()} <= {"lake", "exports"}:
        raise UsageError(f"{home} holds other things than the demo's: give another --folder")
    shutil.rmtree(home, ignore_errors=True)
    generated = home / "exports" / "page_views"
    with NOTES.status(f"generating {views:,} page views"):
        sys.path.insert(0, str(settings.home))
        importlib.import_module("sample.page_views").generate(generated, views=views)
    lake = Lake(settings.model_copy(update={"lake": str(home / "lake"), "catalog": None}))
    spark = InProcess(lake)
    rows, surprises, red = [], [], None
    try:
        for number, arrival in enumerate(ARRIVALS, 1):
            before = _head(lake, arrival.dataset)
            with NOTES.status(f"{number} of {len(ARRIVALS)}: {arrival.dataset}: {arrival.what}") as status:
                ended = _arrive(lake, arrival, home, spark, status.update)
            untouched = _head(lake, arrival.dataset) == before
            surprises += _surprises(arrival, ended, untouched)
            red = ended if ended.red else red
            rows.append(_row(number, arrival, ended, untouched, _live(lake, arrival.dataset)))
            note(f"{number:>2} of {len(ARRIVALS)}  {arrival.dataset:<16} {rows[-1]['state']:<18} {arrival.what}")
    finally:
        spark.close()
    print_rows("what arrived, and what readers see", rows)
    _say_how_it_ended(home, red)
    if surprises:
        raise UnexpectedEndError(tuple(surprises))


@dataclass(eq=False)
class UnexpectedEndError(OnefoldError):
    """The demo's batches did not end as they are meant to."""

    surprises: tuple[str, ...]

    def sentence(self) -> str:
        return "the demo did not end as it should: " + "; ".join(self.surprises)


def _arrive(lake: Lake, arrival: Arrival, home: Path, spark: InProcess, say: object) -> BatchRun:
    dataset = find_dataset(lake.settings.datasets_folder, arrival.dataset)
    place = home / arrival.folder if arrival.folder.startswith("exports") else lake.settings.path(arrival.folder)
    plan = plan_batch(lake, dataset, export=str(place))

    def step(name: str) -> None:
        say(f"{arrival.dataset}: {arrival.what}: {name}")  # type: ignore[operator]

    return run_batch(lake, dataset, plan, spark, step)


def _head(lake: Lake, name: str) -> int | None:
    from onefold.catalog import find_state

    table = find_state(lake, find_dataset(lake.settings.datasets_folder, name))
    return table.main.snapshot if table else None


def _live(lake: Lake, name: str) -> int:
    return len(rows_of(lake, find_dataset(lake.settings.datasets_folder, name)))


def _surprises(arrival: Arrival, ended: BatchRun, untouched: bool) -> list[str]:
    if arrival.red and ended.red and untouched:
        return []
    if not arrival.red and ended.published:
        return []
    return [f"{arrival.dataset} {arrival.folder}: {ended.red or 'published, but meant to be red'}"]


def _row(number: int, arrival: Arrival, ended: BatchRun, untouched: bool, live: int) -> dict[str, object]:
    counts = ended.published.counts if ended.published else {}
    already = ended.published is not None and ended.published.already
    state = "red, main untouched" if ended.red and untouched else ("already published" if already else "published")
    total = {verdict: sum(reasons.values()) for verdict, reasons in counts.items()}
    told = ", ".join(f"{verdict} {count:,}" for verdict, count in total.items())
    return {
        "#": number,
        "dataset": arrival.dataset,
        "what arrived": arrival.what,
        "state": state,
        "verdicts": told if not already else "no change",
        "rows readers see": f"{live:,}",
    }


def _say_how_it_ended(home: Path, red: BatchRun | None) -> None:
    if red and red.red:
        OUT.print(
            "\nThe last batch is meant to be red: the gate stopped it, and readers see nothing of it.", markup=False
        )
        for failure in red.red.failed:
            OUT.print(f"  {failure}", markup=False, soft_wrap=True)
        OUT.print(f"Its report: {red.report}", markup=False, soft_wrap=True)
    OUT.print(f"All reports: {home / 'lake' / 'reports'}", markup=False, soft_wrap=True)
    lake = home / "lake"
    OUT.print(f"Look around: ONEFOLD_LAKE={lake} .venv/bin/onefold batches accounts", markup=False, soft_wrap=True)
    OUT.print(
        f"""             ONEFOLD_LAKE={lake} .venv/bin/onefold explain accounts --key '{{"account_id": "a-25"}}'""",
        markup=False,
    )
