"""The contract: what one YAML file says of a table."""

from onefold.dataset.load import dataset_files, find_dataset, find_valid, load_dataset, read_dataset
from onefold.dataset.model import Dataset

__all__ = ["Dataset", "dataset_files", "find_dataset", "find_valid", "load_dataset", "read_dataset"]
