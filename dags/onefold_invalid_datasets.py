"""No DAG: shows invalid dataset files as an import error of Airflow, and leaves the other DAGs alone."""

from onefold.orchestration import check_datasets

check_datasets()
