"""One DAG a dataset file of `datasets/` (ONEFOLD_DATASETS)."""

import airflow.providers.apache.spark.operators.spark_submit  # noqa: F401 - what a DAG file names Airflow imports once, for all readings
from airflow.sdk import DAG

from onefold.orchestration import dataset_dags

dags: dict[str, DAG] = {dag.dag_id: dag for dag in dataset_dags()}
globals().update(dags)  # Airflow takes the DAGs that it finds by name
