"""The columns that only the state table has.

The state table `<table>__state_<generation>` has one row a key: `_key`, `_version` (upsert), `_order`,
`_hash`, `_compared` (with `apply.compare`), `_placeless` (with `apply.version.tie: last | first`: copies of it are in
several partitions, so that no offset says which content is the last), `_message_id` (where declared), `_state` (live |
deleted | hidden),
`_quarantine`, the key's columns, the value's fields. With guard contiguous it has `_is_delete` (and with `target.where`
`_is_hidden`), too, and next to the row of a key a
row for each version of it that is held. In mode increment (`onefold.folding.increment`) it has an entry a message id
(`_state` entry) and a sum a key (live), with `_entries` and the columns that are added to. Next to them it has the
rejected records (`onefold.upsert.quarantine`): no key, `_state` quarantined.

`_order` and other structs lie flat, a column a part: `_order_timestamp`, … (`onefold.spark.flat_structs`).
"""

STATE = "_state"
"""What a row is (`onefold.vocabulary.RowState`)."""
ENTRIES = "_entries"
"""Mode increment: of a sum, the messages that it is made of."""
MESSAGE = "_message"
"""Where a delivery decides: the digest of a message's identity (`onefold.folding.message_digest`), in the rows of the
ledger: `_state` message, next to the row of their key, with `_version`, `_order` and `_hash` (or `_compared`) of its
first delivery, and nothing else."""
QUARANTINE = "_quarantine"
"""struct<batch, reason, detail, object, line, key, value, headers>; null but for quarantined records."""
QUARANTINE_VIEW = "__quarantine"
"""What the name of the view over the quarantined records has behind the target table's."""
