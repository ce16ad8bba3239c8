"""Who runs Spark: what every operation takes, and what the command line, Airflow and tests hand in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from onefold.publish import StepLauncher

if TYPE_CHECKING:
    from onefold.dataset import Dataset
    from onefold.lake import Lake
    from onefold.maintenance.keep import Keep, Maintained
    from onefold.offsets import Range
    from onefold.proof.documents import Proof
    from onefold.upsert.documents import LandedKeys


class Launcher(StepLauncher, Protocol):
    """Runs the steps of a batch, and the Spark jobs that read or change a dataset's tables.

    `InProcess` opens one session in this process; `InSession` takes a session that is open, such as the one that tests
    share. Airflow's tasks run one step each, by spark-submit: they hand in a `StepLauncher`.
    """

    def sample(self, dataset: Dataset, count: int) -> list[dict[str, Any]]:
        """The verdicts that the newest records would get: a dict for each verdict and reason."""
        ...

    def maintain(self, dataset: Dataset, keep: Keep, *, dry_run: bool) -> Maintained:
        """Prove that no key has two rows, remove what is older than `keep`, and compact the dataset's tables."""
        ...

    def find_landed(self, dataset: Dataset, keys: Collection[bytes]) -> LandedKeys:
        """Where the landings of a dataset's sources hold records of some keys, by digest."""
        ...

    def erase(self, dataset: Dataset, positions: Mapping[str, list[Range]]) -> list[str]:
        """Remove the records at some positions from the dataset's tables; the names of the changed tables."""
        ...

    def prove(self, dataset: Dataset, share: float, say: Callable[[str], None]) -> Proof:
        """Compare the published rows with the landed bytes, for a share (0 to 1) of the keys."""
        ...

    def ensure_views(self, dataset: Dataset) -> None:
        """Create the views by which a dataset's rows and its quarantine are read, where they are missing or wrong."""
        ...

    def swap_views(self, dataset: Dataset) -> None:
        """Point the views at the dataset's own generation."""
        ...

    def close(self) -> None:
        """Release what the launcher opened itself."""
        ...


Say = Callable[[str], None]
"""Takes what an operation is at, for people who wait."""
OpenLauncher = Callable[["Lake", bool], Launcher]
"""Opens a launcher for a lake; the second argument says that every batch and the table are small."""
