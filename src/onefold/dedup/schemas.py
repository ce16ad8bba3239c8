"""The schemas that a batch's records were written by: asked for and kept before any record is judged."""

from __future__ import annotations

from pyspark.sql import DataFrame

from onefold.dataset import Dataset
from onefold.dedup.documents import Staged
from onefold.formats.wire import SchemaId
from onefold.lake import Lake
from onefold.schemas.kept import MOST_ASKED, keep, read_kept
from onefold.values.registered import ids_named


def with_schemas(
    lake: Lake, dataset: Dataset, records: DataFrame, *, again: bool = True
) -> tuple[Dataset, dict[str, list[str]]]:
    """The dataset with the schemas that records name, and by section the ids of those that nothing is known of; the
    registry is asked for those that the lake lacks (`keep`).

    Raises:
        RegistryUnavailableError, RegistryRefusedError, RegistryDiffersError, UsageError: as `keep`.
    """
    if not dataset.registries:
        return dataset, {}
    named = ids_named(records, dataset)
    known = {section: keep(lake, dataset.registries[section], ids, again=again) for section, ids in named.items()}
    unknown = {
        section: left
        for section, ids in named.items()
        if (left := [str(id_) for id_ in ids if str(id_) not in known[section]][:MOST_ASKED])
    }
    return dataset.with_writer_schemas(known), unknown


def knows_more(lake: Lake, dataset: Dataset, staged: Staged) -> bool:
    """Whether the registry knows by now a schema that it did not know when a batch was staged. One that does not answer
    knows no more."""
    for section, names in staged.unknown_schemas.items():
        registry, ids = dataset.registries[section], [SchemaId.of(name) for name in names]
        if read_kept(lake, registry, ids) or keep(lake, registry, ids, again=False):
            return True
    return False


def with_kept_schemas(lake: Lake, dataset: Dataset, records: DataFrame) -> Dataset:
    """The dataset with the schemas that records name and the lake has; no registry is asked."""
    if not dataset.registries:
        return dataset
    named = ids_named(records, dataset).items()
    return dataset.with_writer_schemas(
        {section: read_kept(lake, dataset.registries[section], ids) for section, ids in named}
    )
