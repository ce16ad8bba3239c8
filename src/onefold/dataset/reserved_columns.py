"""The columns that Onefold's tables, and the steps between them, have next to those of a dataset.

The rooms that work on rows name theirs; they know this room, and it does not know them. A test holds this list against
every name in them.
"""

from __future__ import annotations

MESSAGE_LEDGER = 1
"""How the ledger of messages is laid out: part of the generations that have one, and of no other."""
LAYOUT = 2
"""How Onefold's tables are laid out. It is part of every generation: where it is another, a table is rebuilt."""

_NAMES = """
_action _again _ahead _apart _beaten _becomes _before _begins _behind _business_key _cluster _compared
_content _contested _copy _covered _delivered _detail _differs _earlier _end _entries _envelope _fate _filtered
_filtered_key _finding _first _first_sent _hash _hash_after _hash_before _head _headers _identity _in_run _incarnation
_is_base _is_delete _is_hidden _judged _key _key_bytes _key_decoded _key_text _key_variant _late _left_out
_left_unread _level _line _linked _log _lowered _message _message_id _name _named _new_order _null_key _null_within
_number _object _of_batch _offset _order _other _partition _placeless _producer _producer_epoch _producer_id
_quarantine _raw_headers _raw_key _raw_value _readable_key _reason _rejected _repeats _resent _rows _said _schema_name
_scope _sequence _slot _start _starts _state _survivor _taken _tied _timestamp _tombstone _top _topic _true_timestamp
_unreadable _value_bytes _value_read _verdict _verdict_of_batch _version _winner _within _witness _won _wrong
"""
OWN = frozenset(_NAMES.split())
STRUCTS = ("_finding", "_order", "_other", "_producer", "_version", "_winner", "_witness")
"""Structs that lie flat in tables, a column a part (`onefold.spark.flat_structs`)."""
PREFIXES = (
    "_base_",
    "_chain_",
    "_fact_",
    "_forget_",
    "_move_",
    "_new_",
    "_range_",
    "_reused_",
    *(f"{name}_" for name in STRUCTS),
)
"""Beginnings of names that are Onefold's own; those of structs are of their parts."""
ICEBERG = frozenset({"_deleted", "_file", "_last_updated_sequence_number", "_pos", "_row_id", "_spec_id"})
"""Metadata columns: Iceberg makes no table that has such a column (`_partition` is another)."""

_ORDER = ("timestamp", "cluster", "topic", "incarnation", "partition", "offset")
FLAT_ORDER = {part: f"_order_{part}" for part in _ORDER}
"""The total order as the state table has it, a column a part (elsewhere the struct `_order`): its columns by the
parts."""


def is_own(name: str) -> bool:
    """Whether tables have such a column of their own. To Spark capital letters are small letters."""
    return (low := name.lower()) in OWN | ICEBERG or low.startswith(PREFIXES)
