"""No DAG: shows invalid dataset files as an import error of Airflow, and leaves the other DAGs alone."""

import airflow.providers.apache.spark.operators.spark_submit  # noqa: F401 - what a DAG file names Airflow imports once, for all readings

from onefold.orchestration import check_datasets

check_datasets()
