"""Take the samples of rows and records out of a dataset's documents: what was counted stays, what was shown goes.

Gates keep failing keys, both sides of conflicts and the text of what was rejected; stagings identities that were
reused. Whose a sample is does not show, so an erasure takes them all. What Spark's steps left for
their drivers are copies, with errors that name keys, and goes whole: it was read when the step ended.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from pydantic import BaseModel

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dedup.documents import Staged
from onefold.lake import Lake
from onefold.quality.documents import CheckResult, GateResult
from onefold.report.document import Report
from onefold.report.history import keep_history
from onefold.report.page import render
from onefold.upsert.documents import Upserted

_Document = TypeVar("_Document", bound=BaseModel)
_KINDS: list[tuple[str, type[BaseModel]]] = [
    (r"[^/]+/batches/[^/]+/staged-[^/]+\.json", Staged),
    (r"[^/]+/batches/[^/]+/(latest|attempts/[^/]+/upsert)\.json", Upserted),
    (r"[^/]+/batches/[^/]+/attempts/[^/]+/(gate|audit)\.json", GateResult),
    (r"[^/]+/reports/[^/]+\.json", Report),
]
_COUNTED = re.compile(r"\d+ of \d+ unexpected|")
"""What a check of a user's suite found that is no value of a row."""


def remove_samples(lake: Lake, dataset: Dataset) -> int:
    """Write every document of a dataset that shows rows or records without them; how many had some."""
    found = 0
    prefix = f"datasets/{dataset.name}/"
    for info in list(lake.storage.list(prefix)):
        below = info.key.removeprefix(prefix)
        kind = next((kind for pattern, kind in _KINDS if re.fullmatch(pattern, below)), None)
        found += kind is not None and _rewrite(lake, info.key, kind)
    lake.storage.remove_below(lake_keys.results(dataset.name))
    reports = [info.key for info in lake.storage.list(lake_keys.reports(dataset.name)) if info.key.endswith(".json")]
    if less := sum(_rewrite(lake, key, Report) for key in reports):
        keep_history(lake, dataset)
    return found + less


def _rewrite(lake: Lake, key: str, kind: type[BaseModel]) -> bool:
    """Write a document without samples; whether it had some."""
    document = lake.get(key, kind)
    if document is None or (less := _without(document)) == document:
        return False
    if isinstance(less, Report):
        # The page first: a process that is killed between the two leaves the JSON as it was, and the next writes both.
        lake.storage.write(f"{key.removesuffix('.json')}.html", render(less).encode())
    lake.put(key, less)
    return True


def _without(document: _Document) -> _Document:
    less: dict[str, Any] = {}
    match document:
        case Staged() | Upserted():
            less = {"reused": []}
        case GateResult() | Report():
            less = {"examples": {}, "checks": [_bare(check) for check in document.checks]}
            if isinstance(document, Report):
                less["why"] = []  # the red checks as sentences, with what they show; no batch waits by now
    return document.model_copy(update=less)


def _bare(check: CheckResult) -> CheckResult:
    """A check without the keys and values that it shows."""
    shows = check.by == "suite" and not _COUNTED.fullmatch(check.observed)
    return check.model_copy(update={"first": [], "detail": "", "observed": "" if shows else check.observed})
