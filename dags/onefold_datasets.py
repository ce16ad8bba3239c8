"""One DAG per dataset file of `datasets/` (ONEFOLD_DATASETS)."""

import airflow.providers.apache.spark.operators.spark_submit  # noqa: F401 - Airflow imports modules that a DAG file names once, for all readings
from airflow.sdk import DAG

from onefold.orchestration import dataset_dags

dags: dict[str, DAG] = {dag.dag_id: dag for dag in dataset_dags()}
globals().update(dags)  # Airflow takes the DAGs that it finds by name
