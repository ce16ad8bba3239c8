"""Deliveries: a message that was sent again, where the delivery says which version it is.

A version from the log or from a header, and a tie that offsets decide, belong to the delivery and not to the message. A
copy that comes after another message of its key would bring an old value back. It is `duplicate/late_copy`: it leaves
the fold, and its batch is red, for in a batch of its own the same copy is a newer version. Only deliveries of one batch
are known here.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.levels import identity_text
from onefold.folding.ties import FIRST, deciding_order, is_preferred
from onefold.folding.witness import with_witness
from onefold.tables import staging as C
from onefold.vocabulary import Level, Reason, Verdict

LATE = "_late"
"""Whether a record is a late copy: a column of its own, so that windows sort by it."""
FIRST_SENT = "_first_sent"
"""{order, version, witness} of the smallest delivery of the record's message; null where it has no identity."""
_MESSAGE, _IS_FIRST, _BEFORE, _TOP = "_message", "_is_first", "_before", "_top"


def with_late_copies(records: DataFrame, dataset: Dataset, tie: str, by: tuple[str, ...]) -> DataFrame:
    """Add `_late` and `_first_sent` to records of a batch, by two sorts and no exchange; `by` is what all deliveries of
    a message have in common. Nothing is added where a delivery decides nothing.

    A message is known by its id, or where that is null by its producer's sequence, and by its content. A copy is late
    where another message was first sent between the first delivery of its own and itself, in the order that decides,
    and where it would be the row. (Where all of a run is sent again, the last message is the row either way.)
    """
    if not dataset.versions_by_delivery:
        return records
    version, order, message = F.col(C.VERSION), F.col(C.ORDER), F.col(_MESSAGE)
    placed, hash_ = deciding_order(order, tie), F.col(C.HASH)
    sent = Window.partitionBy(*by, _MESSAGE, C.compared(dataset)).orderBy(version, placed, hash_)
    ascending = [version, placed.desc() if tie == FIRST else placed.asc(), hash_]
    of_key = Window.partitionBy(*by).orderBy(*ascending)
    earlier, whole = (of_key.rowsBetween(Window.unboundedPreceding, end) for end in (-1, Window.unboundedFollowing))
    known = message.isNotNull() & F.col(C.KEY).isNotNull()
    first, top = F.col(FIRST_SENT), F.col(_TOP)

    def beats(other: Column) -> Column:
        same = version == other["version"]
        return (version > other["version"]) | (same & is_preferred(order, other["order"], tie))

    marked = (
        records.withColumn(_MESSAGE, _message(dataset))
        .withColumns(
            {
                FIRST_SENT: F.when(known, F.first(with_witness(records, C.ORDER, C.VERSION)).over(sent)),
                _IS_FIRST: ~known | (F.row_number().over(sent) == 1),
            }
        )
        .withColumn(_BEFORE, F.last(F.when(F.col(_IS_FIRST), order), ignorenulls=True).over(earlier))
    )
    late = F.coalesce(~F.col(_IS_FIRST) & beats(first) & (F.col(_BEFORE) != first["order"]), F.lit(False))
    timely = F.when(~F.col(LATE), F.struct(version.alias("version"), order.alias("order")))
    marked = marked.withColumn(LATE, late).withColumn(_TOP, F.last(timely, ignorenulls=True).over(whole))
    return marked.withColumn(LATE, F.col(LATE) & beats(top)).drop(_MESSAGE, _IS_FIRST, _BEFORE, _TOP)


def settle_late_copies(judged: DataFrame) -> DataFrame:
    """Late copies get their verdict, and point to the first delivery of their message; drops what marked them."""
    late, first = F.col(LATE), F.col(FIRST_SENT)
    settled = {
        C.VERDICT: F.lit(Verdict.DUPLICATE),
        C.REASON: F.lit(Reason.LATE_COPY),
        C.WINNER: first["order"],
        C.WITNESS: first["witness"],
        C.TIED: F.lit(None).cast("boolean"),
    }
    columns = {name: F.when(late, of).otherwise(F.col(name)) for name, of in settled.items()}
    return judged.withColumns(columns).drop(LATE, FIRST_SENT)


def _message(dataset: Dataset) -> Column:
    """The identity of a record's message, as text."""
    levels = [level for level in (Level.MESSAGE_ID, Level.PRODUCER) if level in dataset.narrow]
    return F.coalesce(*(F.concat(F.lit(f"{level} "), identity_text(level)) for level in levels))
