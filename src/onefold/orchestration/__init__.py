"""What Airflow schedules, made from the dataset files. The only room that imports airflow."""

from onefold.orchestration.datasets import check_datasets, dataset_dags, dataset_names

__all__ = ["check_datasets", "dataset_dags", "dataset_names"]
