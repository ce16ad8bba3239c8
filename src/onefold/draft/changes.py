"""Changes of a database, as Debezium sends them, and values in Connect's `{schema, payload}`: the rows in a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from onefold.dataset.envelopes import PLACES, Envelope
from onefold.dataset.types import FieldType, parse_type
from onefold.draft.languages.connect_names import TYPES
from onefold.draft.message import Message
from onefold.draft.schema_fields import SchemaField
from onefold.formats.connect_decimals import DECIMAL, PRECISION, scale_of, with_decimals
from onefold.formats.envelopes import AFTER, Form, NoRowError, Shape, check_change, shape_of, with_documents
from onefold.vocabulary import Reason

T = TypeVar("T")
_MOST_DIGITS = 38
_OF_CONNECT = {
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    "int64": "long",
    "float": "double",
    "float32": "double",
    "float64": "double",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}
"""Field types by Connect's types."""
_OF_SIGNALS = {"id", "type", "data"}
_SIGNALS = (
    "execute-snapshot",
    "stop-snapshot",
    "pause-snapshot",
    "resume-snapshot",
    "snapshot-window-open",
    "snapshot-window-close",
    "schema-changes",
    "log",
)
"""What the rows of a signal table say; the connector writes some of them itself.
Source: https://debezium.io/documentation/reference/stable/configuration/signalling.html"""


@dataclass(frozen=True, slots=True)
class Changes:
    """What the envelopes of a sample say."""

    envelope: Envelope
    flattened: bool
    tables: Counter[str]
    """Changes by table, where they name it."""
    controls: Counter[Reason]
    """Records that are no change of a row, by reason."""
    deletes: int
    has_positions: bool
    """Whether the changes say where the connector read them."""
    types: Mapping[str, SchemaField]
    """Fields by name, as the converter's schema next to the values has them."""

    @property
    def place(self) -> tuple[str, ...]:
        """Where the row is in a value, by the names that lead there."""
        return (AFTER,) if self.envelope is Envelope.DEBEZIUM and not self.flattened else ()


def open_envelopes(messages: Sequence[Message]) -> tuple[list[Message], Changes] | None:
    """The messages with their rows in place of their envelopes, without deletes and what is no change; None: most
    values are in no envelope."""
    found = [message for message in messages if message.value is not None]
    shapes = [_shape(message.value, Envelope.DEBEZIUM) for message in found]
    if 2 * sum(shape is not None and shape.form is not Form.NO_CHANGE for shape in shapes) > len(found):
        return _changes(messages)
    if 2 * sum(_is_wrapped(message.value) for message in found) > len(found):
        rows = [_unwrapped(message) for message in messages]
        types = _types([message.value for message in found if message.value is not None], Form.PLAIN)
        return rows, Changes(Envelope.CONNECT, False, Counter(), Counter(), 0, False, types)
    return None


def are_service_records(values: Sequence[dict[str, Any]]) -> bool:
    """Whether most values are records of a connector's own: heartbeats, borders of transactions, schema changes."""
    return 2 * sum(_control(value) is not None for value in values) > len(values)


def are_signals(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether most rows are those of a signal table, by which people give a connector commands."""
    named = [{name.lower(): part for name, part in row.items()} for row in rows]
    return 2 * sum(row.keys() == _OF_SIGNALS and row["type"] in _SIGNALS for row in named) > len(rows)


def _control(value: dict[str, Any]) -> Reason | None:
    shape = _shape(value, Envelope.DEBEZIUM)
    if shape is None or shape.form is not Form.NO_CHANGE:
        return None
    try:
        check_change(_inner(value, shape), shape, by_mark=False)
    except NoRowError as error:
        return None if error.reason is Reason.UNDECODABLE else error.reason
    return None


def _changes(messages: Sequence[Message]) -> tuple[list[Message], Changes]:
    rows, tables, controls, deletes, flattened, placed = [], Counter[str](), Counter[Reason](), 0, 0, 0
    for message in messages:
        shape = _shape(message.value, Envelope.DEBEZIUM) if message.value is not None else None
        if message.value is None or shape is None:  # a tombstone
            continue
        try:
            inner = _inner(with_documents(message.value, shape), shape)
        except NoRowError as error:
            controls[error.reason] += 1
            continue
        if table := _table(inner, shape):
            tables[table] += 1
        try:
            is_delete = check_change(inner, shape, by_mark=False)
        except NoRowError as error:
            controls[error.reason] += 1
            continue
        if is_delete:
            deletes += 1
            continue
        placed += _has_position(message.value, shape)
        flattened += shape.form is Form.FLAT
        row = inner[AFTER] if shape.form is Form.CHANGE else without_marks(inner)
        rows.append(replace(_unwrapped_key(message), value=row))
    form = Form.FLAT if 2 * flattened > len(rows) else Form.CHANGE
    types = _types([message.value for message in messages if message.value is not None], form)
    has_positions = 2 * placed > len(rows)
    return rows, Changes(Envelope.DEBEZIUM, form is Form.FLAT, tables, controls, deletes, has_positions, types)


def _has_position(value: dict[str, Any], shape: Shape) -> bool:
    return any(_at(value, place) is not None for part in PLACES for place in shape.attribute_places(part))


def _at(value: Any, place: Sequence[str]) -> Any:
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shape(value: Any, envelope: Envelope) -> Shape | None:
    try:
        return shape_of(value, envelope)
    except NoRowError:
        return None


def _inner(value: dict[str, Any], shape: Shape) -> dict[str, Any]:
    inner: dict[str, Any] = value["payload"] if shape.around else value
    return inner


def _is_wrapped(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"schema", "payload"}


def _unwrapped(message: Message) -> Message:
    payload = message.value
    if payload is not None and _is_wrapped(payload):
        payload = with_decimals(payload["payload"], payload["schema"])
    return replace(_unwrapped_key(message), value=payload if isinstance(payload, dict) else None)


def _unwrapped_key(message: Message) -> Message:
    return replace(message, key=message.key["payload"]) if _is_wrapped(message.key) else message


def without_marks(row: Mapping[str, T]) -> dict[str, T]:
    """What a flattened change has besides the marks of its envelope."""
    return {name: value for name, value in row.items() if not name.startswith("__")}


def _table(inner: dict[str, Any], shape: Shape) -> str | None:
    source = inner.get("source") if shape.form is Form.CHANGE else None
    table = source.get("table") if isinstance(source, dict) else inner.get("__source_table", inner.get("__table"))
    return table if isinstance(table, str) else None


def _types(values: Sequence[dict[str, Any]], form: Form) -> dict[str, SchemaField]:
    """Fields by the schemas next to values; the values have to tell the type that two schemas have otherwise."""
    found: dict[str, set[FieldType | None]] = {}
    for schema in [value["schema"] for value in values if _is_wrapped(value)]:
        for field in _fields_of_row(schema, form):
            found.setdefault(str(field.get("field")), set()).add(_type(field))
    alike = {name: next(iter(kinds)) if len(kinds) == 1 else None for name, kinds in found.items()}
    return {name: SchemaField(name, kind, note="the converter's schema") for name, kind in alike.items()}


def _fields_of_row(schema: Any, form: Form) -> list[dict[str, Any]]:
    def fields(of: Any) -> list[dict[str, Any]]:
        members = of.get("fields") if isinstance(of, dict) else None
        return [member for member in members if isinstance(member, dict)] if isinstance(members, list) else []

    if form is Form.CHANGE:
        return next((fields(member) for member in fields(schema) if member.get("field") == AFTER), [])
    return [member for member in fields(schema) if not str(member.get("field")).startswith("__")]


def _type(field: Mapping[str, Any]) -> FieldType | None:
    """None: the sample's values have to tell."""
    name = field.get("name")
    if name == DECIMAL:
        return _decimal(field)
    kind = TYPES.get(str(name)) or _OF_CONNECT.get(str(field.get("type")))
    return None if kind is None else replace(parse_type(kind), nullable=bool(field.get("optional")))


def _decimal(field: Mapping[str, Any]) -> FieldType | None:
    """None: no type has so many digits, or the schema has no scale."""
    scale, parameters = scale_of(field), field.get("parameters")
    if scale is None:
        return None
    given = str(parameters.get(PRECISION)) if isinstance(parameters, Mapping) else ""
    precision = int(given) if given.isdecimal() else _MOST_DIGITS
    precision, scale = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    if precision > _MOST_DIGITS:
        return None
    return FieldType("decimal", bool(field.get("optional")), precision=precision, scale=scale)
