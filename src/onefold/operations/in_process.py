"""Spark steps in this process: in a session that is open, or in one that the first step opens."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.dataset import Dataset
from onefold.errors import SparkStepError
from onefold.jvm_errors import cause_of
from onefold.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from onefold.maintenance.keep import Keep, Maintained
    from onefold.offsets import Range
    from onefold.proof.documents import Proof
    from onefold.upsert.documents import LandedKeys


def _import_meanwhile(module: str) -> None:
    """Import a large module without holding up the thread that talks with the JVM in many short calls."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 10)
    try:
        importlib.import_module(module)
    finally:
        sys.setswitchinterval(usual)


class InSession:
    """Runs Spark in a session that somebody else opens and closes: tests share one, and hand it in here."""

    def __init__(self, lake: Lake, session: SparkSession) -> None:
        self.lake, self._session = lake, session

    @property
    def session(self) -> SparkSession:
        """The session, with the lake's catalog."""
        return self._session

    @property
    def log(self) -> Path:
        """The file to which Spark writes."""
        return self.lake.host_folder / "logs" / "spark.log"

    def run(self, step: str, dataset: Dataset, batch: str, attempt: str | None = None) -> Any:
        """Run one step of a batch; its document."""
        module = importlib.import_module(f"spark_jobs.{step}")
        session = self.session
        with self._one_sentence(step, batch):
            return module.run(session, self.lake, dataset, batch, attempt)

    def sample(self, dataset: Dataset, count: int) -> list[dict[str, Any]]:
        """The verdicts that the newest records would get: a dict for each verdict and reason."""
        session = self.session
        from onefold.dedup.sample import sample

        with self._one_sentence("sample", dataset.name):
            return sample(session, self.lake, dataset, count)

    def maintain(self, dataset: Dataset, keep: Keep, *, dry_run: bool) -> Maintained:
        """Prove that no key has two rows, remove what is older than `keep`, and compact the dataset's tables."""
        session = self.session
        from spark_jobs import maintain

        with self._one_sentence("maintain", dataset.name):
            return maintain.run(session, self.lake, dataset, keep=keep, dry_run=dry_run)

    def find_landed(self, dataset: Dataset, keys: Collection[bytes]) -> LandedKeys:
        """Where the landings of a dataset's sources hold records of some keys, by digest."""
        session = self.session
        from onefold.upsert.landed_keys import find_landed

        with self._one_sentence("erase", dataset.name):
            return find_landed(session, self.lake, dataset, keys)

    def erase(self, dataset: Dataset, positions: Mapping[str, list[Range]]) -> list[str]:
        """Remove the records at some positions from the dataset's tables; the names of the changed tables."""
        session = self.session
        from onefold.maintenance.erase import erase_from_tables

        with self._one_sentence("erase", dataset.name):
            return erase_from_tables(session, self.lake, dataset, positions)

    def ensure_views(self, dataset: Dataset) -> None:
        """Create the views by which a dataset's rows and its quarantine are read, where they are missing or wrong."""
        session = self.session
        from onefold.upsert.state import ensure_views

        with self._one_sentence("recover", dataset.name):
            ensure_views(session, self.lake, dataset)

    def swap_views(self, dataset: Dataset) -> None:
        """Point the views at the dataset's own generation."""
        session = self.session
        from onefold.upsert.state import swap_views

        with self._one_sentence("rebuild", dataset.name):
            swap_views(session, dataset)

    def prove(self, dataset: Dataset, share: float, say: Callable[[str], None]) -> Proof:
        """Compare the published rows with the landed bytes, for a share (0 to 1) of the keys."""
        session = self.session
        from onefold.proof.prove import prove

        with self._one_sentence("prove", dataset.name):
            return prove(session, self.lake, dataset, share, say)

    def close(self) -> None:
        """Nothing: the session stays open for those who share it."""

    @contextmanager
    def _one_sentence(self, step: str, of: str) -> Iterator[None]:
        """Turn an error of Spark's into one sentence that names the step, what it is of, and the log."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JError, PySparkException) as error:
            raise SparkStepError(step, of, f"{cause_of(error)} (see {self.log})") from error


class InProcess(InSession):
    """Runs Spark in one session of this process, opened by the first step; Spark's own output goes to a log file."""

    def __init__(self, lake: Lake, small: bool = False) -> None:
        self.lake, self.small = lake, small
        self._opened: SparkSession | None = None

    @property
    def session(self) -> SparkSession:
        """The session, opened at the first call; Great Expectations is imported meanwhile."""
        if self._opened is None:
            from onefold.spark.session import open_session

            threading.Thread(target=_import_meanwhile, args=("onefold.quality.expectations",), daemon=True).start()
            self.lake.restrict_new_files()
            with self._quiet():
                self._opened = open_session(self.lake, small=self.small)
        return self._opened

    def close(self) -> None:
        """Stop the session, if one was opened."""
        if self._opened is not None:
            self._opened.stop()

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
