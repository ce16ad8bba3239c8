"""What all tests share: one SparkSession, lakes in temporary folders, and a random seed that is printed."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings

from onefold.dataset import Dataset
from onefold.lake import Lake
from tests.support.launchers import lake_in, session_on, shared_session, small_session_on

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter
    from pyspark.sql import SparkSession

    from sample.broker import Broker
    from tests.support.disk import Disk
    from tests.support.postgres import Postgres
    from tests.support.rest_server import RestServer

PROJECT = Path(__file__).parents[1]
NEEDS_SESSION = ("property", "spark")
"""Folders of tests that share the session."""
BUSY, WAITING, LAST = (*NEEDS_SESSION, "process"), ("dags", "integration"), "unit"
"""Folders whose tests compute, those whose tests wait for servers, and the one whose small files fill the rest."""
SHORT_RUN = 60.0
"""Seconds from which a run tells how long each folder took."""
SECONDS: Counter[str] = Counter()
"""Seconds of each test file: set-up, tests and tear-down."""
SKIPPED: set[str] = set()
"""Tests and modules that were skipped."""

# Cases stand side by side in one Spark job and the smallest that fails is shown: nothing is left to shrink.
settings.register_profile(
    "onefold",
    database=None,
    deadline=None,
    verbosity=Verbosity.quiet,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("onefold")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw hypothesis' seed here unless one is given, so that every run can be repeated: one for all its processes,
    which inherit the environment and no option that is set here."""
    if config.getoption("hypothesis_seed", None) is None:
        drawn = str(random.SystemRandom().randrange(2**32))
        config.option.hypothesis_seed = os.environ.setdefault("ONEFOLD_TEST_SEED", drawn)


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat this run."""
    return f"hypothesis: repeat with --hypothesis-seed={config.getoption('hypothesis_seed')}"


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what shares the session and what waits for the night, and put the files in an order."""
    for item in items:
        if _folder(item) in NEEDS_SESSION:
            item.add_marker(pytest.mark.spark)
    leave_to_the_night(items)
    order = _order_of_files(items)
    items.sort(key=lambda item: order[item.path])


def leave_to_the_night(items: list[pytest.Item]) -> None:
    """Mark the cases of a test, or of a module's tests, that its marker `by_day` does not name; it says why."""
    cases: dict[tuple[object, ...], set[str]] = {}
    for item in items:
        marker, case = item.get_closest_marker("by_day"), getattr(item, "callspec", None)
        if marker and case:
            cases.setdefault((item.path, *marker.args), set(marker.args)).discard(case.id)
            if case.id not in marker.args:
                item.add_marker(pytest.mark.nightly(reason=marker.kwargs["why"]))
    unknown = [f"{place[0]}: {', '.join(sorted(left))}" for place, left in cases.items() if left]
    if unknown and not any("::" in place for place in items[0].config.args):
        raise pytest.UsageError(f"by_day names cases that are not there: {unknown}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of each folder, and of all its files."""
    file = report.nodeid.partition("::")[0]
    SECONDS[file] += report.duration

    if report.skipped and not hasattr(report, "wasxfail"):
        SKIPPED.add(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a module that is skipped as a whole."""
    if report.skipped:
        SKIPPED.add(report.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Note the modules that another test process has skipped."""
    del error
    SKIPPED.update(getattr(node, "workeroutput", {}).get("skipped", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a test that is skipped is a failure: its program is to be installed, or the test to be nightly."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["skipped"] = sorted(SKIPPED)
    elif exitstatus == pytest.ExitCode.OK and os.environ.get("CI") and SKIPPED:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print what was skipped, and the seconds of each folder."""
    if SKIPPED:
        fails = ": this fails the run, for CI is set" if os.environ.get("CI") else ""
        terminalreporter.section(f"{len(SKIPPED)} skipped{fails}", red=bool(fails))
        for name in sorted(SKIPPED):
            terminalreporter.line(name)
    folders: Counter[str] = Counter()
    for file, seconds in SECONDS.items():
        folders["/".join(Path(file).parts[:2])] += seconds
    if sum(folders.values()) > SHORT_RUN:
        terminalreporter.section("seconds by folder, of all test processes together")
        for folder, seconds in folders.most_common():
            terminalreporter.line(f"{seconds:8.0f}  {folder}")


def _order_of_files(items: list[pytest.Item]) -> dict[Path, float]:
    """A place from 0 on for each file: those that compute and those that wait take turns, so that a test process that
    waits leaves its core to another."""
    files = {item.path: _folder(item) for item in items}
    order = {path: 2.0 if folder == LAST else 1.0 for path, folder in files.items()}
    for folders in (BUSY, WAITING):
        some = sorted((path for path in files if files[path] in folders), key=lambda path: folders.index(files[path]))
        order |= {path: place / len(some) for place, path in enumerate(some)}
    return order


def _folder(item: pytest.Item) -> str:
    tests = PROJECT / "tests"
    return item.path.relative_to(tests).parts[0] if item.path.is_relative_to(tests) else ""


@pytest.fixture
def draw(request: pytest.FixtureRequest) -> random.Random:
    """Chance for a test of one example, which the same `--hypothesis-seed` repeats: hypothesis' own first example is
    always the simplest."""
    return random.Random(f"{request.config.getoption('hypothesis_seed')} {request.node.name}")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker for the whole session; tests use topics of their own."""
    from sample.broker import Broker

    with Broker(log=tmp_path_factory.mktemp("broker") / "broker.log") as started:
        yield started


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The one SparkSession of the test process; tests share it, and none stops it."""
    return shared_session()


@pytest.fixture(scope="session", name="session_on")
def make_session_on(spark: SparkSession) -> Callable[[Lake], SparkSession]:
    """Makes a session in the same JVM whose catalog is a lake's."""
    del spark
    return session_on


@pytest.fixture(scope="session", name="lake_in")
def make_lake_in() -> Callable[[Path], Lake]:
    """Makes an empty lake in a folder; relative paths of datasets start there too."""
    return lake_in


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake."""
    return lake_in(tmp_path)


@pytest.fixture
def session(lake: Lake) -> SparkSession:
    """A session on the `lake` of this test, for small batches."""
    return small_session_on(lake)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    """A folder that is a disk of its own, of 2 MB."""
    from tests.support.disk import mounted

    with mounted(tmp_path / "disk", 2 << 20) as disk:
        yield disk


@pytest.fixture(scope="session")
def dataset() -> Callable[..., Dataset]:
    """Makes a dataset of a kcat export whose offsets may have any gaps, or of what is given; keys as in a dataset
    file."""

    def make(name: str = "things", **keys: Any) -> Dataset:
        exports = {
            "path": "exports",
            "layout": "kcat",
            "origin": {"cluster": "c", "incarnation": 1},
            "holes": {"kind": "transactional", "longest": 1_000_000},
        }
        given: dict[str, Any] = {
            "name": name,
            "source": {"exports": exports},
            "value": {"fields": {"id": "string"}},
            "apply": {"mode": "append"},
            "target": {"table": f"tests.{name}", "buckets": 2},
            "quality": {"max_rejected_rate": 1.0, "max_conflicts": 1000},
        }
        return Dataset.model_validate(given | keys)

    return make


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real Postgres server for the whole session; tests use databases of their own."""
    from deploy.stack.postgres import usable
    from tests.support.postgres import Postgres

    if not usable():
        pytest.skip("no Postgres server on this machine (Debian's package is postgresql)")
    with Postgres() as started:
        yield started


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """A real REST catalog server for the whole session, for lakes in folders."""
    from tests.support.rest_server import RestServer

    with RestServer(tmp_path_factory.mktemp("rest")) as started:
        yield started


@pytest.fixture
def rest_catalog(rest_server: RestServer) -> Iterator[str]:
    """The address of a REST catalog that knows nothing yet."""
    yield rest_server.uri
    rest_server.clear()
