"""The schemas that a batch's records were written by: asked for and kept before any record is judged."""

from __future__ import annotations

from pyspark.sql import DataFrame

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.schemas.kept import keep, read_kept
from onefold.values.registered import ids_named


def with_schemas(lake: Lake, dataset: Dataset, records: DataFrame, *, again: bool = True) -> Dataset:
    """The dataset with the schemas that records name; the registry is asked for those that the lake lacks (`keep`).

    Raises:
        RegistryUnavailableError, RegistryRefusedError, RegistryDiffersError, UsageError: as `keep`.
    """
    if not dataset.registries:
        return dataset
    named = ids_named(records, dataset).items()
    return dataset.with_writer_schemas(
        {section: keep(lake, dataset.registries[section], ids, again=again) for section, ids in named}
    )


def with_kept_schemas(lake: Lake, dataset: Dataset, records: DataFrame) -> Dataset:
    """The dataset with the schemas that records name and the lake has; no registry is asked."""
    if not dataset.registries:
        return dataset
    named = ids_named(records, dataset).items()
    return dataset.with_writer_schemas(
        {section: read_kept(lake, dataset.registries[section], ids) for section, ids in named}
    )
