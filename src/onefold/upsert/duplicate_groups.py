"""What tells why duplicates are there: each against its survivor, counted by where, by whom and how far apart."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.records import envelope as E
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.documents import CameAgain, Duplicates
from onefold.vocabulary import Scope, Verdict


def duplicates_of(actions: DataFrame, again: list[CameAgain]) -> list[Duplicates]:
    """The duplicates of the actions in groups of one kind each, the largest first; narrow columns, no payload.

    `again` are the sessions of the batch that begin below what was seen of them.
    """
    order, other = F.col(C.ORDER), F.col(U.OTHER)
    stamped = (order["timestamp"] >= 0) & (other["timestamp"] >= 0)
    seconds = F.when(stamped, F.abs(order["timestamp"] - other["timestamp"]) / 1000.0)
    kinds = {"reason": F.col(C.REASON), "scope": F.col(U.SCOPE), "place": _place(order, other)}
    known = C.PRODUCER in actions.columns
    actions = _mark_again(actions, again) if known else actions
    kinds |= {"session": _session(known), "object": _object()}
    rows = actions.where((F.col(C.VERDICT) == Verdict.DUPLICATE) & other.isNotNull()).select(
        *(of.alias(name) for name, of in kinds.items()),
        seconds.alias("seconds"),
        F.struct(_position(order).alias("record"), _position(other).alias("survivor")).alias("pair"),
        order.alias("order"),
    )
    counted = rows.groupBy(*kinds).agg(
        F.count("*").alias("records"),
        F.min("seconds").alias("least"),
        F.percentile_approx("seconds", F.lit(0.5)).alias("median"),
        F.max("seconds").alias("most"),
        F.min_by("pair", "order").alias("pair"),
    )
    found = counted.orderBy(F.desc("records"), *kinds).collect()
    return [
        Duplicates(
            **{name: row[name] for name in kinds},
            records=row.records,
            seconds=None if row.least is None else (row.least, row.median, row.most),
            record=row.pair.record,
            survivor=row.pair.survivor,
        )
        for row in found
    ]


def _place(order: Column, other: Column) -> Column:
    """How far from its survivor a record lies, the widest difference first."""
    place = F.when(order["cluster"] != other["cluster"], "other_cluster")
    for part, name in (
        ("topic", "other_topic"),
        ("incarnation", "other_incarnation"),
        ("partition", "other_partition"),
    ):
        place = place.when(order[part] != other[part], name)
    return place.when(order["offset"] != other["offset"], "same_partition").otherwise("same_position")


_AGAIN = "_again"


def _mark_again(actions: DataFrame, again: list[CameAgain]) -> DataFrame:
    """Say of each record whether a named producer sent it again: behind what was seen of it, and not above."""
    named = {(came.session.partition, came.session.producer): came for came in again if came.session.epoch < 0}
    if not named:
        return actions.withColumn(_AGAIN, F.lit(False))
    rows = [(*of, came.session.start, came.highest.sequence) for of, came in named.items()]
    shape = "_log string, _name string, _start bigint, _top bigint"
    seen = F.broadcast(actions.sparkSession.createDataFrame(rows, shape))
    mine, order = F.col(C.PRODUCER), F.col(C.ORDER)
    log = F.concat_ws("/", *(order[part].cast("string") for part in ("cluster", "topic", "incarnation", "partition")))
    met = (log == F.col("_log")) & (mine["name"] == F.col("_name"))
    came = (order["offset"] >= F.col("_start")) & (mine["sequence"] <= F.col("_top"))
    return actions.join(seen, met, "left").withColumn(_AGAIN, F.coalesce(came, F.lit(False)))


def _session(known: bool) -> Column:
    """Whether one session of a producer sent both."""
    if not known:
        return F.lit("unknown")
    mine, theirs = F.col(C.PRODUCER), F.col(C.WITNESS)
    return (
        F.when(mine.isNull() | theirs["name"].isNull(), "unknown")
        .when(mine["name"] != theirs["name"], "other_producer")
        .when(mine["epoch"] != theirs["epoch"], "other_epoch")
        .when(mine["epoch"] < 0, F.when(F.col(_AGAIN), "same_name_again").otherwise("same_name"))
        .otherwise("same_session")
    )


def _object() -> Column:
    """Whether one landed object holds both; what the table holds came with an earlier batch."""
    theirs = F.col(C.WITNESS)["object"]
    within = F.when(theirs == F.col(E.OBJECT), "same_object").otherwise("other_object")
    return F.when((F.col(U.SCOPE) == Scope.STORED) | theirs.isNull(), "earlier_batch").otherwise(within)


def _position(order: Column) -> Column:
    return F.format_string("%s-%s@%s", order["topic"], order["partition"], order["offset"])
