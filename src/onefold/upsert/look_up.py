"""The one look-up: a staged batch against the rows that the base has of its keys, and with it every final verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions.accepted_gaps import Link
from onefold.folding.strategy import Placing, folding_of
from onefold.spark.key_filter import narrowed
from onefold.spark.slots import SLOT, in_slots
from onefold.tables import staging as C


def look_up(
    dataset: Dataset,
    staged: DataFrame,
    state: DataFrame,
    slots: int = 1,
    links: Sequence[Link] = (),
    *,
    keys: DataFrame | None = None,
    bounded: bool = False,
) -> DataFrame:
    """Staged rows (with `_covered`) judged against the base's rows (`Folding.judge`).

    Tables are bucketed alike, so that nothing is shuffled; a folding that judges rows of the base together with the
    batch's shuffles both, into `slots` parts a bucket. `links` are accepted gaps. `keys`: the batch's, where the base
    is much larger; `bounded`: only files of the batch's periods are read.
    """
    folding = folding_of(dataset)
    known = folding.base_columns(state)
    if folding.MEETS_KEYS_ALONE:
        known = _met(known, dataset, keys, bounded=bounded)
    return folding.judge(staged, known, Placing(partial(in_slots, dataset=dataset, slots=slots), (SLOT,), links))


def meet_messages(
    dataset: Dataset, staged: DataFrame, messages: DataFrame, *, keys: DataFrame | None = None, bounded: bool = False
) -> DataFrame:
    """Staged rows (with `_covered`), folded without the copies of messages that the base's ledger knows
    (`Folding.meet_messages`). Nothing is shuffled. `keys` and `bounded` as for `look_up`."""
    folding = folding_of(dataset)
    return folding.meet_messages(staged, folding.known_messages(_met(messages, dataset, keys, bounded=bounded)))


def _met(known: DataFrame, dataset: Dataset, keys: DataFrame | None, *, bounded: bool) -> DataFrame:
    """Of rows of the base what a join with the batch reads."""
    if not ((keys is not None and not bounded) or known.select(C.KEY).take(1)):
        return F.broadcast(known)  # a scan without files tells no buckets: the join would shuffle the batch
    return known if keys is None else narrowed(known, keys, dataset, large=True)
