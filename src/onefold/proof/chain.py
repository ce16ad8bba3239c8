"""The chain of digests, from `main` back to the table's beginning: whether anyone changed what published rows rest on.

The head's snapshot names its commit record and the SHA-256 of it. A record names those of its parent, of the batch's
manifest and of each decision on the batch. So who changes one of these documents has to change every later record, and
`main`. An erasure lets a manifest name other objects; it has left a document of its own that says so.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from pydantic import ValidationError

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.iceberg.commits import ROOT
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.erase import RewrittenManifest
from onefold.upsert.commit_record import LOOP, CommitRecord, changed

_MANIFEST = re.compile(
    re.escape(lake_keys.manifest("SOURCE", "BATCH")).replace("SOURCE", "([^/]+)").replace("BATCH", "(.+)")
)


@dataclass(slots=True)
class Chain:
    """What was found along the chain."""

    records: int = 0
    documents: int = 0
    """Those with a digest: records, manifests, decisions."""
    unlinked: int = 0
    """Records of an earlier release: nothing that they rest on is named with a digest."""
    erased: list[str] = field(default_factory=list)
    """Manifests that an erasure has rewritten, by key."""
    problems: list[str] = field(default_factory=list)
    """Each with the key of the document."""


def verify_chain(lake: Lake, dataset: Dataset) -> Chain:
    """Compare every document that the published rows rest on with its digest. Reads documents only, no records.

    Raises:
        UsageError: nothing is published.
    """
    table = find_state(lake, dataset)
    if table is None or table.main.record == ROOT:
        raise UsageError(f"{dataset.name}: nothing is published, so there is no chain")
    found, seen = Chain(), set[str]()
    name, wanted = table.main.record, table.main.digest
    while name != ROOT:
        key = lake_keys.record(dataset, name)
        record = None if key in seen else _read(lake, key, wanted, found)
        if key in seen:
            found.problems.append(f"{key}: {LOOP}")
        if record is None:
            break
        seen.add(key)
        found.records += 1
        found.unlinked += not record.links
        name, parent = record.parent, lake_keys.record(dataset, record.parent)
        wanted = record.links.get(parent, "")
        for linked, digest in record.links.items():
            if linked != parent:
                _check(lake, linked, digest, found)
    return found


def _read(lake: Lake, key: str, wanted: str, found: Chain) -> CommitRecord | None:
    """A record; None: it cannot be read, so that the chain ends here. One that was changed is followed, for its parents
    may be right."""
    data = lake.storage.read(key)
    if data is None:
        found.problems.append(f"{key}: it is gone")
        return None
    found.documents += bool(wanted)
    if wanted and (digest := hashlib.sha256(data).hexdigest()) != wanted:
        found.problems.append(f"{key}: {changed(wanted, digest)}")
    try:
        return CommitRecord.model_validate_json(data)
    except ValidationError:
        found.problems.append(f"{key}: it is no commit record")
        return None


def _check(lake: Lake, key: str, wanted: str, found: Chain) -> None:
    found.documents += 1
    digest = lake.digest(key)
    if digest == wanted:
        return
    since = _rewritten(lake, key, wanted)
    if since and since[-1] == digest:
        found.erased.append(key)
    else:
        found.problems.append(f"{key}: {changed(since[-1] if since else wanted, digest)}")


def _rewritten(lake: Lake, key: str, digest: str) -> list[str]:
    """What erasures have made of a manifest since: its digests, the newest last; nothing of other documents."""
    since: list[str] = []
    if found := _MANIFEST.fullmatch(key):
        source, batch = found.groups()
        while after := lake.get(lake_keys.rewritten(source, batch, digest), RewrittenManifest):
            if after.after in since:
                break
            digest = after.after
            since.append(digest)
    return since
