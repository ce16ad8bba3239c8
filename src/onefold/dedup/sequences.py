"""The broker's sequence rule, run again over what was landed: it diagnoses, and never removes a record.

Of each producer on a partition, in the order of offsets: the next sequence is the last accepted one plus one
(`accepted`); one at or below it is a `repeat`; one further on leaves a `gap`. After 2³¹-1 comes 0. A higher epoch
starts again at 0, and what still comes with a lower one is of a zombie that the bump has `fenced`. (Kafka:
`ProducerAppendInfo.checkSequence`; KIP-98, KIP-360.) A named producer has no epoch (-1) and does not wrap.

The rule knows what came before only where the offsets are without a hole: behind each hole it begins again.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dedup.documents import WRAP, Anomaly, Producers, Restart, Session
from onefold.dedup.restarts import last_restart, restarts_in, with_restart
from onefold.offsets import TopicPartition
from onefold.tables import staging as C

_OUTCOMES = ACCEPTED, REPEAT, GAP, FENCED = "accepted", "repeat", "gap", "fenced"
SHOWN = 1_000
"""Sessions of producers that are listed: those with anomalies first, then the largest."""
_PARTITION = ("cluster", "topic", "incarnation", "partition")


def diagnose(records: DataFrame, whole: bool = False) -> DataFrame:
    """Give every record of a producer its outcome.

    Takes the partition's four columns, `offset` and `producer` (struct<name, epoch, sequence>, or null); an offset
    may be there more than once. `whole`: no partition has a hole, so that none is looked for, and a log's
    producers are judged side by side. Gives the partition, `offset`, `name`, `epoch`, `sequence`, `outcome`,
    `missing` (sequences that a gap leaves out), `place` (the sequence without wraps, from the first of its epoch) and
    `restart` (`onefold.dedup.restarts`). One exchange: by partition, or by producer where the logs are whole.
    """
    # Digests are sorted several times faster than their texts; a producer counts for each log from the start.
    records = records.withColumn("log", F.xxhash64(*_PARTITION))
    log = Window.partitionBy("log").orderBy("offset")
    ahead_by = F.col("offset") - F.lag("offset").over(log)
    holes = F.sum((ahead_by > 1).cast("int")).over(log.rowsBetween(Window.unboundedPreceding, 0))
    run = F.lit(0) if whole else F.coalesce(holes, F.lit(0))
    runs = ["who", "log"] if whole else ["who", "log", "run"]
    in_log, of_producer = (Window.partitionBy(*by).orderBy("offset") for by in (["who", "log"], runs))
    known = (
        records.withColumn("run", run)
        .where(F.col("producer").isNotNull())
        .select(*_PARTITION, "log", "run", "offset", "producer.*")
        .withColumn("who", F.xxhash64("log", "name"))
        .withColumn("before", F.lag("offset").over(in_log))
        .where(F.col("before").isNull() | (F.col("before") != F.col("offset")))
    )
    of_epoch = Window.partitionBy(*runs, "epoch").orderBy("offset")
    earlier = (Window.unboundedPreceding, -1)
    stepped = with_restart(known, in_log).withColumns(
        {
            "top_epoch": F.max("epoch").over(of_producer.rowsBetween(*earlier)),
            "delta": F.coalesce(_step(F.col("sequence"), F.lag("sequence").over(of_epoch)), F.lit(0)),
        }
    )
    placed = stepped.withColumn("place", F.sum("delta").over(of_epoch.rowsBetween(Window.unboundedPreceding, 0)))
    judged = placed.withColumn("ahead", F.col("place") - F.max("place").over(of_epoch.rowsBetween(*earlier)))
    bumped = (F.col("epoch") > F.col("top_epoch")) & (F.col("epoch") >= 0)
    first, ahead = F.col("ahead").isNull(), F.col("ahead")
    missing = F.when(first & bumped, F.col("sequence")).when(ahead > 1, ahead - 1).otherwise(0)
    outcome = (
        F.when(F.col("epoch") < F.col("top_epoch"), FENCED)
        .when(ahead <= 0, REPEAT)
        .when(missing > 0, GAP)
        .otherwise(ACCEPTED)
    )
    lost = F.when(outcome == GAP, missing).otherwise(0).cast("bigint")
    found = (outcome.alias("outcome"), lost.alias("missing"), "place", "restart")
    return judged.select(*_PARTITION, "offset", "name", "epoch", "sequence", *found)


def _step(sequence: Column, before: Column) -> Column:
    """From one sequence to the next: of two that are half the circle apart the nearer way; a name's do not wrap."""
    half = WRAP // 2
    around = F.pmod(sequence - before + half, F.lit(WRAP)) - half
    return F.when(F.col("epoch") >= 0, around).otherwise(sequence - before)


def producers_of(staged: DataFrame, whole: bool = False) -> tuple[Producers, list[Restart]]:
    """The account of a staged batch's producers, session by session, of which at most `SHOWN` are listed; and of each
    named producer on a partition the last restart.

    `whole` says that each partition's offsets are one range.
    """
    at = [F.col(f"{C.ORDER}.{name}").alias(name) for name in (*_PARTITION, "offset")]
    judged = diagnose(
        staged.where(F.col(f"{C.ORDER}.offset").isNotNull()).select(*at, F.col(C.PRODUCER).alias("producer")),
        whole,
    )
    odd = F.col("outcome") != ACCEPTED
    # A name's sequence has no wraps, and its place begins again behind each hole.
    place = F.when(F.col("epoch") < 0, F.col("sequence")).otherwise(F.col("place"))
    # Numbers alone: a text or a struct among them would be aggregated by sorting all records.
    first_odd = {name: F.min_by(of, F.when(odd, F.col("offset"))) for name, of in _anomaly().items()}
    sessions = (
        judged.groupBy(*_PARTITION, "name", "epoch")
        .agg(
            F.count("*").alias("records"),
            F.min("offset").alias("start"),
            (F.max("offset") + 1).alias("end"),
            F.min_by("sequence", "offset").alias("first"),
            F.max_by("sequence", "offset").alias("last"),
            F.min_by("sequence", place).alias("lowest"),
            F.max_by("sequence", place).alias("highest"),
            F.max_by("offset", place).alias("highest_at"),
            *(F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in _OUTCOMES),
            F.sum("missing").alias("missing"),
            *(of.alias(f"first_{name}") for name, of in first_odd.items()),
            *last_restart(),
            F.count_if(odd).alias("anomalies"),
        )
        .persist()  # few rows, asked several times
    )
    counted = (*_OUTCOMES, "missing", "records")
    try:
        numbers = {"sessions": F.count("*"), "restarts": F.count("restart_offset")}
        numbers |= {name: F.sum(name) for name in counted}
        sums = sessions.agg(*(of.alias(name) for name, of in numbers.items())).first()
        assert sums is not None
        order = (F.desc("anomalies"), F.desc("records"), *_PARTITION, "name", "epoch")
        producers = Producers(
            sessions=sums.sessions,
            outcomes={name: sums[name] or 0 for name in _OUTCOMES},
            missing=sums.missing or 0,
            listed=[_session(row.asDict()) for row in sessions.orderBy(*order).limit(SHOWN).collect()]
            if sums.sessions
            else [],
        )
        return producers, restarts_in(sessions) if sums.restarts else []
    finally:
        sessions.unpersist()


def _anomaly() -> dict[str, Column]:
    """What is reported of a record that is not accepted, as numbers."""
    outcome = F.array_position(F.array(*map(F.lit, _OUTCOMES)), F.col("outcome")) - 1
    return {"offset": F.col("offset"), "outcome": outcome} | {name: F.col(name) for name in ("sequence", "missing")}


_NUMBERS = ("epoch", "first", "last", "lowest", "highest", "highest_at")


def _session(row: dict[str, Any]) -> Session:
    where = TopicPartition.model_validate({name: row[name] for name in _PARTITION})
    first = {name: row[f"first_{name}"] for name in ("offset", "sequence", "missing")}
    return Session.model_validate(
        {
            **{name: row[name] for name in (*_NUMBERS, "records", "start", "end", "missing")},
            "producer": row["name"],
            "partition": where.key,
            "outcomes": {name: row[name] for name in _OUTCOMES},
            "first_anomaly": Anomaly(outcome=_OUTCOMES[row["first_outcome"]], **first) if row["anomalies"] else None,
        }
    )
