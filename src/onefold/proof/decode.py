"""Landed records decoded a second time, by Python's JSON in place of Spark's.

A proof that read them as the run did would be wrong where the run is.

What the dataset's expressions say (filter, deletes, key and version) is compiled as in a run; what they read is not.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold.dataset import Dataset
from onefold.dataset.expressions import parse, paths
from onefold.dataset.names import Place
from onefold.dataset.types import FieldType
from onefold.dataset.value_formats import VALUE_FORMATS, ValueFormat
from onefold.dataset.writer_schema import WriterSchema
from onefold.formats import registered_protobuf
from onefold.formats.arrow_types import arrow_type
from onefold.formats.structured_json import FormatError
from onefold.formats.text import BOM, MOST_BYTES, Number, json_text, nests_too_deep, parse_exactly
from onefold.formats.wire import MessagePlace
from onefold.proof import avro, protobuf
from onefold.proof.cloudevents import event_opener
from onefold.proof.connect_decimals import schema_of, with_all_numbers, with_numbers
from onefold.proof.envelopes import NOTHING, Change, is_placeholder, opener
from onefold.proof.registered import Headers, name_of, reader
from onefold.proof.registered import ReadBy as BySchema
from onefold.records import envelope as E
from onefold.spark.python_tasks import map_in_python
from onefold.values.decode import (
    DELETED,
    FILTERED,
    LEFT_OUT,
    REJECTED,
    TOMBSTONE,
    deletes_of,
    filtered_of,
    is_undeclared_delete,
    left_unread,
    uses_key,
    uses_schema_name,
)
from onefold.values.expressions import unreadable_header
from onefold.values.format import ENVELOPE, KEY_TEXT, KEY_VARIANT, LEFT_UNREAD, SCHEMA_NAME
from onefold.values.rejection import rejected
from onefold.vocabulary import Reason

_FAULTS, _NAMED = "_wrong", "_named"
"""While records are decoded: the names of what cannot be used, and the key's JSON."""
_VALUE, _UNKNOWN, _KEY, _UNLIKE, _LEFT_OUT = "(value)", "(unknown)", "(key)", "({} of the key)", "({} is absent)"
"""Among the faults: the value as a whole; a name that the file does not know; the key; a field that is not what the key
says, or of which the key has no value of its type; a field that a value must have and has not."""
_NULL_WITHIN, _NO_ATTRIBUTE = "_null_within", "none"
"""Whether a value is an envelope around null; what an envelope has of which nothing is asked."""
_ABSENT: Any = ...
"""What is not there; in every process the same."""
Read = Callable[[bytes], Any]
"""Bytes to what they say; `_ABSENT` where they cannot be read."""
Compiled = Mapping[str, registered_protobuf.Described]
"""Protobuf schemas of a registry as descriptors, by id."""
ReadBy = Callable[[Headers], Read]
"""A record's headers, which may name its schema, to what reads it."""
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")
_NUMBER = re.compile(r"(-?)(\d++)(?:\.(\d++))?+(?:[eE]([+-]?\d{1,3}))?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}|\d{6}0{1,3}))?)?(?:(Z)|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_PER_SECOND = {"seconds": 1, "millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_UNSCALED = 500
"""Bytes of a decimal in Base64."""
_MOST_DIGITS = 38
_RANGES = {"int": 1 << 31, "long": 1 << 63}
_DECODERS = {ValueFormat.AVRO: avro.decoder, ValueFormat.PROTOBUF: protobuf.decoder}
"""What reads messages by the text of a schema and the declared fields; ValueError: they are none."""
_ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(32)}
_ESCAPES |= {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
"""How the letters are written that a JSON string cannot have."""
_FURTHEST = 18 * 60
"""The largest offset from UTC, in minutes, that a time may have."""


class WrongError(Exception):
    """A value is not of its declared type."""


class LeftOutError(WrongError):
    """A required part of a value is absent."""


def decode_again(records: DataFrame, dataset: Dataset, forgiven: Collection[str] = ()) -> DataFrame:
    """What `onefold.values.decode.decode` adds to the envelope. A rejected record says only that it is one."""
    made = {name: T.DataType.fromDDL(kind.sql) for name, kind in dataset.fields.items()}
    made |= {_FAULTS: T.ArrayType(T.StringType()), _NAMED: T.StringType(), KEY_TEXT: T.StringType()}
    made |= {SCHEMA_NAME: T.StringType(), _NULL_WITHIN: T.BooleanType()}
    attributes = [".".join(name) for name in dataset.envelope_attributes] or [_NO_ATTRIBUTE]
    made[ENVELOPE] = T.StructType([T.StructField(name, T.StringType()) for name in attributes])
    fields = [*records.schema.fields, *(T.StructField(name, kind) for name, kind in made.items())]
    read = map_in_python(records, _reader(dataset), T.StructType(fields))
    decoded = (
        read.withColumn(LEFT_UNREAD, left_unread(dataset))
        .withColumns(
            {
                TOMBSTONE: F.col(E.VALUE_BYTES).isNull() | F.col(_NULL_WITHIN),
                KEY_VARIANT: F.try_parse_json(F.col(_NAMED)),
            }
        )
        .withColumns({DELETED: deletes_of(dataset).value, FILTERED: filtered_of(dataset).value})
    )
    if dataset.watches_filter:
        of_null = F.col(TOMBSTONE) & F.lit(dataset.apply.delete_when == "never")
        decoded = decoded.withColumn(LEFT_OUT, F.col(FILTERED) & ~of_null & ~F.col(LEFT_UNREAD))
    return decoded.withColumn(REJECTED, _rejection(dataset, forgiven)).drop(
        _FAULTS, _NAMED, _NULL_WITHIN, SCHEMA_NAME, LEFT_UNREAD
    )


def _rejection(dataset: Dataset, forgiven: Collection[str]) -> Column:
    """As a run judges, in fewer words: what is filtered and rejected is neither used."""
    asked = [(place, path) for place, text in dataset.expressions() for path in paths(parse(text))]
    of_filter = [path.name for place, path in asked if place == "source.filter" and path.root == "value"]
    headers = [unreadable_header(path.name) for _, path in asked if path.root == "header"]
    faults = F.col(_FAULTS)

    def any_of(names: Iterable[str]) -> Column:
        return F.arrays_overlap(faults, F.array(*map(F.lit, names)).cast("array<string>"))

    judged = [name for name in dataset.fields if name not in forgiven]
    rest = any_of([_UNKNOWN, *judged, *map(_LEFT_OUT.format, judged)])
    left_out = ~F.col(DELETED) & any_of(map(_LEFT_OUT.format, of_filter))
    unlike_key = any_of(map(_UNLIKE.format, dataset.keyed_fields))
    wanted = deletes_of(dataset).failed | is_undeclared_delete(dataset) | unlike_key | (~F.col(DELETED) & rest)
    wrong = [
        F.col(E.UNREADABLE).isNotNull(),
        F.lit(uses_key(dataset)) & any_of([_KEY]),
        *(header.isNotNull() for header in headers),
        filtered_of(dataset).failed,
        F.when(F.col(TOMBSTONE), ~F.col(DELETED))
        .when(F.col(LEFT_UNREAD), False)
        .otherwise(any_of([_VALUE, *of_filter]) | left_out | (~F.col(FILTERED) & wanted)),
    ]
    is_wrong = F.coalesce(
        reduce(Column.__or__, (F.coalesce(condition, F.lit(False)) for condition in wrong)), F.lit(False)
    )
    return F.when(F.col(E.FATE).isNull() & is_wrong, rejected(Reason.UNDECODABLE, "decoded again, it cannot be used"))


def _reader(dataset: Dataset) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    keyed = {name: (tree.name, *tree.inner) for name, tree in dataset.keyed_fields.items()}
    fields = {name: replace(kind, nullable=True) if name in keyed else kind for name, kind in dataset.fields.items()}
    places, of_key, opened_by = dataset.read_places, dataset.key.format, _opened_by(dataset)
    attributes = [".".join(name) for name in dataset.envelope_attributes] or [_NO_ATTRIBUTE]
    wrapped, reads_headers = dataset.value.envelope.is_wrapped, dataset.value.envelope.in_headers or dataset.registries
    compiled = {section: _compiled(dataset, section) for section in ("key", "value")}
    known = frozenset(dataset.read_fields) if dataset.value.schema_changes == "quarantine" else None
    types = {name: arrow_type(kind) for name, kind in fields.items()}

    def decoded(
        key: bytes | None, value: bytes | None, read_key: Read, read_value: Read, named: Headers
    ) -> tuple[dict[str, Any], list[str], str | None, str | None, Change]:
        key_parts, text, readable = _key_of(key, of_key, read_key, wrapped=wrapped)
        open_value, of_null = opened_by(named)
        row, faults, change = fields_of(value, fields, places, known, read_value, dataset.defaults, open_value, of_null)
        faults += [] if readable else [_KEY]
        for name, names in keyed.items():
            given, from_key = row.get(name), _scalar_text(_at(key_parts, names)) if names[0] else text
            try:
                row[name] = None if from_key is None else _of_text(from_key, fields[name])
                unlike = given is not None and from_key is not None and given != row[name]
            except WrongError:
                row[name], unlike = None, True
            faults += [_UNLIKE.format(name)] if unlike else []
        return row, faults, None if key_parts is _ABSENT else json_text(key_parts), text, change

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        key_by = _read_by(dataset, "key", {}, compiled["key"])
        value_by = _read_by(dataset, "value", dataset.read_fields, compiled["value"])
        schema_name = name_of(dataset, compiled["value"]) if uses_schema_name(dataset) else None
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            keys, values = (columns[name].to_pylist() for name in (E.KEY_BYTES, E.VALUE_BYTES))
            headers = columns[E.HEADERS].to_pylist() if reads_headers else [None] * len(keys)
            rows = [
                decoded(key, value, key_by(named), value_by(named), named)
                for key, value, named in zip(keys, values, headers, strict=True)
            ]
            names = [
                schema_name(value, named) if schema_name and value is not None else None
                for value, named in zip(values, headers, strict=True)
            ]
            columns |= {name: pa.array([row[0].get(name) for row in rows], kind) for name, kind in types.items()}
            columns[_FAULTS] = pa.array([row[1] for row in rows], pa.list_(pa.string()))
            columns[_NAMED] = pa.array([row[2] for row in rows], pa.string())
            columns[KEY_TEXT] = pa.array([row[3] for row in rows], pa.string())
            columns[SCHEMA_NAME] = pa.array(names, pa.string())
            columns[_NULL_WITHIN] = pa.array([row[4].is_null for row in rows], pa.bool_())
            said = [{name: _said(row[4].attributes.get(name)) for name in attributes} for row in rows]
            columns[ENVELOPE] = pa.array(said, pa.struct([(name, pa.string()) for name in attributes]))
            yield pa.RecordBatch.from_pydict(columns)

    return read


def _opened_by(dataset: Dataset) -> Callable[[Headers], tuple[Callable[[Any], Change], Change]]:
    """What gives, by the headers of a record, what opens its value, and what a null value says."""
    if dataset.value.envelope.in_headers:
        return event_opener(_json_of)
    open_value = opener(dataset)
    return lambda _: (open_value, NOTHING)


# The key and the value, as JSON.


def _json_of(data: bytes) -> Any:
    """The JSON value of some bytes, its numbers as they are written; `_ABSENT` where they are none."""
    try:
        text = data.decode().removeprefix(BOM)
        return _ABSENT if nests_too_deep(text) else parse_exactly(text)
    except ValueError:  # UnicodeDecodeError is one
        return _ABSENT


def _compiled(dataset: Dataset, section: str) -> Compiled:
    """The Protobuf schemas of a registry that messages of a section may name, by id."""
    given = dataset.key.format if section == "key" else dataset.value.format
    schemas = dataset.writer_schemas.get(section, {}) if given == ValueFormat.PROTOBUF else {}
    return registered_protobuf.described(schemas)


def _read_by(dataset: Dataset, section: str, fields: Mapping[str, FieldType], compiled: Compiled) -> ReadBy:
    """What gives the reader of a key or a value that is not text: as JSON, or by the schema of a file, or each by the
    schema that it names."""
    given = dataset.key.format if section == "key" else dataset.value.format
    if given == ValueFormat.JSON_SCHEMA:
        by_name = reader(dataset, section, lambda *_, **__: _json_of, _json_of)
    elif section in dataset.registries:
        by_name = reader(dataset, section, _BY_REGISTRY[ValueFormat(given)](fields, compiled))
    elif section in dataset.schemas and given in _DECODERS:
        decode = _DECODERS[ValueFormat(given)](dataset.schemas[section], fields)
        return lambda _: partial(_read_or_absent, decode)
    else:
        return lambda _: _json_of
    return lambda headers: partial(_read_or_absent, lambda data: by_name(data, headers))


def _avro_by(fields: Mapping[str, FieldType], compiled: Compiled) -> BySchema:
    del compiled

    def read_by(name: str, schema: WriterSchema, place: MessagePlace) -> Read:
        del name, place
        try:
            return avro.decoder(schema.text, fields, [part.text for part in schema.references])
        except Exception as error:  # what a broken schema raises is not settled
            raise ValueError(str(error)) from error

    return read_by


def _protobuf_by(fields: Mapping[str, FieldType], compiled: Compiled) -> BySchema:
    def read_by(name: str, schema: WriterSchema, place: MessagePlace) -> Read:
        del schema
        try:
            return protobuf.decoder(registered_protobuf.text_of(compiled[name], place), fields)
        except FormatError as error:
            raise ValueError(str(error)) from error

    return read_by


_BY_REGISTRY: dict[ValueFormat, Callable[[Mapping[str, FieldType], Compiled], BySchema]] = {
    ValueFormat.AVRO: _avro_by,
    ValueFormat.PROTOBUF: _protobuf_by,
}


def _read_or_absent(decode: Read, data: bytes) -> Any:
    try:
        return decode(data)
    except (ValueError, zlib.error):
        return _ABSENT


def _key_of(data: bytes | None, key_format: str, read: Read, *, wrapped: bool) -> tuple[Any, str | None, bool]:
    """The parsed JSON key, the key as text, and whether it can be read."""
    if data is None:
        return _ABSENT, None, True
    if not VALUE_FORMATS[ValueFormat(key_format)].has_parts:
        try:
            return _ABSENT, data.decode(), True
        except UnicodeDecodeError:
            return _ABSENT, None, False
    found = read(data)
    if found is _ABSENT or _is_cut(found):
        return _ABSENT, None, False
    if wrapped and isinstance(found, dict) and set(found) in ({"payload"}, {"schema", "payload"}):
        found = with_all_numbers(found["payload"], found.get("schema"))
    return found, _scalar_text(found), True


def _scalar_text(value: Any) -> str | None:
    """The text of a JSON string or of a number without an exponent."""
    if isinstance(value, Number):
        digits = sum(map(str.isdigit, _plain(value)))
        return None if "e" in value.lower() or digits > _MOST_DIGITS else _plain(value)
    return value if isinstance(value, str) else None


def _plain(number: str) -> str:
    """A number without zeros at the end of its decimals."""
    short = number.rstrip("0").rstrip(".") if "." in number else number
    return "0" if short == "-0" else short


def _is_cut(value: Any) -> bool:
    """Whether a text of it has half of a surrogate pair."""
    match value:
        case str():
            return any("\ud800" <= letter <= "\udfff" for letter in value)
        case dict():
            return any(map(_is_cut, value.values()))
        case list():
            return any(map(_is_cut, value))
        case _:
            return False


def _said(value: Any) -> str | None:
    """What an envelope says, as text."""
    if isinstance(value, bool):
        return str(value).lower()
    text = _scalar_text(value)
    return None if text is None or _is_cut(text) else text


def _at(value: Any, names: Iterable[str]) -> Any:
    """What lies below an object; `_ABSENT` where there is nothing."""
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return _ABSENT
        value = value[name]
    return value


def fields_of(
    data: bytes | None,
    fields: dict[str, FieldType],
    places: dict[str, list[Place]],
    known: frozenset[str] | None,
    read: Read | None = None,
    defaults: Mapping[str, str] = MappingProxyType({}),
    open_value: Callable[[Any], Change] = Change.of,
    of_null: Change = NOTHING,
) -> tuple[dict[str, Any], list[str], Change]:
    """The fields of a value, its faults (the names of fields that cannot be used, `_LEFT_OUT` of absent ones), and what
    its envelope says.

    Args:
        data: the value, or null.
        fields: the fields with their types.
        places: where a value has each field; the first place that is there counts.
        known: names that a value may have at its top; None: any.
        read: what reads the value; None: as JSON.
        defaults: what fields are that a value does not have, as JSON.
        open_value: what opens the envelope of a value that is read.
        of_null: what a null value says.
    """
    if data is None:
        return {}, [], of_null
    value = (read or _json_of)(data) if len(data) <= MOST_BYTES else _ABSENT
    change = open_value(value)
    if change.row is None:
        return {}, [] if change.is_null else [_VALUE], change
    row: dict[str, Any] = {}
    faults = [] if known is None or known.issuperset(change.names) else [_UNKNOWN]
    for name, kind in fields.items():
        place = next((place for place in places[name] if _at(change.row, place) is not _ABSENT), ())
        given = _at(change.row, place) if place else _ABSENT
        if change.has_placeholders and is_placeholder(given):
            faults.append(name)
            row[name] = None
            continue
        if given is _ABSENT and name in defaults:
            given = parse_exactly(defaults[name])
        given = with_numbers(given, schema_of(change.schema, place), kind) if place else given
        try:
            row[name] = _typed(given, kind)
        except LeftOutError:
            faults.append(_LEFT_OUT.format(name))
        except WrongError:
            faults.append(name)
    return row, faults, change


# One value as one type.


def _typed(value: Any, kind: FieldType) -> Any:
    if value is _ABSENT:
        if kind.nullable:
            return None
        raise LeftOutError
    if value is None:
        return None
    if kind.nested:
        return _of_parts(value, kind)
    match kind.name:
        case "binary":
            return _binary(_text(value))
        case "json":
            return _text(_canonical(value))
        case "boolean":
            return _of(value, bool)
        case "string":
            return _text(value)
        case "decimal":
            return _of_text(_digits(value, kind), kind)
        case "int" | "long" | "double":
            return _of_text(_of(value, Number), kind)
        case _:
            return _of_text(_of(value, Number) if kind.unit else _text(value), kind)


def _of_parts(value: Any, kind: FieldType) -> Any:
    if kind.name == "struct":
        given = _of(value, dict)
        return {name: _typed(given.get(name, _ABSENT), of) for name, of in kind.fields}
    assert kind.item
    if kind.name == "list":
        return [_typed(item, kind.item) for item in _of(value, list)]
    return [
        (_text(name), _typed(item, kind.item)) for name, item in sorted(_of(value, dict).items(), key=_order_of_names)
    ]


def _digits(value: Any, kind: FieldType) -> str:
    """The digits of a decimal."""
    if isinstance(value, Number) or not kind.base64:
        return value if isinstance(value, Number) else _text(value)
    data = _binary(_text(value))
    if not 0 < len(data) <= _MOST_UNSCALED:
        raise WrongError
    return f"{int.from_bytes(data, 'big', signed=True)}e-{kind.scale}"


def _order_of_names(entry: tuple[str, Any]) -> bytes:
    return entry[0].encode("utf-16-be", "surrogatepass")


def _binary(text: str) -> bytes:
    try:
        data = b64decode(text, validate=True)
    except ValueError as error:  # binascii.Error is one
        raise WrongError from error
    if b64encode(data).decode() != text:
        raise WrongError
    return data


def _canonical(value: Any) -> str:
    """A JSON value as the one text that says it."""
    match value:
        case Number():
            return _plain(f"{Decimal(value):f}") if _NUMBER.fullmatch(value) else str(value)
        case str():
            return f'"{"".join(_ESCAPES.get(letter, letter) for letter in value)}"'
        case dict():
            members = sorted(value.items(), key=_order_of_names)
            return f"{{{','.join(f'{_canonical(name)}:{_canonical(part)}' for name, part in members)}}}"
        case list():
            return f"[{','.join(map(_canonical, value))}]"
        case _:
            return {None: "null", True: "true", False: "false"}[value]


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise WrongError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Number) or _is_cut(value):
        raise WrongError
    return value


def _of_text(text: str, kind: FieldType) -> Any:
    if kind.unit:
        return _since_1970(_whole(text, 1 << 63), kind)
    match kind.name:
        case "int" | "long":
            return _whole(text, _RANGES[kind.name])
        case "decimal":
            return _decimal(text, kind)
        case "double":
            return _double(text)
        case "boolean":
            if text not in ("true", "false"):
                raise WrongError
            return text == "true"
        case "date":
            return _instant(date.fromisoformat, text if _DATE.fullmatch(text) else "")
        case "timestamp":
            return _timestamp(text)
        case _:
            return text


def _exact(text: str) -> Decimal:
    """All digits of a number."""
    if not _NUMBER.fullmatch(text):
        raise WrongError
    return Decimal(text)


def _whole(text: str, limit: int) -> int:
    number = _exact(text)
    if (number != 0 and not (-40 < number.adjusted() < 40)) or number != number.to_integral_value():
        raise WrongError
    found = int(number)
    if not -limit <= found < limit:
        raise WrongError
    return found


def _decimal(text: str, kind: FieldType) -> Decimal:
    exact = Context(prec=len(text) + 2 * _MOST_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)
    number = _exact(text).normalize(exact)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if number and (number.adjusted() >= kind.precision - kind.scale or -exponent > kind.scale):
        raise WrongError
    return number.quantize(Decimal(1).scaleb(-kind.scale), context=exact) if number else Decimal(0)


def _double(text: str) -> float:
    found = float(text)
    if abs(found) == float("inf"):
        raise WrongError
    whole = text.lstrip("-").isdigit()
    if whole and -(1 << 63) <= int(text) < (1 << 63) and int(found) != int(text):
        raise WrongError  # such a whole number is no double
    return found


def _timestamp(text: str) -> datetime:
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        raise WrongError
    day, hour, minute, second, fraction, _, sign, hours, minutes = found.groups()
    offset = (int(hours) * 60 + int(minutes)) * (-1 if sign == "-" else 1) if sign else 0
    if abs(offset) > _FURTHEST or (minutes and int(minutes) > 59):
        raise WrongError
    micros = int((fraction or "0").ljust(6, "0")[:6])

    def made(text: str) -> datetime:
        at = datetime.fromisoformat(text).replace(
            hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=micros,
            tzinfo=timezone(timedelta(minutes=offset)),
        )  # fmt: skip
        return at.astimezone(UTC)

    return _instant(made, day)


def _since_1970(count: int, kind: FieldType) -> date | datetime:
    if kind.name == "date":
        return _instant(lambda days: date(1970, 1, 1) + timedelta(days=days), count)
    per_second = _PER_SECOND[kind.unit]
    micros, left = divmod(count * 1_000_000, per_second)
    if left:
        raise WrongError
    return _instant(lambda count: _EPOCH + timedelta(microseconds=count), micros)


def _instant(made: Callable[[_Given], _Made], given: _Given) -> _Made:
    try:
        return made(given)
    except (ValueError, OverflowError) as error:
        raise WrongError from error
