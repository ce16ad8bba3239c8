"""The DAG with which an operator decides a red batch."""

import airflow.providers.apache.spark.operators.spark_submit  # noqa: F401 - Airflow imports modules that a DAG file names once, for all readings
from airflow.sdk import DAG

from onefold.orchestration import dataset_names
from onefold.orchestration.decide_dag import decide_dag

if names := dataset_names():
    dag: DAG = decide_dag(names)
