"""What all tests share: one SparkSession, lakes in temporary folders, and a random seed that is printed."""

from __future__ import annotations

import os
import random
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings

from onefold.dataset import Dataset
from onefold.lake import Lake
from tests.support.launchers import lake_in, session_on, shared_session, small_session_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sample.broker import Broker
    from tests.support.disk import Disk
    from tests.support.postgres import Postgres
    from tests.support.rest_server import RestServer

PROJECT = Path(__file__).parents[1]
NEEDS_SESSION = ("property", "spark")
"""Folders of tests that share the session."""
FIRST = (*NEEDS_SESSION, "dags", "process", "integration", "unit")
"""The order of the folders. What a run without time leaves out is the end of those before `unit`; and its many small
files fill the time of a process that has nothing else to do."""
IN_TURN = ("process", "integration")
"""Folders whose files a run without time begins with another one each time: none is always left out."""
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin nothing long once the time of a run is over (`ONEFOLD_TEST_UNTIL`, seconds since 1970): a machine that is
    half as fast says what it left out, and is not stopped in the middle."""
    until = float(os.environ.get("ONEFOLD_TEST_UNTIL", "inf"))
    if time.time() > until and not item.path.is_relative_to(PROJECT / "tests" / "unit"):
        pytest.skip("not begun: the time of this run is over (ONEFOLD_TEST_UNTIL)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever lies in a folder that needs the session is marked so; and the laws come before what is wide and slow."""
    for item in items:
        if item.path.parent.name in NEEDS_SESSION and item.path.is_relative_to(PROJECT / "tests"):
            item.add_marker(pytest.mark.spark)
    order = {folder: place for place, folder in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(_folder(item), len(order)))
    if "ONEFOLD_TEST_UNTIL" in os.environ:
        # Every process must collect the same order, and has the same seed.
        items[:] = begin_elsewhere(items, zlib.crc32(str(config.getoption("hypothesis_seed")).encode()))


def begin_elsewhere(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """The tests with the files of `IN_TURN`, wherever they stand, begun at one that the seed says."""
    files = list(dict.fromkeys(item.path for item in items if _folder(item) in IN_TURN))
    first = seed % len(files) if files else 0
    turned = {file: (place - first) % len(files) for place, file in enumerate(files)}
    moved = iter(sorted((item for item in items if item.path in turned), key=lambda item: turned[item.path]))
    return [next(moved) if item.path in turned else item for item in items]


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(PROJECT / "tests").parts[0]


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
    """Makes a dataset of a kcat export, or of what is given; keys as in a dataset file."""

    def make(name: str = "things", **keys: Any) -> Dataset:
        exports = {
            "path": "exports",
            "layout": "kcat",
            "origin": {"cluster": "c", "incarnation": 1},
            "holes": "compacted",
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
