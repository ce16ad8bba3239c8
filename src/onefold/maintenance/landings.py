"""Landed bytes that may go: of attempts that no manifest names, and by retention. Knows no pyspark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from onefold import lake_keys
from onefold.dataset import Dataset, find_valid
from onefold.generation import settle
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.log_segments import waiting
from onefold.landing.manifest import Cleared, Manifest
from onefold.landing.plan import taken_plans
from onefold.upsert.commit_record import chain


def failed_landings(lake: Lake, source: str, age: timedelta) -> list[str]:
    """The folders of landing attempts that no manifest names, and that were last written long enough ago."""
    written: dict[tuple[str, str], datetime] = {}
    for info in lake.storage.list(f"sources/{source}/landed/"):
        batch, attempt = info.key.split("/")[3:5]
        written[batch, attempt] = max(info.modified, written.get((batch, attempt), info.modified))
    before = datetime.now(UTC) - age
    found = []
    for (batch, attempt), at in sorted(written.items()):
        manifest = lake.get(lake_keys.manifest(source, batch), Manifest)
        if at <= before and (manifest is None or manifest.attempt != attempt):
            found.append(lake_keys.landed(source, batch, attempt, ""))
    return found


def old_landings(lake: Lake, source: str, readers: Iterable[Dataset], age: timedelta) -> list[Manifest]:
    """Landings older than `age` that every dataset of the source has published, in the generation that it has now.

    Not those of log segments whose transactions nothing has ended: a later landing may need their bytes. Nor those that
    a replay under way reads.
    """
    before = datetime.now(UTC) - age
    published = {dataset.name: _published(lake, dataset) for dataset in readers}
    everywhere = set.intersection(*published.values()) if published else set()
    replayed = {
        plan.landing
        for name, done in published.items()
        for plan in taken_plans(lake, name)
        if plan.origin and plan.batch not in done
    }
    landed = [
        (info.modified, manifest)
        for info in lake.storage.list(f"sources/{source}/manifests/")
        if (manifest := lake.get(info.key, Manifest)) and not manifest.replays and not manifest.bare
    ]
    done = everywhere - waiting(manifest for _, manifest in landed) - replayed
    return [
        manifest for at, manifest in landed if at <= before and manifest.batch in done and not _gone(lake, manifest)
    ]


def clearable(lake: Lake, sources: Iterable[str], age: timedelta) -> tuple[list[Manifest], list[str]]:
    """`old_landings` of some sources , and the dataset files that cannot be read.

    What these read is unknown: while there are some, no landing goes.
    """
    every, wrong = find_valid(lake.settings.datasets_folder)
    if wrong:
        return [], [error.file for error in wrong]
    known = [settle(lake, dataset) for dataset in every]
    return [
        manifest for source in sources for manifest in old_landings(lake, source, readers_of(lake, source, known), age)
    ], []


def clear_landing(lake: Lake, manifest: Manifest, decision: str) -> None:
    """Write down the key of the decision, then remove the bytes; interrupted, the next call goes on."""
    size = sum(object_.size for object_ in manifest.objects)
    lake.put_first(
        lake_keys.cleared(manifest.source, manifest.batch),
        Cleared(batch=manifest.batch, bytes=size, at=datetime.now(UTC), decision=decision),
    )
    lake.storage.remove_below(lake_keys.landed(manifest.source, manifest.batch, manifest.attempt, ""))


def readers_of(lake: Lake, source: str, datasets: Iterable[Dataset]) -> list[Dataset]:
    """The datasets that read a source, or have taken up a plan of it."""
    return [dataset for dataset in datasets if dataset.source_id == source or source in _sources(lake, dataset)]


def sources_of(lake: Lake, dataset: Dataset) -> list[str]:
    """The source that a dataset reads, and those that it read before."""
    return sorted({dataset.source_id, *_sources(lake, dataset)})


def _sources(lake: Lake, dataset: Dataset) -> Iterator[str]:
    return (plan.source for plan in taken_plans(lake, dataset.name))


def _published(lake: Lake, dataset: Dataset) -> set[str]:
    table = find_state(lake, dataset)
    return {record.batch for record in chain(lake, dataset, table.main.record)} if table else set()


def _gone(lake: Lake, manifest: Manifest) -> bool:
    """Whether it was cleared already, to the end."""
    if lake.storage.stat(lake_keys.cleared(manifest.source, manifest.batch)) is None:
        return False
    folder = lake_keys.landed(manifest.source, manifest.batch, manifest.attempt, "")
    return next(iter(lake.storage.list(folder)), None) is None
