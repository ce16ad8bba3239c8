"""The columns of a staged batch, named once.

A staging table has one row a record of the batch. Only survivors, records in conflict, and what is at a position
with two contents keep their payload. In the table structs lie flat (`onefold.spark.flat_structs`).

| column | type | |
| --- | --- | --- |
| `_key` | binary | SHA-256 of the identity that a row of the table has; null for rejected and filtered records |
| `_version` | as declared | upsert only |
| `_within` | date or timestamp | where declared: the beginning of the period that is part of `_key`; or null |
| `_identity` | string | where a period is declared: the other parts of `_key`, a JSON array of texts; or null |
| `_order` | struct | the total order: timestamp (ms), cluster, topic, incarnation, partition, offset |
| `_hash` | binary | SHA-256 of the content |
| `_compared` | binary | with `apply.compare`: SHA-256 of the fields that count when two are compared |
| `_said` | binary | exact positions: by what copies of a position compare (`onefold.dedup.said`); null: by `_hash` |
| `_is_delete` | boolean | the record deletes its key |
| `_is_hidden` | boolean | with `target.where`: the record is no delete, and readers do not see the row that it makes |
| `_producer` | struct | where known: name (or id), epoch (-1: none) and sequence for the record's partition |
| `_message_id`, `_business_key` | string | where declared; of a business key the digest |
| *fields* | | the key's columns, then the value's |
| `_survivor` | boolean | it is the one record that its key has in this batch |
| `_null_key` | binary | upsert: the key of a null value that `delete_when` does not cover; or null |
| `_filtered_key` | binary | where `source.filter` may leave out newer versions: the key of a record that it left out |
| `_readable_key` | binary | of a record that filter, skip, rejection or its version takes out: its row's key; or null |
| `_verdict`, `_reason` | string | what the batch alone tells; null for survivors |
| `_winner` | struct | order of the record that it lost to; of a beaten content, of the record that wins there |
| `_placeless` | boolean | upsert with ties by offset: the version of the key's row has copies in several partitions |
| `_copy` | boolean | where a delivery decides: an earlier one of its message is in the batch (or in the table) |
| `_tied` | boolean | upsert only: whether the record of its own version that it lost to is the survivor; or null |
| `_witness` | struct | that record's producer (name, epoch) and object; null where `_key` is |
| `_true_timestamp` | bigint | under decisions: of a content that lost a conflict the timestamp (ms); or null |
| `_detail` | string | why it was rejected |
| `_object`, `_line` | string, int | where it was landed |
| `_raw_key`, `_raw_value` | binary | the bytes of rejected records, and of a content that was beaten at its position |
| `_raw_headers` | array<struct> | theirs |
"""

from __future__ import annotations

from collections.abc import Collection

from onefold.dataset import Dataset
from onefold.instants import LAST
from onefold.vocabulary import Level, Reason, Verdict

KEY, VERSION, ORDER, HASH = "_key", "_version", "_order", "_hash"
COMPARED = "_compared"
SAID = "_said"
WITHIN, IDENTITY = "_within", "_identity"
PRODUCER, MESSAGE_ID, BUSINESS_KEY = "_producer", "_message_id", "_business_key"
LEVELS: dict[str, str] = {
    Level.PRODUCER: PRODUCER,
    Level.MESSAGE_ID: MESSAGE_ID,
    Level.BUSINESS_KEY: BUSINESS_KEY,
}
"""The identity levels that have a column of their own."""
WITNESS = "_witness"
TIED = "_tied"
PLACELESS = "_placeless"
COPY = "_copy"
DELETED = "_is_delete"
HIDDEN = "_is_hidden"
NULL_KEY = "_null_key"
FILTERED_KEY = "_filtered_key"
READABLE_KEY = "_readable_key"
TRUE_TIMESTAMP = "_true_timestamp"
FIRST_OF_ALL, LAST_OF_ALL = -(1 << 63), (1 << 63) - 1
"""Timestamps in `_order` of records whose content lost a conflict (`onefold.dedup.lost_contents`)."""
CONTESTED = "_contested"
"""Behind `fold_positions`, not staged: order of the record that wins at a position with two contents, on every record
that has a key there; null elsewhere."""
SURVIVOR, VERDICT, REASON, WINNER, DETAIL = "_survivor", "_verdict", "_reason", "_winner", "_detail"
REFUSED = f"(_verdict = '{Verdict.REJECTED}' AND _reason <> '{Reason.FORGOTTEN}')"
"""Rejected, and not covered: such a record goes to the quarantine. A forgotten record is covered."""
RAW_KEY, RAW_VALUE, RAW_HEADERS = "_raw_key", "_raw_value", "_raw_headers"
KEEPS_BYTES = f"(_verdict = '{Verdict.REJECTED}' OR _reason = '{Reason.INCONSISTENT_POSITION}')"
"""Whether a record may have its bytes in the staging table."""


def stamp(of: str) -> str:
    """A record's timestamp (a column in ms), to be shown, in SQL: null where it has none, the last that there is where
    it lies beyond."""
    return f"CASE WHEN {of} >= 0 THEN timestamp_millis(least({of}, {LAST})) END"


def sent_at(columns: Collection[str]) -> str:
    """A record's own timestamp (ms), in SQL: of a staging or actions table with some columns."""
    by_order = f"{ORDER}.timestamp"
    return f"coalesce({TRUE_TIMESTAMP}, {by_order})" if TRUE_TIMESTAMP in columns else by_order


def compared(dataset: Dataset) -> str:
    """The column by which two contents are equal; what orders them, and what a position holds, is the whole `_hash`."""
    return COMPARED if dataset.excepted else HASH


def readable(table: Collection[str]) -> str:
    """Whether a record of a table with some columns can be read, by itself, in SQL."""
    return f"({SAID} IS NULL OR length({SAID}) > 0)" if SAID in table else "true"


def position_content(table: Collection[str]) -> str:
    """By what a record is compared with others at its position, in SQL: null where the record cannot be read, and
    where positions are inferred."""
    return f"CASE WHEN {SAID} IS NULL THEN {HASH} WHEN length({SAID}) > 0 THEN {SAID} END" if SAID in table else "NULL"


def row_key(dataset: Dataset) -> list[str]:
    """What tells rows apart, and what tables are partitioned by: the key, and the period that is part of it."""
    return [KEY, WITHIN] if dataset.within else [KEY]


def identity(dataset: Dataset) -> str:
    """The column of what a row is, in whatever period."""
    return IDENTITY if dataset.within else KEY
