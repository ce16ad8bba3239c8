"""The columns that the look-up adds to a staged batch, and those of the verdict table.

The *actions* table has one row a record of the batch: the staging columns (but `_winner` and `_tied`) with the final
verdict, and for a row that changes its key `_action` (insert | update) with the payload. With guard contiguous it has a
row for each row of the base that changes, too (`onefold.folding.upsert_contiguous`), and in mode increment for each sum
that does.

As in staging, `_order` and other structs lie flat, a column a part: `_order_timestamp`, …
(`onefold.spark.flat_structs`).
"""

from onefold.tables import staging as C

ACTION, SCOPE, WON, COVERED = "_action", "_scope", "_won", "_covered"
"""`_covered`: the record's position was known before, covered or in quarantine, or another record of the batch covers
it: it is in no rate."""
REFUSED = f"({C.REFUSED} AND NOT {COVERED})"
"""`staging.REFUSED`, but for copies of what is covered: such a record goes to the quarantine."""
DIFFERS, AGAIN = "_differs", "_again"
"""Only until records at known positions have their verdict: whether another content was covered at the position;
whether the record was rejected there before, with the same bytes."""
BECOMES = "_becomes"
"""Guard contiguous and mode increment: the `_state` of the row that an action makes or wakes: live, deleted,
hidden, held, entry."""
DELIVERED = "_delivered"
"""Where a delivery decides: what the record does to the ledger of messages: `Action.ENTER`: a message, or a delivery of
it, that is new; `Action.LOWER`: it takes the place of later deliveries of its message; null: nothing."""
FINDING = "_finding"
"""struct<level, scope>: the narrow identity level at which the record is the same as a record of another key, or of
another version with other content, or `period_moved`; null: none. A finding changes no verdict."""
FINDING_TYPE = "struct<level:string,scope:string>"
OTHER = "_other"
"""Order of the record that a verdict names: the survivor, or the other side of a conflict; of a row that changes, of
the base's row that it displaces."""

BASE = "_base"
"""Prefix of what the look-up found: `_base_order`, `_base_hash`, …; `_base_version` alone is in the actions."""
