"""The DAG that maintains published tables, once a day."""

import airflow.providers.apache.spark.operators.spark_submit  # noqa: F401 - Airflow imports modules that a DAG file names once, for all readings
from airflow.sdk import DAG

from onefold.orchestration import dataset_names
from onefold.orchestration.housekeeping_dag import housekeeping_dag

if names := dataset_names():
    dag: DAG = housekeeping_dag(names)
