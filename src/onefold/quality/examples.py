"""Records that the report shows: rejected ones, both sides of conflicts, and findings. They judge nothing."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.masks import HIDDEN, bounded, masked
from onefold.dedup.staging import has_payload
from onefold.folding.levels import identity_text
from onefold.records import envelope as E
from onefold.spark.flat_structs import read_flat
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state
from onefold.vocabulary import OUTCOMES, Finding, Scope, Verdict

EXAMPLES = 20
"""At most so many examples of each kind are shown."""


def examples_of(session: SparkSession, dataset: Dataset, upserted: Upserted) -> dict[str, list[dict[str, Any]]]:
    """Some rejected records with their text, and some conflicts with both sides."""
    return {
        "rejected": _rejected(session, dataset, upserted) if Verdict.REJECTED in upserted.counts else [],
        "conflicts": _conflicts(session, dataset, upserted) if Verdict.CONFLICT in upserted.counts else [],
        "reused": _reused(session, dataset, upserted) if upserted.reused else [],
    }


def _rejected(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[dict[str, Any]]:
    actions = read_flat(session, upserted.actions)
    at = [F.col(f"{C.ORDER}.{name}").alias(name) for name in ("topic", "partition", "offset")]
    place = [*at, F.col(E.OBJECT).alias("object"), F.col(E.LINE).alias("line"), F.col(C.REASON).alias("reason")]
    text = F.substring(F.col(C.RAW_VALUE).cast("string"), 1, 300)
    order = [F.col(f"{C.ORDER}.{name}") for name in ("topic", "partition", "offset")]
    rejected = actions.where(F.expr(U.REFUSED)).orderBy(*order).limit(EXAMPLES)
    detail, value = (
        F.col(C.DETAIL),
        F.coalesce(F.when(F.is_valid_utf8(text), text), F.hex(F.substring(C.RAW_VALUE, 1, 100))),
    )
    if dataset.mask:  # it is unknown which part of a text is a masked column's value
        bare = F.regexp_replace(detail, r"(?s), found .*", "")
        plain = [outcome.reason for outcome in OUTCOMES.values() if outcome.quarantined and outcome.plain]
        detail = F.when(F.col(C.REASON).isin(*plain), bare)
        value = F.when(value.isNotNull(), F.lit(HIDDEN))
    rejected = rejected.select(*place, detail.alias("detail"), value.alias("value"))
    return [{name: bounded(value) for name, value in row.asDict().items()} for row in rejected.collect()]


def _conflicts(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[dict[str, Any]]:
    """Both sides of each conflict: the record judged, and the other one (of the batch or of the base).

    The two may have the same position and timestamp, and two deletes the same hash: the loser has no key then. Of the
    base, payload is read only from files that may hold the keys of these conflicts (L8).
    """
    staged = read_flat(session, upserted.staging)
    conflicts = (
        read_flat(session, upserted.actions)
        .where(F.col(C.VERDICT) == Verdict.CONFLICT)
        .select(C.KEY, C.ORDER, C.HASH, C.REASON, U.SCOPE, U.OTHER, U.WON)
        .orderBy(C.ORDER, C.HASH, C.KEY)
        .limit(EXAMPLES)
    )
    records = conflicts.collect()
    schema = f"_number int, _judged {conflicts.schema.simpleString()}"
    judged = session.createDataFrame(list(enumerate(records)), schema)
    keys = list({bytes(row[C.KEY]) for row in records if row[C.KEY]})
    base = read_state(session, dataset, upserted.base, upserted.within).where(F.col(C.KEY).isin(keys))
    key, other = F.col(f"_judged.{C.KEY}"), F.col(f"_judged.{U.OTHER}")
    identifying = (C.KEY, C.ORDER, C.HASH)
    itself = reduce(Column.__and__, (F.col(f"_judged.{name}").eqNullSafe(F.col(name)) for name in identifying))
    at_other = F.col(C.ORDER) == other
    beaten = key.isNull() & F.col(C.KEY).isNotNull()  # the winner of its position may have lost to its own key
    sides = {
        "record": (staged.where(has_payload()), itself),
        "in_batch": (staged, at_other & (beaten | (F.col(C.SURVIVOR) & (F.col(C.KEY) == key)))),
        "stored": (base, at_other & (F.col(C.KEY) == key)),
    }
    rows = judged
    for name, (candidates, matches) in sides.items():
        columns = [column for column in (*identifying, C.SURVIVOR) if column in candidates.columns]
        side = (
            judged.join(candidates.select(*columns, _fields(dataset).alias(name)), matches)
            .groupBy("_number")
            .agg(F.min(name).alias(name))
        )
        rows = rows.join(side, "_number", "left")
    return [
        {
            "reason": record[C.REASON],
            "scope": record[U.SCOPE],
            "won": record[U.WON],
            "record": _side(dataset, record[C.ORDER], row.record),
            "other": _side(dataset, record[U.OTHER], row.stored if record[U.SCOPE] == Scope.STORED else row.in_batch),
        }
        for record, row in zip(records, rows.orderBy("_number").collect(), strict=True)
    ]


def _reused(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[dict[str, Any]]:
    """The first and the last record of each reused identity, and of each that is in two periods, in the form of the
    two sides of a conflict."""
    staged = read_flat(session, upserted.staging).where(F.col(C.KEY).isNotNull())
    record = F.struct(F.col(C.ORDER).alias("order"), _fields(dataset).alias("fields"))
    examples = []
    for level in dict.fromkeys(reused.level for reused in upserted.reused):
        found = {reused.identity: reused for reused in upserted.reused if reused.level == level}
        identity, moved = identity_text(level), level == Finding.PERIOD_MOVED
        # By a join: values in a condition would be read in Spark's event log and UI.
        named = session.createDataFrame([(text,) for text in found], "identity string")
        rows = (staged.where(C.SURVIVOR) if moved else staged).withColumn("identity", identity)
        rows = rows.join(F.broadcast(named), "identity", "left_semi")
        place = F.struct(*([C.WITHIN] if moved else []), C.ORDER)
        sides = rows.groupBy("identity").agg(
            F.max_by(record, place).alias("last"), F.min_by(record, place).alias("first")
        )
        examples += [
            {
                "reason": Finding.PERIOD_MOVED if moved else Finding.IDENTITY_REUSED,
                **found[row.identity].shown(dataset).model_dump(include={"level", "identity", "periods"}),
                "scope": Scope.IN_BATCH,
                "won": False,
                "record": _side(dataset, row["last"].order, row["last"].fields),
                "other": _side(dataset, row["first"].order, row["first"].fields),
            }
            for row in sides.orderBy("identity").collect()
        ]
    return examples


def _fields(dataset: Dataset) -> Column:
    names = [name for name, _ in dataset.key_columns] + list(dataset.fields)
    return F.to_json(F.struct(*names), {"ignoreNullFields": "false"})


def _side(dataset: Dataset, order: Any, fields: str | None) -> dict[str, Any]:
    place = {name: order[name] for name in ("topic", "partition", "offset")} if order else {}
    return {**place, "fields": masked(dataset, json.loads(fields, parse_float=str)) if fields else None}
