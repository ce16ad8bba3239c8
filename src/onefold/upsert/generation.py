"""Which generation of a dataset is published, and where; anything else is refused before it runs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from onefold.dataset import Dataset
from onefold.errors import ChangedDatasetError, TargetTakenError
from onefold.lake import Lake


class Target(BaseModel):
    """Whose table it is."""

    model_config = ConfigDict(frozen=True)

    dataset: str


class Generation(BaseModel):
    """The meaning that the published table was folded with, and its name."""

    model_config = ConfigDict(frozen=True)

    generation: str
    table: str
    meaning: dict[str, Any]


def check_generation(lake: Lake, dataset: Dataset) -> None:
    """Refuse a dataset whose meaning or table is not the published one.

    Raises:
        ChangedDatasetError: it names the keys that changed.
    """
    published = lake.get(Lake.generation(dataset), Generation)
    if published is None:
        return
    now = _generation(dataset)
    before, after = ({**one.meaning, "target.table": one.table} for one in (published, now))
    changed = tuple(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))
    if changed or published.generation != now.generation:
        changed = changed or ("the way its digest is made",)
        raise ChangedDatasetError(dataset.name, changed, published.generation, published.table)


def claim_target(lake: Lake, dataset: Dataset) -> None:
    """Make the target table the dataset's own; called before the table is made.

    Raises:
        TargetTakenError: it is another dataset's.
    """
    standing = lake.put_first(Lake.target(dataset.target.table), Target(dataset=dataset.name))
    if standing.dataset != dataset.name:
        raise TargetTakenError(dataset.name, dataset.target.table, standing.dataset)


def fix_generation(lake: Lake, dataset: Dataset) -> None:
    """Make the dataset's generation the published one, where there is none; called before the first commit.

    Raises:
        ChangedDatasetError: another one was published meanwhile.
    """
    lake.put_first(Lake.generation(dataset), _generation(dataset))
    check_generation(lake, dataset)


def _generation(dataset: Dataset) -> Generation:
    meaning = Generation(generation=dataset.generation, table=dataset.target.table, meaning=dataset.meaning)
    return Generation.model_validate_json(meaning.model_dump_json())  # as it is read back
