"""What Onefold's tables are called."""

from __future__ import annotations

from onefold.dataset import Dataset

CATALOG = "onefold"
"""The Iceberg catalog's name, for Spark and for pyiceberg."""
STAGING = "onefold_staging"
"""The namespace of staging, actions and verdict tables."""
SCRATCH = ("staged", "actions", "moves", "claims")
"""The kinds of tables that belong to one attempt."""


def state_name(dataset: Dataset, generation: str | None = None) -> str:
    """The state table's name in its namespace (default: of the dataset's own generation)."""
    return f"{dataset.target.name}__state_{generation or dataset.generation}"


def state_table(dataset: Dataset) -> str:
    """The state table's full name in Spark."""
    return f"{CATALOG}.{dataset.target.namespace}.{state_name(dataset)}"


def verdict_table(dataset: Dataset) -> str:
    """The table of all verdicts of a generation; those of an attempt count once its record is in the chain."""
    return f"{CATALOG}.{STAGING}.{verdict_name(dataset)}"


def verdict_name(dataset: Dataset, generation: str | None = None) -> str:
    """The verdict table's name in its namespace (default: of the dataset's own generation)."""
    return f"{dataset.name}__verdicts_{generation or dataset.generation}"


def branch_table(dataset: Dataset, branch: str) -> str:
    """A branch of the state table, as a table's name."""
    return f"{state_table(dataset)}.branch_{branch}"


def scratch_table(dataset: str, kind: str, attempt: str) -> str:
    """The full name of a table that belongs to one attempt; `kind` is one of `SCRATCH`."""
    assert kind in SCRATCH, kind
    return f"{CATALOG}.{STAGING}.{dataset}__{kind}_{attempt}"
