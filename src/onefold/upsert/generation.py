"""Which generation of a dataset is published, and where; anything else is refused before it runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from onefold.dataset import Dataset
from onefold.errors import ChangedDatasetError, TargetTakenError, UsageError
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


class Rebuild(BaseModel):
    """A generation that is folded beside the published one."""

    model_config = ConfigDict(frozen=True)

    generation: str
    started: datetime


class Retired(BaseModel):
    """A generation that was published once; `maintain` drops its tables in time."""

    model_config = ConfigDict(frozen=True)

    generation: str
    table: str
    at: datetime


def check_generation(lake: Lake, dataset: Dataset, *, rebuilding: bool = False) -> None:
    """Refuse a dataset whose meaning or table is not the published one, or (`rebuilding`) the one being rebuilt.

    Raises:
        ChangedDatasetError: it names the keys that changed.
    """
    published = lake.get(Lake.generation(dataset), Generation)
    if published is None:
        return
    changed = _changed(published, dataset)
    if not changed:
        return
    if rebuilding and dataset.target.table == published.table:
        rebuild = lake.get(Lake.rebuild(dataset), Rebuild)
        if rebuild and rebuild.generation == dataset.generation:
            return
    raise ChangedDatasetError(dataset.name, changed, published.generation, published.table)


def _changed(published: Generation, dataset: Dataset) -> tuple[str, ...]:
    now = _generation(dataset)
    before, after = ({**one.meaning, "target.table": one.table} for one in (published, now))
    changed = tuple(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))
    return changed or (() if published.generation == now.generation else ("the way its digest is made",))


def begin_rebuild(lake: Lake, dataset: Dataset) -> tuple[str, ...]:
    """Allow the dataset's generation to be folded beside the published one; the keys that changed, if any.

    Raises:
        UsageError: nothing is published yet, or the target table is another.
    """
    published = lake.get(Lake.generation(dataset), Generation)
    if published is None:
        raise UsageError(f"{dataset.name}: nothing is published yet: there is nothing to rebuild (see `onefold run`)")
    if published.table != dataset.target.table:
        raise UsageError(
            f"{dataset.name}: it is published as {published.table}, and a rebuild keeps the table's name. Take the "
            "change of target.table back, or give the dataset a new name."
        )
    changed = _changed(published, dataset)
    if changed:
        lake.put(Lake.rebuild(dataset), Rebuild(generation=dataset.generation, started=datetime.now(UTC)))
    return changed


def end_rebuild(lake: Lake, dataset: Dataset) -> None:
    """Make the dataset's generation the published one; readers have been led to it already."""
    published = lake.get(Lake.generation(dataset), Generation)
    assert published is not None
    retired = Retired(generation=published.generation, table=published.table, at=datetime.now(UTC))
    lake.put(Lake.retired(dataset, published.generation), retired)
    lake.put(Lake.generation(dataset), _generation(dataset))


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
    check_generation(lake, dataset, rebuilding=True)


def _generation(dataset: Dataset) -> Generation:
    meaning = Generation(generation=dataset.generation, table=dataset.target.table, meaning=dataset.meaning)
    return Generation.model_validate_json(meaning.model_dump_json())  # as it is read back
