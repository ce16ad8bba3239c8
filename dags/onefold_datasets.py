"""One DAG a dataset file of `datasets/` (ONEFOLD_DATASETS)."""

from airflow.sdk import DAG

from onefold.orchestration import dataset_dags

dags: dict[str, DAG] = {dag.dag_id: dag for dag in dataset_dags()}
globals().update(dags)  # Airflow takes the DAGs that it finds by name
