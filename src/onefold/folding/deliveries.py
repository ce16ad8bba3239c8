"""Deliveries: a message that was sent again, where the delivery says which version it is.

A version from the log or from a header, and a tie that offsets decide, belong to the delivery and not to the message. A
message counts once, as its first delivery: the one of the smallest version, and of these that of the smallest place
where places compare. All other deliveries are *copies* and leave the fold: in a batch, and by the ledger of messages of
the table (rows of `_state` message, `onefold.tables.state`). So which batch brings a copy does not decide the row.

A delivery that is earlier than the one that the ledger has takes its place there. Where the ledger's was the row's, the
row's version goes down; unless another message is the row then, of which the table has no content any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.message_digest import message_digest
from onefold.folding.positions import partition_of, position_of
from onefold.folding.ties import FIRST, deciding_order, in_order, is_preferred
from onefold.folding.versions import parts_before_offset
from onefold.folding.witness import with_witness
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.values.canonical import same_content
from onefold.vocabulary import Action, Level, Reason, Scope, Verdict

LATE = "_late"
"""Whether a copy comes after another message of its key, which was first delivered after the copy's own message."""
FIRST_SENT = "_first_sent"
"""Of a copy, {version, order, witness, level, stored} of the first delivery of its message."""
EARLIER = "_earlier"
"""Of a delivery that is earlier than what the ledger has of its message, {order, leads, unties, leader, second}: the
order of the ledger's; whether that makes the row of the key; whether it has a say in where the row lies, which it loses
(only where offsets decide ties: it has the row's version, and the delivery has a smaller one); and {version, order} of
the row, and of the greatest message next to it; or null."""
LOWERED = "_lowered"
"""Of all records of a key, {blocked}: the row's message has an earlier delivery among them; null: it has none.
`blocked`: another message is the row then, and its content is not at hand."""
_KNOWN, _IS_FIRST, _FIRST_HERE, _BEFORE, _MINE, _OWN, _STORED, _LATER = (
    f"_fact_{name}" for name in ("known", "is_first", "first_here", "before", "mine", "own", "stored", "later")
)


def known_messages(messages: DataFrame, dataset: Dataset, tie: str, of_row: tuple[str, ...]) -> DataFrame:
    """The ledger as batches ask it, a row a message of a key: `row_key`, `_message`, `_fact_known`. By one sort and one
    aggregation of what lies in buckets, and no exchange. `of_row`: what the messages have in common of which one is the
    row; a content that lost a conflict comes last there (`onefold.dedup.lost_contents.put_lost_last`)."""
    place = _delivery(F.col(C.VERSION), F.col(C.ORDER))
    ranked = Window.partitionBy(*of_row).orderBy(F.col(C.VERSION).desc(), in_order(tie)[0])
    whole = ranked.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranks = {"leader": F.first(place).over(whole), "second": F.nth_value(place, 2).over(whole)}
    row = {
        "version": F.col(C.VERSION),
        "order": _sent_order(messages),
        "content": F.col(C.compared(dataset)),
        "leads": F.col(_IS_FIRST),
        **{name: F.col(_BEFORE)[name] for name in ranks},
    }
    ranked_messages = messages.withColumns(
        {
            _IS_FIRST: F.row_number().over(ranked) == 1,
            _BEFORE: _struct(ranks),
        }
    )
    known = ranked_messages.where(F.col(S.MESSAGE).isNotNull())
    rows = F.collect_list(_struct(row))
    return known.groupBy(*C.row_key(dataset), S.MESSAGE).agg(rows.alias(_KNOWN))


def with_messages(staged: DataFrame, known: DataFrame, dataset: Dataset) -> DataFrame:
    """Staged rows with what `known_messages` has of each record's message."""
    digests = staged.withColumn(S.MESSAGE, message_digest(F.col(C.KEY), staged.columns))
    return digests.join(known, [*C.row_key(dataset), S.MESSAGE], "left")


def with_copies(records: DataFrame, dataset: Dataset, tie: str, by: tuple[str, ...]) -> DataFrame:
    """Add `_copy`, `_late`, `_first_sent`, and of what `with_messages` gives `_earlier`, to records of a batch.

    By sorts and no exchange; `by` is what all deliveries of a message have in common. Nothing is added where a delivery
    decides nothing.

    A message is known by its id, or where that is null by its producer's sequence, and by its content.
    """
    if not dataset.versions_by_delivery:
        return records
    if S.MESSAGE not in records.columns:
        records = records.withColumn(S.MESSAGE, message_digest(F.col(C.KEY), records.columns))
    mine = _delivery(F.col(C.VERSION), _sent_order(records))
    records = _with_first(records.withColumn(_MINE, mine), dataset, tie, by)
    copy = F.col(C.KEY).isNotNull() & F.col(S.MESSAGE).isNotNull() & ~F.col(_IS_FIRST)
    records = records.withColumns({C.COPY: F.coalesce(copy, F.lit(False)), LATE: F.lit(False)})
    if _KNOWN in records.columns:
        records = _with_stored(records, dataset, tie, by)
    order = deciding_order(F.col(_MINE)["order"], tie)
    ascending = [F.col(_MINE)["version"], order.desc() if tie == FIRST else order.asc(), F.col(C.HASH)]
    before = Window.partitionBy(*by).orderBy(*ascending).rowsBetween(Window.unboundedPreceding, -1)
    newest = F.last(F.when(~F.col(C.COPY), F.col(_MINE)), ignorenulls=True).over(before)
    marked = records.withColumn(_BEFORE, newest)
    late = F.col(LATE) | _beats(F.col(_BEFORE), F.col(FIRST_SENT), tie)
    marked = marked.withColumn(LATE, F.col(C.COPY) & F.coalesce(late, F.lit(False)))
    return marked.drop(_IS_FIRST, _BEFORE, _MINE, _KNOWN)


def _with_stored(records: DataFrame, dataset: Dataset, tie: str, by: tuple[str, ...]) -> DataFrame:
    """Copies of what the ledger has are copies, too, and so is what is covered, which has the verdict of its position;
    and `_earlier`."""
    mine, witness = F.col(_MINE), records.select(f"{FIRST_SENT}.witness").schema[0].dataType
    own, stored, later = F.col(_OWN), F.col(_STORED), F.col(_LATER)
    not_after = F.filter(own, lambda other: _is_not_after(other, mine, dataset, tie))
    not_before = F.filter(own, lambda other: _is_not_after(mine, other, dataset, tie))
    # Columns of their own: Spark would compute, and plan, each once more wherever it is used.
    records = records.withColumn(_OWN, F.filter(_KNOWN, _is_own(dataset, by)))
    records = records.withColumns({_STORED: F.get(not_after, F.lit(0)), _LATER: not_before})
    is_same = position_of(stored["order"]) == position_of(mine["order"])
    of_table = {
        "version": stored["version"],
        "order": stored["order"],
        "witness": F.lit(None).cast(witness),
        "level": F.when(is_same, Reason.POSITION).otherwise(_level(records)),
        "stored": F.lit(True),
    }
    unties = F.lit(False)
    if dataset.ties_by_offset:
        unties = F.exists(later, lambda other: (other["version"] == other["leader"]["version"]) & _is_less(mine, other))
    earlier = {"order": F.get(later, F.lit(0))["order"], "leads": F.exists(later, _leads) | unties, "unties": unties}
    earlier |= {name: F.get(later, F.lit(0))[name] for name in ("leader", "second")}
    known = stored.isNotNull()
    if dataset.excepted:  # of two records at one place the digest of all that they say decides, as of any two records
        at_place = F.exists(
            own, lambda other: (other["version"] == mine["version"]) & (other["order"] == mine["order"])
        )
        known &= ~at_place
        later = F.when(~at_place, later)
    copy = F.col(C.COPY) | known | F.col(U.COVERED)
    first = F.when(stored.isNotNull(), _struct(of_table)).otherwise(F.col(FIRST_SENT))
    leader, leads = F.get(own, F.lit(0))["leader"], F.exists(own, _leads)
    return records.withColumns(
        {
            C.COPY: copy,
            FIRST_SENT: first,
            EARLIER: F.when(~copy & F.get(later, F.lit(0)).isNotNull(), _struct(earlier)),
            LATE: ~leads & _beats(leader, first, tie) & _beats(mine, leader, tie),
        }
    ).drop(_OWN, _STORED, _LATER)


def _with_first(records: DataFrame, dataset: Dataset, tie: str, by: tuple[str, ...]) -> DataFrame:
    """Add the first delivery in the batch, and whether a record is one. Where offsets decide ties, it is one in each
    partition: none of these is before the other."""
    version, hash_ = F.col(C.VERSION), F.col(C.HASH)
    of_message, placed = [*by, S.MESSAGE, C.compared(dataset)], deciding_order(F.col(_MINE)["order"], tie)
    sent = Window.partitionBy(*of_message).orderBy(version, placed, hash_)
    session = [C.PRODUCER] if C.PRODUCER in records.columns else []
    delivery = F.first(with_witness(records, C.VERSION, C.ORDER, *session))
    marked = records.withColumns({FIRST_SENT: delivery.over(sent), _IS_FIRST: F.row_number().over(sent) == 1})
    first = F.col(FIRST_SENT)
    if dataset.ties_by_offset:
        partition = partition_of(F.col(C.ORDER))
        here = Window.partitionBy(*of_message, C.VERSION, partition).orderBy(placed, hash_)
        is_smallest = version == first["version"]
        marked = marked.withColumns({_FIRST_HERE: delivery.over(here), _IS_FIRST: F.row_number().over(here) == 1})
        chosen = F.when(is_smallest, F.col(_FIRST_HERE)).otherwise(first)
        marked = marked.withColumns({FIRST_SENT: chosen, _IS_FIRST: is_smallest & F.col(_IS_FIRST)}).drop(_FIRST_HERE)
    level = F.when(position_of(first["order"]) == position_of(F.col(C.ORDER)), Reason.POSITION)
    if session:
        same = (first["producer"] == F.col(C.PRODUCER)) & (partition_of(first["order"]) == partition_of(F.col(C.ORDER)))
        level = level.when(same, Level.PRODUCER)
    named = {name: first[name] for name in ("version", "order", "witness")}
    named |= {"level": level.otherwise(_level(records)), "stored": F.lit(False)}
    return marked.withColumn(FIRST_SENT, _struct(named))


def settle_copies(judged: DataFrame) -> DataFrame:
    """Copies get their verdict, and point to the first delivery of their message; drops what marked late ones."""
    copy, first = F.col(C.COPY), F.col(FIRST_SENT)
    settled = {
        C.VERDICT: F.lit(Verdict.DUPLICATE),
        C.REASON: F.when(F.col(LATE), Reason.LATE_COPY).otherwise(first["level"]),
        C.WINNER: first["order"],
        C.WITNESS: first["witness"],
        C.TIED: F.lit(None).cast("boolean"),
    }
    columns = {name: F.when(copy, of).otherwise(F.col(name)) for name, of in settled.items()}
    return judged.withColumns(columns).drop(LATE)


def with_lowered(folded: DataFrame, dataset: Dataset, tie: str, by: tuple[str, ...]) -> DataFrame:
    """Add `_lowered` and `_delivered` to what `with_copies` marked and the batch folded. `by`: a row. Where offsets
    decide ties, no message of the row's version goes to a smaller one unless a greater version comes: the table does
    not say in which partitions the others of that version are."""
    whole = Window.partitionBy(*by)
    winner = F.first(F.when(F.col(C.SURVIVOR), _delivery(F.col(C.VERSION), F.col(C.ORDER))), ignorenulls=True)
    earlier, keyed = F.col(EARLIER), F.col(C.KEY).isNotNull()
    leads = F.when(keyed & earlier["leads"], earlier)
    of_key = F.first(leads, ignorenulls=True).over(whole)
    found = folded.withColumns({LOWERED: of_key, _MINE: winner.over(whole)})
    second = F.col(LOWERED)["second"]
    blocked = F.coalesce(_beats(second, F.col(_MINE), tie), F.lit(False))
    if dataset.ties_by_offset:
        unties = F.coalesce(F.bool_or(keyed & earlier["unties"]).over(whole), F.lit(False))
        blocked |= unties & ~F.coalesce(_is_less(F.col(LOWERED)["leader"], F.col(_MINE)), F.lit(False))
    kept = F.when(earlier.isNotNull(), Action.LOWER).otherwise(Action.ENTER)
    return found.withColumns(
        {
            LOWERED: F.when(F.col(LOWERED).isNotNull(), F.struct(blocked.alias("blocked"))),
            U.DELIVERED: F.when(keyed & ~F.col(C.COPY) & ~F.col(FIRST_SENT)["stored"], kept),
        }
    ).drop(_MINE)


def settle_deliveries(judged: DataFrame, fresh: Column) -> DataFrame:
    """Judged rows with what earlier deliveries do to verdicts and rows; drops what marked them. `fresh`: the reason of
    a record that makes a row.

    An earlier delivery is a duplicate, for its message is in the table. The record that is the row in the end lowers
    it; where that record is not at hand, the earlier delivery is a conflict.
    """
    earlier, lowered, copy = F.col(EARLIER), F.col(LOWERED), F.col(C.COPY)
    blocked = F.coalesce(lowered["blocked"], F.lit(False))
    in_conflict = F.col(C.VERDICT) == Verdict.CONFLICT
    # The row that it is in conflict with by its version is of a smaller version now.
    gives_way = lowered.isNotNull() & ~blocked & (~in_conflict | (F.col(C.REASON) == Reason.SAME_VERSION))
    makes_row = F.col(C.SURVIVOR) & gives_way
    lowers = makes_row & (F.col(U.ACTION).isNull() | (F.col(U.ACTION) == Action.UNPLACE))
    conflict = earlier.isNotNull() & earlier["leads"] & blocked
    again = earlier.isNotNull() & ~in_conflict
    applied = makes_row & earlier.isNull()
    of_table = copy & F.col(FIRST_SENT)["stored"]
    columns = {
        C.VERDICT: F.when(conflict, Verdict.CONFLICT).when(again, Verdict.DUPLICATE).when(applied, Verdict.APPLIED),
        C.REASON: F.when(conflict, Reason.EARLIER_DELIVERY).when(again, _level(judged)).when(applied, fresh),
        U.SCOPE: F.when(conflict | again | of_table, Scope.STORED),
        U.OTHER: F.when((conflict | again) & ~lowers, earlier["order"]),
        U.ACTION: F.when(lowers, Action.LOWER),
        U.WON: F.when(conflict | again | applied, F.lit(False)),
    }
    settled = {name: F.coalesce(of, F.col(name)) for name, of in columns.items()}
    return judged.withColumns(settled).drop(EARLIER, LOWERED, FIRST_SENT)


def where_row_lies(judged: DataFrame, has_row: Column) -> DataFrame:
    """Judged rows of a folding that keeps every version, ready for `settle_deliveries`. `has_row`: the table has a row
    of the record's version; where that lies below the head of its chain, an earlier delivery changes nothing. What
    takes the row's place has its verdict already."""
    if LOWERED not in judged.columns:
        return judged
    earlier, lowered = F.col(EARLIER), F.col(LOWERED)
    leads = earlier.withField("leads", earlier["leads"] & has_row)
    return judged.withColumns(
        {EARLIER: F.when(earlier.isNotNull(), leads), LOWERED: F.when(lowered["blocked"], lowered)}
    )


def takes_row() -> Column:
    """Whether a record takes the place of its version's row: the row's message was delivered earlier than the ledger
    says, and no message of the ledger comes before the record."""
    return F.coalesce(F.col(C.SURVIVOR) & ~F.col(LOWERED)["blocked"], F.lit(False))


def _level(records: DataFrame) -> Column:
    """The level at which a record is the same as another delivery, of which only the message's digest is known."""
    if C.MESSAGE_ID not in records.columns:
        return F.lit(Level.PRODUCER)
    return F.when(F.col(C.MESSAGE_ID).isNotNull(), Level.MESSAGE_ID).otherwise(Level.PRODUCER)


def _is_own(dataset: Dataset, by: tuple[str, ...]) -> Callable[[Column], Column]:
    """Whether a row of the ledger, of the same identity, is of a record's message."""

    def is_own(other: Column) -> Column:
        same = same_content(F.col(C.compared(dataset)), other["content"])
        return same & (other["version"] == F.col(C.VERSION)) if C.VERSION in by else same

    return is_own


def _is_less(delivery: Column, other: Column) -> Column:
    return delivery["version"] < other["version"]


def _leads(other: Column) -> Column:
    return other["leads"]


def _struct(parts: Mapping[str, Column]) -> Column:
    return F.struct(*(of.alias(name) for name, of in parts.items()))


def _delivery(version: Column, order: Column) -> Column:
    return _struct({"version": version, "order": order})


def _sent_order(records: DataFrame) -> Column:
    """A record's order as it was sent: a decision may have put it last."""
    order = F.col(C.ORDER)
    if C.TRUE_TIMESTAMP not in records.columns:
        return order
    true = F.coalesce(F.col(C.TRUE_TIMESTAMP), order["timestamp"])
    return F.when(order.isNotNull(), order.withField("timestamp", true))


def _is_not_after(delivery: Column, other: Column, dataset: Dataset, tie: str) -> Column:
    """Whether of two deliveries of a message the first is before the other, or is that; false where they do not
    compare."""
    mine, theirs = (deciding_order(of["order"], tie) for of in (delivery, other))
    version, other_version = delivery["version"], other["version"]
    is_before = (version < other_version) | ((version == other_version) & (mine <= theirs))
    elsewhere = partition_of(delivery["order"]) != partition_of(other["order"])
    if dataset.ties_by_offset:
        return is_before & ~((version == other_version) & elsewhere)
    if dataset.before_offset is None:
        return is_before
    parts = zip(*(parts_before_offset(dataset, of) for of in (version, other_version)), strict=True)
    return is_before & ~reduce(Column.__and__, (part == their for part, their in parts), elsewhere)


def _beats(delivery: Column, other: Column, tie: str) -> Column:
    """Whether one message's delivery is the row where another's would be."""
    version, other_version = delivery["version"], other["version"]
    tied = (version == other_version) & is_preferred(delivery["order"], other["order"], tie)
    return (version > other_version) | tied
