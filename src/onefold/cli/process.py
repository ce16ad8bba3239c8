"""Spark steps in this process: one session, opened when the first step needs it."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.dataset import Dataset
from onefold.errors import SparkStepError, cause_of
from onefold.lake import Lake
from onefold.landing.offsets import Range
from onefold.maintenance.keep import Keep, Maintained
from onefold.proof.documents import Proof
from onefold.storage import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _import_meanwhile(module: str) -> None:
    """Import a large module while another thread talks with the JVM, often and in few words: let it speak at once."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 10)
    try:
        importlib.import_module(module)
    finally:
        sys.setswitchinterval(usual)


class InProcess:
    """Launches Spark steps in one session of this process; the JVM's own words go to a log file."""

    def __init__(self, lake: Lake, small: bool = False) -> None:
        self.lake, self.small = lake, small
        self._session: SparkSession | None = None

    @property
    def log(self) -> Path:
        """Where Spark writes."""
        store = self.lake.storage
        folder = store.root if isinstance(store, LocalStorage) else self.lake.settings.path(".onefold")
        return folder / "logs" / "spark.log"

    @property
    def session(self) -> SparkSession:
        """The session, opened at the first call; Great Expectations is imported meanwhile."""
        if self._session is None:
            from onefold.spark.session import open_session

            threading.Thread(target=_import_meanwhile, args=("onefold.quality.expectations",), daemon=True).start()
            with self._quiet():
                self._session = open_session(self.lake, small=self.small)
        return self._session

    def run(self, step: str, dataset: Dataset, batch: str, attempt: str | None = None) -> Any:
        """Run one step; its document."""
        module = importlib.import_module(f"spark_jobs.{step}")
        session = self.session
        with self._failing(step, batch):
            return module.run(session, self.lake, dataset, batch, attempt)

    def sample(self, dataset: Dataset, count: int) -> list[dict[str, Any]]:
        """What would become of the newest records."""
        session = self.session
        from onefold.dedup.sample import sample

        with self._failing("sample", dataset.name):
            return sample(session, self.lake, dataset, count)

    def maintain(self, dataset: Dataset, keep: Keep, *, dry_run: bool) -> Maintained:
        """Prove that no key stands twice, clear away what is over, and tidy the dataset's tables."""
        session = self.session
        from spark_jobs import maintain

        with self._failing("maintain", dataset.name):
            return maintain.run(session, self.lake, dataset, keep=keep, dry_run=dry_run)

    def erase(self, dataset: Dataset, positions: Mapping[str, list[Range]]) -> list[str]:
        """Leave nothing of some positions in the dataset's tables."""
        session = self.session
        from onefold.maintenance.erase import erase_from_tables

        with self._failing("erase", dataset.name):
            return erase_from_tables(session, self.lake, dataset, positions)

    def name_published(self, dataset: Dataset) -> None:
        """Make the views by which a dataset's rows and its quarantine are read."""
        session = self.session
        from onefold.upsert.state import ensure_views

        with self._failing("recover", dataset.name):
            ensure_views(session, self.lake, dataset)

    def prove(self, dataset: Dataset, share: float, say: Callable[[str], None]) -> Proof:
        """Compare the published rows with the landed bytes."""
        session = self.session
        from onefold.proof.prove import prove

        with self._failing("prove", dataset.name):
            return prove(session, self.lake, dataset, share, say)

    def close(self) -> None:
        """Stop the session, if there is one."""
        if self._session is not None:
            self._session.stop()

    @contextmanager
    def _failing(self, step: str, of: str) -> Iterator[None]:
        """Spark's errors are one sentence, and its log has the rest."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JError, PySparkException) as error:
            raise SparkStepError(step, of, f"{cause_of(error)} (see {self.log})") from error

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """The JVM inherits standard error: give it the log file while it starts."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        ours = os.dup(2)
        with self.log.open("ab") as log:
            os.dup2(log.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(ours, 2)
                os.close(ours)
