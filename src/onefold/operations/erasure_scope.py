"""Erase keys: they are forgotten, and what they were made of leaves the lake. A person's decision, recorded first.

Here is what is decided and refused, and which records are meant; `onefold.landing.erase`, `onefold.maintenance.erase`
and `onefold.report.samples` carry it out. Every part finds what is done already, so the same command ends it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from pyiceberg.expressions import In

from onefold import lake_keys
from onefold.dataset import Dataset, find_valid
from onefold.decisions import Decider, Erasure, checked_reason
from onefold.decisions.marks import marks_in_force
from onefold.dedup.documents import Staged, staged_key
from onefold.errors import UsageError
from onefold.generation import Generation, begun_rebuild, check_generation
from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.erase import check_erasable
from onefold.landing.landings import sources_of
from onefold.landing.manifest import Manifest
from onefold.landing.plan import GapPlan, of_kind, taken_plans
from onefold.offsets import Position, Range, TopicPartition, meet, merged, minus, size
from onefold.operations.forget import digests_of
from onefold.tables.key_digest import agree
from onefold.tables.names import STAGING
from onefold.upsert.commit_record import chain
from onefold.upsert.documents import Upserted

_PARTITION = ("cluster", "topic", "incarnation", "partition")
_IN: Any = In  # its own signature is not what mypy sees of a pydantic model


def is_rebuilt(lake: Lake, dataset: Dataset) -> bool:
    """Whether a rebuild has begun and not ended: what is not the published generation's is still needed."""
    published = lake.get(lake_keys.generation(dataset), Generation)
    return bool(published and begun_rebuild(lake, dataset, published))


def check(lake: Lake, dataset: Dataset, keys: Sequence[dict[str, Any]]) -> list[bytes]:
    """The digests of keys that can be erased now.

    Raises:
        UsageError: it cannot be done for this dataset, or not before something else is done.
    """
    check_generation(lake, dataset)
    digests = sorted({digest for key in keys for digest in digests_of(dataset, key)})
    if not dataset.apply.ERASABLE:
        raise UsageError(
            f"{dataset.name}: mode {dataset.apply.title} is not supported yet by erase. Nothing was erased. `onefold "
            "forget` takes the keys out of the table, and `onefold maintain --landing AGE` clears whole landings."
        )
    for source in sources_of(lake, dataset):
        check_erasable(lake, source)
    if is_rebuilt(lake, dataset):
        raise UsageError(
            f"{dataset.name}: a rebuild is under way. Nothing was erased. End it: onefold rebuild {dataset.name}"
        )
    if accepted := _accepted(lake, dataset, keys):
        raise UsageError(
            f"{dataset.name}: batch {accepted} accepted a gap of such a key, and keeps the key in plain text. Nothing "
            "was erased: that is not supported yet."
        )
    return digests


def _accepted(lake: Lake, dataset: Dataset, keys: Sequence[dict[str, Any]]) -> str | None:
    plans = of_kind(taken_plans(lake, dataset.name), GapPlan)
    return next((plan.batch for plan in plans if any(agree(dataset, key, plan.key) for key in keys)), None)


def waiting(lake: Lake, dataset: Dataset, digests: Iterable[bytes] = ()) -> dict[str, tuple[str | None, ...]]:
    """The batches that are landed, or at work, and not published, but for a mark that forgets just these keys; of each
    what its newest attempts are, which says whether it has moved meanwhile."""
    table = find_state(lake, dataset)
    published = {record.batch for record in chain(lake, dataset, table.main.record)} if table else set()
    own = [digest.hex() for digest in digests]
    found = {}
    for plan in taken_plans(lake, dataset.name):
        if plan.empty or plan.batch in published or plan.forgets_only(own):
            continue
        landed = lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest)
        staged = lake.get(staged_key(lake, dataset, plan.batch), Staged)
        judged = lake.get(lake_keys.latest(dataset, plan.batch), Upserted)
        if landed or staged or judged:
            attempts = (attempt.attempt if attempt else None for attempt in (landed, staged, judged))
            found[plan.batch] = tuple(attempts)
    return found


def others(lake: Lake, dataset: Dataset) -> list[str]:
    """The other datasets that have folded batches of the same sources: their tables may hold the same records."""
    mine, every = set(sources_of(lake, dataset)), find_valid(lake.settings.datasets_folder)[0]
    return [other.name for other in every if other.name != dataset.name and mine & set(sources_of(lake, other))]


def quarantined_positions(lake: Lake, dataset: Dataset, places: Iterable[Position]) -> dict[str, list[Range]]:
    """Quarantined records by TopicPartition.key: they have no key, so a person names their places.

    Raises:
        UsageError: there is none in quarantine, or there are several in different logs.
    """
    logs: dict[Position, set[str]] = {place: set() for place in places}
    table = find_state(lake, dataset)
    for row in table.quarantined("_order") if table and logs else ():
        for place, keys in logs.items():
            if place.names(row["_order"]):
                keys.add(TopicPartition(**{part: row["_order"][part] for part in _PARTITION}).key)
    if left := sorted(str(place) for place, keys in logs.items() if not keys):
        raise UsageError(
            f"{dataset.name}: not in quarantine: {', '.join(left)}. Nothing was erased. Records of use have a --key."
        )
    for place, keys in logs.items():
        if len(keys) > 1:
            named = ", ".join(f"{key}/{place.offset}" for key in sorted(keys))
            raise UsageError(
                f"{dataset.name}: {place} is the place of {len(keys)} records in quarantine, in several clusters or "
                f"incarnations: {named}. Nothing was erased. Name the one that is meant, or each."
            )
    found: dict[str, list[Range]] = {}
    for place, (key,) in logs.items():
        found.setdefault(key, []).append((place.offset, place.offset + 1))
    return {key: merged(ranges) for key, ranges in sorted(found.items())}


def decide(
    lake: Lake,
    dataset: Dataset,
    digests: Sequence[bytes],
    positions: dict[str, list[Range]],
    who: Decider,
    reason: str,
) -> Erasure:
    """Put the decision on record; one on the same keys and records that has not ended is taken."""
    reason = checked_reason(reason)
    keys = [digest.hex() for digest in digests]
    known = hashlib.sha256(json.dumps([keys, positions]).encode()).hexdigest()[:12]
    number = 1
    while standing := lake.get(_key(dataset.name, f"{known}-{number:04d}"), Erasure):
        if standing.ended is None:
            return standing
        number += 1
    name = f"{known}-{number:04d}"
    made = Erasure(
        dataset=dataset.name,
        name=name,
        keys=keys,
        positions=positions,
        who=who,
        reason=reason,
        at=datetime.now(UTC),
    )
    return lake.put_first(_key(dataset.name, name), made)


def end(
    lake: Lake, erasure: Erasure, records: int, objects: int, unseen: dict[str, int] | None = None, unreadable: int = 0
) -> Erasure:
    """Say on record that nothing is left."""
    counted = {"records": records, "objects": objects, "unseen": unseen or {}, "unreadable": unreadable}
    done = erasure.model_copy(update={"ended": datetime.now(UTC)} | counted)
    lake.put(_key(erasure.dataset, erasure.name), done)
    return done


def _key(dataset: str, name: str) -> str:
    return f"{lake_keys.erasures(dataset)}{name}.json"


def covered_positions(lake: Lake, dataset: Dataset, digests: Sequence[bytes]) -> dict[str, list[Range]]:
    """The positions that published verdicts have under some keys, by TopicPartition.key: what a mark would name."""
    table = find_state(lake, dataset)
    if table is None:
        return {}
    published = {record.attempt for record in chain(lake, dataset, table.main.record)}
    return _positions(lake, dataset, digests, published)


def forgotten_positions(
    lake: Lake, dataset: Dataset, digests: Sequence[bytes], landed: dict[str, list[Range]]
) -> dict[str, list[Range]]:
    """The positions of the records that marks have forgotten under some keys, by TopicPartition.key.

    Of a mark that holds other keys too, those whose verdicts, or whose landed bytes, have one of the keys. `landed`:
    where the landing has them.
    """
    table = find_state(lake, dataset)
    if table is None:
        return {}
    record = next(iter(chain(lake, dataset, table.main.record)), None)
    wanted = {digest.hex() for digest in digests}
    found: dict[str, list[Range]] = {}
    known: dict[str, list[Range]] | None = None
    for mark in marks_in_force(lake, dataset.name, record.forgotten if record else {}).values():
        keys = {*mark.keys, *mark.asked}
        if not wanted & keys:
            continue
        parts = mark.partitions
        if not keys <= wanted:
            known = together(landed, _positions(lake, dataset, digests)) if known is None else known
            parts = {key: meet(ranges, known.get(key, [])) for key, ranges in parts.items()}
        found = together(found, parts)
    return {key: ranges for key, ranges in found.items() if ranges}


def _positions(
    lake: Lake, dataset: Dataset, digests: Sequence[bytes], attempts: set[str] | None = None
) -> dict[str, list[Range]]:
    catalog, name = open_catalog(lake), (STAGING, f"{dataset.name}__verdicts_{dataset.generation}")
    if not catalog.table_exists(name):
        return {}
    fields = ("attempt", *_PARTITION, "offset")
    rows = catalog.load_table(name).scan(_IN("key", list(digests)), selected_fields=fields).to_arrow().to_pylist()
    found: dict[str, list[Range]] = {}
    for row in rows:
        if row["offset"] is None or (attempts is not None and row["attempt"] not in attempts):
            continue
        where = TopicPartition(**{part: row[part] for part in _PARTITION})
        found.setdefault(where.key, []).append((row["offset"], row["offset"] + 1))
    return {key: merged(ranges) for key, ranges in sorted(found.items())}


def together(first: dict[str, list[Range]], other: dict[str, list[Range]]) -> dict[str, list[Range]]:
    """The positions that are in either."""
    return {key: merged([*first.get(key, []), *other.get(key, [])]) for key in sorted({*first, *other})}


def without(first: dict[str, list[Range]], other: dict[str, list[Range]]) -> dict[str, list[Range]]:
    """The positions that are in one and not in the other."""
    left = {key: minus(ranges, other.get(key, [])) for key, ranges in first.items()}
    return {key: ranges for key, ranges in left.items() if ranges}


def count(positions: dict[str, list[Range]]) -> int:
    """How many positions there are."""
    return sum(size(ranges) for ranges in positions.values())


def clear_attempts(lake: Lake, dataset: Dataset) -> None:
    """Remove what landing attempts left next to the one that a manifest names: none of them is continued."""
    for source in sources_of(lake, dataset):
        attempts = {tuple(info.key.split("/")[3:5]) for info in lake.storage.list(f"sources/{source}/landed/")}
        for batch, attempt in sorted(attempts):
            manifest = lake.get(lake_keys.manifest(source, batch), Manifest)
            if manifest and manifest.attempt != attempt:
                lake.storage.remove_below(lake_keys.landed(source, batch, attempt, ""))
