"""The landings that a dataset has to do with: the manifests whose landed bytes are there."""

from __future__ import annotations

from collections.abc import Iterator

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.landing.plan import taken_plans


def sources_of(lake: Lake, dataset: Dataset) -> list[str]:
    """The source that a dataset reads, and those that it has read."""
    return sorted({dataset.source_id, *(plan.source for plan in taken_plans(lake, dataset.name))})


def landings_of(lake: Lake, dataset: Dataset) -> list[Manifest]:
    """All landings of the sources of a dataset, those included that it has not taken up."""
    return [landing for source in sources_of(lake, dataset) for landing in landings(lake, source)]


def manifests(lake: Lake, source: str) -> Iterator[Manifest]:
    """All manifests of a source."""
    for info in lake.storage.list(f"sources/{source}/manifests/"):
        if manifest := lake.get(info.key, Manifest):
            yield manifest


def landings(lake: Lake, source: str) -> Iterator[Manifest]:
    """The manifests whose landing is there; a replay has the objects of another landing."""
    return (manifest for manifest in manifests(lake, source) if _has_bytes(lake, manifest))


def _has_bytes(lake: Lake, manifest: Manifest) -> bool:
    own = bool(manifest.objects) and not manifest.replays
    return own and not lake.storage.stat(lake_keys.cleared(manifest.source, manifest.batch))
