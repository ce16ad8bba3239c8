"""The demo: exports that are late, repeated and overlapping, two live topics, and a batch that is meant to be red."""

from __future__ import annotations

import importlib
import shutil
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onefold.cli.app import launching
from onefold.cli.console import NOTES, OUT, note, print_rows, with_ranges
from onefold.dataset import find_dataset
from onefold.errors import OnefoldError, UsageError
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.launcher import Launcher, Say
from onefold.operations.run import BatchRun, run_batch
from onefold.report.ledger import offsets_of, rows_of
from onefold.settings import Settings


@dataclass(frozen=True, slots=True)
class Arrival:
    """An export folder, or a chapter that live topics receive, and how its batch is expected to end."""

    dataset: str
    what: str
    folder: str = ""
    chapter: str = ""
    red: bool = False


_KCAT, _CONNECT, _VIEWS = "sample/exports/kcat", "sample/exports/connect", "exports/page_views"
ARRIVALS = (
    Arrival("accounts", "first export", f"{_KCAT}/1-first"),
    Arrival("accounts", "overlaps the first: records read twice", f"{_KCAT}/2-overlap"),
    Arrival("accounts", "next export", f"{_KCAT}/3-next"),
    Arrival("accounts", "late: older offsets, older versions", f"{_KCAT}/4-late"),
    Arrival("accounts", "repeated: somebody pressed the button twice", f"{_KCAT}/2-overlap"),
    Arrival("account_entries", "first export, Connect layout", f"{_CONNECT}/1-first"),
    Arrival("account_entries", "overlapping objects of a crashed worker", f"{_CONNECT}/2-more"),
    Arrival("account_entries", "late objects", f"{_CONNECT}/3-late"),
    Arrival("page_views", "large export, 17 % duplicates", f"{_VIEWS}/1-first"),
    Arrival("page_views", "next export", f"{_VIEWS}/2-next"),
    Arrival("page_views", "late export", f"{_VIEWS}/3-late"),
    Arrival("orders", "two live topics, lost acknowledgements", chapter="placed"),
    Arrival("orders", "what is new in them: late, moved, erased", chapter="changed"),
    Arrival("accounts", "one version with two contents: meant to be red", f"{_KCAT}/5-conflict", red=True),
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
    sys.path.insert(0, str(settings.home))
    with NOTES.status(f"generating {views:,} page views"):
        _sample("page_views").generate(home / "exports" / "page_views", views=views)
    with ExitStack() as stack:
        with NOTES.status("starting a Kafka broker"):
            topics = stack.enter_context(_sample("stage").stage(_sample("orders").TOPICS))
        kafka = {"kafka_default": {"bootstrap.servers": topics.bootstrap}}
        place = {"lake": str(home / "lake"), "catalog": None, "kafka": kafka}
        below = [*settings.exports_below, str(home / "exports")]
        lake = Lake(settings.model_copy(update=place | {"exports_below": below}))
        spark = stack.enter_context(launching(lake))
        surprises, red = _run_arrivals(lake, home, spark, topics)
    _say_how_it_ended(lake, home, red)
    if surprises:
        raise UnexpectedEndError(tuple(surprises))


def _run_arrivals(lake: Lake, home: Path, spark: Launcher, topics: Any) -> tuple[list[str], BatchRun | None]:
    """Run them, with what each led to as a table; what ended otherwise than it is meant to, and the red batch."""
    rows, surprises, red = [], [], None
    for number, arrival in enumerate(ARRIVALS, 1):
        before = _head(lake, arrival.dataset)
        with NOTES.status(f"{number} of {len(ARRIVALS)}: {arrival.dataset}: {arrival.what}") as status:
            ended = _arrive(lake, arrival, home, spark, topics, status.update)
        untouched = _head(lake, arrival.dataset) == before
        surprises += _surprises(arrival, ended, untouched)
        red = ended if ended.red else red
        rows.append(_row(number, arrival, ended, untouched, _live(lake, arrival.dataset)))
        note(f"{number:>2} of {len(ARRIVALS)}  {arrival.dataset:<16} {rows[-1]['state']:<18} {arrival.what}")
    print_rows("what arrived, and what readers see", rows)
    return surprises, red


def _sample(name: str) -> Any:
    """A module of the shipped sample, which is no part of the package."""
    return importlib.import_module(f"sample.{name}")


@dataclass(eq=False)
class UnexpectedEndError(OnefoldError):
    """The demo's batches did not end as they are meant to."""

    surprises: tuple[str, ...]

    def sentence(self) -> str:
        return "the demo did not end as it should: " + "; ".join(self.surprises)


def _arrive(lake: Lake, arrival: Arrival, home: Path, spark: Launcher, topics: Any, say: Say) -> BatchRun:
    dataset = find_dataset(lake.settings.datasets_folder, arrival.dataset)
    if arrival.chapter:
        say(f"{arrival.dataset}: {arrival.what}: produce")
        topics.play(next(chapter for chapter in _sample("orders").story() if chapter.name == arrival.chapter))
        plan = plan_batch(lake, dataset)
    else:
        place = home / arrival.folder if arrival.folder.startswith("exports") else lake.settings.path(arrival.folder)
        plan = plan_batch(lake, dataset, export=str(place))
    return run_batch(lake, dataset, plan, spark, lambda step: say(f"{arrival.dataset}: {arrival.what}: {step}"))


def _head(lake: Lake, name: str) -> int | None:
    from onefold.iceberg.state_table import find_state

    table = find_state(lake, find_dataset(lake.settings.datasets_folder, name))
    return table.main.snapshot if table else None


def _live(lake: Lake, name: str) -> int:
    return len(rows_of(lake, find_dataset(lake.settings.datasets_folder, name)))


def _surprises(arrival: Arrival, ended: BatchRun, untouched: bool) -> list[str]:
    if arrival.red and ended.red and untouched:
        return []
    if not arrival.red and ended.published:
        return []
    return [f"{arrival.dataset} {arrival.folder or arrival.chapter}: {ended.red or 'published, but meant to be red'}"]


def _row(number: int, arrival: Arrival, ended: BatchRun, untouched: bool, live: int) -> dict[str, object]:
    counts = ended.published.counts if ended.published else {}
    already = ended.published is not None and ended.published.already
    state = "red, main untouched" if ended.red and untouched else ("already published" if already else "published")
    total = {verdict: sum(reasons.values()) for verdict, reasons in counts.items()}
    verdicts = ", ".join(f"{verdict} {count:,}" for verdict, count in total.items())
    return {
        "#": number,
        "dataset": arrival.dataset,
        "what arrived": arrival.what,
        "state": state,
        "verdicts": verdicts if not already else "no change",
        "rows readers see": f"{live:,}",
    }


def _say_how_it_ended(lake: Lake, home: Path, red: BatchRun | None) -> None:
    offsets = offsets_of(lake, find_dataset(lake.settings.datasets_folder, "orders"))
    print_rows("onefold offsets orders", map(with_ranges, offsets))
    if red and red.red:
        OUT.print(
            "\nThe last batch is meant to be red: the gate stopped it, and readers see nothing of it.", markup=False
        )
        for failure in red.red.failed:
            OUT.print(f"  {failure}", markup=False, soft_wrap=True)
        OUT.print(f"Its report: {red.report}", markup=False, soft_wrap=True)
    OUT.print(f"All reports: {home / 'lake' / 'reports'}", markup=False, soft_wrap=True)
    place = home / "lake"
    OUT.print(f"Look around: ONEFOLD_LAKE={place} .venv/bin/onefold batches accounts", markup=False, soft_wrap=True)
    OUT.print(
        f"""             ONEFOLD_LAKE={place} .venv/bin/onefold explain accounts --key '{{"account_id": "a-25"}}'""",
        markup=False,
    )
