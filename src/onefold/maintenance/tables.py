"""Iceberg's own procedures on one table: compaction, expiry, orphans."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import SparkSession

from onefold.tables.names import CATALOG

_COMPACTION = {"delete-file-threshold": "1", "remove-dangling-deletes": "true"}
"""A data file that has deletes is rewritten; the rest as Iceberg's defaults have it."""
_MANIFEST_SIZE = "commit.manifest.target-size-bytes"
KEPT = 5
"""Snapshots that stay whatever their age: readers may be on them, and a rollback needs some."""


def compact(session: SparkSession, table: str, apart: Sequence[str] = ()) -> int:
    """Rewrite small files, and those that have deletes; how many files became fewer. `apart`: conditions on rows, in
    SQL, of which each has its own files, which are not put together with others."""
    options = ", ".join(f"'{name}', '{value}'" for name, value in _COMPACTION.items())
    rewritten = 0
    for where in [f', where => "{condition}"' for condition in apart] or [""]:
        data = _call(session, "rewrite_data_files", f"table => '{table}', options => map({options}){where}")
        rewritten += data["rewritten_data_files_count"]
    deletes = _call(session, "rewrite_position_delete_files", f"table => '{table}'")
    return rewritten + deletes["rewritten_delete_files_count"]


def forget_verdicts(session: SparkSession, table: str, attempts: list[str]) -> None:
    """Delete the rows of some attempts: whole partitions, so only metadata is written."""
    if attempts:
        named = ", ".join(f"'{attempt}'" for attempt in attempts)  # hexadecimal: `new_attempt` made them
        session.sql(f"DELETE FROM {CATALOG}.{table} WHERE attempt IN ({named})")


def rewrite_manifests(session: SparkSession, table: str) -> None:
    """Rewrite manifests: entries of files that were replaced, with their columns' bounds, are not in them.

    Iceberg leaves a single manifest as it is, if it need not be split: so it has to be.
    """
    data = session.sql(f"SELECT length FROM {CATALOG}.{table}.manifests WHERE content = 0").collect()
    if len(data) == 1:
        size = max(1, data[0].length - 1)
        session.sql(f"ALTER TABLE {CATALOG}.{table} SET TBLPROPERTIES ('{_MANIFEST_SIZE}' = '{size}')")
    _call(session, "rewrite_manifests", f"table => '{table}', use_caching => false")
    session.sql(f"ALTER TABLE {CATALOG}.{table} UNSET TBLPROPERTIES IF EXISTS ('{_MANIFEST_SIZE}')")


def expire(session: SparkSession, table: str, before: datetime, keep: int = KEPT) -> int:
    """Expire snapshots written before an instant, of `main` and of no branch; how many. `keep` stay in any case."""
    counted = f"SELECT count(*) FROM {CATALOG}.{table}.snapshots"
    was = session.sql(counted).head()
    _call(
        session,
        "expire_snapshots",
        f"table => '{table}', older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f}', retain_last => {keep}",
    )
    now = session.sql(counted).head()
    assert was
    assert now
    return int(was[0]) - int(now[0])


def remove_orphans(session: SparkSession, table: str, before: datetime) -> int:
    """Remove files below the table's place that no snapshot names, written before an instant; how many."""
    at = f"TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f}'"
    rows = session.sql(f"CALL {CATALOG}.system.remove_orphan_files(table => '{table}', older_than => {at})")
    return rows.count()


def _call(session: SparkSession, procedure: str, arguments: str) -> dict[str, int]:
    row = session.sql(f"CALL {CATALOG}.system.{procedure}({arguments})").head()
    return row.asDict() if row else {}
