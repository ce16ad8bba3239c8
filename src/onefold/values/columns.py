"""JSON values to columns of declared fields, an Arrow batch at a time.

Each record goes the fast way first: msgspec decodes it by the declared types, and Arrow turns whole columns of decimals
and times into theirs. The fast way takes a record only where it needs no judgement. All others, those with a problem
among them, go the exact way (`onefold.values.exact`), one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Meta, Raw, UnsetType

from onefold.dataset import Dataset
from onefold.dataset.envelopes import MARKED, OP, Attribute, Envelope
from onefold.dataset.names import Place
from onefold.dataset.types import FieldType
from onefold.formats.arrow_types import arrow_type
from onefold.formats.cloudevents import (
    DATA,
    DATA_BASE64,
    REQUIRED,
    VERSION,
    BinaryEvent,
    check_structured,
    data_of,
    no_data,
)
from onefold.formats.connect_decimals import (
    MAY_BE_DECIMALS,
    decimal_text,
    has_decimals,
    scale_of,
    schema_at,
    with_digits,
)
from onefold.formats.envelopes import (
    AFTER,
    BINARY,
    EVENT,
    KINDS,
    PLACEHOLDER_BYTES,
    PLAIN,
    Form,
    NoRowError,
    Shape,
    check_change,
    is_unavailable,
    shape_of,
    with_documents,
)
from onefold.formats.text import BOM, MOST_BYTES, MOST_LEVELS, nests_too_deep, parse_exactly, shown
from onefold.instants import FIRST, LAST
from onefold.values.exact import ABSENT, DAYS, LARGEST, PER_SECOND, ProblemError, scalar_text, typed
from onefold.vocabulary import Reason

FIELDS, PROBLEMS, UNUSABLE, UNKNOWN, ATTRIBUTES = "fields", "problems", "unusable", "unknown", "attributes"
"""The parts of what is read of a value: its declared fields (`f0`, `f1`, … in their order); by name, what is wrong with
fields; what is wrong with the value as a whole; the names at the top of its row that the file does not know; and, where
an expression asks for it, what its envelope says as text (`a0`, `a1`, …)."""
_PROBLEM = pa.struct([("reason", pa.string()), ("detail", pa.string())])
_EXACT_DOUBLES = 2.0**53
"""Below it a double holds every whole number."""
_SURE_INSTANT = (
    r"^[12]\d{3}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$",
    r"^[12]\d{3}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?$",
)
"""Texts that Arrow reads as an instant just as the exact way does, with a zone and without one."""
_NOT_IN_NAMES = re.compile(r'["\\\x00-\x1f]')
"""What no name has that msgspec looks for."""
_SURE_DATE = r"^[12]\d{3}-\d\d-\d\d$"
Json = bytes | BinaryEvent | tuple[str, str] | None
"""The JSON of a value, also in an event in binary mode; a (reason, detail) why there is none; or None of a null."""


@dataclass(frozen=True, slots=True)
class Fields:
    """What is read of the values of a dataset."""

    kinds: Mapping[str, FieldType]
    """The declared fields. One that the key has, too, may be absent."""
    places: Mapping[str, Sequence[Place]]
    """Where a value has each field; the first place that is there counts."""
    defaults: Mapping[str, str]
    """What absent fields are, as JSON."""
    known: frozenset[str] | None
    """The names that a value may have at its top; None: any."""
    envelope: Envelope = Envelope.NONE
    attributes: tuple[Attribute, ...] = ()
    """What is read of the envelope."""
    of_delete: frozenset[str] = frozenset()
    """The fields that a delete has in an envelope."""
    deletes_by_envelope: bool = False
    """Whether the envelope alone says what deletes."""

    @classmethod
    def of(cls, dataset: Dataset) -> Fields:
        """Those of a dataset."""
        keyed = dataset.keyed_fields
        kinds = {name: replace(kind, nullable=True) if name in keyed else kind for name, kind in dataset.fields.items()}
        known = frozenset(dataset.read_fields) if dataset.value.schema_changes == "quarantine" else None
        return cls(
            kinds,
            dataset.read_places,
            dataset.defaults,
            known,
            dataset.value.envelope,
            tuple(dataset.envelope_attributes),
            dataset.fields_of_delete,
            dataset.deletes_by_envelope,
        )

    @property
    def ddl(self) -> str:
        """The type of what `reader` gives, in Spark SQL's spelling."""
        given = ",".join(f"f{number}:{kind.sql}" for number, kind in enumerate(self.kinds.values()))
        problem = "struct<reason:string,detail:string>"
        said = ",".join(f"a{number}:string" for number in range(len(self.attributes)))
        return (
            f"struct<{FIELDS}:struct<{given}>,{PROBLEMS}:map<string,{problem}>,{UNUSABLE}:{problem},"
            f"{UNKNOWN}:array<string>{f',{ATTRIBUTES}:struct<{said}>' if said else ''}>"
        )

    def places_in(self, shape: Shape, *, in_delete: bool = False) -> dict[str, list[Place]]:
        """Where a value of a shape has each field."""
        return {
            name: [shape.place(place, in_delete=in_delete) for place in places] for name, places in self.places.items()
        }


def reader(fields: Fields) -> Callable[[list[Json]], pa.StructArray]:
    """What reads a batch of values: a struct of `FIELDS`, `PROBLEMS`, `UNUSABLE`, `UNKNOWN` and, where the envelope is
    asked for something, `ATTRIBUTES` each; null of a null."""
    exact, fast = _Exact(fields), dict[Shape, _Fast]()
    types = [arrow_type(kind) for kind in fields.kinds.values()]
    size = len(types)
    types += [pa.string()] * len(fields.attributes)

    def read(values: list[Json]) -> pa.StructArray:
        shape = exact.first_shape(values)
        if shape not in fast:
            fast[shape] = _Fast(fields, shape)
        columns, odd = fast[shape].columns(values)
        given = [exact.read(values[number]) for number in odd]
        if odd:
            slow = [pa.array([row.all[at] for row in given], kind) for at, kind in enumerate(types)]
            order = _places_of(len(values), odd)
            columns = [pa.concat_arrays([quick, more]).take(order) for quick, more in zip(columns, slow, strict=True)]
        parts = {
            FIELDS: _struct("f", columns[:size], types[:size]),
            PROBLEMS: _sparse(len(values), odd, [row.problems for row in given], pa.map_(pa.string(), _PROBLEM)),
            UNUSABLE: _sparse(len(values), odd, [row.unusable for row in given], _PROBLEM),
            UNKNOWN: _sparse(len(values), odd, [row.unknown for row in given], pa.list_(pa.string())),
        }
        if fields.attributes:
            parts[ATTRIBUTES] = _struct("a", columns[size:], types[size:])
        null = {number for number, row in zip(odd, given, strict=True) if row.is_null}
        nulls = pa.array([value is None or number in null for number, value in enumerate(values)], pa.bool_())
        named = [pa.field(name, part.type) for name, part in parts.items()]
        return pa.StructArray.from_arrays(list(parts.values()), fields=named, mask=nulls)

    return read


def _struct(letter: str, columns: list[pa.Array], types: list[pa.DataType]) -> pa.StructArray:
    named = [pa.field(f"{letter}{number}", kind) for number, kind in enumerate(types)]
    return pa.StructArray.from_arrays(columns, fields=named)


def _sparse(size: int, odd: list[int], given: list[Any], kind: pa.DataType) -> pa.Array:
    """A column that is null but at the places `odd`."""
    return pa.concat_arrays([pa.nulls(size, kind), pa.array(given, kind)]).take(_places_of(size, odd))


def _places_of(size: int, odd: list[int]) -> pa.Array:
    """Where each row is, when those at the places `odd` come again behind all rows."""
    places = list(range(size))
    for number, at in enumerate(odd):
        places[at] = size + number
    return pa.array(places, pa.int64())


# The exact way: one record, with reasons.


@dataclass(frozen=True, slots=True)
class _Row:
    all: list[Any]
    """The fields, then the attributes."""
    problems: dict[str, dict[str, str]] | None = None
    unusable: dict[str, str] | None = None
    unknown: list[str] | None = None
    is_null: bool = False


_UNAVAILABLE = (
    ": the connector did not have the value, which the change left as it was; set REPLICA IDENTITY FULL on the table"
)
_MOST_SCHEMAS = 1000
"""Schemas next to values that are known at once."""
_FIRST = 20
"""Values of a batch of which the first that can be read says which shape goes the fast way."""


class _Exact:
    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._no_fields, self._no_attributes = [None] * len(fields.kinds), [None] * len(fields.attributes)
        self._defaults = {name: parse_exactly(text) for name, text in fields.defaults.items()}
        self._places: dict[tuple[Shape, bool], dict[str, list[Place]]] = {}

    def first_shape(self, values: list[Json]) -> Shape:
        """The shape of the first value that is a row."""
        if self._fields.envelope is Envelope.NONE:
            return PLAIN
        for value in [value for value in values if isinstance(value, bytes | BinaryEvent)][:_FIRST]:
            try:
                shape = self._opened(value)[1]
            except (ProblemError, NoRowError):
                continue
            if shape and shape.form is not Form.NO_CHANGE:
                return shape
        return PLAIN

    def read(self, value: Json) -> _Row:
        """The fields of a value, and what is wrong."""
        attributes: list[Any] = self._no_attributes
        try:
            if isinstance(value, BinaryEvent):
                attributes = [value.attributes.get(name) for name, *_ in self._fields.attributes]
            found, shape = self._opened(value)
            if shape is None:
                return _Row(self._no_fields + self._no_attributes, is_null=True)
            if shape is not BINARY:
                attributes = [self._text(found, shape, attribute) for attribute in self._fields.attributes]
            if shape is EVENT:
                found = _with_data(found)
            found = with_documents(found, shape)
            inner = _below(found, shape.around)
            deletes = check_change(inner, shape, by_mark=self._fields.deletes_by_envelope)
        except (ProblemError, NoRowError) as problem:
            return _Row(self._no_fields + attributes, unusable=_said(problem))
        if (places := self._places.get((shape, deletes))) is None:
            places = self._places[shape, deletes] = self._fields.places_in(shape, in_delete=deletes)
        values, problems = [], {}
        for name, kind in self._fields.kinds.items():
            try:
                value = self._at_its_place(found, shape, name, places[name], in_delete=deletes)
                values.append(typed(value, kind))
            except ProblemError as problem:
                values.append(None)
                problems[name] = _said(problem.within(name))
        return _Row(values + attributes, problems or None, unknown=[] if deletes else self._unknown(inner, shape))

    def _opened(self, value: Json) -> tuple[dict[str, Any], Shape | None]:
        """The object that a value is, and its shape."""
        if isinstance(value, BinaryEvent):
            return _data_in(value.data, "the value"), BINARY
        found = _object_of(value)
        if self._fields.envelope is Envelope.CLOUDEVENTS:
            check_structured(found)
            return found, EVENT
        return found, shape_of(found, self._fields.envelope)

    def _at_its_place(self, found: Any, shape: Shape, name: str, places: Sequence[Place], *, in_delete: bool) -> Any:
        if in_delete and name not in self._fields.of_delete:  # what else it has is made up
            return ABSENT
        given = (_below(found, place) for place in places)
        value = next((value for value in given if value is not ABSENT), self._defaults.get(name, ABSENT))
        if self._fields.envelope is Envelope.DEBEZIUM and is_unavailable(value):
            raise ProblemError(Reason.UNAVAILABLE_VALUE, _UNAVAILABLE)
        if shape.may_have_schema and "schema" in found:
            place = next((place for place in places if _below(found, place) is not ABSENT), ())
            return with_digits(value, schema_at(found["schema"], place[len(shape.around) :]), self._fields.kinds[name])
        return value

    def _unknown(self, inner: Any, shape: Shape) -> list[str] | None:
        known = self._fields.known
        if known is None:
            return None
        row = inner[AFTER] if shape.form is Form.CHANGE else inner
        own = shape.form is Form.FLAT
        return [shown(name) for name in row or () if name not in known and not (own and name.startswith("__"))]

    def _text(self, found: Any, shape: Shape, attribute: Attribute) -> str | None:
        given = (_below(found, place) for place in shape.attribute_places(attribute))
        return scalar_text(next((value for value in given if value is not ABSENT), None))


def _said(problem: ProblemError | NoRowError) -> dict[str, str]:
    return {"reason": problem.reason.value, "detail": problem.detail}


def _below(value: Any, place: Iterable[str]) -> Any:
    """What lies below an object; `ABSENT` where there is nothing."""
    for name in place:
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return value


def _with_data(event: dict[str, Any]) -> dict[str, Any]:
    """An event in structured mode with its data as `data`."""
    data = data_of(event)
    return {**event, DATA: _data_in(data, DATA_BASE64) if isinstance(data, bytes) else data}


def _data_in(data: bytes | None, what: str) -> dict[str, Any]:
    """The object that the bytes of an event's data are. The word null is no data, as `data: null` is none."""
    if data is None or data.removeprefix(BOM.encode()).strip(b" \t\r\n") == b"null":
        raise no_data()
    return _object_of(data, what)


def _object_of(value: bytes | tuple[str, str] | None, what: str = "the value") -> dict[str, Any]:
    """The object that a value is.

    Raises:
        ProblemError: it is none.
    """
    if isinstance(value, tuple):
        raise ProblemError(Reason(value[0]), value[1])
    assert value is not None
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        place = len(value[: error.start].decode()) + 1
        raise ProblemError(Reason.UNDECODABLE, f"{what} is not UTF-8 at character {place}") from None
    if len(value) > MOST_BYTES:
        most = f"{what} has {len(value):,} bytes, at most {MOST_BYTES:,} can be read"
        raise ProblemError(Reason.TOO_LARGE, most)
    text = text.removeprefix(BOM)
    if not text.strip(" "):
        raise ProblemError(Reason.UNDECODABLE, f"{what} is empty")
    if nests_too_deep(text):
        raise ProblemError(Reason.UNDECODABLE, f"{what} nests deeper than {MOST_LEVELS} levels")
    try:
        found = parse_exactly(text)
    except ValueError:
        raise ProblemError(Reason.UNDECODABLE, f"{what} is not one JSON value") from None
    if not isinstance(found, dict):
        raise ProblemError(Reason.WRONG_TYPE, f"{what} is no JSON object")
    return found


# The fast way: whole columns.


class _Fast:
    """Decodes what needs no judgement; nothing at all where two fields are read from one place, or from a place in
    another's, or where msgspec cannot look for a name. Of an envelope it decodes the rows of one shape."""

    def __init__(self, fields: Fields, shape: Shape) -> None:
        self._types = [arrow_type(kind) for kind in fields.kinds.values()] + [pa.string()] * len(fields.attributes)
        self._fields, self._shape = fields, shape
        tree = _Tree.of(fields, shape)
        self._decode = msgspec.json.Decoder(tree.struct(fields.known is not None)).decode if tree else None
        self._has_placeholders = fields.envelope is Envelope.DEBEZIUM
        if tree:
            places = fields.places_in(shape)
            self._readers = [_getter(tree, fields, name, places[name]) for name in fields.kinds]
            self._readers += [_text_getter(tree, shape.attribute_places(name)) for name in fields.attributes]
            self._scales = _Scales(fields, shape, tree) if shape.may_have_schema else None
            self._columns = [_column_of(kind) for kind in fields.kinds.values()]
            self._columns += [_texts] * len(fields.attributes)

    def columns(self, values: list[Json]) -> tuple[list[pa.Array], list[int]]:
        """A column a field, and the places of the records that have to go the exact way, in order. What the columns
        have there counts for nothing."""
        data = self._data_of(values)
        odd = {number for number, value in enumerate(values) if value is not None and data[number] is None}
        if self._decode is None:
            odd |= {number for number, value in enumerate(values) if value is not None}
            return [pa.nulls(len(values), kind) for kind in self._types], sorted(odd)
        records: list[Any] = [None] * len(values)
        decode, is_text = self._decode, _are_text(data)
        for number, value in enumerate(data):
            if value is not None:
                try:
                    if (is_text or _is_text(value)) and _is_small(value) and not self._may_lack_a_value(value):
                        records[number] = decode(value)
                        continue
                except (msgspec.MsgspecError, RecursionError):
                    pass
                odd.add(number)
        columns, scales = [], self._scales.of(records) if self._scales else []
        decimals = {at for known in scales if known for at, scale in known.items() if scale is not None}
        for at, (get, column) in enumerate(zip(self._readers, self._columns, strict=True)):
            given = [None if record is None else get(record) for record in records]
            if at in decimals:
                given = [_with_digits(value, known, at) for value, known in zip(given, scales, strict=True)]
            if UNSET in given:
                missing = [number for number, value in enumerate(given) if value is UNSET]
                odd.update(missing)
                for number in missing:
                    given[number] = None
            made, refused = column(given)
            columns.append(made)
            odd.update(refused)
        if self._shape.form is Form.BINARY:
            columns[len(self._fields.kinds) :] = self._attributes_of(values)
        return columns, sorted(odd)

    def _data_of(self, values: list[Json]) -> list[bytes | None]:
        """The JSON of the values that may be of the shape."""
        if self._shape.form is Form.BINARY:
            return [value.data if isinstance(value, BinaryEvent) else None for value in values]
        return [value if isinstance(value, bytes) else None for value in values]

    def _attributes_of(self, values: list[Json]) -> list[pa.Array]:
        """The attributes of events in binary mode."""
        texts = [value.attributes if isinstance(value, BinaryEvent) else {} for value in values]
        return [pa.array([given.get(name) for given in texts], pa.string()) for name, *_ in self._fields.attributes]

    def _may_lack_a_value(self, value: bytes) -> bool:
        """Whether it holds the placeholder of a value that the connector did not have."""
        return self._has_placeholders and any(placeholder in value for placeholder in PLACEHOLDER_BYTES)


_Scale = int | UnsetType | None


class _Scales:
    """The scales of decimals that Connect's schemas say are Base64, in the fast way: each schema is looked at once."""

    def __init__(self, fields: Fields, shape: Shape, tree: _Tree) -> None:
        all_places = fields.places_in(shape)
        self._places = {
            at: (kind, [place[len(shape.around) :] for place in all_places[name]])
            for at, (name, kind) in enumerate(fields.kinds.items())
            if any(map(kind.holds, MAY_BE_DECIMALS))
        }
        """By the number of a field its type, and its places in a schema."""
        self._schema = attrgetter(tree.attributes(("schema",))[0])
        self._known: dict[bytes, dict[int, _Scale]] = {}

    def of(self, records: list[Any]) -> list[dict[int, _Scale] | None]:
        """Of each record the scale of each field, by the field's number; None where the field is no decimal, and
        `UNSET` where the exact way has to say what it is."""
        schemas = (UNSET if record is None else self._schema(record) for record in records)
        return [None if schema is UNSET else self._of(bytes(schema)) for schema in schemas]

    def _of(self, schema: bytes) -> dict[int, _Scale]:
        found = self._known.get(schema)
        if found is None:
            if len(self._known) >= _MOST_SCHEMAS:
                self._known.clear()
            parsed = parse_exactly(schema.decode())
            found = {at: _scale_in(parsed, *of) for at, of in self._places.items()}
            self._known[schema] = found
        return found


def _scale_in(schema: Any, kind: FieldType, places: Sequence[Place]) -> _Scale:
    given = [schema_at(schema, place) for place in places]
    if len(given) == 1 and kind.name in MAY_BE_DECIMALS and (scale := scale_of(given[0])) is not None:
        return scale
    # Of several places the first that is there counts; and what has parts is read part by part.
    odd = any(map(has_decimals, given)) or (kind.is_base64 and any(isinstance(part, Mapping) for part in given))
    return UNSET if odd else None


def _with_digits(value: Any, scales: dict[int, _Scale] | None, at: int) -> Any:
    """What was decoded of a field, a text or JSON, with the decimal in place of its Base64; `UNSET`: it has to go the
    exact way."""
    if value is None or value is UNSET or scales is None or (scale := scales.get(at)) is None:
        return value
    if scale is UNSET:
        return UNSET
    if isinstance(value, str):
        found = decimal_text(value, scale)
        return value if found is None else found
    text = bytes(value)
    if text[:1] != b'"' or b"\\" in text:
        return value
    found = decimal_text(text[1:-1].decode(), scale)
    return value if found is None else found.encode()


def _are_text(values: list[bytes | None]) -> bool:
    """Whether all are UTF-8: msgspec does not look at what it skips."""
    try:
        pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _is_small(value: bytes) -> bool:
    """Whether it needs no look at how large it is, and how deep it nests."""
    size = len(value)
    return size <= MOST_LEVELS or (size <= MOST_BYTES and value.count(b"[") + value.count(b"{") <= MOST_LEVELS)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Tree:
    """Names within values, and what is read at each: `inner` has the type by which msgspec decodes a leaf. `required`
    names are there in what goes the fast way, and lead on; `only_known`: there are no others."""

    def __init__(self) -> None:
        self.inner: dict[str, Any] = {}
        self.required: set[str] = set()
        self.only_known = False

    @classmethod
    def of(cls, fields: Fields, shape: Shape) -> _Tree | None:
        """None: two fields are read from one place, or one from within another's, or a name cannot be looked for."""
        if any(_NOT_IN_NAMES.search(step) for places in fields.places.values() for place in places for step in place):
            return None
        if fields.known is not None and fields.envelope is not Envelope.NONE:
            return None
        tree, all_places = cls(), fields.places_in(shape)
        for name, kind in fields.kinds.items():
            places = all_places[name]
            for place in places:
                at = tree._node(place[:-1])
                if at is None or place[-1] in at.inner:
                    return None
                at.inner[place[-1]] = _decoded_as(kind)
                if len(places) == 1 and len(place) == 1 and not kind.nullable and name not in fields.defaults:
                    at.required.add(place[-1])
        for place in (place for name in fields.attributes for place in shape.attribute_places(name)):
            at = tree._node(place[:-1])
            if at is None or place[-1] in at.inner:
                return None
            at.inner[place[-1]] = _SCALAR
        return tree if tree._guarded(fields.envelope, shape) else None

    def _node(self, place: Place) -> _Tree | None:
        """What lies below some names; None: one of them is a leaf."""
        at = self
        for step in place:
            at = at.inner.setdefault(step, _Tree())
            if not isinstance(at, _Tree):
                return None
        return at

    def _guarded(self, envelope: Envelope, shape: Shape) -> bool:
        """Let only values of the shape through, of changes only those with a row; whether that is possible."""
        if envelope is Envelope.NONE or shape.form is Form.BINARY:
            return True
        if envelope is Envelope.CLOUDEVENTS:
            return shape.form is Form.EVENT and self._guarded_event()
        if shape.around:
            self.only_known = True
            self.inner["schema"] = Raw
            self.required |= {*shape.around}
        elif envelope is Envelope.CONNECT and self.inner.setdefault("payload", UnsetType) is not UnsetType:
            return False
        top = self._node(shape.around)
        if top is None or shape.form is Form.NO_CHANGE or (envelope is Envelope.DEBEZIUM and shape.form is Form.PLAIN):
            return False
        if shape.form is Form.CHANGE:
            top.inner[OP[0]] = Literal[KINDS]
            top.required |= {OP[0], AFTER}
            return top._node((AFTER,)) is not None
        if shape.form is Form.FLAT:
            if any(top.inner.get(name, _SCALAR) is not _SCALAR for name in (f"__{MARKED[0]}", "__op")):
                return False  # a declared field of a type of its own
            top.inner[f"__{MARKED[0]}"] = Literal["false"]
            top.required.add(f"__{MARKED[0]}")
            top.inner["__op"] = Literal[KINDS] | None
            return top.inner.setdefault("op", UnsetType) is UnsetType
        return True

    def _guarded_event(self) -> bool:
        """Let only events in structured mode through, with an object as their data."""
        self.inner |= dict.fromkeys(REQUIRED, _NAME) | {REQUIRED[0]: Literal[VERSION], DATA_BASE64: UnsetType}
        self.required |= {*REQUIRED, DATA}
        return True

    def struct(self, only_known: bool = False) -> type[msgspec.Struct]:
        """The type by which msgspec decodes an object."""
        members: list[Any] = []
        for number, (name, of) in enumerate(self.inner.items()):
            kind = of
            if isinstance(of, _Tree):
                kind = of.struct() if name in self.required else of.struct() | None
            is_required = name in self.required
            members.append((f"m{number}", kind) if is_required else (f"m{number}", kind | UnsetType, UNSET))
        rename = {f"m{number}": name for number, name in enumerate(self.inner)}
        only_known = only_known or self.only_known
        return msgspec.defstruct("Value", members, rename=rename, kw_only=True, forbid_unknown_fields=only_known)

    def attributes(self, place: Place) -> list[str]:
        """The attributes that lead to a place."""
        found, at = [], self
        for step in place:
            found.append(f"m{list(at.inner).index(step)}")
            below = at.inner[step]
            if isinstance(below, _Tree):
                at = below
        return found


def _text_getter(tree: _Tree, places: Sequence[Place]) -> Callable[[Any], str | None]:
    """What finds a part of an envelope in a decoded value."""
    paths = [tree.attributes(place) for place in places]

    def text(record: Any) -> str | None:
        value = next((given for path in paths if (given := _follow(record, path)) is not UNSET), None)
        return ("false", "true")[value] if isinstance(value, bool) else None if value is None else str(value)

    return text


def _getter(tree: _Tree, fields: Fields, name: str, places: Sequence[Place]) -> Callable[[Any], Any]:
    """What finds a field in a decoded value: `UNSET` where it is absent and must not be."""
    kind = fields.kinds[name]
    paths = [tree.attributes(place) for place in places]
    if name in fields.defaults:
        return lambda record: next((given for path in paths if (given := _follow(record, path)) is not UNSET), UNSET)
    absent = None if kind.nullable else UNSET
    if len(paths) == 1 and len(paths[0]) == 1:
        direct = attrgetter(paths[0][0])
        if not kind.nullable:
            return direct
        return lambda record: None if (given := direct(record)) is UNSET else given
    return lambda record: next((given for path in paths if (given := _follow(record, path)) is not UNSET), absent)


def _follow(record: Any, path: Sequence[str]) -> Any:
    for step in path:
        if record is None or record is UNSET:
            return UNSET
        record = getattr(record, step)
    return record


def _decoded_as(kind: FieldType) -> Any:
    """The type by which msgspec decodes a field, null or not."""
    match kind.name:
        case "int" | "long":
            return Annotated[int, Meta(ge=-LARGEST[kind.name] - 1, le=LARGEST[kind.name])] | None
        case "timestamp" | "date" if kind.unit:
            return Annotated[int, Meta(ge=-LARGEST["long"] - 1, le=LARGEST["long"])] | None
        case "decimal" | "json":
            return Raw
        case "list":
            assert kind.item
            return list[_decoded_as(kind.item)] | None  # type: ignore[misc]
        case "map":
            assert kind.item
            return dict[str, _decoded_as(kind.item)] | None  # type: ignore[misc]
        case "struct":
            members = [(f"p{number}", *_member(of)) for number, (_, of) in enumerate(kind.fields)]
            rename = {f"p{number}": name for number, (name, _) in enumerate(kind.fields)}
            return msgspec.defstruct("Part", members, rename=rename, kw_only=True) | None
        case _:
            return _DECODED[kind.name] | None


def _member(kind: FieldType) -> tuple[Any, ...]:
    decoded = _decoded_as(kind)
    return (decoded | UnsetType, UNSET) if kind.nullable else (decoded,)


_DECODED: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "double": float,
    "date": str,
    "timestamp": str,
    "binary": str,
}

_SCALAR = str | Annotated[int, Meta(ge=-LARGEST["long"] - 1, le=LARGEST["long"])] | bool | None
"""What of an envelope is text without judgement."""
_NAME = Annotated[str, Meta(min_length=1)]
"""An attribute that each event has."""

Column = Callable[[list[Any]], tuple[pa.Array, Iterable[int]]]
"""Decoded values to a column, and the places of those that have to go the exact way."""


def _column_of(kind: FieldType) -> Column:
    if kind.unit:
        return lambda values: _since_1970(values, kind)
    match kind.name:
        case "string" | "boolean" | "int" | "long":
            return lambda values: (pa.array(values, arrow_type(kind)), ())
        case "double":
            return _doubles
        case "decimal":
            return lambda values: _decimals(values, kind)
        case "date":
            return _dates
        case "timestamp":
            return _timestamps
        case _:
            return lambda values: _one_by_one(values, kind)


def _doubles(values: list[Any]) -> tuple[pa.Array, Iterable[int]]:
    found = pc.add(pa.array(values, pa.float64()), 0.0)  # -0.0 is 0.0
    return found, _where(pc.greater_equal(pc.abs(found), _EXACT_DOUBLES))


def _decimals(values: list[Any], kind: FieldType) -> tuple[pa.Array, Iterable[int]]:
    sure = rf"-?\d{{1,{kind.precision - kind.scale}}}" if kind.precision > kind.scale else "-?0"
    sure += rf"(\.\d{{1,{kind.scale}}})?" if kind.scale else ""
    raw = [bytes(value) if value is not None else None for value in values]
    if kind.base64:
        raw = [_out_of_base64(value, kind.scale) for value in raw]
    texts = pa.array([None if text == b"null" else text for text in raw], pa.binary()).cast(pa.string())
    return _cast(texts, rf'^({sure}|"{sure}")$', lambda sound: pc.utf8_trim(sound, '"').cast(arrow_type(kind)))


def _out_of_base64(raw: bytes | None, scale: int) -> bytes | None:
    """The digits of a decimal in JSON, or what goes the exact way."""
    digits = _with_digits(raw, {0: scale}, 0)
    return b"" if digits and digits[:1] == b'"' else digits


def _dates(values: list[Any]) -> tuple[pa.Array, Iterable[int]]:
    return _cast(pa.array(values, pa.string()), _SURE_DATE, lambda sound: sound.cast(pa.date32()))


def _timestamps(values: list[Any]) -> tuple[pa.Array, Iterable[int]]:
    texts = pa.array(values, pa.string())
    bare = pc.match_substring_regex(texts, _SURE_INSTANT[1])
    texts = pc.if_else(bare, pc.binary_join_element_wise(texts, "Z", ""), texts)
    return _cast(texts, _SURE_INSTANT[0], lambda sound: sound.cast(pa.timestamp("us", "UTC")))


def _cast(texts: pa.Array, sure: str, cast: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, Iterable[int]]:
    """Texts of a sure form cast as one column."""
    fits = pc.match_substring_regex(texts, sure)
    found, refused = _halved(pc.if_else(fits, texts, None), cast)
    return found, [*_where(pc.invert(fits)), *refused]


def _halved(texts: pa.Array, cast: Callable[[pa.Array], pa.Array], start: int = 0) -> tuple[pa.Array, list[int]]:
    """Texts cast as one column, and the places of those that cannot be: 30 February fails the cast of all."""
    try:
        return cast(texts), []
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return cast(pa.nulls(1, pa.string())), [start]
    middle = len(texts) // 2
    left, right = _halved(texts[:middle], cast, start), _halved(texts[middle:], cast, start + middle)
    return pa.concat_arrays([left[0], right[0]]), left[1] + right[1]


def _since_1970(values: list[Any], kind: FieldType) -> tuple[pa.Array, Iterable[int]]:
    counts, largest = pa.array(values, pa.int64()), LARGEST["long"]
    if kind.name == "date":
        first, last = DAYS
    else:
        ends = (FIRST * 1000, (LAST + 1) * 1000 - 1)
        first, last = (max(-largest, min(largest, micros * PER_SECOND[kind.unit] // 1_000_000)) for micros in ends)
    fits = pc.and_(pc.greater_equal(counts, first), pc.less_equal(counts, last))
    if kind.unit == "nanos":
        micros = pc.divide(counts, 1000)
        fits = pc.and_(fits, pc.equal(pc.multiply(micros, 1000), counts))
    else:
        micros = pc.multiply(pc.if_else(fits, counts, None), max(1, 1_000_000 // PER_SECOND.get(kind.unit, 1_000_000)))
    found = pc.if_else(fits, micros, None)
    return (found.cast(pa.int32()) if kind.name == "date" else found).cast(arrow_type(kind)), _where(pc.invert(fits))


def _texts(values: list[Any]) -> tuple[pa.Array, Iterable[int]]:
    return pa.array(values, pa.string()), ()


def _one_by_one(values: list[Any], kind: FieldType) -> tuple[pa.Array, Iterable[int]]:
    made, refused, convert = [], [], _part_of(kind)
    for number, value in enumerate(values):
        try:
            made.append(None if value is None else convert(value))
        except (ProblemError, OverflowError):
            made.append(None)
            refused.append(number)
    return pa.array(made, arrow_type(kind)), refused


def _part_of(kind: FieldType) -> Callable[[Any], Any]:
    """What makes a value of a type from what was decoded, within lists, maps and structs."""
    match kind.name:
        case "list":
            assert kind.item
            item = _or_null(_part_of(kind.item))
            return lambda value: [item(part) for part in value]
        case "map":
            assert kind.item
            item = _or_null(_part_of(kind.item))
            return lambda value: [(name, item(value[name])) for name in sorted(value, key=_utf16)]
        case "struct":
            parts = [
                (name, attrgetter(f"p{number}"), _or_null(_part_of(of)))
                for number, (name, of) in enumerate(kind.fields)
            ]
            return lambda value: {name: convert(get(value)) for name, get, convert in parts}
        case "decimal" | "json":
            return lambda value: typed(parse_exactly(bytes(value).decode()), kind)
        case "double":
            return _sure_double
        case "string" | "boolean" | "int" | "long" if not kind.unit:
            return lambda value: value
        case _ if kind.unit:
            return lambda value: typed(_number(value), kind)
        case _:
            return lambda value: typed(value, kind)


def _or_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None or value is UNSET else convert(value)


def _sure_double(value: float) -> float:
    if abs(value) >= _EXACT_DOUBLES:
        raise OverflowError
    return value + 0.0


def _number(value: int) -> Any:
    return parse_exactly(str(value))


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be")


def _where(condition: pa.Array) -> list[int]:
    """The places where a condition is true."""
    return pc.indices_nonzero(pc.fill_null(condition, False)).to_pylist()  # type: ignore[no-any-return]
