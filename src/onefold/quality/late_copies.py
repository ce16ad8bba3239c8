"""Copies of a message that would bring an old value back, as far as a batch and the rows of its keys tell."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.levels import RETRIES
from onefold.folding.ties import is_preferred
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.documents import Upserted
from onefold.vocabulary import Action, Reason, Verdict

_FACT = "_fact_"
"""Prefix of the columns of another record."""


def may_have_late_copies(dataset: Dataset, upserted: Upserted) -> bool:
    """Whether the counts of an attempt leave a late copy possible: in the batch, or of the table's row."""
    duplicates = upserted.counts.get(Verdict.DUPLICATE, {})
    of_row = Action.UPDATE in upserted.changes and any(level in duplicates for level in RETRIES)
    return dataset.versions_by_delivery and (Reason.LATE_COPY in duplicates or of_row)


def late_copies(actions: DataFrame, dataset: Dataset) -> DataFrame:
    """The rows of the actions that are late copies: by their verdict; or copies of the message that the base's row is,
    which would raise the row above another message that the batch has of the key."""
    assert dataset.apply.version
    raises = (F.col(C.VERDICT) == Verdict.DUPLICATE) & (F.col(U.ACTION) == Action.UPDATE)
    copies = actions.where(raises & F.col(C.REASON).isin(*RETRIES))
    others = actions.where(F.col(C.VERDICT) == Verdict.SUPERSEDED)
    by = C.row_key(dataset)
    others = others.select(*(F.col(name).alias(_FACT + name) for name in (*by, C.VERSION, C.ORDER)))
    version, row_version = F.col(_FACT + C.VERSION), F.col(U.BASE + C.VERSION)
    tied = (version == row_version) & is_preferred(F.col(_FACT + C.ORDER), F.col(U.OTHER), dataset.apply.version.tie)
    met = [F.col(name) == F.col(_FACT + name) for name in by]
    of_row = copies.join(others, [*met, (version > row_version) | tied], "left_semi")
    return actions.where(F.col(C.REASON) == Reason.LATE_COPY).unionByName(of_row)
