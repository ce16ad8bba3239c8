"""The key digest of a key that a person typed: the same as `onefold.records.canonical` gives, without Spark."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from typing import Any

from onefold.dataset import Dataset
from onefold.dataset.expressions import CASTS, Call, Expression, Path
from onefold.dataset.types import FieldType
from onefold.errors import UsageError


def digest_of_key(dataset: Dataset, key: dict[str, Any]) -> bytes:
    """SHA-256 over the parts of a key, given by the names of `dataset.key_names`.

    Raises:
        UsageError: parts are missing or unknown, or a value is not one of its type.
    """
    if not dataset.key_names:
        raise UsageError(f"{dataset.name} has no key but the position (see `onefold verdicts`)")
    if set(key) != set(dataset.key_names):
        wanted = ", ".join(f'"{name}": …' for name in dataset.key_names)
        raise UsageError(f"the key of {dataset.name} is {{{wanted}}}")
    parts = zip(dataset.key_names, dataset.key_expressions, strict=True)
    texts = [_text(key[name], _kind(tree, dataset), name) for name, tree in parts]
    return hashlib.sha256("".join(f"{len(text)}:{text}" for text in texts).encode()).digest()


def _kind(tree: Expression, dataset: Dataset) -> FieldType | None:
    """The type of a key part; None: it is text already."""
    match tree:
        case Path("value", name):
            return dataset.fields[name]
        case Path("timestamp"):
            return FieldType("timestamp")
        case Call(function, _) if function in CASTS:
            return FieldType(function)
        case _:
            return None


def _text(value: Any, kind: FieldType | None, name: str) -> str:
    """A value as Spark casts it to a string."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        match kind and kind.name:
            case "int" | "long":
                return str(int(text))
            case "double":
                return _double(float(text))
            case "decimal":
                assert kind
                return _decimal(Decimal(text), kind.scale)
            case "date":
                return date.fromisoformat(text).isoformat()
            case "timestamp":
                return _timestamp(datetime.fromisoformat(text))
            case _:
                return text
    except (ValueError, ArithmeticError):
        raise UsageError(f"{name}: {value!r} is no {kind}") from None


def _decimal(value: Decimal, scale: int) -> str:
    with localcontext(prec=100):
        scaled = value.quantize(Decimal(1).scaleb(-scale))
        if scaled != value:
            raise ValueError("it has more digits than the type")
        return f"{scaled + 0:f}"  # and no negative zero


def _timestamp(value: datetime) -> str:
    at = (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    fraction = f".{at.microsecond:06d}".rstrip("0") if at.microsecond else ""
    return at.replace(microsecond=0, tzinfo=None).isoformat(" ") + fraction


def _double(value: float) -> str:
    """As Java's `Double.toString`: plain from 10^-3 to below 10^7, else d.ddE±n."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else plain + ".0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = (str(digit) for digit in digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{exponent + len(digits) - 1}"
