"""Keys and values of sampled records as JSON, and what they are where they are none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onefold.dataset.value_formats import ValueFormat
from onefold.draft.changes import Changes, are_service_records, are_signals, open_envelopes, without_marks
from onefold.draft.events import Events, open_events
from onefold.draft.json_values import parse_json
from onefold.draft.message import Message
from onefold.draft.registered import Asked, Written, as_text, named_messages, read_keys, read_values
from onefold.draft.sample import Sample
from onefold.draft.schema_fields import SchemaField
from onefold.errors import NoDraftError
from onefold.formats.text import BOM
from onefold.kafka.record import Record

_MAGIC = 0
"""The first byte of the schema registry's wire format; four bytes of schema id follow."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The messages of a sample, how their keys are read and why, and how many values could not be used, by reason."""

    messages: list[Message]
    key_format: str
    key_reason: str
    problems: Counter[str]
    changes: Changes | None = None
    """What envelopes said around the rows of the messages."""
    events: Events | None = None
    """What CloudEvents said around them."""
    written: Written | None = None
    """How values are written that name schemas of a registry."""
    key_registry: str = ""
    """The connection of the registry whose schemas the keys name, if they do."""
    known: Mapping[str, SchemaField] = field(default_factory=dict)
    """Fields of the rows by name, as far as a schema declares them."""

    @property
    def tombstones(self) -> int:
        """Records with a key and no value."""
        return sum(1 for message in self.messages if message.value is None and message.record.key is not None)


def open_sample(name: str, sample: Sample, asked: Asked | None = None) -> Opened:
    """The messages of a sample, for the dataset `name`; `asked`: the registry that has the schemas that they name.

    Raises:
        NoDraftError: most values are no JSON objects, and name no schemas that can be asked for; all of them are null,
            or they are no rows.
    """
    written = _written(name, sample, asked)
    key_format, reason, keys, key_registry = _open_keys(sample.records, sample, asked)
    problems = Counter(written.problems) if written else Counter[str]()
    messages = []
    for index, record in enumerate(sample.records):
        if written and record.value:
            if index in written.left_out or index not in written.json:
                continue
            value, problem = _object(written.json[index])
        else:
            value, problem = _value(record.value)
        if problem:
            problems[problem] += 1
        else:
            messages.append(Message(record, value, keys[index], dict(record.headers)))
    objects = [message.value for message in messages if message.value is not None]
    if not objects or problems.total() > len(objects):
        raise _no_objects(name, sample, len(messages) - len(objects), problems)
    if are_service_records(objects):
        problem = "most values are records of a connector's own (heartbeats, borders of transactions, schema changes)"
        raise NoDraftError(name, sample.place, problem, "Draft from a topic of a table.")
    # Only JSON is read out of events.
    events = None if written else open_events(messages, lambda data: _value(data)[0])
    if events is not None:
        rows, seen = events
        if not any(message.value is not None for message in rows):
            problem = "no CloudEvent in the sample has an object as its data"
            raise NoDraftError(name, sample.place, problem, "Draft from more records (--sample).")
        found = problems + seen.problems
        return Opened(rows, key_format, reason, found, events=seen, key_registry=key_registry)
    messages, changes = _open_changes(name, sample, messages)
    known = _known(written, changes)
    messages = [_by_new_names(message, known) for message in messages]
    return Opened(messages, key_format, reason, problems, changes, None, written, key_registry, known)


def _open_changes(name: str, sample: Sample, messages: list[Message]) -> tuple[list[Message], Changes | None]:
    """The messages with their rows, where most values are changes of a database."""
    opened = open_envelopes(messages)
    if opened is None:
        return messages, None
    rows = [message.value for message in opened[0] if message.value is not None]
    if not rows:
        problem = "no value in the sample is a row: they delete, or are a connector's own records"
        raise NoDraftError(name, sample.place, problem, "Draft from more records (--sample).")
    if are_signals(rows):
        problem = "most rows are signals to a connector (its signal table)"
        raise NoDraftError(name, sample.place, problem, "Draft from a topic of another table.")
    return opened


def _by_new_names(message: Message, known: Mapping[str, SchemaField]) -> Message:
    """The message with fields under the names that they have now."""
    value = message.value
    if value is None:
        return message
    former = {
        old: declared.name
        for declared in known.values()
        if declared.name not in value
        for old in declared.aliases
        if old in value and old not in known
    }
    return replace(message, value={former.get(name, name): inner for name, inner in value.items()})


def _written(name: str, sample: Sample, asked: Asked | None) -> Written | None:
    """How values are written that name schemas; None: most are read without."""
    named = named_messages(sample.records, "value")
    there = [record.value for record in sample.records if record.value]
    if asked is None or 2 * len(named) <= len(there):
        return None
    try:
        return read_values(name, sample, named, asked)
    except NoDraftError:
        if 2 * sum(not _value(data)[1] for data in there) > len(there):  # a header names it, and JSON needs no schema
            return None
        raise


def _known(written: Written | None, changes: Changes | None) -> Mapping[str, SchemaField]:
    if changes and changes.types:
        return changes.types
    if written is None:
        return {}
    fields = written.fields(changes.place if changes else ())
    return without_marks(fields) if changes and changes.flattened else fields


def _value(data: bytes | None) -> tuple[dict[str, Any] | None, str]:
    """A value's JSON object, and else what it is."""
    if data is None:
        return None, ""
    if data == b"":
        return None, "empty"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None, _bytes_like(data)
    try:
        value = parse_json(text.removeprefix(BOM))
    except ValueError:
        return None, _bytes_like(data) if data[0] == _MAGIC else f"text that is not JSON{_text_like(text)}"
    if _HALF.search(text) and _has_half_pairs(value):
        return None, "text with half of a surrogate pair"
    return _object(value)


def _object(value: Any) -> tuple[dict[str, Any] | None, str]:
    if isinstance(value, dict):
        return value, ""
    return None, f"a JSON {_NAMES.get(type(value), 'number')}, no object"


_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape of a surrogate: of a pair, or of half a pair."""


def _has_half_pairs(value: Any) -> bool:
    match value:
        case str():
            return any("\ud800" <= letter <= "\udfff" for letter in value)
        case dict():
            return any(map(_has_half_pairs, (*value, *value.values())))
        case list():
            return any(map(_has_half_pairs, value))
        case _:
            return False


_NAMES: dict[type, str] = {str: "string", list: "array", bool: "boolean", type(None): "null"}


def _bytes_like(data: bytes) -> str:
    if data[0] == _MAGIC and len(data) > 5:
        schema = int.from_bytes(data[1:5], "big")
        return f"bytes in the schema registry's wire format, schema id {schema} (Avro, Protobuf or JSON Schema)"
    return "bytes that are not UTF-8"


def _text_like(text: str) -> str:
    start = text.lstrip()[:1]
    return {"<": " (XML?)", "": " (blank)"}.get(start, "")


def _no_objects(name: str, sample: Sample, nulls: int, problems: Counter[str]) -> NoDraftError:
    seen = [f"{count} are {what}" for what, count in problems.most_common(3)]
    seen += [f"{nulls} are null"] if nulls else []
    problem = f"of {len(sample.records)} values in the sample, {'; '.join(seen)}"
    advice = (
        "Only values that are JSON objects, or that name schemas of a registry, can be drafted. Avro and Protobuf "
        "without the id of a schema can be folded by a schema file: write value.format and value.schema by hand "
        "(docs/datasets.md)."
    )
    return NoDraftError(name, sample.place, problem, advice)


# Keys.


def _open_keys(records: Sequence[Record], sample: Sample, asked: Asked | None) -> tuple[str, str, list[Any], str]:
    """The format of the keys and why, what each key is, and the registry that its schema is of."""
    named = named_messages(records, "key") if asked else {}
    are_named = 2 * len(named) > sum(record.key is not None for record in records)
    if asked and are_named and (written := read_keys(sample, named, asked)):
        keys = [as_text(written.json.get(index)) for index in range(len(records))]
        return written.format, written.reason, keys, written.connection
    key_format, reason = _key_format(records)
    return key_format, reason, [_key(record.key, key_format) for record in records], ""


def _key_format(records: Sequence[Record]) -> tuple[str, str]:
    keys = [record.key for record in records if record.key is not None]
    if not keys:
        return ValueFormat.STRING, "no record in the sample has a key"
    texts = [text for text in map(_utf8, keys) if text is not None]
    objects = sum(isinstance(_json(text), dict) for text in texts)
    of = f"of {len(keys)} keys"
    if 2 * objects > len(keys):
        return ValueFormat.JSON, f"{objects} {of} are JSON objects"
    if 2 * len(texts) > len(keys) and not any("\0" in text for text in texts):
        return ValueFormat.STRING, f"{len(texts)} {of} are text"
    return ValueFormat.BYTES, f"{len(texts)} {of} are text; bytes cannot be used in expressions"


def _key(data: bytes | None, key_format: str) -> Any:
    text = None if data is None else _utf8(data)
    if text is None or key_format == ValueFormat.BYTES:
        return None
    if key_format == ValueFormat.STRING:
        return text
    parts = _json(text)
    return parts if isinstance(parts, dict) else None


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None
