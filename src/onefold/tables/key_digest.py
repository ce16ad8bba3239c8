"""The key digest of a key that a person typed: the same as `onefold.values.canonical` gives, without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from typing import Any

from onefold.dataset import Dataset
from onefold.dataset.expressions import Call, Expression, parse, paths
from onefold.dataset.types import FieldType
from onefold.errors import UsageError

_BEGINS = {"hour": (13, ":00:00"), "day": (10, ""), "month": (7, "-01"), "year": (4, "-01-01")}
"""How much of an instant's text a period has, and what its beginning has behind that."""

_OF_TEXT: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "trim": lambda text: text.strip(" "),
}


def digest_of_key(dataset: Dataset, key: dict[str, Any]) -> bytes:
    """SHA-256 over the parts of a key, given by the names of `dataset.key_names`.

    Raises:
        UsageError: parts are missing or unknown, or a value is not of its type.
    """
    if not dataset.key_names:
        raise UsageError(f"{dataset.name} has no key but the position (see `onefold verdicts`)")
    if twice := {name for name in dataset.key_names if dataset.key_names.count(name) > 1}:
        raise UsageError(
            f"{dataset.name}: two parts of its key are called {', '.join(sorted(twice))}, so no key can be said. Ask "
            "by a position."
        )
    if set(key) != set(dataset.key_names):
        wanted = ", ".join(f'"{name}": …' for name in dict.fromkeys(dataset.key_names))
        raise UsageError(f"the key of {dataset.name} is {{{wanted}}}")
    return _digest(_parts(dataset, key))


def agree(dataset: Dataset, key: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether a key may be `other`, which may be of a generation with other parts: what both name is equal, and they
    name one at least."""
    parts = zip(dataset.key_names, dataset.key_expressions, strict=True)
    both = [(name, tree) for name, tree in parts if name in key and name in other]
    return bool(both) and all(_equal(dataset, key[name], other[name], tree, name) for name, tree in both)


def _equal(dataset: Dataset, value: Any, other: Any, tree: Expression, name: str) -> bool:
    try:
        return _part(dataset, value, tree, name) == _part(dataset, other, tree, name)
    except UsageError:  # it was of another type
        return str(value) == str(other)


def _digest(texts: list[str]) -> bytes:
    return hashlib.sha256("".join(f"{len(text)}:{text}" for text in texts).encode()).digest()


def digest_of_sum(dataset: Dataset, key: dict[str, Any]) -> bytes:
    """Mode increment: the key digest of the sum that messages are added to (`onefold.folding.increment.sum_key`)."""
    return _digest(["sum", *(text for text, _ in _of_sum(dataset, key).values())])


def values_of_sum(dataset: Dataset, key: dict[str, Any]) -> dict[str, Any]:
    """Mode increment: the values that the sum of a typed key, and its messages, have in the key's columns."""
    return {name: _value(text, kind) for name, (text, kind) in _of_sum(dataset, key).items()}


def _of_sum(dataset: Dataset, key: dict[str, Any]) -> dict[str, tuple[str, FieldType | None]]:
    trees = {next(iter(paths(tree))).column: tree for tree in map(parse, dataset.apply.key or ())}
    kinds = {name: dataset.type_of(trees[name]) for name in dataset.row_key_names}
    return {name: (_as_called(_text(key[name], kind, name), trees[name]), kind) for name, kind in kinds.items()}


def _value(text: str, kind: FieldType | None) -> Any:
    match kind and kind.name:
        case "int" | "long":
            return int(text)
        case "decimal":
            return Decimal(text)
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        case "boolean":
            return text == "true"
        case _:
            return text


def period_of_key(dataset: Dataset, key: dict[str, Any]) -> str | None:
    """The beginning of the period that a key lies in, as Spark casts it to a string; None: the dataset has none."""
    return _parts(dataset, key)[-1] if dataset.within else None


def _parts(dataset: Dataset, key: dict[str, Any]) -> list[str]:
    parts = zip(dataset.key_names, dataset.key_expressions, strict=True)
    return [_part(dataset, key[name], tree, name) for name, tree in parts]


def _part(dataset: Dataset, value: Any, tree: Expression, name: str) -> str:
    """A part's text; of a period, that of its beginning, whatever instant of it is given."""
    if tree != dataset.within or not isinstance(tree, Call):
        return _as_called(_text(value, dataset.type_of(tree), name), tree)
    length, rest = _BEGINS[tree.function]
    return _text(value, FieldType("timestamp"), name)[:length] + rest


def _as_called(text: str, tree: Expression) -> str:
    """Text behind the functions of a part that change it: who says a key may say it as a record has it."""
    if not isinstance(tree, Call):
        return text
    text = _as_called(text, tree.argument)
    return _OF_TEXT[tree.function](text) if tree.function in _OF_TEXT else text


def _text(value: Any, kind: FieldType | None, name: str) -> str:
    """A value as Spark casts it to a string."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        match kind and kind.name:
            case "int" | "long":
                return str(int(text))
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
