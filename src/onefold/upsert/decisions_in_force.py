"""What skipped batches have taken out of a table, as coverage: so that rows depend on no order of batches (L1).

A record that a skip took out is taken out wherever it turns up. Only the skipped batch covers it: what another
batch holds of it, before the skipped one has come (in a rebuild, or behind a rollback), is left to that one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce

from pydantic import BaseModel, ConfigDict

from onefold.decisions import LostContent, Mark, Release, Skip, Standing
from onefold.dedup.documents import EVERYTHING, Staged, TakenOut
from onefold.landing.manifest import Manifest
from onefold.offsets import Coverage, Present, Range, meet, merged, minus


class Obeyed(BaseModel):
    """What an attempt obeys: how many decisions the batch had, the one in force, and what skips took out."""

    model_config = ConfigDict(frozen=True)

    decided: int = 0
    decision: Standing | None = None
    skipped: dict[str, Coverage] = {}
    """By batch: of the table's commit record."""
    pinned: dict[str, Coverage] = {}
    """By batch: on record, whether or not the table has the skipped batch."""
    forgotten: dict[str, Mark] = {}
    """By batch: in force, whether or not the table has the batch; its own included."""
    known: dict[str, str] = {}
    """Of these, the ones that the table's commit record names."""
    conflicts: dict[str, str] = {}
    """Decided conflicts in force: batches by the attempt that found them."""
    lost: list[LostContent] = []
    """What lost in them."""

    @property
    def fresh(self) -> list[Mark]:
        """Marks that the table does not know yet: the rows of their keys go with this attempt."""
        return [mark for batch, mark in self.forgotten.items() if batch not in self.known]

    @property
    def decides_conflicts(self) -> Release | None:
        """The release by which the batch's conflicts are accepted."""
        decision = self.decision
        return decision if isinstance(decision, Release) and decision.accepts_conflicts else None

    @property
    def skips(self) -> bool:
        """Whether the batch itself is skipped."""
        return isinstance(self.decision, Skip)

    def elsewhere(self, batch: str) -> Coverage:
        """What skips of other batches took out."""
        known = self.pinned | self.skipped
        return _union(known[name] for name in known if name != batch)


def _union(coverages: Iterable[Coverage]) -> Coverage:
    return reduce(Coverage.with_, coverages, Coverage())


def taken_out_of(staged: Staged, manifest: Manifest, obeyed: Obeyed) -> TakenOut:
    """The records of a batch that its own skip, those of others, and forget marks take out."""
    if obeyed.skips:
        return EVERYTHING
    others = obeyed.elsewhere(staged.batch)
    partitions = {}
    offsets_landed = {
        key: [*offsets.present, *offsets.quarantined, *offsets.undecided] for key, offsets in staged.partitions.items()
    }
    for key, landed in offsets_landed.items():
        if found := meet(landed, others.partitions.get(key, Present()).present):
            partitions[key] = found
    digests = manifest.digests
    objects = sorted(name for name in staged.objects if digests.get(name) in others.objects)
    forgotten, lines = forgotten_records(obeyed.forgotten.values(), offsets_landed, manifest)
    return TakenOut(partitions=partitions, objects=objects, forgotten=forgotten, forgotten_lines=lines)


def forgotten_records(
    marks: Collection[Mark], partitions: Mapping[str, list[Range]], manifest: Manifest
) -> tuple[dict[str, list[Range]], dict[str, list[Range]]]:
    """What marks take out of a batch that landed some offsets: offsets by partition; lines by its objects' names."""
    offsets = {}
    for key, landed in partitions.items():
        if found := meet(landed, [offsets for mark in marks for offsets in mark.partitions.get(key, [])]):
            offsets[key] = found
    lines = {}
    for name, digest in manifest.digests.items():
        if some := merged(numbers for mark in marks for numbers in mark.lines.get(digest, [])):
            lines[name] = some
    return offsets, lines


def cover(own: Coverage, before: Coverage, batch: str, obeyed: Obeyed) -> tuple[Coverage, dict[str, Coverage]]:
    """What the batch adds to the coverage, of what it holds; and what the table's skips took out after it, by batch."""
    if not obeyed.skips:
        return less(own, less(obeyed.elsewhere(batch), before)), obeyed.skipped
    if batch not in obeyed.pinned:
        took = without_holes(less(own, before))
        # An object is taken out whole or not at all: lines that another batch rejected of it stay to be replayed.
        own = own.model_copy(update={"objects": took.objects, "refused": took.refused})
        return own, obeyed.skipped | {batch: took}
    pinned = obeyed.pinned[batch]
    return less(own, less(own, pinned)), obeyed.skipped | {batch: pinned}


def less(coverage: Coverage, other: Coverage) -> Coverage:
    """What of `one` is covered without being covered in `other`: the rest was landed only. Its holes stay."""
    partitions = {}
    for key, found in coverage.partitions.items():
        present = minus(found.present, other.partitions.get(key, Present()).present)
        partitions[key] = Present(present=present, holes=found.holes, uncovered=minus(found.landed, present))
    objects = {digest: records for digest, records in coverage.objects.items() if digest not in other.objects}
    refused = {digest: lines for digest, lines in coverage.refused.items() if digest in objects}
    return Coverage(partitions=partitions, objects=objects, refused=refused)


def without_holes(coverage: Coverage) -> Coverage:
    """What was landed and is covered, only."""
    partitions = {key: Present(present=found.present) for key, found in coverage.partitions.items() if found.present}
    return coverage.model_copy(update={"partitions": partitions})
