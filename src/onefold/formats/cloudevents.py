"""CloudEvents 1.0 in Kafka: where an event has its attributes and its data.

In binary mode, a header `ce_specversion` says that it is an event. Attributes are headers `ce_NAME`, the header
`content-type` is the attribute `datacontenttype`, and the value is the data. In structured mode the header
`content-type` is `application/cloudevents+json`, or absent, and the value is an object with the attributes and `data`,
or `data_base64`.

Sources: CloudEvents' Kafka Protocol Binding 1.0.2, section 3, and JSON Event Format 1.0.2, sections 2 to 4.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onefold.formats.envelopes import NoRowError
from onefold.formats.text import SURROGATE, Number, shown
from onefold.vocabulary import Reason

PREFIX = "ce_"
"""Begins the headers of attributes."""
CONTENT_TYPE = "content-type"
REQUIRED = ("specversion", "id", "source", "type")
"""The attributes that each event has."""
DATA, DATA_BASE64 = "data", "data_base64"
VERSION = "1.0"
_EVENTS = "application/cloudevents"
_OF_JSON = re.compile(r"[^/]+/(?:[^/]+\+)?json")
Headers = Mapping[str, bytes | None]
"""Headers by name (`headers_of`)."""


@dataclass(frozen=True, slots=True)
class BinaryEvent:
    """An event in binary mode."""

    attributes: Mapping[str, str]
    data: bytes | None


def headers_of(pairs: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Headers by name, of equal names the last, as `header.NAME` has it; `content-type` in small letters."""
    return {CONTENT_TYPE if name.lower() == CONTENT_TYPE else name: value for name, value in pairs}


def attributes_in(headers: Headers) -> dict[str, str] | None:
    """The attributes of an event in binary mode; None: the value has to be an event in structured mode.

    Raises:
        NoRowError: they are no event's, or of events in another form than one JSON object each.
    """
    content_type = _text_of(headers, CONTENT_TYPE)
    media = _media(content_type)
    if media.startswith(_EVENTS):
        _check_form(media)
        return None
    if f"{PREFIX}{REQUIRED[0]}" not in headers:
        return None
    texts = {name.removeprefix(PREFIX): _text_of(headers, name) for name in headers if name.startswith(PREFIX)}
    attributes = {name: text for name, text in texts.items() if text is not None}
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    if missing := [f"{PREFIX}{name}" for name in REQUIRED if name not in attributes]:
        raise NoRowError(Reason.UNDECODABLE, f"the event has no {_listed(missing)} among its headers")
    _check_required(attributes, PREFIX)
    return attributes


def check_structured(value: Mapping[str, Any]) -> None:
    """Check that a JSON object is an event in structured mode.

    Raises:
        NoRowError: it is none.
    """
    if missing := [name for name in REQUIRED if value.get(name) is None]:
        why = f"the value is no CloudEvent: it has no {_listed(missing)}"
        if REQUIRED[0] in missing:
            why += f", and there is no header {PREFIX}{REQUIRED[0]}"
        raise NoRowError(Reason.UNDECODABLE, why)
    _check_required(value, "")


def data_of(event: Mapping[str, Any]) -> dict[str, Any] | bytes:
    """The data of an event in structured mode: an object, or the bytes of JSON.

    Raises:
        NoRowError: it has none (`null_value`), or no object.
    """
    data, encoded = event.get(DATA), event.get(DATA_BASE64)
    if data is None and encoded is None:
        raise no_data()
    if data is not None and encoded is not None:
        raise NoRowError(Reason.UNDECODABLE, f"the event has both {DATA} and {DATA_BASE64}")
    if isinstance(data, dict):
        return data
    if encoded is None:
        raise NoRowError(Reason.WRONG_TYPE, f"{DATA} is no JSON object")
    kind = event.get("datacontenttype")
    if kind is not None and not _OF_JSON.fullmatch(_media(str(kind))):
        raise NoRowError(
            Reason.UNDECODABLE, f"{DATA_BASE64} is of datacontenttype {shown(str(kind))}, and only JSON is read"
        )
    return _decoded(encoded)


def no_data() -> NoRowError:
    """Why an event without data is no row."""
    return NoRowError(Reason.NULL_VALUE, "the event has no data")


def _decoded(encoded: Any) -> bytes:
    refused = NoRowError(Reason.UNDECODABLE, f"{DATA_BASE64} is no Base64 text")
    if not isinstance(encoded, str) or isinstance(encoded, Number):
        raise refused
    try:
        data = b64decode(encoded, validate=True)
    except ValueError:  # binascii.Error is one
        raise refused from None
    if b64encode(data).decode() != encoded:
        raise refused
    return data


def _check_form(media: str) -> None:
    """Only events as JSON are read, and one of them a record."""
    form = media.removeprefix(_EVENTS)
    if form.startswith("-batch"):
        raise NoRowError(
            Reason.UNDECODABLE, f"{CONTENT_TYPE} {shown(media)}: a batch of events; write one event a record"
        )
    if form not in ("", "+json"):
        raise NoRowError(
            Reason.UNDECODABLE, f"{CONTENT_TYPE} {shown(media)}: of events in structured mode only JSON is read"
        )


def _check_required(attributes: Mapping[str, Any], prefix: str) -> None:
    for name in REQUIRED:
        text = attributes[name]
        if not isinstance(text, str) or isinstance(text, Number) or SURROGATE.search(text):
            raise NoRowError(Reason.UNDECODABLE, f"{prefix}{name} of the event is no text")
        if not text:
            raise NoRowError(Reason.UNDECODABLE, f"{prefix}{name} of the event is empty")
    if attributes[REQUIRED[0]] != VERSION:
        version = shown(attributes[REQUIRED[0]])
        raise NoRowError(Reason.UNDECODABLE, f"{prefix}{REQUIRED[0]} is {version}, and only {VERSION} is read")


def _media(content_type: str | None) -> str:
    """`application/json` of `Application/JSON; charset=utf-8`."""
    return (content_type or "").partition(";")[0].strip(" \t").lower()


def _text_of(headers: Headers, name: str) -> str | None:
    data = headers.get(name)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError as error:
        place = len(data[: error.start].decode()) + 1 if data else 0
        raise NoRowError(Reason.UNDECODABLE, f"header {shown(name)!r} is not UTF-8 at character {place}") from None


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
