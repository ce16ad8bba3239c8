"""Dedup of small batches is interpreted: Spark compiles each new plan, which for few records costs more than it gives.

What joins the table stays compiled: an interpreted join opens buckets in which the batch has no key (L8).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from onefold.spark.settings import SMALL_BYTES

_COMPILING = {
    "spark.sql.codegen.wholeStage": ("true", "false"),
    "spark.sql.codegen.factoryMode": ("FALLBACK", "NO_CODEGEN"),
}
"""By setting: Spark's default, and what it is for a small batch."""


@contextmanager
def sized(session: SparkSession, landed: int) -> Iterator[None]:
    """Plan and run by the size of a batch (`landed`, bytes); settings of the user are kept."""
    own = {name: session.conf.get(name) for name in _COMPILING}
    if landed > SMALL_BYTES or own != {name: usual for name, (usual, _) in _COMPILING.items()}:
        yield
        return
    for name, (_, small) in _COMPILING.items():
        session.conf.set(name, small)
    try:
        yield
    finally:
        for name in _COMPILING:
            session.conf.unset(name)
