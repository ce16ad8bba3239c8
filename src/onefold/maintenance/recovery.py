"""Give the catalog back the tables that it has lost.

All of an Iceberg table lies in the lake; the catalog keeps one thing of it, which of its metadata files is the newest.
Where that is gone (a lost database), or names a file that is not there (a restored bucket that is older than its
catalog), the newest metadata whose files are all there takes its place. Coverage and commit records are part of it, so
a table that goes back to an earlier state takes later batches up again with the next run.

A metadata file may be of a commit that the catalog never took: its writer died before it asked. Such a commit was
about to be made by right, and is as good as a commit that was made.
"""

from __future__ import annotations

import contextlib
import gzip
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError, ValidationError
from pyiceberg.table import StaticTable

from onefold.errors import LakeUnavailableError, UsageError
from onefold.iceberg.connection import UNREACHABLE, key_below_warehouse, open_catalog
from onefold.lake import Lake

_METADATA = re.compile(r"warehouse/(?P<namespace>[^/]+)/(?P<name>[^/]+)/metadata/(?P<number>\d+)-[^/]+\.metadata\.json")
_GZIP = b"\x1f\x8b"
Identifier = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Recovered:
    """A table that the catalog has lost. `metadata` is the key of the state to go on from.

    Without one either a file is `missing` of every state, or nothing at all is left of the table: then it goes from
    the catalog, and what it held is done again.
    """

    table: Identifier
    why: str
    metadata: str | None
    missing: str | None

    @property
    def gone(self) -> bool:
        """Whether nothing of it is left."""
        return self.metadata is None and self.missing is None


def find_lost(lake: Lake) -> list[Recovered]:
    """The tables below the warehouse that the catalog does not know, or knows by metadata that is not there.

    Views are no tables: who publishes makes them. The order of names.

    Raises:
        UsageError: nothing at all lies there.
    """
    keys = {info.key for info in lake.storage.list("warehouse/")}
    states: dict[Identifier, list[tuple[int, str]]] = defaultdict(list)
    for key in sorted(keys):
        if match := _METADATA.fullmatch(key):
            states[match["namespace"], match["name"]].append((int(match["number"]), key))
    catalog = open_catalog(lake)
    known = [table for space in catalog.list_namespaces() for table in catalog.list_tables(space) if len(table) == 2]
    if known and not states:  # a disk that is not mounted, a prefix that is another
        raise UsageError(
            f"the catalog knows {len(known)} tables, and nothing lies in {lake.warehouse}. Is ONEFOLD_LAKE the lake "
            "that belongs to the catalog, and is it there? Nothing was changed."
        )
    found = []
    for table in sorted({*states, *known}):
        numbered = states.get(table, [])
        if (numbered and _is_view(lake, numbered[0][1])) or (why := _lost(catalog, table)) is None:
            continue
        newest_first = [key for _, key in sorted(numbered, reverse=True)]
        whole, missing = None, None
        for key in newest_first:
            gone = next(_missing(lake, catalog, key, keys), None)
            if gone is None:
                whole = key
                break
            missing = missing or gone
        found.append(Recovered(table, why, whole, missing))
    return found


def register(lake: Lake, lost: Recovered) -> None:
    """Let the catalog name a table by the metadata that was found, or no more. Nothing may be at work on it."""
    catalog = open_catalog(lake)
    with contextlib.suppress(NoSuchTableError):
        catalog.drop_table(lost.table)  # its row: no file goes
    if lost.metadata:
        catalog.create_namespace_if_not_exists(lost.table[0])
        catalog.register_table(lost.table, lake.storage.uri_of(lost.metadata))


def _lost(catalog: Catalog, table: Identifier) -> str | None:
    """Why a table is not found, or None where it is."""
    try:
        catalog.load_table(table)
    except NoSuchTableError:
        return "the catalog does not know it"
    except FileNotFoundError as error:
        return f"the catalog names metadata that is not there: {error}"
    except UNREACHABLE as error:
        raise LakeUnavailableError(".".join(table), str(error).splitlines()[0]) from error
    return None


def _is_view(lake: Lake, key: str) -> bool:
    data = lake.storage.read(key) or b""
    return b'"view-uuid"' in (gzip.decompress(data) if data.startswith(_GZIP) else data)


def _missing(lake: Lake, catalog: Catalog, metadata: str, keys: set[str]) -> Iterator[str]:
    """The files that a state of a table needs, on every branch, and that are not there."""
    try:
        table = StaticTable.from_metadata(lake.storage.uri_of(metadata), catalog.properties)
    except (ValidationError, ValueError, OSError) as error:  # half of it, say
        yield f"{metadata} cannot be read: {str(error).splitlines()[0]}"
        return
    for name, ref in sorted(table.refs().items()):
        try:
            tasks = list(table.scan(snapshot_id=ref.snapshot_id).plan_files())
        except FileNotFoundError as error:
            yield f"of {name}: {error}"
            continue
        for task in tasks:
            for file in (task.file, *task.delete_files):
                if (key := key_below_warehouse(lake, file.file_path)) is not None and key not in keys:
                    yield f"of {name}: {file.file_path}"
