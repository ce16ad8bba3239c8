"""Choose survivors: one exchange by the deciding identity, window functions over it, a verdict for every loser.

Which record of a key survives is the folding's (`onefold.folding`). Rejected and filtered records pass through with
their verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions import LostContent
from onefold.dedup.lost_contents import put_lost_last
from onefold.folding.strategy import folding_of
from onefold.folding.versions import APART
from onefold.records import envelope as E
from onefold.spark.slots import SLOT, in_slots
from onefold.tables import staging as C
from onefold.values.decode import FILTERED, REJECTED
from onefold.vocabulary import NO_ROWS, LogStatus, Reason, Verdict


def choose_survivors(
    identified: DataFrame, dataset: Dataset, slots: int = 1, lost: Sequence[LostContent] = ()
) -> DataFrame:
    """Add `_survivor`, `_verdict`, `_reason` and `_winner` to identified records.

    `slots` is how many parts each bucket of the target is shuffled into: records of one key share one slot,
    so that what a task writes falls into few buckets. `lost`: contents that lost a conflict by a decision. Exactly one
    exchange.
    """
    # Records without a key stay where they are spread: they meet no other.
    spread = F.pmod(F.xxhash64(C.ORDER, E.LINE), F.lit(dataset.target.buckets * slots)).cast("int")
    placed = put_lost_last(in_slots(identified, dataset, slots, spread), dataset, lost)
    return judge_batch(placed, dataset, (SLOT,)).drop(SLOT)


def judge_batch(records: DataFrame, dataset: Dataset, within: tuple[str, ...] = ()) -> DataFrame:
    """`choose_survivors` on records that are placed already; `within` columns are part of every group."""
    judged = folding_of(dataset).survivors(records, within)
    refused = F.col(REJECTED).isNotNull()
    keyed = F.col(C.KEY).isNotNull()
    inconsistent = F.col(REJECTED)["reason"].isin(Reason.INCONSISTENT_POSITION, Reason.INCOMPARABLE_VERSION)
    fate = F.col(E.FATE)
    known = [F.col(name) for name in (APART, C.CONTESTED) if name in judged.columns]
    other = F.coalesce(*known) if known else F.lit(None)
    named = inconsistent | (fate == E.COVERED)
    unsettled = F.when(fate == LogStatus.OPEN, Verdict.HELD).when(fate == E.FORGOTTEN, Verdict.REJECTED)
    unsettled = unsettled.when(fate == E.COVERED, Verdict.DUPLICATE)
    fated = fate.isNotNull() & ~((fate == E.COVERED) & refused)
    verdict = (
        F.when(fated, unsettled.otherwise(fate))
        .when(inconsistent, Verdict.CONFLICT)
        .when(F.col(REJECTED)["reason"].isin(*NO_ROWS), Verdict.CONTROL)
        .when(refused, Verdict.REJECTED)
        .when(F.col(FILTERED), Verdict.FILTERED)
        .when(keyed, F.col(C.VERDICT))
    )
    of_the_log = (
        F.when(fate == LogStatus.CONTROL, Reason.MARKER)
        .when(fate == LogStatus.OPEN, Reason.OPEN_TRANSACTION)
        .otherwise(Reason.TRANSACTION)
    )
    of_the_log = F.when(fate == E.SKIPPED, Reason.DECISION).when(fate == E.FORGOTTEN, E.FORGOTTEN).otherwise(of_the_log)
    of_the_log = F.when(fate == E.COVERED, Reason.POSITION).otherwise(of_the_log)
    reason = (
        F.when(fated, of_the_log)
        .when(refused, F.col(REJECTED)["reason"])
        .when(F.col(FILTERED), Reason.FILTER)
        .when(keyed, F.col(C.REASON))
    )
    # Whose a forgotten record was, no table shows.
    hidden = [name for name in (C.VERSION, *C.LEVELS.values()) if name in judged.columns]
    forgotten = F.coalesce(fate == E.FORGOTTEN, F.lit(False))
    return judged.withColumns(
        {
            **{name: F.when(~forgotten, F.col(name)) for name in hidden},
            C.SURVIVOR: keyed & F.col(C.SURVIVOR),
            C.VERDICT: verdict,
            C.REASON: reason,
            C.WINNER: F.when(named, other).when(keyed & verdict.isNotNull(), F.col(C.WINNER)),
            C.WITNESS: F.when(keyed, F.col(C.WITNESS)),
            C.DETAIL: F.col(REJECTED)["detail"],
        }
    ).drop(APART)
