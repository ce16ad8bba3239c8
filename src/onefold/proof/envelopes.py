"""Envelopes opened a second time, in another way than `onefold.formats.envelopes` opens them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from onefold.dataset import Dataset
from onefold.dataset.envelopes import Envelope
from onefold.formats.text import Number, json_text, nests_too_deep, parse_exactly
from onefold.proof.connect_decimals import UNAVAILABLE, schema_of

_NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"
_ABSENT: Any = ...


@dataclass(frozen=True, slots=True)
class Change:
    """What a value says. `row`: null where it is no row; of a delete only `_ABSENT` but for its key."""

    row: Mapping[str, Any] | None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    is_null: bool = False
    has_placeholders: bool = False
    schema: Any = None
    """That of the row, as Kafka Connect writes it."""

    @classmethod
    def of(cls, value: Any) -> Change:
        """A value without an envelope."""
        return cls(value if isinstance(value, dict) else None)

    @property
    def names(self) -> set[str]:
        """The names of the row that are the dataset's to know."""
        return {name for name in self.row or () if not (self.has_placeholders and name.startswith("__"))}


NOTHING = Change({})


def opener(dataset: Dataset) -> Callable[[Any], Change]:
    """What opens the values of a dataset, which are parsed."""
    envelope, key = dataset.value.envelope, dataset.fields_of_delete
    assert envelope is not Envelope.CLOUDEVENTS, "onefold.proof.cloudevents opens these"
    tops = {place[0] for name in key for place in dataset.read_places[name]}
    attributes = dataset.envelope_attributes

    def opened(value: Any) -> Change:
        schema = None
        if envelope is Envelope.NONE or not isinstance(value, dict):
            return Change.of(value)
        if set(value) in ({"payload"}, {"schema", "payload"}):
            schema, value = value.get("schema"), value["payload"]
            if value is None:
                return Change(None, is_null=True)
            if not isinstance(value, dict):
                return Change(None)
        if envelope is Envelope.CONNECT:
            return Change(value, schema=schema)
        full = "op" in value and bool({"before", "after", "source"} & set(value))
        said = {".".join(name): _said(value, name, full=full) for name in attributes}
        if full:
            image = {"c": "after", "u": "after", "r": "after", "d": "before"}.get(_text(value["op"]))
            found = value.get(image) if image else None
            if type(found) is str:
                found = _document(found)
                if found is None:
                    return Change(None, said)
            if image == "before":
                found = {name: found[name] for name in tops & set(found)} if isinstance(found, dict) else {}
            row = found if isinstance(found, dict) else None
            return Change(row, said, has_placeholders=True, schema=schema_of(schema, (image,)) if image else None)
        if not {"__op", "__deleted"} & set(value):
            return Change(None, said)
        mark = value.get("__deleted")
        if mark is None and dataset.deletes_by_envelope:
            return Change(None, said)
        deletes = value.get("__op") == "d" or str(mark).lower() == "true"
        row = {name: value[name] for name in tops & set(value)} if deletes else value
        return Change(row, said, has_placeholders=True, schema=schema)

    return opened


def _document(text: str) -> dict[str, Any] | None:
    """A document of MongoDB by the values that its extended JSON means."""
    try:
        found = None if nests_too_deep(text) else parse_exactly(text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    inner = partial(json.loads, object_pairs_hook=_meaning_of, parse_int=Number, parse_float=Number)
    return {name: inner(json_text(member)) for name, member in found.items()}


def _meaning_of(pairs: list[tuple[str, Any]]) -> Any:
    value = dict(pairs)
    match [(name, given) for name, given in value.items() if name != "$type" or len(value) == 1]:
        case [("$oid", str(text))] if not isinstance(text, Number):
            return text
        case [("$numberInt" | "$numberLong" | "$numberDouble" | "$numberDecimal", str(text))] if re.fullmatch(
            _NUMBER, text
        ) and not isinstance(text, Number):
            return Number(text)
        case [("$binary", {"base64": str(text), "subType": _, **other})] if not other and not isinstance(text, Number):
            return text
        case [("$date" | "$binary", str(text))] if not isinstance(text, Number):
            return text
        case [("$date", Number() as count)]:
            return _instant(count) or value
        case _:
            return value


def _instant(count: str) -> str | None:
    if not re.fullmatch(r"-?\d{1,15}", count):
        return None
    seconds, millis = divmod(int(count), 1000)
    try:
        begins = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return None
    return f"{begins.isoformat()[:19]}.{millis:03d}Z"


def is_placeholder(given: Any) -> bool:
    """Whether the connector had no value."""
    match given:
        case [only]:
            return is_placeholder(only)
        case {"__debezium_unavailable_value": _} if len(given) == 1:
            return True
        case str():
            return given in UNAVAILABLE
        case _:
            return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _said(value: Mapping[str, Any], name: Sequence[str], *, full: bool) -> Any:
    if full:
        found: Any = value
        for step in name:
            found = found.get(step, _ABSENT) if isinstance(found, dict) else _ABSENT
        return None if found is _ABSENT or name == ("deleted",) else found
    spelled = ["__" + "_".join(name)]
    if name[0] == "source" and len(name) > 1 and name[1] not in {"op", "ts_ms", "ts_us", "ts_ns"}:
        spelled.append("__" + "_".join(name[1:]))
    return next((value[text] for text in spelled if text in value), None)
