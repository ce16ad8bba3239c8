"""The witness: what tells how another record came to be sent."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.records import envelope as E
from onefold.tables import actions as U
from onefold.tables import staging as C


def witness_of(records: DataFrame) -> Column:
    """Of records of a batch, struct<name, epoch, object>: the session of the producer, and the landed object."""
    of = F.col(E.OBJECT) if E.OBJECT in records.columns else F.lit(None)
    return _witness(F.col(C.PRODUCER) if C.PRODUCER in records.columns else None, of)


def with_witness(records: DataFrame, *names: str) -> Column:
    """Columns without their underscore, and the witness, as one value."""
    named = [F.col(name).alias(name.removeprefix("_")) for name in names]
    return F.struct(*named, witness_of(records).alias("witness"))


def stored_witness(rows: DataFrame) -> Column:
    """The witness of the row that the base has (`_base_producer`); it came with another batch."""
    name = U.BASE + C.PRODUCER
    return _witness(F.col(name) if name in rows.columns else None)


def witness_in(row: Column, rows: DataFrame) -> Column:
    """The witness of a row that is a struct, of which `rows` tell whether it has a producer."""
    return _witness(row["producer"] if C.PRODUCER in rows.columns else None)


def _witness(producer: Column | None, of: Column | None = None) -> Column:
    name, epoch = (F.lit(None) if producer is None else producer[part] for part in ("name", "epoch"))
    where = F.lit(None) if of is None else of
    return F.struct(
        name.cast("string").alias("name"), epoch.cast("int").alias("epoch"), where.cast("string").alias("object")
    )
