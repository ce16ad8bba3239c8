"""Envelopes: what lies around the row in a value, and what expressions may ask of it.

`connect` is `{schema, payload}` of Kafka Connect's JsonConverter. `debezium` is a change of a row in a database: the
full form with `before`, `after`, `source` and `op`, or the form that `ExtractNewRecordState` makes of it, with the row
at the top next to `__op`, `__deleted`, …; both also as the payload of `connect`. `cloudevents` is an event with its row
in `data`, or with its attributes in headers and the row as the value (`onefold.formats.cloudevents`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from onefold.dataset.expressions import OF_ENVELOPE, Expression, Path, paths

Attribute = tuple[str, ...]
"""A part of an envelope, by the names that lead to it: `("source", "table")`."""


class Envelope(StrEnum):
    """An envelope that `value.envelope` names."""

    NONE = "none"
    CONNECT = "connect"
    DEBEZIUM = "debezium"
    CLOUDEVENTS = "cloudevents"

    @property
    def roots(self) -> tuple[str, ...]:
        """The words by which expressions may ask for its parts."""
        return {Envelope.DEBEZIUM: OF_ENVELOPE, Envelope.CLOUDEVENTS: ("envelope",)}.get(self, ())

    @property
    def has_changes(self) -> bool:
        """Whether it says of each record what happens to the row, and so what deletes."""
        return self is Envelope.DEBEZIUM

    @property
    def is_wrapped(self) -> bool:
        """Whether keys and values may be in Connect's `{schema, payload}`."""
        return self in (Envelope.CONNECT, Envelope.DEBEZIUM)

    @property
    def in_headers(self) -> bool:
        """Whether its parts may be in headers, so that a null value may have them, too."""
        return self is Envelope.CLOUDEVENTS

    @property
    def deletes(self) -> str | None:
        """What says that a record deletes, where the file says nothing."""
        return "envelope.deleted" if self.has_changes else None


def roots_of(given: Any) -> tuple[str, ...]:
    """The words by which expressions may ask for parts of an envelope, which a file may name wrongly."""
    return next((envelope.roots for envelope in Envelope if envelope == given), ())


DELETED = Path("envelope", "deleted")
"""Whether a change is a delete: `op` d, or `__deleted` true."""
POSITION = Path("debezium", "position")
"""Where the connector read a change, as one text: with the key it names the change."""
OP, MARKED = ("op",), ("deleted",)
"""The kind of a change; and in the flattened form whether it is marked as a delete."""
PLACES: tuple[Attribute, ...] = tuple(
    ("source", name)
    for name in (
        *("sequence", "lsn", "gtid", "file", "pos", "row"),
        *("commit_lsn", "change_lsn", "event_serial_no", "commit_scn", "scn", "ssn", "ord"),
    )
)
"""Where connectors have the position of a change (each some of these)."""
ORDERS = "debezium"
"""As `apply.version.from`: the connector's position, which orders the changes of a key."""
ORDER_PARTS = tuple(Path("debezium", name) for name in ("major", "minor", "step", "source"))
"""The position as numbers, the weightiest first (`onefold.values.connector_positions`). `source` tells which kind of
database it is of, and which server."""
_ORDERED_BY: tuple[Attribute, ...] = (("source", "server_id"), ("source", "ts_ms"), OP, *PLACES)
POSITION_PARTS: tuple[Attribute, ...] = (("source", "name"), OP, ("source", "ts_ms"), *PLACES)
"""What tells the changes of a key apart. A change that a connector sends again is equal in all of it."""


def attributes_of(expressions: Iterable[Expression]) -> list[Attribute]:
    """What is read of an envelope so that expressions can be answered, in an order that depends on nothing else."""
    found: set[Attribute] = set()
    for path in (path for expression in expressions for path in paths(expression)):
        if path == DELETED:
            found |= {OP, MARKED}
        elif path == POSITION:
            found |= {*POSITION_PARTS}
        elif path in ORDER_PARTS:
            found |= {*_ORDERED_BY}
        elif path.root == "envelope":
            found.add((path.name, *path.inner))
    return sorted(found)
