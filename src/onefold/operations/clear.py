"""Clear landed bytes: an operator's decision, recorded before anything is deleted, for nothing brings them back.

Without them there is no rebuild, and no rollback to before them. `maintenance.landings` says which may go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import Clearable, Clearing, Decider, checked_reason
from onefold.errors import UsageError
from onefold.instants import span_text
from onefold.lake import Lake, new_attempt
from onefold.landing.manifest import Manifest
from onefold.maintenance.landings import clear_landing, clearable, sources_of
from onefold.settings import Settings


def check_age(settings: Settings, age: timedelta) -> None:
    """Refuse to clear what is younger than the setting `landing_min_age`.

    Raises:
        UsageError: the age is below it.
    """
    if age < settings.landing_min_age:
        raise UsageError(
            f"landed bytes are kept for {span_text(settings.landing_min_age)} at least (setting landing_min_age); "
            f"{span_text(age)} is less. Nothing was cleared."
        )


def find_clearable(lake: Lake, dataset: Dataset, age: timedelta) -> tuple[list[Clearable], list[str]]:
    """What may be cleared of a dataset's sources, and the dataset files that cannot be read: while there are some,
    nothing goes.

    Raises:
        UsageError: the age is below `landing_min_age`.
    """
    check_age(lake.settings, age)
    manifests, unread = clearable(lake, sources_of(lake, dataset), age)
    return [_sum(lake, source, found) for source, found in _by_source(manifests).items()], unread


def clear(
    lake: Lake, dataset: Dataset, approved: Sequence[Clearable], age: timedelta, who: Decider, reason: str
) -> list[Clearing]:
    """Record the decision, a document a source, then remove the bytes. What may not go any more stays, and so does what
    may go since; killed, the next call goes on.

    Raises:
        UsageError: there is no reason, or the age is below `landing_min_age`.
    """
    given = checked_reason(reason)
    check_age(lake.settings, age)
    meant = {(part.source, batch) for part in approved for batch in part.landings}
    manifests, _ = clearable(lake, sources_of(lake, dataset), age)
    decisions = []
    chosen = (manifest for manifest in manifests if (manifest.source, manifest.batch) in meant)
    for source, found in _by_source(chosen).items():
        at, parts = datetime.now(UTC), _sum(lake, source, found).model_dump()
        decision = Clearing(dataset=dataset.name, **parts, older_than=age, who=who, reason=given, at=at)
        key = lake_keys.decision(dataset, f"{at:%Y%m%dT%H%M%SZ}-clear-{new_attempt()}")
        lake.put_first(key, decision)
        for manifest in found:
            clear_landing(lake, manifest, key)
        decisions.append(decision)
    return decisions


def _by_source(manifests: Iterable[Manifest]) -> dict[str, list[Manifest]]:
    found: dict[str, list[Manifest]] = {}
    for manifest in manifests:
        found.setdefault(manifest.source, []).append(manifest)
    return found


def _sum(lake: Lake, source: str, manifests: list[Manifest]) -> Clearable:
    landed = {manifest.batch: _landed_at(lake, manifest) for manifest in manifests}
    objects = [object_ for manifest in manifests for object_ in manifest.objects]
    return Clearable(
        source=source,
        landings=sorted(landed, key=lambda batch: (landed[batch], batch)),
        objects=len(objects),
        bytes=sum(object_.size for object_ in objects),
        oldest=min(landed.values()),
        newest=max(landed.values()),
    )


def _landed_at(lake: Lake, manifest: Manifest) -> datetime:
    info = lake.storage.stat(lake_keys.manifest(manifest.source, manifest.batch))
    return info.modified if info else datetime.now(UTC)
