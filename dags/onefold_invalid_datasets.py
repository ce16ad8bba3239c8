"""No DAG: shows invalid dataset files as an import error of Airflow, without an effect on other DAGs."""

import airflow.providers.apache.spark.operators.spark_submit  # noqa: F401 - Airflow imports modules that a DAG file names once, for all readings

from onefold.orchestration import check_datasets

check_datasets()
