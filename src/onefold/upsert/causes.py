"""What tells why duplicates are there: each against its survivor, counted by where, by whom and how far apart."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dedup import columns as C
from onefold.records import envelope as E
from onefold.upsert import columns as U
from onefold.upsert.documents import Duplicates


def duplicates_of(actions: DataFrame) -> list[Duplicates]:
    """The duplicates of the actions in groups of one kind each, the largest first; narrow columns, no payload."""
    order, other = F.col(C.ORDER), F.col(U.OTHER)
    stamped = (order["timestamp"] >= 0) & (other["timestamp"] >= 0)
    seconds = F.when(stamped, F.abs(order["timestamp"] - other["timestamp"]) / 1000.0)
    kinds = {"reason": F.col(C.REASON), "scope": F.col(U.SCOPE), "place": _place(order, other)}
    kinds |= {"session": _session(C.PRODUCER in actions.columns), "object": _object()}
    rows = actions.where((F.col(C.VERDICT) == "duplicate") & other.isNotNull()).select(
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


def _session(known: bool) -> Column:
    """Whether one session of a producer sent both."""
    if not known:
        return F.lit("unknown")
    mine, theirs = F.col(C.PRODUCER), F.col(C.WITNESS)
    return (
        F.when(mine.isNull() | theirs["name"].isNull(), "unknown")
        .when(mine["name"] != theirs["name"], "other_producer")
        .when(mine["epoch"] != theirs["epoch"], "other_epoch")
        .when(mine["epoch"] < 0, "same_name")
        .otherwise("same_session")
    )


def _object() -> Column:
    """Whether one landed object holds both; what the table holds came with an earlier batch."""
    theirs = F.col(C.WITNESS)["object"]
    within = F.when(theirs == F.col(E.OBJECT), "same_object").otherwise("other_object")
    return F.when((F.col(U.SCOPE) == "stored") | theirs.isNull(), "earlier_batch").otherwise(within)


def _position(order: Column) -> Column:
    return F.format_string("%s-%s@%s", order["topic"], order["partition"], order["offset"])
