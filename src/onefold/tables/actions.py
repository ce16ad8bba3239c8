"""The columns that the look-up adds to a staged batch, and those of the state and verdict tables.

The *actions* table has one row a record of the batch: the staging columns (but `_winner` and `_tied`) with the final
verdict, and for a row that changes its key `_action` (insert | update) with the payload. With guard contiguous it has a
row for each row of the base that changes, too (`onefold.folding.upsert_contiguous`), and in mode increment for each sum
that does.

The state table `<table>__state_<generation>` has one row a key: `_key`, `_version` (upsert), `_order`,
`_hash`, `_compared` (with `apply.compare`), `_message_id` (where declared), `_state` (live | deleted | hidden),
`_quarantine`, the key's columns, the value's fields. With guard contiguous it has `_is_delete` (and with `target.where`
`_is_hidden`), too, and next to the row of a key a row for each version of it that is held. In mode increment
(`onefold.folding.increment`) it has an entry a message id (`_state` entry) and a sum a key (live), with `_entries` and
the columns that are added to. Next to them it has the rejected records (`onefold.upsert.quarantine`): no key, `_state`
quarantined.

In both, as in staging, `_order` and other structs lie flat, a column a part: `_order_timestamp`, …
(`onefold.spark.flat_structs`).
"""

ACTION, SCOPE, WON, COVERED, STATE = "_action", "_scope", "_won", "_covered", "_state"
BECOMES = "_becomes"
"""Guard contiguous and mode increment: the `_state` of the row that an action makes or wakes: live, deleted,
hidden, held, entry."""
ENTRIES = "_entries"
"""Mode increment: of a sum, the messages that it is made of."""
QUARANTINE = "_quarantine"
"""struct<batch, reason, detail, object, line, key, value, headers>; null but for quarantined records."""
QUARANTINE_VIEW = "__quarantine"
"""What the name of the view over the quarantined records has behind the target table's."""
FINDING = "_finding"
"""struct<level, scope>: the narrow identity level at which the record is one with a record of another key, or of
another version with other content; null: none. A finding changes no verdict."""
FINDING_TYPE = "struct<level:string,scope:string>"
OTHER = "_other"
"""Order of the record that a verdict names: the survivor, or the other side of a conflict; of a row that changes, of
the base's row that it displaces."""

BASE = "_base"
"""Prefix of what the look-up found: `_base_order`, `_base_hash`, …; `_base_version` alone is in the actions."""
