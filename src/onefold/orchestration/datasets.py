"""From the folder of dataset files to DAGs: the valid files run, the others are shown as one import error.

Airflow stops scheduling every DAG of a file that has an import error. So the DAGs and the error come from two
files of `dags/`: `dataset_dags` leaves invalid dataset files out, `check_datasets` raises for them.
"""

from __future__ import annotations

from airflow.sdk import DAG

from onefold.dataset import dataset_files, find_valid
from onefold.dataset.yaml_file import describe_error
from onefold.errors import InvalidDatasetError, UsageError
from onefold.orchestration.dataset_dag import dataset_dag
from onefold.settings import Settings, load_settings


def dataset_dags() -> list[DAG]:
    """One DAG a valid dataset file."""
    return _parse(load_settings())[0]


def dataset_names() -> list[str]:
    """The names of the valid dataset files."""
    valid, _ = find_valid(load_settings().datasets_folder)  # `check_datasets` shows the others
    return [dataset.name for dataset in valid]


def check_datasets() -> None:
    """Raise for what keeps dataset files from becoming DAGs.

    Raises:
        UsageError: the complaints, each with file, line and key; or the folder that holds no dataset file.
    """
    settings = load_settings()
    folder = settings.datasets_folder
    if not dataset_files(folder):
        raise UsageError(f"no dataset files in {folder} (ONEFOLD_DATASETS, below ONEFOLD_HOME)")
    complaints = _parse(settings)[1]
    if complaints:
        raise UsageError("\n".join(str(complaint) for complaint in complaints))


def _parse(settings: Settings) -> tuple[list[DAG], list[InvalidDatasetError]]:
    dags, complaints = [], []
    for file in dataset_files(settings.datasets_folder):
        try:
            dags.append(dataset_dag(file, settings))
        except InvalidDatasetError as error:
            complaints.append(error)
        except Exception as error:  # what Airflow refuses; one file takes no other down
            problem = f"Airflow makes no DAG of it: {describe_error(error)}"
            complaints.append(InvalidDatasetError(str(file), None, "", problem))
    return dags, complaints
