"""What OpenLineage gets: where a batch was read from, which table it was published to, what the gate found.

Airflow's provider asks for it when a task ends; without the provider nothing here is imported. Names
follow OpenLineage's naming of datasets: of a topic `kafka://host:port` and its name, of files their store and path, of
the table its place, with the name by which it is read as a symlink.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.generated.data_quality_assertions_dataset import (
    Assertion,
    DataQualityAssertionsDatasetFacet,
)
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
from openlineage.client.generated.symlinks_dataset import Identifier, SymlinksDatasetFacet

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.plan import find_plan
from onefold.publish import Published
from onefold.quality.checks import WARNING
from onefold.quality.documents import GateResult


def publication(lake: Lake, dataset: Dataset, published: Published) -> OperatorLineage[Any, Any]:
    """Of a published batch: its sources, and the table with its columns, its snapshot and how many rows it changed."""
    table = StateTable(lake, dataset)
    named = [
        SchemaDatasetFacetFields(name=field.name, type=str(field.field_type))
        for field in table.table.schema().fields
        if field.name in table.published_columns(dataset)
    ]
    gate = lake.get(lake_keys.attempt(dataset, published.batch, published.attempt, "gate"), GateResult)
    namespace, name = _place(table.table.location())
    output = OutputDataset(
        namespace=namespace,
        name=name,
        facets={
            "schema": SchemaDatasetFacet(fields=named),
            "version": DatasetVersionDatasetFacet(datasetVersion=str(published.snapshot)),
            "symlinks": SymlinksDatasetFacet([Identifier("onefold", dataset.target.table, "TABLE")]),
        },
        outputFacets=(
            {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=gate.readers.rows)}
            if gate and gate.readers
            else {}
        ),
    )
    return OperatorLineage(inputs=sources(lake, dataset, published.batch), outputs=[output])


def judgement(lake: Lake, dataset: Dataset, batch: str, attempt: str) -> OperatorLineage[Any, Any]:
    """Of a judged attempt: the table, with each check as an assertion."""
    gate = lake.get(lake_keys.attempt(dataset, batch, attempt, "gate"), GateResult)
    if gate is None:
        return OperatorLineage()
    checks = [
        Assertion(
            assertion=check.id,
            success=check.status not in ("failed", "errored"),
            severity="warn" if check.severity == WARNING else "error",
            expected=check.expected or None,
            actual=check.value or None,
        )
        for check in gate.checks
        if check.status != "not_applicable"
    ]
    namespace, name = _place(StateTable(lake, dataset).table.location())
    facet = DataQualityAssertionsDatasetFacet(assertions=checks)
    return OperatorLineage(
        inputs=[InputDataset(namespace=namespace, name=name, inputFacets={"dataQualityAssertions": facet})]
    )


def sources(lake: Lake, dataset: Dataset, batch: str) -> list[InputDataset]:
    """The topics or the place that a batch was planned from; none where a person decided it."""
    plan = find_plan(lake, dataset, batch)
    if plan.place:
        return [InputDataset(*_place(plan.place))]
    kafka = dataset.source.kafka
    if kafka is None:
        return []
    first = str(lake.settings.kafka.get(kafka.connection, {}).get("bootstrap.servers", kafka.connection)).split(",")[0]
    return [InputDataset(f"kafka://{first}", topic) for topic in plan.topics]


def _place(uri: str) -> tuple[str, str]:
    """Namespace and name of files or of a folder."""
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return "file", parts.path.rstrip("/") or uri
    scheme = parts.scheme.replace("s3a", "s3")
    return f"{scheme}://{parts.netloc}", parts.path.strip("/")
