"""The DAG by which a person decides a red batch."""

import airflow.providers.apache.spark.operators.spark_submit  # noqa: F401 - what a DAG file names Airflow imports once, for all readings
from airflow.sdk import DAG

from onefold.orchestration import dataset_names
from onefold.orchestration.decide_dag import decide_dag

if names := dataset_names():
    dag: DAG = decide_dag(names)
