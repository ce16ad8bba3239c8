"""What a dataset file says as a whole: its sections held against each other."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from onefold.dataset.base import not_built
from onefold.dataset.defaults import check_defaults
from onefold.dataset.envelopes import DELETED, ORDER_PARTS, ORDERS, POSITION, Envelope
from onefold.dataset.expressions import (
    CASTS,
    LOG_POSITIONS,
    OF_ENVELOPE,
    PERIODS,
    ROOTS,
    Call,
    Compare,
    Expression,
    Fallback,
    Junction,
    Member,
    Negation,
    NullTest,
    Path,
    calls,
    parse,
    parts,
    paths,
    paths_without,
    shorten,
    used,
)
from onefold.dataset.expressions import Literal as LiteralValue
from onefold.dataset.layouts import LAYOUTS
from onefold.dataset.names import two_meanings
from onefold.dataset.reserved_columns import is_own
from onefold.dataset.types import FieldType, number_type
from onefold.dataset.value_formats import VALUE_FORMATS, ValueFormat, of_messages, with_parts
from onefold.errors import nearest
from onefold.vocabulary import HoleKind, Level

if TYPE_CHECKING:
    from onefold.dataset.declaration import Declaration

_IDENTIFYING = (
    "identity.producer.name",
    "identity.producer.epoch",
    "identity.producer.sequence",
    "identity.message_id",
    "identity.business_key",
    "apply.key",
)

_TELLING = (*_IDENTIFYING[1:], "identity.within")
"""Places of what tells records apart; a topic may have one producer, whose name no record holds."""


def check_declaration(dataset: Declaration) -> None:
    """Refuse what no section is wrong about alone.

    Raises:
        ValueError: it begins with the key of the file.
    """
    for place, text in dataset.expressions():
        tells = place in _TELLING or (place == "identity.producer.name" and dataset.deciding is Level.PRODUCER)
        if tells and not any(paths(parse(text))):
            raise ValueError(
                f"{place}: {shorten(text)} is the same for every record; name what a record has, such as a field, a "
                "header or its key"
            )
    _check_where(dataset)
    check_defaults(dataset)
    for place, text in dataset.expressions():
        if meanings := two_meanings(text, dataset.fields):
            written, first, second = meanings
            said = f"{written!r} is a field, and what the log has of a record"
            raise ValueError(f"{place}: {shorten(text)}: {said}; write {first} (what it meant before) or {second}")
        for path in paths(parse(text)):
            _check_path(dataset, place, text, path)
    for place, text in dataset.expressions():
        for path in used(parse(text)):
            if (kind := dataset.type_of(path)) and kind.instead:
                raise ValueError(f"{place}: {shorten(text)}: {path.column} is a {kind.name}; {kind.instead}")
        if place in _IDENTIFYING and (kind := dataset.type_of(parse(text))) and kind.name == "double":
            raise ValueError(
                f"{place}: {shorten(text)} is a double: equal doubles are no identity; declare decimal(p,s)"
            )
    for name in dataset.keyed_fields:
        if (kind := dataset.fields[name]).is_base64:
            raise ValueError(
                f"value.fields.{name}: {kind} is read from values alone, and the Kafka key has this field, too: "
                f"declare {replace(kind, base64=False)}, and set decimal.handling.mode=string on the connector"
            )
    for place, text in dataset.expressions():
        _check_kinds(dataset, place, text)
    dataset.apply.check(dataset)
    _check_holes(dataset)
    _check_formats(dataset)
    _check_envelope(dataset)
    _check_periods(dataset)
    _check_limits(dataset)
    _check_compare(dataset)
    _check_key_columns(dataset)
    _check_column_names(dataset)
    _check_masks(dataset)


def _check_holes(dataset: Declaration) -> None:
    """Compaction removes records, and only where a newer version takes a row's place can they be missing."""
    if dataset.source.holes != HoleKind.COMPACTED or not dataset.apply.NEEDS_EVERY_RECORD:
        return
    others = [word for word in ("none", "transactional") if word not in LAYOUTS[dataset.source.layout].refused_holes]
    raise ValueError(
        f"source.exports.holes: compacted: {dataset.apply.words} needs every record, and "
        "compaction removes all but the newest of a key: what is missing would make rows wrong, and nothing would "
        f"show it. Only mode upsert with guard newer can do without these records. Write {' or '.join(others)}, by "
        "which a missing record is data loss, and read the topic before it is compacted"
    )


def _check_formats(dataset: Declaration) -> None:
    """A layout without the records' bytes has what its exporter made of them."""
    if LAYOUTS[dataset.source.layout].holds_bytes:
        return
    for section, given in (("key", dataset.key.format), ("value", dataset.value.format)):
        if given in of_messages():
            raise ValueError(
                f"{section}.format: {given}: layout {dataset.source.layout} holds what the exporter made of the "
                "records, and no messages; write json"
            )


def _check_where(dataset: Declaration) -> None:
    """A row is hidden by what it has: its fields and the columns of its key."""
    text = dataset.target.where
    if text is None:
        return
    if not dataset.apply.HIDES:
        raise ValueError(
            f"target.where: only mode upsert hides rows, for in mode {dataset.apply.title} no later record takes the "
            "place of a row. Say in source.filter which records belong to the dataset"
        )
    of_key = dict(zip(dataset.apply.key_parts, dataset.apply.key or (), strict=True))
    spellings = {next(iter(paths(tree))).column: part for tree, part in of_key.items() if any(paths(tree))}
    spellings |= {name: f"value.{name}" for name in dataset.fields}
    for path in paths_without(parse(text), of_key):
        name = path.name or path.root
        if path.root == "value" and name in dataset.fields:
            continue
        if path.root == "value" and name not in spellings:
            raise ValueError(f"target.where: {shorten(text)} reads {name}, which no row has{nearest(name, spellings)}")
        instead = f"; write {spellings[name]}" if name in spellings else nearest(name, spellings)
        if path.root == "value":
            raise ValueError(f"target.where: {shorten(text)} reads {name}, which is no field of value.fields{instead}")
        read = f"{path.root}.{path.name}" if path.name else path.root
        raise ValueError(
            f"target.where: {shorten(text)} reads {read}, which rows do not keep; it may read fields and parts of "
            f"apply.key{instead}"
        )


def _check_kinds(dataset: Declaration, place: str, text: str) -> None:
    """Refuses what Spark would refuse, or try to cast by itself, record by record."""
    tree, said = parse(text), f"{place}: {shorten(text)}"  # made once: a list may have thousands of literals
    conditions = [tree] if place in ("source.filter", "apply.delete_when", "target.where") else []
    for part in parts(tree):
        match part:
            case Compare(_, left, right):
                _check_pair(dataset, said, left, right)
            case Member(term, items):
                for item in items:
                    _check_pair(dataset, said, term, item)
            case Junction(_, terms):
                conditions += terms
            case Negation(term):
                conditions.append(term)
            case Call() | Fallback():
                _check_call(dataset, said, part)
            case _:
                pass
    for term in conditions:
        if (kind := _kind_of(dataset, term)).name != "boolean":
            raise ValueError(f"{said} takes a {kind} for a condition; compare it with something")


def _check_call(dataset: Declaration, said: str, call: Call | Fallback) -> None:
    if isinstance(call, Fallback):
        kinds = [_kind_of(dataset, term) for term in call.terms]
        if odd := next((kind for kind in kinds if _plain(kind) != _plain(kinds[0])), None):
            raise ValueError(f"{said}: coalesce takes values of one type, not {_plain(kinds[0])} and {_plain(odd)}")
        return
    kind = _kind_of(dataset, call.argument)
    if call.function in LOG_POSITIONS and kind.name != "string":
        raise ValueError(f"{said}: {call.function} reads text, and this is a {kind}")
    if call.function == "timestamp" and kind.name == "boolean":
        raise ValueError(f"{said}: a {kind} is no timestamp")


def _plain(kind: FieldType) -> str:
    return str(kind).removesuffix("?")


def _check_pair(dataset: Declaration, said: str, left: Expression, right: Expression) -> None:
    first, other = _kind_of(dataset, left), _kind_of(dataset, right)
    if first.family != other.family:
        wanted = other.name if first.name == "string" else first.name
        cast = wanted if wanted in CASTS else "double"
        raise ValueError(f"{said} compares a {first.name} with a {other.name}; cast one of them, such as {cast}(…)")
    if first.rounds(other):
        raise ValueError(
            f"{said} compares a {first} with a {other}, of which Spark would round one; cast with double(…)"
        )


def _check_periods(dataset: Declaration) -> None:
    for place, text in dataset.expressions():
        period = next((call.function for call in calls(parse(text)) if call.function in PERIODS), None)
        if period and place != "identity.within":
            raise ValueError(f"{place}: {shorten(text)}: {period} is a function of identity.within alone")
    if not dataset.within:
        return
    place, given = f"identity.within: {dataset.identity.within!r}", dataset.within
    kind = dataset.type_of(given.argument) if isinstance(given, Call) and given.function in PERIODS else None
    if not isinstance(given, Call) or not kind or kind.name not in ("date", "timestamp"):
        raise ValueError(f"{place}: it takes {', '.join(PERIODS)} of a date or a timestamp, such as day(booked_at)")
    if given.argument == Path("timestamp"):
        raise ValueError(f"{place}: the record's own timestamp changes when a message is sent again; name a field")


def _check_limits(dataset: Declaration) -> None:
    for name in ("max_held_age", "max_held"):
        if getattr(dataset.quality, name) is not None and not dataset.apply.HOLDS:
            raise ValueError(f"quality.{name}: only guard contiguous holds records")
    if dataset.quality.max_rejected_deletes is not None and not dataset.apply.DELETES:
        raise ValueError("quality.max_rejected_deletes: only mode upsert deletes")
    if dataset.quality.max_backwards_rate is not None and not (dataset.apply.version and dataset.source.exact):
        raise ValueError(
            "quality.max_backwards_rate: only versions (mode upsert) go backwards, and only in a source whose records "
            "carry their offsets"
        )
    if dataset.quality.max_filtered_newer is not None and not dataset.watches_filter:
        raise ValueError(
            "quality.max_filtered_newer: it counts in mode upsert where source.filter reads the value or the key"
        )


def _check_compare(dataset: Declaration) -> None:
    for name in sorted(dataset.excepted):
        if name not in dataset.fields:
            raise ValueError(f"apply.compare.except: value.fields has no {name}{nearest(name, dataset.fields)}")
        if place := dataset.bound_fields.get(name):
            raise ValueError(
                f"apply.compare.except: {name} is used by {place}, which decides what a record does: where it differs, "
                "two records differ. Leave it out of except"
            )


def _check_key_columns(dataset: Declaration) -> None:
    for name, _ in dataset.key_columns:
        if is_own(name):
            raise ValueError(
                f"apply.key: Onefold's tables have a column {name} of their own; key by a field or header that says "
                "the same"
            )
        if name in dataset.value.fields:
            raise ValueError(
                f"apply.key: value.fields has {name} too, and they would be one column; declare the field under "
                f"another name, such as value_{name}: {{type: …, from: {name}}}"
            )
    for name in dataset.keyed_fields:
        if dataset.fields[name].instead or dataset.fields[name].name == "double":
            raise ValueError(f"apply.key: {name} is a {dataset.fields[name]} and cannot be a part of the key, too")


def _check_column_names(dataset: Declaration) -> None:
    """Names that differ only in case, or not at all, would be one column."""
    seen: dict[str, str] = {}
    former = [name for some in dataset.value.renamed.values() for name in some]
    for name in (
        *dataset.value.fields,
        *former,
        *(name for name, _ in dataset.key_columns),
        *dataset.apply.made_columns(),
    ):
        if other := seen.get(name.lower()):
            place = dataset.apply.made_columns().get(name, "value.fields")
            raise ValueError(f"{place}: {other} and {name} would be one column of the table")
        seen[name.lower()] = name


def _check_masks(dataset: Declaration) -> None:
    columns = list(dict.fromkeys([*dataset.published_columns, *dataset.fields]))
    for name in dataset.mask:
        if name not in columns:
            raise ValueError(f"mask.{name}: there is no such column (there are {', '.join(columns)})")
    for place, text in dataset.expressions():
        if place in ("identity.producer.name", "identity.producer.epoch") and dataset.masks(parse(text)):
            raise ValueError(f"mask: {place} reads a masked column, and reports name producers")


def _kind_of(dataset: Declaration, expression: Expression) -> FieldType:
    """The type as which an expression is compared."""
    match expression:
        case Compare() | Junction() | Negation() | NullTest() | Member() | LiteralValue(bool()):
            return FieldType("boolean")
        case LiteralValue(text, number=True):
            return number_type(str(text))
        case Path("partition"):
            return FieldType("int")
        case _:
            return dataset.type_of(expression) or FieldType("string")


def _check_path(dataset: Declaration, place: str, text: str, path: Path) -> None:
    if path.root == "value" and path.name not in dataset.value.fields:
        known = ", ".join(dataset.value.fields)
        roots = f"; {path.name!r} is none of {', '.join(ROOTS)}" if path.inner else ""
        raise ValueError(f"{place}: {shorten(text)} names no field of value.fields (there are {known}){roots}")
    if path.root == "value" and dataset.fields[path.name].part(path.inner) is None:
        raise ValueError(f"{place}: {shorten(text)}: value.fields has no such part of {path.name}")
    if path.root == "key" and path.name and dataset.key.format not in with_parts():
        raise ValueError(f"{place}: {shorten(text)}: key.NAME needs key.format {', '.join(with_parts())}")
    if path.root == "key" and not VALUE_FORMATS[dataset.key.format].is_text:
        raise ValueError(f"{place}: {shorten(text)}: a key of {dataset.key.format} cannot be used in an expression")
    if path.root == "schema":
        _check_schema_name(dataset, place, text)
    if path.root in OF_ENVELOPE:
        _check_attribute(dataset, place, text, path)
    if path.root in ("offset", "timestamp") and not dataset.source.exact:
        raise ValueError(f"{place}: {shorten(text)}: layout {dataset.source.layout} carries no {path.root}")


def _check_envelope(dataset: Declaration) -> None:
    """CloudEvents are read as JSON. A change of a database is a version of a row, and a delete has no field but its
    key."""
    if dataset.value.envelope.in_headers and dataset.value.format != ValueFormat.JSON:
        raise not_built(
            f"value.envelope: {dataset.value.envelope} with value.format: {dataset.value.format} (with json it is)"
        )
    if not dataset.value.envelope.has_changes:
        return
    if not dataset.apply.DELETES:
        raise ValueError(
            f"value.envelope: debezium: its changes update and delete rows, which {dataset.apply.words} does not; "
            "write apply.mode: upsert"
        )
    version = dataset.apply.version
    if version and version.by_connector and ORDERS in dataset.value.fields:
        raise ValueError(
            f"apply.version.from: {ORDERS} is the position of the connector, and value.fields has a field of this name"
        )
    if not dataset.deletes_by_envelope or version is None:
        return
    for place, text in version.expressions:
        if any(path.root == "value" for path in paths(parse(text))):
            raise ValueError(
                f"apply.version.{place}: {shorten(text)}: a delete of value.envelope: debezium has no field but its "
                "key; write offset"
            )


def _check_attribute(dataset: Declaration, place: str, text: str, path: Path) -> None:
    envelope = dataset.value.envelope
    if path.root not in envelope.roots:
        names = " or ".join(other for other in Envelope if path.root in other.roots)
        raise ValueError(f"{place}: {shorten(text)}: {path.root}.{path.name} needs value.envelope: {names}")
    if envelope is Envelope.CLOUDEVENTS:
        _check_event_attribute(place, text, path)
    if path in ORDER_PARTS and dataset.apply.version and dataset.apply.version.by_connector:
        return
    if path.root == POSITION.root and path != POSITION:
        raise ValueError(f"{place}: {shorten(text)}: debezium has no {path.name}; write debezium.position")
    if path == POSITION and len(dataset.identity.message_parts) > 1:
        raise ValueError(f"{place}: debezium.position is the whole id of a change; write message_id: debezium.position")
    if path == POSITION and place != "identity.message_id":
        raise ValueError(f"{place}: {shorten(text)}: debezium.position names a message: it is an identity.message_id")
    if path == DELETED and place not in ("source.filter", "apply.delete_when"):
        raise ValueError(f"{place}: {shorten(text)}: envelope.deleted belongs to source.filter and apply.delete_when")


def _check_event_attribute(place: str, text: str, path: Path) -> None:
    name = ".".join((path.name, *path.inner))
    if path == DELETED:
        raise ValueError(
            f"{place}: {shorten(text)}: no CloudEvent is marked as a delete; write by what it deletes, such as "
            "delete_when: \"envelope.type = 'order.deleted'\""
        )
    if path.name == "data":
        raise ValueError(f"{place}: {shorten(text)}: the data of an event is the row; write the name of its field")
    if not re.fullmatch(r"[a-z0-9]+", name):
        raise ValueError(
            f"{place}: {shorten(text)}: {name} is no attribute of a CloudEvent: their names are small letters and "
            "digits"
        )


def _check_schema_name(dataset: Declaration, place: str, text: str) -> None:
    if dataset.value.registry is None:
        raise ValueError(f"{place}: {shorten(text)}: schema.name is the name of a schema, which needs value.registry")
    if place not in ("source.filter", "apply.delete_when"):
        raise ValueError(
            f"{place}: {shorten(text)}: schema.name may be read by source.filter and apply.delete_when only: a schema "
            "with another name may have the same fields"
        )
