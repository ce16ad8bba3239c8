"""CloudEvents opened a second time, in another way than `onefold.formats.cloudevents` opens them."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from onefold.formats.text import Number
from onefold.proof.envelopes import NOTHING, Change
from onefold.proof.registered import Headers

_AS_MEDIA_TYPES = re.ASCII | re.IGNORECASE | re.DOTALL
_STRUCTURED = re.compile(r"[ \t]*application/cloudevents(?P<form>[^;]*?)[ \t]*(;.*)?", _AS_MEDIA_TYPES)
_JSON = re.compile(r"[ \t]*[^/; \t][^/;]*/([^/;]+\+)?json[ \t]*(;.*)?", _AS_MEDIA_TYPES)
_HALF = re.compile("[\ud800-\udfff]")
_NO_EVENT = Change(None)


def event_opener(read: Callable[[bytes], Any]) -> Callable[[Headers], tuple[Callable[[Any], Change], Change]]:
    """What gives, by the headers of a record, what opens its parsed value, and what a null value says.

    Args:
        read: bytes to the JSON that they are.
    """

    def structured(value: Any) -> Change:
        if not isinstance(value, dict) or not _is_event(value):
            return _NO_EVENT
        said = {name: given for name, given in value.items() if not name.startswith("data_") and name != "data"}
        match value.get("data"), value.get("data_base64"):
            case None, None:
                return Change(None, said, is_null=True)
            case dict() as data, None:
                return Change(data, said)
            case None, str() as encoded if not isinstance(encoded, Number) and _is_json(value.get("datacontenttype")):
                decoded = _bytes_of(encoded)
                return _row(... if decoded is None else read(decoded), said)
        return Change(None, said)

    def opened_by(named: Mapping[str, bytes | None]) -> tuple[Callable[[Any], Change], Change]:
        kind = (named.get("content-type") or b"").decode()
        if is_structured := _STRUCTURED.fullmatch(kind):
            form = is_structured["form"].lower()
            return (structured if form in ("", "+json") else _refuse), NOTHING
        if "ce_specversion" not in named:
            return structured, NOTHING
        attributes = {name[3:]: data.decode() for name, data in named.items() if data is not None and name[:3] == "ce_"}
        if named.get("content-type") is not None:
            attributes["datacontenttype"] = kind
        if not _is_event(attributes):
            return _refuse, NOTHING
        return lambda value: _row(value, attributes), Change({}, attributes)

    def opener(headers: Headers) -> tuple[Callable[[Any], Change], Change]:
        if headers is None:
            return _refuse, NOTHING
        try:
            return opened_by({_name(header["key"]): header["value"] for header in headers})
        except UnicodeDecodeError:
            return _refuse, NOTHING

    return opener


def _name(key: str) -> str:
    return "content-type" if key.lower() == "content-type" else key


def _row(data: Any, attributes: Mapping[str, Any]) -> Change:
    return Change(data if isinstance(data, dict) else None, attributes, is_null=data is None)


def _refuse(value: Any) -> Change:
    del value
    return _NO_EVENT


def _is_event(attributes: Mapping[str, Any]) -> bool:
    texts = [attributes.get(name) for name in ("id", "source", "type", "specversion")]
    if any(not isinstance(text, str) or isinstance(text, Number) or text == "" or _HALF.search(text) for text in texts):
        return False
    return texts[-1] == "1.0"


def _is_json(kind: Any) -> bool:
    return kind is None or (isinstance(kind, str) and _JSON.fullmatch(kind) is not None)


def _bytes_of(encoded: str) -> bytes | None:
    try:
        data = binascii.a2b_base64(encoded.encode("ascii"), strict_mode=True)
    except ValueError:  # UnicodeEncodeError and binascii.Error are some
        return None
    return data if binascii.b2a_base64(data, newline=False) == encoded.encode() else None
