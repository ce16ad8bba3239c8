"""Which generation of a dataset is published, and where; anything else is refused before it runs.

Fields may change in place (`onefold.dataset.evolution`): the generation stays, and each shape that its fields have had
is a numbered document below it, put there before the table is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset import Dataset, find_dataset
from onefold.dataset.evolution import FieldChange, FieldHistory, Shape, field_changes, origins_of
from onefold.dataset.model import RULES_CHANGED
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
    again: int = 0

    @property
    def shape(self) -> Shape:
        """The fields that it began with."""
        return Shape(
            fields=self.meaning["value.fields"],
            renamed=self.meaning.get("value.renamed", {}),
            places=self.meaning.get("value.from", {}),
        )


class Rebuild(BaseModel):
    """A generation that is folded next to the published generation."""

    model_config = ConfigDict(frozen=True)

    generation: str
    started: datetime
    without: list[str] = Field(default=[], description="Published batches that it leaves out, by `rebuild --without`")


class Retired(BaseModel):
    """A generation that was published once; `maintain` drops its tables in time."""

    model_config = ConfigDict(frozen=True)

    generation: str
    table: str
    at: datetime


def open_dataset(lake: Lake, name: str) -> Dataset:
    """A dataset by its name, as the lake has it (`settle`)."""
    return settle(lake, find_dataset(lake.settings.datasets_folder, name))


def settle(lake: Lake, dataset: Dataset) -> Dataset:
    """A dataset file as the published generation has it, if its fields can be changed in place; else as it is. With the
    settings' key of its masks.

    Whether anything may be run with it says `check_generation`.
    """
    dataset = dataset.with_mask_key(lake.settings.mask_key_bytes)
    published = lake.get(lake_keys.generation(dataset), Generation)
    if published and (rebuild := to_rebuild(lake, dataset)).generation == begun_rebuild(lake, dataset, published):
        return rebuild
    return (_in_place(lake, published, dataset) if published else None) or dataset.with_field_history(None)


def _in_place(lake: Lake, published: Generation, dataset: Dataset) -> Dataset | None:
    """The dataset file as the published generation has it; None: it means something else."""
    if _other_keys(published, dataset):
        return None
    shapes = shapes_of(lake, dataset.name, published)
    changes = field_changes(shapes[-1], dataset.declared, dataset.used_fields)
    if _refused(dataset, changes):
        return None
    if changes:
        shapes.append(dataset.declared)
    elif len(shapes) == 1 and dataset.own_generation(published.again) != published.generation:
        return None
    shape = shapes[-1].digest if len(shapes) > 1 else ""
    return dataset.with_field_history(FieldHistory(published.generation, origins_of(shapes), shape, published.again))


def begun_rebuild(lake: Lake, dataset: Dataset, published: Generation) -> str:
    """The generation of a rebuild that has begun and not ended; or nothing."""
    rebuild = lake.get(lake_keys.rebuild(dataset), Rebuild)
    return rebuild.generation if rebuild and rebuild.generation != published.generation else ""


def is_rebuild(lake: Lake, dataset: Dataset) -> bool:
    """Whether another generation is published than the one that the dataset is folded into."""
    published = lake.get(lake_keys.generation(dataset), Generation)
    return published is not None and published.generation != dataset.generation


def to_rebuild(lake: Lake, dataset: Dataset, taken: Callable[[str], bool] = lambda _: False) -> Dataset:
    """A dataset file as a generation of its own, apart from each whose fields were changed in place since, and
    each that readers were moved away from: decisions since then (skips, forget marks) are not in its table.

    Args:
        lake: where the generations are recorded.
        dataset: the file.
        taken: whether a generation cannot be used for another reason.
    """
    published = lake.get(lake_keys.generation(dataset), Generation)
    again = 0
    while _is_over(lake, dataset, generation := dataset.own_generation(again), published) or taken(generation):
        again += 1
    origins = origins_of([dataset.declared])
    return dataset.with_field_history(FieldHistory(dataset.own_generation(again), origins, "", again))


def _is_over(lake: Lake, dataset: Dataset, generation: str, published: Generation | None) -> bool:
    """Whether a generation is none that can be begun with the file, or gone on with."""
    retired = lake.storage.stat(lake_keys.retired(dataset, generation))
    return bool(
        lake.storage.stat(lake_keys.shape(dataset.name, generation, 1))
        or (retired and not (published and published.generation == generation))
    )


def shapes_of(lake: Lake, name: str, published: Generation) -> list[Shape]:
    """The shapes that the fields of a published generation have had, from its beginning on."""
    found = [published.shape]
    while shape := lake.get(lake_keys.shape(name, published.generation, len(found)), Shape):
        found.append(shape)
    return found


def record_shape(lake: Lake, dataset: Dataset) -> None:
    """Make the dataset's fields the generation's, for every process; called before the table is changed.

    Raises:
        ChangedDatasetError: another process has changed them otherwise meanwhile.
    """
    published = lake.get(lake_keys.generation(dataset), Generation)
    if published is None or not dataset.shape:
        return
    shapes = shapes_of(lake, dataset.name, published)
    check_generation(lake, dataset, rebuilding=True)  # behind the count: what comes in between has this number
    if shapes[-1].digest != dataset.shape:
        lake.put_first(lake_keys.shape(dataset.name, published.generation, len(shapes)), dataset.declared)
    check_generation(lake, dataset, rebuilding=True)


def check_generation(lake: Lake, dataset: Dataset, *, rebuilding: bool = False) -> None:
    """Refuse a dataset whose meaning or table is not that of the published generation, or (`rebuilding`) of a rebuild.

    Raises:
        ChangedDatasetError: it names the keys that changed, and of the fields each.
    """
    published = lake.get(lake_keys.generation(dataset), Generation)
    if published is None:
        return
    now = _in_place(lake, published, dataset)
    if now and (dataset.generation, dataset.shape) == (now.generation, now.shape):
        return
    if (
        rebuilding
        and dataset.target.table == published.table
        and begun_rebuild(lake, dataset, published) == dataset.generation
    ):
        return
    raise ChangedDatasetError(
        dataset.name,
        _changed(lake, published, dataset),
        _refused_changes(lake, published, dataset),
        published.generation,
        published.table,
    )


def _other_keys(published: Generation, dataset: Dataset) -> tuple[str, ...]:
    """The keys that changed, without the fields."""
    now = _generation(dataset)
    before, after = ({**generation.meaning, "target.table": generation.table} for generation in (published, now))
    names = {*before, *after} - {"value.fields", "value.renamed", "value.from"}
    return tuple(name for name in sorted(names) if before.get(name) != after.get(name))


def _changed(lake: Lake, published: Generation, dataset: Dataset) -> tuple[str, ...]:
    """The keys that are not what the published table was folded with, at first or by now."""
    shapes = shapes_of(lake, dataset.name, published)
    same = all(shape == dataset.declared for shape in (shapes[0], shapes[-1]))
    changed = tuple(sorted([*_other_keys(published, dataset), *([] if same else ["value.fields"])]))
    return changed or ("again" if dataset.again > published.again else "the way its digest is made",)


def _refused(dataset: Dataset, changes: list[FieldChange]) -> bool:
    frozen = dataset.value.schema_changes == "freeze"
    return any(change.problem or frozen for change in changes)


def _refused_changes(lake: Lake, published: Generation, dataset: Dataset) -> tuple[str, ...]:
    """The changes of fields that are not made in place, each with its place in the file."""
    shapes = shapes_of(lake, dataset.name, published)
    changes = field_changes(shapes[-1], dataset.declared, dataset.used_fields)
    frozen = dataset.value.schema_changes == "freeze"
    sentences = [
        f"{dataset.place_of(change.field)}: {change.sentence}" + (": schema_changes is freeze" if frozen else "")
        for change in changes
        if change.problem or frozen
    ]
    other = _other_keys(published, dataset)
    if "rules" in other:
        changed = [said for number, said in RULES_CHANGED.items() if number > published.meaning.get("rules", 1)]
        sentences.append(
            "this Onefold decodes or judges some records otherwise than the Onefold that made the table: "
            + "; ".join(changed)
        )
    if "table_layout" in other:
        sentences.append("this Onefold lays its tables out otherwise than the Onefold that made the table")
    if "message_ledger" in other:
        sentences.append(
            "a delivery decides which version a message is, and this Onefold keeps a ledger of messages next to the "
            "rows, so that one that is sent again in a later batch changes no row"
        )
    if dataset.declared in shapes[:-1]:
        sentences.append("the table has gone on with a newer file: use that one")
    return tuple(sentences)


def left_out_of(lake: Lake, dataset: Dataset) -> list[str]:
    """The published batches that a rebuild into the dataset's generation leaves out; of another generation, none."""
    rebuild = lake.get(lake_keys.rebuild(dataset), Rebuild)
    return rebuild.without if rebuild and rebuild.generation == dataset.generation else []


def begin_rebuild(lake: Lake, dataset: Dataset, without: Sequence[str] = ()) -> tuple[str, ...]:
    """Allow the dataset's generation to be folded (`to_rebuild`) next to the published table; the keys that changed, or
    that batches are left out.

    Raises:
        UsageError: nothing is published yet, or the target table is another.
    """
    published = lake.get(lake_keys.generation(dataset), Generation)
    if published is None:
        raise UsageError(f"{dataset.name}: nothing is published yet: there is nothing to rebuild (see `onefold run`)")
    if published.table != dataset.target.table:
        raise UsageError(
            f"{dataset.name}: it is published as {published.table}, and a rebuild keeps the table's name. Take the "
            "change of target.table back, or give the dataset a new name."
        )
    back = published.generation == dataset.generation
    if not back or is_given_up(lake, dataset):
        begun = Rebuild(generation=dataset.generation, started=datetime.now(UTC), without=list(without))
        lake.put(lake_keys.rebuild(dataset), begun)
    if without and not back:
        return (*_other_keys(published, dataset), *(f"without {batch}" for batch in without))
    return () if back else _changed(lake, published, dataset)


def is_given_up(lake: Lake, dataset: Dataset) -> bool:
    """Whether a rebuild was begun with another file, and the dataset is as published again."""
    published = lake.get(lake_keys.generation(dataset), Generation)
    if published is None or published.generation != dataset.generation:
        return False
    return bool(begun_rebuild(lake, dataset, published))


def end_rebuild(lake: Lake, dataset: Dataset) -> None:
    """Make the dataset's generation the published generation; readers see it already."""
    published = lake.get(lake_keys.generation(dataset), Generation)
    assert published is not None
    retired = Retired(generation=published.generation, table=published.table, at=datetime.now(UTC))
    lake.put(lake_keys.retired(dataset, published.generation), retired)
    lake.put(lake_keys.generation(dataset), _generation(dataset))


def claim_target(lake: Lake, dataset: Dataset) -> None:
    """Make the target table the dataset's own; called before the table is made.

    Raises:
        TargetTakenError: it is another dataset's.
    """
    owner = lake.put_first(lake_keys.target(dataset.target.table), Target(dataset=dataset.name))
    if owner.dataset != dataset.name:
        raise TargetTakenError(dataset.name, dataset.target.table, owner.dataset)


def fix_generation(lake: Lake, dataset: Dataset) -> None:
    """Make the dataset's generation the published generation, where there is none; called before the first commit.

    Raises:
        ChangedDatasetError: another generation was published meanwhile.
    """
    lake.put_first(lake_keys.generation(dataset), _generation(dataset))
    check_generation(lake, dataset, rebuilding=True)


def _generation(dataset: Dataset) -> Generation:
    meaning = Generation(
        generation=dataset.generation, table=dataset.target.table, meaning=dataset.meaning, again=dataset.again
    )
    return Generation.model_validate_json(meaning.model_dump_json())  # as it is read back
