"""The envelope: what every layout's reader gives, one row a record.

| column | type | |
| --- | --- | --- |
| `_cluster`, `_topic` | string | |
| `_incarnation`, `_partition` | int | null topic and partition: an unreadable line of an export |
| `_offset` | long | exact, or inferred from object and line |
| `_timestamp` | long | milliseconds since 1970; null where the layout has none |
| `_key_bytes`, `_value_bytes` | binary | as Kafka had them; null is null |
| `_headers` | array<struct<key: string, value: binary>> | in their order; null: they cannot be read |
| `_object` | string | name of the landed object |
| `_line` | int | 1-based line, where positions are inferred |
| `_unreadable` | string | why the line is no record; its bytes are in `_value_bytes` |
| `_producer_id` | long | of the record batch; null: not shown, or not idempotent |
| `_producer_epoch`, `_sequence` | int | with `_producer_id` |
| `_fate` | string | aborted, control (a marker), open (not decided yet), as the log says; null: a record |
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.vocabulary import Reason, Verdict

CLUSTER, TOPIC, INCARNATION, PARTITION, OFFSET = "_cluster", "_topic", "_incarnation", "_partition", "_offset"
TIMESTAMP, KEY_BYTES, VALUE_BYTES, HEADERS = "_timestamp", "_key_bytes", "_value_bytes", "_headers"
OBJECT, LINE, UNREADABLE = "_object", "_line", "_unreadable"
PRODUCER_ID, PRODUCER_EPOCH, SEQUENCE = "_producer_id", "_producer_epoch", "_sequence"
FATE = "_fate"
"""What the log says of the record (`LogStatus`), or what a recorded decision does with it; null: it counts."""
FORGOTTEN, SKIPPED = Reason.FORGOTTEN, Verdict.SKIPPED
"""The fate of a record that a recorded decision takes out (`onefold.dedup.exclusions`)."""
COVERED = "covered"
"""The fate of a record whose position is covered, and that is not known to be what was covered there."""

POSITION = (CLUSTER, TOPIC, INCARNATION, PARTITION, OFFSET)
TOTAL_ORDER = (TIMESTAMP, *POSITION)
"""The declared total order (L7); every choice of a winner ends in it. Rows carry it as `_order`."""

OF_THE_LOG = {PRODUCER_ID: "bigint", PRODUCER_EPOCH: "int", SEQUENCE: "int", FATE: "string"}
"""What only the log itself shows, with its type."""

ENVELOPE = (*TOTAL_ORDER, KEY_BYTES, VALUE_BYTES, HEADERS, OBJECT, LINE, UNREADABLE, *OF_THE_LOG)

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_TYPES = {
    **dict.fromkeys((CLUSTER, TOPIC, OBJECT, UNREADABLE), "string"),
    **dict.fromkeys((INCARNATION, PARTITION, LINE), "int"),
    **dict.fromkeys((TIMESTAMP, OFFSET), "bigint"),
    **dict.fromkeys((KEY_BYTES, VALUE_BYTES), "binary"),
    HEADERS: HEADERS_TYPE,
    **OF_THE_LOG,
}
DDL = ", ".join(f"{name} {_TYPES[name]}" for name in ENVELOPE)
"""The envelope as a schema, for what has no record."""


def total_order() -> list[Column]:
    """What rows are sorted by; a record without a timestamp has -1, as Kafka has it."""
    return [F.coalesce(F.col(TIMESTAMP), F.lit(-1).cast("long")), *(F.col(name) for name in POSITION)]


def order_struct() -> Column:
    """The total order as one comparable column."""
    return F.struct(
        *(part.alias(name.removeprefix("_")) for name, part in zip(TOTAL_ORDER, total_order(), strict=True))
    )


def shown_headers() -> Column:
    """The headers as the quarantine shows them, array<struct<key: string, value: string>>: a value that is no text is
    null."""

    def shown(header: Column) -> Column:
        return F.struct(header["key"].alias("key"), F.try_validate_utf8(header["value"].cast("string")).alias("value"))

    return F.transform(HEADERS, shown)


def not_shown() -> list[Column]:
    """The columns `OF_THE_LOG` for a source that does not show the log itself: null."""
    return [F.lit(None).cast(kind).alias(name) for name, kind in OF_THE_LOG.items()]
