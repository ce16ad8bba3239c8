"""Take the payload of single records out of a source's landing. Apart from retention, landed bytes go in no other way
(L6). A recorded decision names the records.

A record keeps its position and its timestamp; key, value and headers are null, and its mark says that it counts for
nothing. So spans, counts and proofs stay as they were. Objects are not changed: a new object is put next to the old
one, then recorded (`sources/<source>/erased/…`), then manifests name the new object, and the old
object is removed last. What was interrupted goes on from what is recorded.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset.layouts import LAYOUTS
from onefold.errors import UsageError
from onefold.faults import fault_point
from onefold.lake import Lake, as_bytes
from onefold.landing.landings import landings, manifests
from onefold.landing.manifest import LandedObject, Manifest
from onefold.landing.rewrite import REWRITERS, Positions
from onefold.offsets import meet
from onefold.storage import LocalStorage

_REWRITTEN_NAME = re.compile(r"^erased-[0-9a-f]{12}-")


class Rewritten(BaseModel):
    """One landed object in place of another."""

    model_config = ConfigDict(frozen=True)

    was: LandedObject
    now: LandedObject
    records: int = Field(description="Whose payload is not in the new object")


class Erased(BaseModel):
    """What an erasure did to one landing, recorded before a manifest names the new objects."""

    model_config = ConfigDict(frozen=True)

    batch: str = Field(description="Whose landing it is")
    dataset: str
    erasure: str = Field(description="The decision, among those of the dataset")
    objects: list[Rewritten]
    at: datetime


class RewrittenManifest(BaseModel):
    """A manifest names other objects than before, by an erasure. Its key has the digest of the manifest before."""

    model_config = ConfigDict(frozen=True)

    batch: str = Field(description="Whose landing it is")
    after: str = Field(description="SHA-256 of the manifest since then")
    at: datetime


def check_erasable(lake: Lake, source: str) -> None:
    """Refuse a source that holds landed objects which cannot be rewritten.

    Raises:
        UsageError: it names one of them, and what can be done.
    """
    for manifest in landings(lake, source):
        if manifest.layout not in REWRITERS:
            erasable = " and ".join(LAYOUTS[layout].plural for layout in REWRITERS)
            raise UsageError(
                f"batch {manifest.batch} was landed in layout {manifest.layout}: single records can be taken out of "
                f"{erasable} only. Nothing was erased. `onefold forget` takes them out of the table, "
                "and `onefold maintain --landing AGE` clears whole landings."
            )


def holding(lake: Lake, source: str, positions: Positions) -> dict[str, int]:
    """The landed objects, by key, that hold the payload of some positions, and of how many records."""
    with tempfile.TemporaryDirectory() as scratch:
        rewritten = (_rewrite(lake, manifest, positions, Path(scratch)) for manifest in landings(lake, source))
        return {object_.key: count for pairs in rewritten for object_, _, count in pairs}


def erase_landed(
    lake: Lake, source: str, dataset: str, erasure: str, positions: Positions, say: Callable[[str], None]
) -> int:
    """Take the payload of some positions out of every landing of a source; how many objects were rewritten.

    Called while no one else erases from the source. What is landed meanwhile is looked at, too.
    """
    _settle(lake, source)
    seen: set[str] = set()
    count = 0
    while left := [manifest for manifest in landings(lake, source) if manifest.batch not in seen]:
        for number, manifest in enumerate(left, 1):
            say(f"landing {number} of {len(left)}")
            seen.add(manifest.batch)
            count += _erase_one(lake, manifest, dataset, erasure, positions)
        _settle(lake, source)
    return count


def _erase_one(lake: Lake, manifest: Manifest, dataset: str, erasure: str, positions: Positions) -> int:
    rewritten = []
    with tempfile.TemporaryDirectory() as scratch:
        for was, file, records in _rewrite(lake, manifest, positions, Path(scratch)):
            rewritten.append(Rewritten(was=was, now=_put(lake, was, file), records=records))
            file.unlink()
    if rewritten:
        fault_point("before_erased")
        erased = Erased(batch=manifest.batch, dataset=dataset, erasure=erasure, objects=rewritten, at=datetime.now(UTC))
        lake.put(f"{lake_keys.erased(manifest.source)}{manifest.batch}/{erasure}.json", erased)
    return len(rewritten)


def _put(lake: Lake, was: LandedObject, file: Path) -> LandedObject:
    """Put the new object next to the old, under a name that its bytes give it."""
    store = LocalStorage(file.parent)
    digest = store.digest(file.name)
    folder, _, name = was.key.rpartition("/")
    key = f"{folder}/erased-{digest[:12]}-{_REWRITTEN_NAME.sub('', name)}"
    info = store.stat(file.name)
    assert info
    lake.storage.copy_from(store, info, key)
    return was.model_copy(update={"key": key, "size": info.size, "sha256": digest})


def _settle(lake: Lake, source: str) -> None:
    """Let every manifest of a source name what was recorded, and remove objects that none names any more."""
    documents = [lake.get(info.key, Erased) for info in lake.storage.list(lake_keys.erased(source))]
    swaps = {object_.was.key: object_.now for document in documents if document for object_ in document.objects}
    if not swaps:
        return
    named: set[str] = set()
    fault_point("before_new_manifest")
    for manifest in manifests(lake, source):
        objects = [_newest(object_, swaps) for object_ in manifest.objects]
        if objects != manifest.objects:
            _put_manifest(lake, manifest.model_copy(update={"objects": objects}))
        named |= {object_.key for object_ in objects}
    fault_point("before_old_objects")
    for key in swaps.keys() - named:
        lake.storage.remove(key)


def _put_manifest(lake: Lake, manifest: Manifest) -> None:
    """Put a manifest over the one before, once it is recorded that an erasure did it."""
    key = lake_keys.manifest(manifest.source, manifest.batch)
    before, after = lake.digest(key), hashlib.sha256(as_bytes(manifest)).hexdigest()
    assert before, "a manifest is never removed"
    rewritten = RewrittenManifest(batch=manifest.batch, after=after, at=datetime.now(UTC))
    lake.put(lake_keys.rewritten(manifest.source, manifest.batch, before), rewritten)  # of a try that was killed, too
    lake.put(key, manifest)


def _newest(object_: LandedObject, swaps: Mapping[str, LandedObject]) -> LandedObject:
    while (now := swaps.get(object_.key)) is not None:
        object_ = object_.model_copy(update={"key": now.key, "size": now.size, "sha256": now.sha256})
    return object_


def _rewrite(
    lake: Lake, manifest: Manifest, positions: Positions, scratch: Path
) -> Iterator[tuple[LandedObject, Path, int]]:
    """Each object that holds payload of some positions, the new object as a file, and the number of records."""
    read = [(range_.topic_partition.key, (range_.start, range_.end)) for range_ in manifest.ranges]
    if read and not any(meet([span], positions.get(key, [])) for key, span in read):
        return
    rewrite = REWRITERS[manifest.layout or ""]
    for object_ in manifest.objects:
        file = scratch / object_.key.rpartition("/")[2]
        if count := rewrite(lake, manifest, object_, positions, file):
            yield object_, file, count
