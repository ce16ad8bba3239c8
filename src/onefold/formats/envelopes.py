"""Where a value has its row: at the top, or in an envelope (`onefold.dataset.envelopes`).

What is of CloudEvents alone is `onefold.formats.cloudevents`.

Debezium's forms are those of its connectors' documentation: a change has `op` c, u or r with the row in `after`, or d
with the key in `before`; `ExtractNewRecordState` puts the row at the top, next to `__op`, `__deleted`, ….
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from onefold.dataset.envelopes import MARKED, Attribute, Envelope
from onefold.dataset.names import Place
from onefold.formats.documents import document_of
from onefold.formats.text import Number, shown
from onefold.vocabulary import Reason


class NoRowError(Exception):
    """Why a value has no row of a table."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


AFTER, BEFORE = "after", "before"
OWN_NAMES = ("op", "ts_ms", "ts_us", "ts_ns")
"""What a change has next to `source`, which may have the same names."""
KINDS = ("c", "u", "r")
"""`op` of a change that has a row: create, update, read by a snapshot."""
_DELETE, _TRUNCATE, _MESSAGE = "d", "t", "m"
_WRAPPER = {"schema", "payload"}
_BORDER = {"status", "id", "event_count", "data_collections", "ts_ms"}
"""What the border of a transaction has."""


class Form(Enum):
    """How an envelope has the row."""

    PLAIN = auto()
    """It is the row."""
    CHANGE = auto()
    """In `after`; of a delete the key in `before`."""
    FLAT = auto()
    """At the top, next to names that begin with `__`."""
    NO_CHANGE = auto()
    """Not at all: it is a record of the connector's own."""
    EVENT = auto()
    """In `data`, next to attributes: an event in structured mode."""
    BINARY = auto()
    """It is the row of an event, which has its attributes in headers."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Where a value has its row and what an envelope says of it. `around`: the names that lead to all of it."""

    form: Form = Form.PLAIN
    around: Place = ()

    @property
    def may_have_schema(self) -> bool:
        """Whether the value may have a schema of Kafka Connect, next to what is around."""
        return bool(self.around) and self.form is not Form.EVENT

    def place(self, place: Place, *, in_delete: bool = False) -> Place:
        """Where a field is that the row has at a place."""
        row = () if self.form is not Form.CHANGE else (BEFORE,) if in_delete else (AFTER,)
        return (*self.around, *row, *place)

    def attribute_places(self, attribute: Attribute) -> list[Place]:
        """Where a part of the envelope may be."""
        if self.form is Form.CHANGE:
            return [(*self.around, *attribute)] if attribute != MARKED else []
        if self.form is Form.EVENT:
            return [attribute]
        if self.form in (Form.PLAIN, Form.BINARY):
            return []
        names = [f"__{'_'.join(attribute)}"]
        # add.fields: lsn, or source.lsn; of a name that the change itself has, __NAME is its own.
        if attribute[0] == "source" and len(attribute) > 1 and attribute[1] not in OWN_NAMES:
            names.append(f"__{'_'.join(attribute[1:])}")
        return [(*self.around, name) for name in names]


PLAIN, EVENT, BINARY = Shape(), Shape(Form.EVENT, ("data",)), Shape(Form.BINARY)


def shape_of(value: dict[str, Any], envelope: Envelope) -> Shape | None:
    """The shape of a value that is no event's; None: it is an envelope around null.

    Raises:
        NoRowError: it is no such envelope.
    """
    if envelope is Envelope.NONE:
        return PLAIN
    shape, inner = PLAIN, value
    if "payload" in value and _WRAPPER.issuperset(value):
        shape, inner = Shape(around=("payload",)), value["payload"]
        if inner is None:
            return None
        if not isinstance(inner, dict):
            raise NoRowError(Reason.WRONG_TYPE, "payload is no JSON object")
    if envelope is Envelope.CONNECT:
        return shape
    if "op" in inner and any(name in inner for name in (AFTER, BEFORE, "source")):
        return replace(shape, form=Form.CHANGE)
    if "__op" in inner or "__deleted" in inner:
        return replace(shape, form=Form.FLAT)
    return replace(shape, form=Form.NO_CHANGE)


def with_documents(value: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """A value whose row is a document in text (MongoDB) with that document; any other as it is.

    Raises:
        NoRowError: the text is no document.
    """
    if shape.form is not Form.CHANGE:
        return value
    inner = value["payload"] if shape.around else value
    image = BEFORE if inner["op"] == _DELETE else AFTER
    text = inner.get(image)
    if inner["op"] not in (*KINDS, _DELETE) or not isinstance(text, str) or isinstance(text, Number):
        return value
    try:
        opened = inner | {image: document_of(text)}
    except ValueError:
        raise NoRowError(Reason.UNDECODABLE, f"{image} is text and no document") from None
    return {**value, "payload": opened} if shape.around else opened


def check_change(inner: dict[str, Any], shape: Shape, *, by_mark: bool) -> bool:
    """Whether a change deletes its key.

    Args:
        inner: the value, within its wrapper.
        shape: its shape.
        by_mark: a flattened change has to say whether it deletes.

    Raises:
        NoRowError: it is no change of a row.
    """
    match shape.form:
        case Form.PLAIN | Form.EVENT | Form.BINARY:
            return False
        case Form.FLAT:
            mark = inner.get("__deleted")
            if mark is None and by_mark:
                raise NoRowError(
                    Reason.UNDECODABLE,
                    "the change is flattened and has no __deleted: set delete.tombstone.handling.mode=rewrite on the "
                    "connector, or say in apply.delete_when what deletes",
                )
            return inner.get("__op") == _DELETE or mark is True or (isinstance(mark, str) and mark.lower() == "true")
        case Form.NO_CHANGE:
            raise _no_change(inner)
    op = inner["op"]
    if op == _TRUNCATE:
        raise NoRowError(Reason.TRUNCATE, f"table {_table_of(inner)} was emptied")
    if op == _MESSAGE:
        raise NoRowError(Reason.SERVICE, "a logical message")
    if op != _DELETE and op not in KINDS:
        raise NoRowError(Reason.UNDECODABLE, f"op is no kind of change: {shown(str(op))}")
    if op != _DELETE and not isinstance(inner.get(AFTER), dict):
        what = f"after is no row in a change of op {op}"
        if "updateDescription" in inner:
            what += ": the connector sent what was updated alone; set capture.mode=change_streams_update_full on it"
        raise NoRowError(Reason.MISSING_FIELD, what)
    return bool(op == _DELETE)


def _no_change(inner: dict[str, Any]) -> NoRowError:
    if "source" in inner and ("ddl" in inner or "tableChanges" in inner):
        return NoRowError(Reason.SCHEMA_CHANGE, "a change of the database's schema")
    if inner.get("status") in ("BEGIN", "END") and {"status", "id"} <= inner.keys() <= _BORDER:
        return NoRowError(Reason.SERVICE, "a border of a transaction")
    if {"ts_ms"} == set(inner):
        return NoRowError(Reason.SERVICE, "a heartbeat")
    return NoRowError(Reason.UNDECODABLE, "the value is no change of Debezium's: it has neither op nor __op")


def _table_of(inner: dict[str, Any]) -> str:
    source = inner.get("source")
    names = [source.get(name) for name in ("schema", "table")] if isinstance(source, dict) else []
    return ".".join(shown(name) for name in names if isinstance(name, str)) or "(unknown)"


PLACEHOLDER = "__debezium_unavailable_value"
PLACEHOLDER_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
PLACEHOLDER_BYTES = (PLACEHOLDER.encode(), PLACEHOLDER_BASE64.encode())


def is_unavailable(value: Any) -> bool:
    """Whether a value is the placeholder of an unknown value: text, Base64, or a list or map of it."""
    if isinstance(value, list):
        return len(value) == 1 and is_unavailable(value[0])
    if isinstance(value, dict):
        return len(value) == 1 and PLACEHOLDER in value
    return isinstance(value, str) and value in (PLACEHOLDER, PLACEHOLDER_BASE64)
