"""Wire formats: how a key or a value refers to the schema that it was written by, and where its own bytes begin.

| first bytes, or header | is | number space |
| --- | --- | --- |
| 0x00, 4 bytes | Confluent's id | confluent |
| 0x00, 8 bytes, the first four of them zero (Confluent's ids begin with 1) | Apicurio's id | global, or content |
| 0x03, 0x00 or 0x05, 16 bytes | AWS Glue's version; 0x05: zlib behind it | glue |
| header `__value_schema_id`: 0x01, 16 bytes | Confluent's GUID | guid |
| header `__value_schema_id`: 0x00, 4 bytes | Confluent's id | confluent |
| header `apicurio.value.globalId`, `apicurio.value.contentId`: 8 bytes | Apicurio's id | global, content |

Of a key `key` is in place of `value`. A header counts before a prefix; behind a header the bytes have none. Global and
content ids of Apicurio are two number spaces: the same number is another schema in each.

Sources: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format,
SerdeConfig and the id handlers of Apicurio Registry 2.6 and 3.0, and AWS Glue's serializer for Java
(AWSSchemaRegistryConstants).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from onefold.formats.structured_json import FormatError

PREFIX = 18
"""Bytes from the start of a value in which its schema is named, at most."""
LARGEST = 16_000_000
"""Bytes that a packed value unpacks to, at most: a larger one cannot be read."""
MOST_INDEXES = 100
"""How deep a Protobuf message may be declared inside of others."""
_MAGIC, _GLUE, _BY_GUID = 0x00, 0x03, 0x01
_PLAIN, _ZLIB = 0x00, 0x05
_LENGTHS = {_MAGIC: 1 + 4, _BY_GUID: 1 + 16}
"""Bytes of Confluent's header up to the end of the id, by the first of them."""
_REF_NAME = 0x0A
"""The tag of the one field of Apicurio's `Ref`: a text with the number 1."""
MessagePlace = tuple[int, ...] | str
"""Which message of its schema a Protobuf message is: places from the file's top on, or a name at the top; an empty
name: the one message that there is."""


class IdSpace(StrEnum):
    """Whose numbers an id is of."""

    CONFLUENT = "confluent"
    GLOBAL = "global"
    CONTENT = "content"
    GUID = "guid"
    GLUE = "glue"


@dataclass(frozen=True, slots=True, order=True)
class SchemaId:
    """The name of a schema in a registry; as text, what the lake calls it: `confluent-7`."""

    space: IdSpace
    value: str

    def __str__(self) -> str:
        return f"{self.space}-{self.value}"

    @classmethod
    def of(cls, text: str) -> SchemaId:
        """What has this text."""
        space, _, value = text.partition("-")
        return cls(IdSpace(space), value)


@dataclass(frozen=True, slots=True)
class Header:
    """A record's header that names a schema."""

    name: str
    value: bytes | None


def header_names(section: str) -> dict[str, IdSpace]:
    """The headers that name the schema of a section, `key` or `value`; the first has the number space in its value."""
    return {
        f"__{section}_schema_id": IdSpace.GUID,
        f"apicurio.{section}.globalId": IdSpace.GLOBAL,
        f"apicurio.{section}.contentId": IdSpace.CONTENT,
    }


def schema_id(
    data: bytes, header: Header | None = None, space: IdSpace | None = None, *, places: bool = False
) -> tuple[SchemaId, int]:
    """The schema that a key or a value names, and how many bytes of it do so.

    Args:
        data: its bytes, or as many as `PREFIX` of them.
        header: the header that names its schema, if it has any.
        space: the number space of Apicurio's ids, where the dataset file names it: then ids of 4 bytes are of it, too.
            Default: ids of 8 bytes are global, as those of its serializers 2.x are by default.
        places: whether Confluent's header may go on behind the id, with the place of a Protobuf message.

    Raises:
        FormatError: it names none.
    """
    if header is not None:
        return _of_header(header, space, places=places), 0
    first = data[:1]
    if first == bytes([_GLUE]):
        if len(data) < PREFIX:
            raise FormatError("it ends within the id of its schema")
        return SchemaId(IdSpace.GLUE, str(UUID(bytes=bytes(data[2:PREFIX])))), PREFIX
    if first != bytes([_MAGIC]):
        raise FormatError("it does not begin with the id of a schema")
    if any(data[1:5]) or len(data) < 5:
        return _numbered(data[1:5], space or IdSpace.CONFLUENT), 5
    return _long(data[1:9], space or IdSpace.GLOBAL), 9


def _of_header(header: Header, space: IdSpace | None, *, places: bool) -> SchemaId:
    data, names = header.value or b"", {**header_names("key"), **header_names("value")}
    try:
        if (named := names[header.name]) is not IdSpace.GUID:
            return _long(data, named)
        size = _LENGTHS.get(data[0], len(data) + 1) if data else 1
        if len(data) == size or (places and len(data) > size):
            if data[0] == _BY_GUID:
                return SchemaId(IdSpace.GUID, str(UUID(bytes=bytes(data[1:size]))))
            return _numbered(data[1:size], space or IdSpace.CONFLUENT)
    except FormatError:
        pass
    raise FormatError(f"its header {header.name} holds no id of a schema")


def _numbered(data: bytes, space: IdSpace) -> SchemaId:
    """An id of 4 bytes, from 1 on."""
    number = int.from_bytes(data, "big", signed=True)
    if len(data) < 4:
        raise FormatError("it ends within the id of its schema")
    if number < 1:
        raise FormatError(f"its schema has the id {number}, and ids begin with 1")
    return SchemaId(space, str(number))


def _long(data: bytes, space: IdSpace) -> SchemaId:
    """An id of 8 bytes, from 1 on."""
    number = int.from_bytes(data, "big", signed=True)
    if len(data) != 8:
        raise FormatError("it ends within the id of its schema")
    if number < 1:
        raise FormatError(f"its schema has the id {number}, and ids begin with 1")
    return SchemaId(space, str(number))


def payload(data: bytes, at: int) -> bytes:
    """What is behind the id of its schema, unpacked; `at` is where `schema_id` says that it begins.

    Raises:
        FormatError: it cannot be unpacked, or is larger than `LARGEST` then.
    """
    if at != PREFIX or data[1] == _PLAIN:
        return data[at:]
    if data[1] != _ZLIB:
        raise FormatError(f"it is packed in a way that is none of AWS Glue's: {data[1]}")
    unpacked = zlib.decompressobj()
    try:
        found = unpacked.decompress(data[at:], LARGEST)
    except zlib.error as error:
        raise FormatError(f"it cannot be unpacked: {error}") from None
    if not unpacked.eof:
        whole = unpacked.unconsumed_tail
        raise FormatError(f"it unpacks to more than {LARGEST:,} bytes" if whole else "it is cut off")
    if unpacked.unused_data:
        raise FormatError(f"{len(unpacked.unused_data)} bytes behind it are no part of it")
    return found


def message_place(data: bytes, id_: SchemaId, header: Header | None) -> tuple[MessagePlace, bytes]:
    """Which message of its schema a Protobuf value is, and its own bytes; `data` is what `payload` gives.

    Confluent's serializers write message indexes, behind the id: in a header, if the id is there. Apicurio's write the
    name of the message, a `Ref` with its length before it; where they write headers, in another header, which is not
    read: then the file has one message.

    Raises:
        FormatError: it does not say.
    """
    match id_.space:
        case IdSpace.CONFLUENT | IdSpace.GUID if header is not None:
            rest = (header.value or b"")[_LENGTHS[(header.value or b" ")[0]] :]
            place, end = message_indexes(rest) if rest else ((0,), 0)
            if end != len(rest):
                raise FormatError(f"its header {header.name} goes on behind the message indexes")
            return place, data
        case IdSpace.CONFLUENT | IdSpace.GUID:
            place, end = message_indexes(data)
            return place, data[end:]
        case IdSpace.GLOBAL | IdSpace.CONTENT:
            return ("", data) if header is not None else _ref(data)
        case _:
            raise FormatError("Protobuf messages of AWS Glue are not read")


def _ref(data: bytes) -> tuple[str, bytes]:
    """The name that Apicurio's `Ref` has, and what is behind it."""
    size = data[0] if data else 0
    ref = data[1 : 1 + size]
    if not 2 < size < 128 or len(ref) < size or ref[0] != _REF_NAME or ref[1] != size - 2:
        raise FormatError("it does not say which message of its schema it is")
    try:
        return ref[2:].decode(), data[1 + size :]
    except UnicodeDecodeError:
        raise FormatError("it does not say which message of its schema it is") from None


def message_indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its schema a Protobuf value is, and how many bytes say so: of Confluent's format, behind the id.

    The first number is the place of a message among those of the file, each further number a place among those that
    are declared in it. Numbers are zigzag varints, their count first; a count of 0 means the first message.

    Raises:
        FormatError: there is no such list.
    """
    count, at = _varint(data, 0)
    if not 0 <= count <= MOST_INDEXES:
        raise FormatError(f"it has {count} message indexes")
    if count == 0:
        return (0,), at
    found = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            raise FormatError(f"it has the message index {index}")
        found.append(index)
    return tuple(found), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise FormatError("it ends within its message indexes" if at >= len(data) else "it has no message indexes")
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at
