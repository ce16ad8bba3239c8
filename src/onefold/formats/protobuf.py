"""Protobuf messages as JSON text, exactly: by Google's decoder over descriptors made of the schema's text
(`onefold.dataset.protobuf_schema`), and by a walk over what it read.

| what | is written as |
| --- | --- |
| whole numbers, of all 64 bits | all their digits |
| float, double; string; bytes | as in `onefold.formats.structured_json` |
| enum | the name of the number; a number without a name as a number, which no text is |
| map | an object; keys that are numbers or booleans as text |
| Timestamp | ISO 8601 with Z; one that is none as an object of its two numbers |
| Duration | seconds, with up to nine digits behind the point; one that is none as an object of its two numbers |
| wrappers | their value |
| Struct, Value, ListValue | the JSON that they say |

A field that a message can be without (`presence` in the schema) is left out where it is not there; any other is its
default then. Sources: https://protobuf.dev/programming-guides/encoding/,
https://protobuf.dev/programming-guides/field_presence/ and the comments of the well-known types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring as quoted
from math import isfinite
from typing import Any

from google.protobuf.descriptor_pb2 import EDITION_2023, FeatureSet, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from onefold.dataset.types import FieldType
from onefold.formats.structured_json import (
    FormatError,
    Plain,
    Shape,
    TooLargeError,
    Write,
    encoded,
    plain_as_it_is,
    plain_text,
    raw,
    writer,
    written,
)

LARGEST = 16_000_000
"""Bytes of a message, and letters of its JSON: that is as much as is read of any value."""
_NOT_COUNTED = 1 << 16
"""Bytes of a message whose JSON need not be counted while it is written."""
_NANOS = 10**9
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""0001-01-01 and 9999-12-31T23:59:59, in seconds since 1970."""
_LONGEST = 315_576_000_000
"""Seconds of a Duration."""
_SHAPES = {"bool": "boolean", "float": "float", "double": "double", "string": "text", "bytes": "binary"}
"""Types with a shape of their own; all other scalars are whole numbers."""
_EMPTY = {"bool": False, "float": 0.0, "double": 0.0, "string": "", "bytes": b""}
"""Their defaults; all others have 0."""
_WHOLE = (
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64",
)  # fmt: skip
_AS_THEY_ARE = dict.fromkeys((*_WHOLE, "bool", "bytes"), plain_as_it_is) | {"string": plain_text}
"""Types whose values `written` writes as they are; bytes that are no text are no string (`plain_text`)."""
_WIRE = ("a varint", "8 bytes", "bytes with their length", "a group", "the end of a group", "4 bytes")
_GOOGLE = "google.protobuf."
_TIMES = {"seconds": {"number": 1, "type": "int64"}, "nanos": {"number": 2, "type": "int32"}}
_WRAPPED = {
    "DoubleValue": "double", "FloatValue": "float", "Int64Value": "int64", "UInt64Value": "uint64",
    "Int32Value": "int32", "UInt32Value": "uint32", "BoolValue": "bool", "StringValue": "string", "BytesValue": "bytes",
}  # fmt: skip
_timestamp_text = writer(Shape("timestamp", scale=9))


def message_reader(text: str, fields: Mapping[str, FieldType]) -> Callable[[bytes], bytes]:
    """What turns one message into JSON by the text of its schema (`onefold.dataset.protobuf_schema`).

    Of a message are written the declared `fields`; the others that it has only by their names, with null, and what the
    schema does not know by its number. Without `fields` all is written.

    It raises FormatError where the bytes are no message of the schema, TooLargeError where they are too many.

    Raises:
        FormatError: messages of this schema, or a declared field, cannot be read.
    """
    schema = json.loads(text)
    try:
        messages = _Messages(schema)
    except TypeError as error:  # the decoder's own: descriptors that it does not take
        raise FormatError(f"the schema cannot be read: {error}") from error
    name, top = schema["message"], messages.classes[schema["message"]]
    encode = messages.encoder(name, FieldType("struct", fields=tuple(fields.items())) if fields else None)

    def read(data: bytes) -> bytes:
        if len(data) > LARGEST:
            raise TooLargeError(f"it has {len(data):,} bytes, at most {LARGEST:,} can be read")
        try:
            return encode(top.FromString(data), len(data))
        except FormatError:
            raise
        except Exception as error:  # what the decoder raises on broken bytes is not settled
            why = str(error).rpartition(": ")[2]
            raise FormatError(f"it is no {name}: {type(error).__name__} {why}") from error

    return read


class _Messages:
    """Classes that decode the messages of a schema, and what writes them.

    A class has its fields by number (`f7`). To the decoder an enum is its number and a map a list of its entries, so
    that nothing that it would put right, or aside, is lost.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._messages, self._enums = schema["messages"], schema["enums"]
        file = FileDescriptorProto(name="onefold.proto", syntax="editions", edition=EDITION_2023)
        file.options.features.CopyFrom(
            FeatureSet(
                field_presence=FeatureSet.EXPLICIT,
                enum_type=FeatureSet.OPEN,
                repeated_field_encoding=FeatureSet.PACKED,
                utf8_validation=FeatureSet.NONE,  # what is read is judged as any text is, what is not rejects nothing
                message_encoding=FeatureSet.LENGTH_PREFIXED,
                json_format=FeatureSet.LEGACY_BEST_EFFORT,
            )
        )
        self._names = {name: f"M{number}" for number, name in enumerate(sorted(self._messages))}
        for name, fields in self._messages.items():
            self._describe(file, name, fields)
        pool = DescriptorPool()
        pool.Add(file)
        made = {kind.name: GetMessageClass(pool.FindMessageTypeByName(kind.name)) for kind in file.message_type}
        self.classes = {name: made[short] for name, short in self._names.items()}
        self._whole: dict[str, Write] = {}

    def _describe(self, file: Any, name: str, fields: Mapping[str, Mapping[str, Any]]) -> None:
        message = file.message_type.add(name=self._names[name])
        oneofs = sorted({field["oneof"] for field in fields.values() if "oneof" in field})
        for number, _ in enumerate(oneofs):
            message.oneof_decl.add(name=f"o{number}")
        for field in fields.values():
            if "key" in field:
                entry = file.message_type.add(name=f"{message.name}_E{field['number']}")
                self._add(entry, {"number": 1, "type": field["key"], "presence": True})
                self._add(entry, {"number": 2, "type": field["type"], "of": field.get("of"), "presence": True})
                made = message.field.add(name=f"f{field['number']}", number=field["number"])
                made.label, made.type = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.TYPE_MESSAGE
                made.type_name = f".{entry.name}"
            else:
                made = self._add(message, field)
                if "oneof" in field:
                    made.oneof_index = oneofs.index(field["oneof"])

    def _add(self, message: Any, field: Mapping[str, Any]) -> Any:
        made = message.field.add(name=f"f{field['number']}", number=field["number"])
        repeated = field.get("repeated", False)
        made.label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
        if field["type"] in ("message", "group"):
            made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{self._names[field['of']]}"
            if field["type"] == "group":
                made.options.features.message_encoding = FeatureSet.DELIMITED
            return made
        kind = "int32" if field["type"] == "enum" else field["type"]
        made.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
        if not repeated and not field.get("presence"):
            made.options.features.field_presence = FeatureSet.IMPLICIT
        return made

    def encoder(self, name: str, declared: FieldType | None) -> Callable[[Any, int], bytes]:
        """What turns whole messages, each with its size in bytes, into the bytes of their JSON: the same as those of
        `top`, sooner."""
        write = self.top(name, declared)
        plain = None if name.startswith(_GOOGLE) else self._plain(name, declared)  # some have a meaning of their own

        def encode(message: Any, size: int) -> bytes:
            if plain and size <= _NOT_COUNTED and not len(UnknownFieldSet(message)):
                try:
                    data = written(plain(message))
                    if len(data) <= LARGEST:
                        return data
                except Exception:  # an odd message: the exact way says what is wrong
                    pass
            return encoded(write(message))

        return encode

    def _plain(self, name: str, declared: FieldType | None) -> Plain:
        """What makes of a message that its schema knows as a whole what `written` writes as the same JSON."""
        known = dict(declared.fields) if declared else None
        parts: list[tuple[str, str, Plain, bool]] = []
        others: dict[int, str] = {}
        for word, field in self._messages[name].items():
            if known is not None and word not in known:
                others[field["number"]] = word
                continue
            try:
                write = self._field(field, known[word] if known else None, word)
            except FormatError:  # only where nothing is declared: `top` has tried it
                continue
            is_one = "key" not in field and not field.get("repeated")
            make = _AS_THEY_ARE.get(field["type"]) if is_one else None
            parts.append((f"f{field['number']}", word, make or raw(write), is_one and bool(field.get("presence"))))

        def plain(message: Any) -> dict[str, Any]:
            found = {
                word: make(getattr(message, attribute))
                for attribute, word, make, may_lack in parts
                if not may_lack or message.HasField(attribute)
            }
            if others:
                there = (others.get(field.number) for field, _ in message.ListFields())
                found |= {word: None for word in there if word}
            return found

        return plain

    def top(self, name: str, declared: FieldType | None) -> Write:
        """What writes whole messages: their declared fields, or all that can be read."""
        if declared is None:
            return self._message(name, None, "", skip=True)
        write, known = self._message(name, declared, ""), {name for name, _ in declared.fields}
        numbers = {field["number"]: word for word, field in self._messages[name].items()}

        def with_names(message: Any) -> str:
            there = {number: numbers[number] for number in _present(message)}
            there |= {field.field_number: str(field.field_number) for field in UnknownFieldSet(message)}
            others = [f"{quoted(word)}:null" for word in there.values() if word not in known]
            text = write(message)
            return f"{text[:-1]}{',' if len(text) > 2 else ''}{','.join(others)}}}" if others else text

        return with_names

    def _message(self, name: str, declared: FieldType | None, at: str, *, skip: bool = False) -> Write:
        """What writes a message; without a declared type all of it, and with `skip` all of it that can be read."""
        if name.startswith(_GOOGLE) and (write := self._well_known(name, at)):
            return write
        known = dict(declared.fields) if declared and declared.name == "struct" else None
        if known is None and not skip and name in self._whole:
            return self._whole[name]
        parts: dict[int, tuple[str, Write, str | None]] = {}
        write = _parts_writer(parts, at)
        if known is None and not skip:
            self._whole[name] = write  # before its parts: it may hold itself
        for word, field in self._messages[name].items():
            if known is not None and word not in known:
                continue
            try:
                of_field = self._field(field, known[word] if known else None, f"{at}.{word}".lstrip("."))
            except FormatError:
                if skip:
                    continue
                self._whole.pop(name, None)
                raise
            parts[field["number"]] = (word, of_field, self._absent(field, of_field))
        return write

    def _absent(self, field: Mapping[str, Any], write: Write) -> str | None:
        """What is written of a field that a message does not have; None: nothing."""
        if "key" in field or field.get("repeated"):
            return write(())
        return None if field.get("presence") else write(_EMPTY.get(field["type"], 0))

    def _field(self, field: Mapping[str, Any], declared: FieldType | None, at: str) -> Write:
        inner = declared.item if declared else None
        if "key" in field:
            return self._map(field, inner, at)
        if field.get("repeated"):
            item = self._value(field, inner, f"{at}[]")
            return lambda values: f"[{_joined(map(item, values))}]"
        return self._value(field, declared, at)

    def _value(self, field: Mapping[str, Any], declared: FieldType | None, at: str) -> Write:
        if field["type"] in ("message", "group"):
            return self._message(field["of"], declared, at)
        if field["type"] == "enum":
            return _enum_writer(self._enums[field["of"]], declared)
        return _scalar_writer(field["type"])

    def _map(self, field: Mapping[str, Any], item: FieldType | None, at: str) -> Write:
        key, write = _scalar_writer(field["key"]), self._value(field, item, f"{at}[]")
        made: Callable[[], Any] = lambda: _EMPTY.get(field["type"], 0)  # noqa: E731
        if field["type"] in ("message", "group"):
            made = self.classes[field["of"]]
        checked = {1: f"{at}: a key", 2: f"{at}: a value"}

        def entries(values: Iterable[Any]) -> str:
            found = {}
            for entry in values:
                _check_types(entry, checked)
                there = _present(entry)
                name = key(there.get(1, _EMPTY.get(field["key"], 0)))
                found[name if name[0] == '"' else f'"{name}"'] = write(there[2] if 2 in there else made())
            return f"{{{_joined(f'{name}:{part}' for name, part in found.items())}}}"

        return entries

    def _well_known(self, name: str, at: str) -> Write | None:
        """What writes a type that Google gives a meaning of its own; None: it has none."""
        short = name.removeprefix(_GOOGLE)
        if short == "Any":
            raise FormatError(f"{at or 'the message'}: {name} may be any message, and cannot be read")
        if short in _JSON_TYPES:
            return _JSON_TYPES[short]
        if short not in _TIME_TYPES and short not in _WRAPPED:
            return None
        given = _TIMES if short in _TIME_TYPES else {"value": {"number": 1, "type": _WRAPPED[short]}}
        if self._messages[name] != given:
            raise FormatError(f"{at or 'the message'}: its schema has another {name} than Google's")
        names = {number: f"{at}.{word}".lstrip(".") for number, word in enumerate(given, 1)}
        write = _TIME_TYPES.get(short) or _wrapper(_scalar_writer(_WRAPPED[short]))
        return lambda message: write(_checked(message, names))


def _parts_writer(parts: Mapping[int, tuple[str, Write, str | None]], at: str) -> Write:
    """What writes a message as an object: of each number the name, what writes it, and what is written without it."""

    def write(message: Any) -> str:
        _check_types(message, {number: f"{at}.{word}".lstrip(".") for number, (word, _, _) in parts.items()})
        there = _present(message)
        found = []
        for number, (word, of_part, absent) in parts.items():
            text = of_part(there[number]) if number in there else absent
            if text is not None:
                found.append(f"{quoted(word)}:{text}")
        return f"{{{_joined(found)}}}"

    return write


def _present(message: Any) -> dict[int, Any]:
    """The fields that a message has, by number."""
    return {field.number: value for field, value in message.ListFields()}


def _checked(message: Any, names: Mapping[int, str]) -> Any:
    _check_types(message, names)
    return message


def _check_types(message: Any, names: Mapping[int, str]) -> None:
    """Refuse a message whose bytes have one of these fields (number to name) as another type than the schema says: the
    decoder puts it aside, and the field would look as if it were not there."""
    for unknown in UnknownFieldSet(message):
        if unknown.field_number in names:
            wire = _WIRE[unknown.wire_type]
            raise FormatError(f"{names[unknown.field_number]}: it is {wire}, which its type in the schema is not")


def _joined(parts: Iterable[str]) -> str:
    """Parts behind each other; two bytes may stand for a message of many fields, each with its default.

    Raises:
        TooLargeError: they are more than is read.
    """
    found, size = [], 0
    for part in parts:
        size += len(part) + 1
        if size > LARGEST:
            raise TooLargeError(f"as JSON it has more than {LARGEST:,} letters, which is as much as can be read")
        found.append(part)
    return ",".join(found)


def _scalar_writer(kind: str) -> Write:
    return writer(Shape(_SHAPES.get(kind, "whole")))


def _enum_writer(names: Mapping[str, str], declared: FieldType | None) -> Write:
    takes_numbers = declared is not None and declared.name in ("int", "long", "double", "decimal")

    def write(number: int) -> str:
        if name := names.get(str(number)):
            return quoted(name)
        return f'{{"number":{number}}}' if takes_numbers else str(number)

    return write


def _wrapper(write: Write) -> Write:
    return lambda message: write(message.f1)


def _timestamp(message: Any) -> str:
    seconds, nanos = message.f1, message.f2
    if not _FIRST <= seconds <= _LAST or not 0 <= nanos < _NANOS:
        return f'{{"seconds":{seconds},"nanos":{nanos}}}'
    return _timestamp_text(seconds * _NANOS + nanos)


def _duration(message: Any) -> str:
    seconds, nanos = message.f1, message.f2
    if abs(seconds) > _LONGEST or abs(nanos) >= _NANOS or seconds * nanos < 0:
        return f'{{"seconds":{seconds},"nanos":{nanos}}}'
    whole, fraction = divmod(abs(seconds * _NANOS + nanos), _NANOS)
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"{sign}{whole}.{fraction:09d}".rstrip("0").removesuffix(".") if fraction else f"{sign}{whole}"


_TIME_TYPES: dict[str, Write] = {"Timestamp": _timestamp, "Duration": _duration}


def _json_object(message: Any) -> str:
    found = {}
    for entry in _checked(message, {1: "fields"}).f1:
        there = _present(_checked(entry, {1: "a name", 2: "a value"}))
        if 2 not in there:
            raise FormatError(f"a {_GOOGLE}Value says nothing")
        found[_JSON_TEXT(there.get(1, ""))] = _json_value(there[2])
    return f"{{{_joined(f'{name}:{part}' for name, part in found.items())}}}"


def _json_list(message: Any) -> str:
    return f"[{_joined(map(_json_value, _checked(message, {1: 'values'}).f1))}]"


def _json_number(number: float) -> str:
    if not isfinite(number):
        raise FormatError(f"a {_GOOGLE}Value is {number}, which is no JSON")
    return _JSON_NUMBER(number)


def _json_value(message: Any) -> str:
    there = _present(_checked(message, dict.fromkeys(_JSON_KINDS, f"{_GOOGLE}Value")))
    kinds = [(_JSON_KINDS[number], value) for number, value in there.items() if number in _JSON_KINDS]
    if len(kinds) != 1:
        raise FormatError(f"a {_GOOGLE}Value says nothing")
    write, value = kinds[0]
    return write(value)


_JSON_TEXT, _JSON_NUMBER = _scalar_writer("string"), _scalar_writer("double")
_JSON_KINDS: dict[int, Write] = {
    1: lambda _: "null",
    2: _json_number,
    3: _JSON_TEXT,
    4: _scalar_writer("bool"),
    5: _json_object,
    6: _json_list,
}
"""What a Value may be, by the number of its field."""
_JSON_TYPES: dict[str, Write] = {"Struct": _json_object, "Value": _json_value, "ListValue": _json_list}
