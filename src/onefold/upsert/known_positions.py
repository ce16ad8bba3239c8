"""Records of a batch at positions that the table knows: each has the verdict of its position, whatever it would be by
its identity.

Positions compare by what records say (`onefold.dedup.said`); `onefold.upsert.position_contents` reads what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.dedup.documents import Staged
from onefold.offsets import Coverage, Present, Range, TopicPartition, meet, merged, minus, size
from onefold.records.covered import mark_covered, mark_lines, mark_positions
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.vocabulary import Action, Reason, Scope, Verdict

Ranges = dict[str, list[Range]]
"""By TopicPartition.key."""
_DAMAGED = "_fact_damaged"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a batch's positions before it is judged."""

    covered: Ranges = field(default_factory=dict)
    """The table has processed them."""
    differing: Ranges = field(default_factory=dict)
    """Of these, those at which the batch has another content."""
    apart: Ranges = field(default_factory=dict)
    """Of these, those whose record has another identity, version or time than what was folded, or may have: it takes no
    part in the fold."""
    not_compared: Ranges = field(default_factory=dict)
    """Of these, those of which no content is kept."""
    rejected_again: Ranges = field(default_factory=dict)
    """They are in quarantine, and each record there was rejected again with bytes that the quarantine has."""
    damaged: Ranges = field(default_factory=dict)
    """The batch itself covers them, and has a copy there that is rejected."""
    objects: dict[str, list[Range]] = field(default_factory=dict)
    """Inexact layouts: objects that the table has processed, by name, all but these lines, which are in quarantine."""
    lines_again: dict[str, list[Range]] = field(default_factory=dict)
    """Of these objects, the lines in quarantine where a record that is rejected is so again."""


def overlaps(staged: Staged, before: Coverage) -> tuple[Ranges, Ranges]:
    """The batch's offsets that the table has processed: usually none, or all of a repeated batch. And those rejected
    where the table has a rejected record."""
    covered, quarantined = {}, {}
    for key, offsets in staged.partitions.items():
        known = before.partitions.get(key, Present())
        if found := meet([*offsets.present, *offsets.quarantined], known.present):
            covered[key] = found
        if left := meet(offsets.quarantined, known.uncovered):
            quarantined[key] = left
    return covered, quarantined


def damaged_copies(staged: Staged) -> Ranges:
    """The offsets that the batch covers, and of which it has a copy that is rejected."""
    return {key: offsets.damaged for key, offsets in staged.partitions.items() if offsets.damaged}


def listed(ranges: Ranges) -> list[tuple[TopicPartition, Range]]:
    """Each range with its partition."""
    return [(TopicPartition.of(key), range_) for key, some in ranges.items() for range_ in some]


def mark_known(rows: DataFrame, known: Known) -> DataFrame:
    """Add `_covered`, `_differs` and `_again` to staged rows."""
    marked = mark_covered(rows, listed(known.covered), known.objects)
    if known.damaged:
        marked = mark_positions(marked, _DAMAGED, listed(known.damaged), C.ORDER)
        copy = F.col(_DAMAGED) & F.expr(C.REFUSED) & ~F.expr(C.readable(rows.columns))
        marked = marked.withColumn(U.COVERED, F.col(U.COVERED) | F.coalesce(copy, F.lit(False))).drop(_DAMAGED)
    marked = mark_positions(marked, U.DIFFERS, listed(known.differing), C.ORDER)
    if known.objects:
        return mark_lines(marked, U.AGAIN, known.lines_again)
    return mark_positions(marked, U.AGAIN, listed(known.rejected_again), C.ORDER)


def settle_known(judged: DataFrame) -> DataFrame:
    """Judged rows with the verdicts of their positions. Takes what `mark_known` adds, and keeps `_covered`, which is
    true of what was rejected again, too.

    A copy that cannot be read stays rejected, what a decision forgets stays forgotten, and a content that another one
    of the batch has beaten stays a conflict with that one.
    """
    refused = F.coalesce(F.expr(C.REFUSED), F.lit(False))
    covered = F.col(U.COVERED) & ~F.coalesce(F.col(C.REASON) == Reason.FORGOTTEN, F.lit(False))
    again = ~covered & F.col(U.AGAIN) & refused
    unread = covered & refused & ~F.expr(C.readable(judged.columns))
    differs = covered & ~unread & F.col(U.DIFFERS)
    beaten = F.col(C.KEY).isNull() & F.coalesce(F.col(C.REASON) == Reason.INCONSISTENT_POSITION, F.lit(False))
    settled = again | (covered & ~unread & ~beaten)
    # A copy may tell that its row has copies in several partitions; that is all it does to the row.
    acts = ~settled | (~differs & F.coalesce(F.col(U.ACTION) == Action.UNPLACE, F.lit(False)))
    verdict = F.when(differs, Verdict.CONFLICT).otherwise(Verdict.DUPLICATE)
    reason = F.when(differs, Reason.INCONSISTENT_POSITION).otherwise(Reason.POSITION)
    columns = {
        C.VERDICT: F.when(settled, verdict).otherwise(F.col(C.VERDICT)),
        C.REASON: F.when(settled, reason).otherwise(F.col(C.REASON)),
        U.SCOPE: F.when(settled, Scope.STORED).otherwise(F.col(U.SCOPE)),
        U.OTHER: F.when(acts, F.col(U.OTHER)).otherwise(F.col(C.ORDER)),
        U.ACTION: F.when(acts, F.col(U.ACTION)),
        U.WON: F.col(U.WON) & ~settled,
        U.COVERED: F.col(U.COVERED) | again,
    }
    emptied = [C.DETAIL, C.WITNESS, U.FINDING, U.BECOMES]
    columns |= {name: F.when(~settled, F.col(name)) for name in emptied if name in judged.columns}
    raw = [name for name in (C.RAW_KEY, C.RAW_VALUE, C.RAW_HEADERS) if name in judged.columns]
    columns |= {name: F.when(~settled | differs, F.col(name)) for name in raw}
    return judged.withColumns(columns).drop(U.DIFFERS, U.AGAIN)


def without_copies(staged: Staged, known: Known) -> Staged:
    """The staging document, in which a rejected copy of what is covered is not in quarantine."""
    partitions = dict(staged.partitions)
    for key, ranges in known.covered.items():
        offsets = partitions[key]
        if copies := meet(offsets.quarantined, ranges):
            update = {"present": merged([*offsets.present, *copies]), "quarantined": minus(offsets.quarantined, copies)}
            partitions[key] = offsets.model_copy(update=update)
    return staged.model_copy(update={"partitions": partitions})


def count_offsets(ranges: Ranges) -> int:
    """How many offsets there are, of all partitions."""
    return sum(size(some) for some in ranges.values())
