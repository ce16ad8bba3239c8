"""Keys and values of a sample that name schemas of a registry: each as the JSON that it says, and the fields that all
versions of its schema declare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from onefold.dataset.value_formats import ValueFormat
from onefold.draft.entries import counted
from onefold.draft.json_values import parse_json
from onefold.draft.languages import RecordType, format_of, open_message, open_named
from onefold.draft.sample import Sample
from onefold.draft.schema_fields import SchemaField, Version, merge
from onefold.errors import NoDraftError, RegistryRefusedError, RegistryUnavailableError, UsageError
from onefold.formats.structured_json import FormatError
from onefold.formats.wire import Header, MessagePlace, SchemaId, header_names, message_place, payload, schema_id
from onefold.kafka.record import Record
from onefold.schemas.client import Answer, Client
from onefold.schemas.connection import how_to_set

_MOST_ASKED = 200
"""Ids of a sample that a registry is asked for, at most, those of the most records first."""
_MOST_VERSIONS = 50
"""Versions of a subject that are looked at, at most, the newest first."""
_MOST_SUBJECTS = 10
"""Subjects of one record type that are looked at, at most: each topic may have its own."""
_MOST_NAMED = 3
"""Ids and names that a text names."""


@dataclass
class Asked:
    """A registry, by its connection, that is asked for each id once."""

    connection: str
    open: Callable[[], Client]
    """UsageError: nothing says how it is reached."""
    _answers: dict[SchemaId, Answer | None] = field(default_factory=dict)

    @cached_property
    def client(self) -> Client:
        """What asks it."""
        return self.open()

    def answer(self, id_: SchemaId) -> Answer | None:
        """What it says of an id; None: it knows none."""
        if id_ not in self._answers:
            self._answers[id_] = self.client.schema(id_)
        return self._answers[id_]


@dataclass(frozen=True, slots=True)
class Named:
    """A message behind the name of its schema."""

    id: SchemaId
    header: Header | None
    payload: bytes


@dataclass(frozen=True, slots=True)
class Written:
    """How the keys or values of a sample are written."""

    format: ValueFormat
    connection: str
    json: Mapping[int, Any]
    """What the messages say, by the index of their record."""
    problems: Counter[str]
    """How many could not be read, by what they are."""
    left_out: frozenset[int]
    """The records of other types than the one that is drafted."""
    types: Counter[str]
    """Records by the name of their type, the drafted type first."""
    doc: str
    reason: str
    _versions: tuple[tuple[str, RecordType], ...]

    def fields(self, within: Sequence[str] = ()) -> dict[str, SchemaField]:
        """The fields over all versions; with names, those of the part that they lead to."""
        versions = [Version(label, found) for label, kind in self._versions if (found := _fields_of(kind, within))]
        return merge(versions) if versions else {}


def _fields_of(kind: RecordType, within: Sequence[str]) -> list[SchemaField]:
    try:
        return kind.fields(within)
    except Exception:  # a registry may hold any schema; then the sample's values have to tell
        return []


def named_messages(records: Sequence[Record], section: str) -> dict[int, Named]:
    """The keys or values that name a schema, by the index of their record."""
    found = {}
    for index, record in enumerate(records):
        data = record.value if section == "value" else record.key
        if not data:
            continue
        header = _header(record, section)
        try:
            id_, at = schema_id(data, header, places=True)
            found[index] = Named(id_, header, payload(data, at))
        except FormatError:
            continue
    return found


def _header(record: Record, section: str) -> Header | None:
    """The header that names the schema."""
    names = header_names(section)
    texts = [Header(name, value.encode()) for name, value in record.headers if name in names and value is not None]
    named = [*texts, *(Header(name, value) for name, value in record.binary_headers if name in names)]
    return named[-1] if named else None


def read_values(name: str, sample: Sample, named: Mapping[int, Named], asked: Asked) -> Written:
    """The values of a sample that name schemas.

    Raises:
        NoDraftError: the registry cannot be asked, or knows none of the schemas, or no value can be read.
    """
    there = [record for record in sample.records if record.value]
    seen = f"{len(named)} of {counted(len(there), 'value')} in the sample name schemas of a registry ({_ids(named)})"
    advice = f"{how_to_set(asked.connection)} --registry names another connection."
    try:
        written = _read(sample, named, asked, "value")
    except UsageError as error:
        problem = str(error).partition(". Nothing was judged")[0]
        raise NoDraftError(name, sample.place, f"{seen}, and {problem}", advice) from None
    except RegistryUnavailableError as error:
        problem = f"the schema registry {error.connection} ({error.url}) does not answer: {error.problem}"
        raise NoDraftError(name, sample.place, f"{seen}, and {problem}", advice) from None
    except RegistryRefusedError as error:
        problem = f"the schema registry {error.connection} ({error.url}): {error.problem}"
        raise NoDraftError(name, sample.place, f"{seen}, and {problem}", advice) from None
    if written is None:
        problem = f"{seen}, and the schema registry {asked.connection} knows none of them"
        raise NoDraftError(name, sample.place, problem, "Is it the registry of these producers? " + advice)
    if not written.json:
        problems = "; ".join(f"{count} are {what}" for what, count in written.problems.most_common(3))
        raise NoDraftError(name, sample.place, f"{seen}, and none can be read: {problems}", "Draft from other records.")
    return written


def read_keys(sample: Sample, named: Mapping[int, Named], asked: Asked) -> Written | None:
    """The keys of a sample that may name schemas; None: the registry cannot be asked, or most keys are no messages of
    its schemas (a number of eight bytes may look like one)."""
    try:
        written = _read(sample, named, asked, "key")
    except (UsageError, RegistryUnavailableError, RegistryRefusedError):
        return None
    return written if written and 2 * len(written.json) > len(named) else None


def _ids(named: Mapping[int, Named]) -> str:
    counts = Counter(str(message.id.value) for message in named.values())
    ids = [id_ for id_, _ in counts.most_common()]
    more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return f"schema id{'' if len(ids) == 1 else 's'} {', '.join(ids[:_MOST_NAMED])}{more}"


def _read(sample: Sample, named: Mapping[int, Named], asked: Asked, section: str) -> Written | None:
    counts = Counter(message.id for message in named.values())
    answers = {id_: answer for id_, _ in counts.most_common(_MOST_ASKED) if (answer := asked.answer(id_))}
    if not answers:
        return None
    formats = Counter[ValueFormat]()
    for id_, answer in answers.items():
        formats[format_of(answer.schema)] += counts[id_]
    [(format_, _)] = formats.most_common(1)
    kinds, problems = _Kinds(answers, format_), Counter[str]()
    opened: dict[int, tuple[RecordType, bytes]] = {}
    for index, message in named.items():
        try:
            opened[index] = kinds.of(message)
        except FormatError as error:
            problems[str(error)] += 1
    # Of keys each is read by its own schema.
    types = Counter(_name(kind) for kind, _ in opened.values())
    drafted = types.most_common(1)[0][0] if types else ""
    found, left_out = {}, set[int]()
    for index, (kind, data) in opened.items():
        if section == "value" and _name(kind) != drafted:
            left_out.add(index)
            continue
        try:
            found[index] = parse_json(kind.read(data).decode())
        except (FormatError, ValueError):
            problems["bytes that are no message of their schema"] += 1
    _add_bare(sample, named, section, format_, found, problems)
    versions = kinds.versions(drafted, sample.topics, asked, section)
    of = f" ({versions.reason})" if versions.reason else ""
    reason = f"{counted(len(named), section)} name{'s' * (len(named) == 1)} schemas of the registry{of}"
    ordered = Counter(dict(types.most_common()))
    return Written(
        format_, asked.connection, found, problems, frozenset(left_out), ordered, kinds.doc(versions), reason,
        versions.kinds,
    )  # fmt: skip


def _add_bare(
    sample: Sample,
    named: Mapping[int, Named],
    section: str,
    format_: ValueFormat,
    found: dict[int, Any],
    problems: Counter[str],
) -> None:
    """Messages that name no schema: JSON needs none."""
    for index, record in enumerate(sample.records):
        data = record.value if section == "value" else record.key
        if index in named or not data:
            continue
        try:
            value = parse_json(data.decode()) if format_ is ValueFormat.JSON_SCHEMA else None
        except ValueError:
            value = None
        if value is None:
            problems["bytes without the id of a schema"] += 1
        else:
            found[index] = value


def _name(kind: RecordType) -> str:
    return kind.name or ""


@dataclass(frozen=True, slots=True)
class _Versions:
    """The versions of a record type, the newest first, each with what it is called; and what they are of."""

    kinds: tuple[tuple[str, RecordType], ...]
    reason: str


class _Kinds:
    """The record types of the schemas that a sample names, each opened once."""

    def __init__(self, answers: Mapping[SchemaId, Answer], format_: ValueFormat) -> None:
        self._answers, self._format = answers, format_
        self._opened: dict[tuple[SchemaId, MessagePlace], RecordType | FormatError] = {}

    def of(self, message: Named) -> tuple[RecordType, bytes]:
        """The record type of a message, and its own bytes.

        Raises:
            FormatError: there is none.
        """
        answer = self._answers.get(message.id)
        if answer is None:
            raise FormatError("behind the id of a schema that the registry does not know")
        if format_of(answer.schema) is not self._format:
            raise FormatError(f"of format {format_of(answer.schema)}")
        place, data = _placed(message) if self._format is ValueFormat.PROTOBUF else _whole(message)
        if (message.id, place) not in self._opened:
            self._opened[message.id, place] = self._open(message.id, place)
        kind = self._opened[message.id, place]
        if isinstance(kind, FormatError):
            raise kind
        return kind, data

    def _open(self, id_: SchemaId, place: MessagePlace) -> RecordType | FormatError:
        try:
            return open_message(self._answers[id_].schema, place)
        except FormatError as error:
            return FormatError(f"of schema {id_.value}, whose messages cannot be read: {error}")
        except Exception as error:  # a registry may hold any schema
            return FormatError(f"of schema {id_.value}, whose messages cannot be read: {type(error).__name__}")

    def versions(self, name: str, topics: Sequence[str], asked: Asked, section: str) -> _Versions:
        """The versions of the record type of this name: those of the sample, and all others of their subject."""
        sampled = {
            id_: kind for (id_, _), kind in self._opened.items() if isinstance(kind, RecordType) and _name(kind) == name
        }
        subjects = self._subjects(sampled, topics, section)
        found: dict[str, tuple[str, RecordType]] = {}
        numbers: dict[str, list[int]] = {}
        for subject in subjects:
            for answer in asked.client.versions(subject, _MOST_VERSIONS):
                [(_, number)] = answer.subjects
                kind = _named_in(answer, name)
                if kind and answer.schema.text not in found:
                    of = f" of {subject}" if len(subjects) > 1 else ""
                    found[answer.schema.text] = f"version {number}{of}", kind
                    numbers.setdefault(subject, []).append(number)
        for id_ in sorted(sampled, key=_age, reverse=True):
            found.setdefault(self._answers[id_].schema.text, (f"schema id {id_.value}", sampled[id_]))
        seen = [f"{subject}, version{'s' * (len(of) > 1)} {_ranges(of)}" for subject, of in numbers.items()]
        return _Versions(tuple(found.values()), "; ".join(seen[:_MOST_NAMED]))

    def _subjects(self, sampled: Mapping[SchemaId, RecordType], topics: Sequence[str], section: str) -> list[str]:
        """The subjects of a record type: those of the topics, else what most of its schemas are registered for."""
        counts = Counter(subject for id_ in sampled for subject, _ in self._answers[id_].subjects)
        if own := [f"{topic}-{section}" for topic in topics if f"{topic}-{section}" in counts]:
            return own[:_MOST_SUBJECTS]
        of_topics = [subject for subject in counts if any(subject.startswith(f"{topic}-") for topic in topics)]
        return of_topics[:1] or [subject for subject, _ in counts.most_common(1)]

    def doc(self, versions: _Versions) -> str:
        """What the newest version says of its records."""
        return versions.kinds[0][1].doc if versions.kinds else ""


def _placed(message: Named) -> tuple[MessagePlace, bytes]:
    return message_place(message.payload, message.id, message.header)


def _whole(message: Named) -> tuple[MessagePlace, bytes]:
    return (), message.payload


def _named_in(answer: Answer, name: str) -> RecordType | None:
    try:
        return open_named(answer.schema, name or None)
    except Exception:  # a registry may hold any schema, and this version may have no records
        return None


def _age(id_: SchemaId) -> tuple[bool, int, str]:
    """Higher of what was registered later, as far as an id says so."""
    return id_.value.isdigit(), int(id_.value) if id_.value.isdigit() else 0, id_.value


def _ranges(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def as_text(key: Any) -> Any:
    """A decoded key as expressions read it: its parts, or the text of a string or number."""
    match key:
        case dict() | str():
            return key
        case int() if not isinstance(key, bool):
            return str(key)
        case Decimal():
            return f"{key:f}"
        case _:
            return None
