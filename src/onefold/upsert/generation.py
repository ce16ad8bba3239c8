"""Which generation of a dataset is published; another one is refused before anything runs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from onefold.dataset import Dataset
from onefold.errors import ChangedDatasetError
from onefold.lake import Lake


class Generation(BaseModel):
    """The meaning that the published table was folded with."""

    model_config = ConfigDict(frozen=True)

    generation: str
    meaning: dict[str, Any]


def check_generation(lake: Lake, dataset: Dataset) -> None:
    """Refuse a dataset whose meaning is not the published one.

    Raises:
        ChangedDatasetError: it names the keys that changed.
    """
    published = lake.get(Lake.generation(dataset), Generation)
    if published is None or published.generation == dataset.generation:
        return
    now = Generation(generation=dataset.generation, meaning=dataset.meaning).model_dump(mode="json")["meaning"]
    names = sorted({*published.meaning, *now})
    changed = tuple(name for name in names if published.meaning.get(name) != now.get(name))
    raise ChangedDatasetError(dataset.name, changed, published.generation, dataset.generation)


def fix_generation(lake: Lake, dataset: Dataset) -> None:
    """Make the dataset's generation the published one, where there is none; called before the first commit.

    Raises:
        ChangedDatasetError: another one was published meanwhile.
    """
    lake.put_first(Lake.generation(dataset), Generation(generation=dataset.generation, meaning=dataset.meaning))
    check_generation(lake, dataset)
