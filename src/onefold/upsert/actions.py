"""The actions: what the look-up said, written once, for verdicts, commit record, merge and gate."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.strategy import folding_of
from onefold.spark.iceberg_tables import bucketed
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables.names import scratch_table


def write_actions(judged: DataFrame, dataset: Dataset, attempt: str) -> str:
    """Write what the look-up said, once; payload only of rows that change. The table's full name."""
    payload = [name for name, _ in dataset.key_columns] + list(dataset.fields)
    changes = F.col(U.ACTION).isNotNull()
    columns = {name: F.when(changes, F.col(name)) for name in payload}
    further = folding_of(dataset).further_columns()
    columns |= {field.name: F.lit(None).cast(field.dataType) for field in further if field.name not in judged.columns}
    # What only the look-up needs goes; of a row that changes, `_other` is the order that the base has.
    before = [name for name in judged.columns if name.startswith(f"{U.BASE}_") and name != U.BASE + C.VERSION]
    table = scratch_table(dataset.name, "actions", attempt)
    bucketed(judged.withColumns(columns).drop(C.TIED, C.WINNER, *before), table, dataset)
    return table
