"""What the pages know of the lake: read once, and again only where it has changed.

Every request lists (the histories once; the decisions, or the reports, of a dataset that it shows) and reads what is
new by its entity tag. Nothing is shown on the strength of an age.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pydantic import AliasChoices, AwareDatetime, Field, ValidationError

from onefold import lake_keys
from onefold.dataset import Dataset, dataset_files, load_dataset
from onefold.decisions import Attributed, Waiver
from onefold.errors import InvalidDatasetError, LakeUnavailableError
from onefold.lake import Lake
from onefold.lake_keys import HISTORIES
from onefold.report.history import READERS, Entry, History, gather
from onefold.storage import ObjectInfo

UNKEPT = 30
"""Reports of a dataset without a history that are read for the overview, at most."""
_PINNED = ".skipped.json"
_LOG = logging.getLogger(__name__)
_Seen = TypeVar("_Seen")


def unless_broken(name: str, look: Callable[[], _Seen]) -> _Seen | None:
    """What a look at one dataset gives; None where that fails: the log says why, and the others are shown all the same.

    Raises:
        LakeUnavailableError: that is no fault of the dataset.
    """
    try:
        return look()
    except LakeUnavailableError:
        raise
    except Exception:
        _LOG.exception("dataset %s cannot be shown on the overview", name)
        return None


class Decided(Attributed):
    """What a page says of a decision on a batch or on the table, of whatever kind and version."""

    kind: str
    batch: str = Field(
        validation_alias=AliasChoices("batch", "to", "source"), description="Of a rollback: the last that stays"
    )
    at: AwareDatetime
    waivers: list[Waiver] = Field(default=[])
    undone: list[str] = Field(default=[], description="Of a rollback: batches that are not published any more")


class Histories:
    """The histories and decisions of a lake, as they are now."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, History | None]] = {}
        self._entries: dict[str, list[Entry]] = {}
        self._decided: dict[str, tuple[str, Decided | None]] = {}
        self._files: dict[Path, tuple[tuple[int, int], Dataset | None]] = {}

    def overview(self, lake: Lake, allowed: set[str]) -> dict[str, History | None]:
        """The histories of the datasets that are among `allowed`, by name; None: its own cannot be looked at.

        A dataset is what has a history or a dataset file. Where no dataset file can be seen from here, reports tell.
        """
        there = {info.key.removeprefix(HISTORIES).removesuffix(".json"): info for info in lake.storage.list(HISTORIES)}
        files = {file.stem for file in dataset_files(lake.settings.datasets_folder)}
        asked = sorted(name for name in allowed if name in there or name in files or not files)

        def look(name: str) -> History | None:
            return unless_broken(name, lambda: self._history(lake, name, there.get(name)))

        with ThreadPoolExecutor(READERS) as pool:
            found = dict(zip(asked, pool.map(look, asked), strict=True))
        return {
            name: history
            for name, history in found.items()
            if name in there or name in files or not history or history.entries
        }

    def dataset(self, lake: Lake, name: str, most: int) -> History:
        """A dataset's history, held against its reports; at most `most` of them are read."""
        kept = self._stored(lake, name, lake.storage.stat(lake_keys.history(name)))
        known = {entry.batch: entry for entry in (*(kept.entries if kept else ()), *self._entries.get(name, ()))}
        entries, batches = gather(lake, name, known.values(), most)
        self._entries[name] = entries
        base = kept or self._declared(lake, name)
        return base.model_copy(update={"entries": entries, "batches": batches})

    def decisions(self, lake: Lake, name: str) -> tuple[list[Decided], int]:
        """What people decided of a dataset's batches and table, oldest first; how many decisions cannot be read."""
        found = [info for info in lake.storage.list(lake_keys.decisions(name)) if not info.key.endswith(_PINNED)]
        new = [info for info in found if self._decided.get(info.key, ("",))[0] != info.etag]
        for info in new:
            self._decided[info.key] = (info.etag, _decision(lake.storage.read(info.key)))
        read = [self._decided[info.key][1] for info in found]
        made = [entry for entry in read if entry is not None]
        return sorted(made, key=lambda entry: entry.at), len(read) - len(made)

    def _history(self, lake: Lake, name: str, info: ObjectInfo | None) -> History:
        kept = self._stored(lake, name, info)
        if kept is not None:
            return kept
        entries, batches = gather(
            lake, name, self._entries.get(name, ()), UNKEPT, readers=1
        )  # datasets are read at once
        self._entries[name] = entries
        return self._declared(lake, name).model_copy(update={"entries": entries, "batches": batches})

    def _stored(self, lake: Lake, name: str, info: ObjectInfo | None) -> History | None:
        if info is None:
            return None
        if self._kept.get(name, ("",))[0] != info.etag:
            self._kept[name] = (info.etag, _checked(lake.storage.read(info.key), name))
        return self._kept[name][1]

    def _declared(self, lake: Lake, name: str) -> History:
        """What the dataset file says, where it can be read from here."""
        file = lake.settings.datasets_folder / f"{name}.yaml"
        dataset = self._loaded(file)
        if dataset is None:
            return History(dataset=name)
        limit = dataset.quality.freshness
        return History(
            dataset=name,
            description=dataset.description,
            owner=dataset.owner,
            table=dataset.target.table,
            mode=dataset.apply.title,
            identity=dataset.deciding,
            freshness=limit.total_seconds() if limit else None,
        )

    def _loaded(self, file: Path) -> Dataset | None:
        try:
            found = file.stat()
        except OSError:
            return None
        mark = (found.st_mtime_ns, found.st_size)
        if self._files.get(file, (None,))[0] != mark:
            try:
                self._files[file] = (mark, load_dataset(file))
            except InvalidDatasetError:
                self._files[file] = (mark, None)
        return self._files[file][1]


def _checked(data: bytes | None, name: str) -> History | None:
    """A history, if it can be read and is this dataset's."""
    try:
        history = History.model_validate_json(data) if data is not None else None
    except ValidationError:
        return None
    return history if history and history.dataset == name else None


def _decision(data: bytes | None) -> Decided | None:
    """A decision, if it can be read."""
    if data is None:
        return None
    try:
        return Decided.model_validate_json(data)
    except ValidationError:
        return None
