"""The columns of a staged batch, named once.

A staging table has one row a record of the batch. Only survivors, and records in conflict, keep their payload.

| column | type | |
| --- | --- | --- |
| `_key` | binary | SHA-256 of the identity that a row of the table has; null for rejected and filtered records |
| `_version` | as declared | upsert only |
| `_order` | struct | the total order: timestamp (ms), cluster, topic, incarnation, partition, offset |
| `_hash` | binary | SHA-256 of the content |
| `_is_delete` | boolean | the record deletes its key |
| `_message_id` | string | where declared |
| *fields* | | the key's columns, then the value's |
| `_survivor` | boolean | it stands for its key in this batch |
| `_verdict`, `_reason` | string | what the batch alone tells; null for survivors |
| `_winner` | struct | order of the record that it lost to |
| `_detail` | string | why it was rejected |
| `_object`, `_line` | string, int | where it was landed |
| `_raw_key`, `_raw_value` | binary | rejected records only: the bytes |
| `_raw_headers` | array<struct> | rejected records only |
"""

KEY, VERSION, ORDER, HASH = "_key", "_version", "_order", "_hash"
MESSAGE_ID, BUSINESS_KEY = "_message_id", "_business_key"
DELETED = "_is_delete"
SURVIVOR, VERDICT, REASON, WINNER, DETAIL = "_survivor", "_verdict", "_reason", "_winner", "_detail"
RAW_KEY, RAW_VALUE, RAW_HEADERS = "_raw_key", "_raw_value", "_raw_headers"
