"""Keep one dataset's tables small and quick, while batches run, and never lose the chain of commit records."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.generation import Generation, Retired, begun_rebuild
from onefold.iceberg.commits import MainMovedError
from onefold.iceberg.state_table import StateTable, find_state, generations_of
from onefold.lake import Lake
from onefold.maintenance.attempts import old_branches, old_results, old_tables, old_verdicts, waiting
from onefold.maintenance.keep import Keep, Maintained
from onefold.maintenance.landings import failed_landings, sources_of
from onefold.maintenance.tables import KEPT, compact, expire, forget_verdicts, remove_orphans
from onefold.spark.iceberg_tables import drop
from onefold.tables import state as S
from onefold.tables.names import CATALOG, STAGING, verdict_name
from onefold.upsert.documents import Upserted
from onefold.upsert.state import ensure_views
from onefold.vocabulary import RowState


def maintain(session: SparkSession, lake: Lake, dataset: Dataset, keep: Keep, *, dry_run: bool = False) -> Maintained:
    """Clear away what is over, compact, expire, remove orphans.

    A batch that runs meanwhile finds `main` moved by a compaction and merges once more.
    """
    sources = sources_of(lake, dataset)
    failed = [folder for source in sources for folder in failed_landings(lake, source, keep.attempts)]
    results = old_results(lake, dataset, keep.attempts)
    if not dry_run:
        for folder in failed:
            lake.storage.remove_below(folder)
        for key in results:
            lake.storage.remove(key)
    of_lake = {"failed_landings": failed, "results": results}
    of_tables = _maintain_tables(session, lake, dataset, keep, dry_run=dry_run)
    return of_tables.model_copy(update=of_lake)


def _maintain_tables(session: SparkSession, lake: Lake, dataset: Dataset, keep: Keep, *, dry_run: bool) -> Maintained:
    table = find_state(lake, dataset)
    if table is None:
        return Maintained(dataset=dataset.name, branches=[], tables=[], generations=[])
    if not dry_run:
        ensure_views(session, lake, dataset)  # no reader is left on a table that goes
    waited = [document for pair in waiting(lake, dataset, table) for document in pair if document]
    needed = {name for document in waited for name in _names(document)}
    attempts = {document.attempt for document in waited if isinstance(document, Upserted)}
    found = Maintained(
        dataset=dataset.name,
        branches=old_branches(table, needed, keep.attempts),
        tables=old_tables(lake, dataset, needed, keep.attempts),
        verdicts=old_verdicts(lake, dataset, table, verdict_name(dataset), attempts, keep.attempts),
        generations=_over(lake, dataset, keep),
    )
    if dry_run:
        return found
    for branch in found.branches:
        table.drop_branch(branch)
    for name in found.tables:
        drop(session, f"{CATALOG}.{STAGING}.{name}")
    for generation in found.generations:
        _drop_generation(session, lake, dataset, generation)
    forget_verdicts(session, f"{STAGING}.{verdict_name(dataset)}", found.verdicts)
    state = ".".join(table.identifier)
    verdicts = f"{STAGING}.{verdict_name(dataset)}"
    tables = [state, verdicts] if session.catalog.tableExists(f"{CATALOG}.{verdicts}") else [state]
    rewritten = sum(compact(session, table, _apart(dataset) if table == state else ()) for table in tables)
    now = datetime.now(UTC)
    expired = 0
    table = StateTable(lake, dataset)
    if _carried(table):
        kept = {state: table.reach(KEPT)}
        expired = sum(expire(session, table, now - keep.snapshots, kept.get(table, KEPT)) for table in tables)
    orphans = sum(remove_orphans(session, table, now - keep.orphans) for table in tables)
    done = {"files_rewritten": rewritten, "snapshots_expired": expired, "orphans_removed": orphans}
    return found.model_copy(update=done)


def _apart(dataset: Dataset) -> list[str]:
    """Rows of the state table that have files of their own: a look-up opens the one or the other. (By lists of states:
    of `<>` no file's bounds tell.)"""
    if not dataset.versions_by_delivery:
        return []
    others = ", ".join(f"'{state}'" for state in RowState if state != RowState.MESSAGE)
    return [f"{S.STATE} = '{RowState.MESSAGE}'", f"{S.STATE} IN ({others})"]


def _names(document: object) -> set[str]:
    """The branch and the tables that a waiting staging or attempt names."""
    full = [getattr(document, name, "") for name in ("table", "staging", "actions", "branch")]
    return {name.rpartition(".")[2] for name in full if name}


def _carried(table: StateTable) -> bool:
    """Whether `main`'s own snapshot names its commit record, if need be from now on."""
    if not table.carried:
        with contextlib.suppress(MainMovedError):  # a batch was published: it names its own
            table.carry_record()
    return table.carried


def _over(lake: Lake, dataset: Dataset, keep: Keep) -> list[str]:
    """Generations whose time is over: retired by a rebuild, or never published. Not a generation that readers
    still see, because its rebuild was killed at the end, nor a generation that is being folded."""
    published = lake.get(lake_keys.generation(dataset), Generation)
    if published is None:
        return []
    used = {dataset.generation, published.generation, begun_rebuild(lake, dataset, published)}
    found = []
    for generation in generations_of(lake, dataset):
        if generation not in used and (table := find_state(lake, dataset, generation)):
            retired = lake.get(lake_keys.retired(dataset, generation), Retired)
            moved = datetime.fromtimestamp(table.table.metadata.last_updated_ms / 1000, UTC)
            if (retired.at if retired else moved) <= datetime.now(UTC) - keep.generations:
                found.append(generation)
    return found


def _drop_generation(session: SparkSession, lake: Lake, dataset: Dataset, generation: str) -> None:
    state = find_state(lake, dataset, generation)
    if state:
        drop(session, f"{CATALOG}.{'.'.join(state.identifier)}")
    drop(session, f"{CATALOG}.{STAGING}.{verdict_name(dataset, generation)}")
