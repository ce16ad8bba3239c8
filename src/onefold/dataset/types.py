"""Field types of a dataset file: `string`, `decimal(18,2)`, `list<string>`, `struct<sku: string, note: string?>`.

`?` marks a field that may be absent. An element of a list or a map is never absent, and an explicit null is always a
value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import UnexpectedInput, VisitError

SCALARS = ("string", "int", "long", "double", "boolean", "date", "timestamp", "binary", "json")
WITH_PARTS = ("list", "struct", "map")
_NOT_IN_EXPRESSIONS = {
    "list": "name a field of it",
    "struct": "name a field of it",
    "map": "declare the entry that is needed as a field of its own (`from: attributes.color`)",
    "json": "declare the part that is needed as a field of its own (`from: payload.id`)",
    "binary": "declare it as string, which is its Base64 text",
}
"""Types that no expression reads, and what to do instead."""
UNITS = {"timestamp": ("seconds", "millis", "micros", "nanos"), "date": ("days",)}
"""What whole numbers since 1970 count, by the type that they are read as."""
_MOST_DIGITS = 38
_DIGITS = {"int": (10, 0), "long": (20, 0)}
"""Digits before and behind the point of Spark's decimal for a whole number."""
DEEPEST = 10
"""How deep lists, maps and structs may nest: what reads them recurses."""

_GRAMMAR = r"""
start: type
type: (decimal | since | list_of | map_of | struct | NAME) [OPTIONAL]
since: NAME "(" NAME ")"
decimal: "decimal" "(" DIGITS "," DIGITS ["," BASE64] ")"
list_of: "list" "<" type ">"
map_of: "map" "<" NAME "," type ">"
struct: "struct" "<" field ("," field)* ">"
field: NAME ":" type
OPTIONAL: "?"
BASE64: "base64"
DIGITS: /\d{1,2}/
NAME: /[A-Za-z_][A-Za-z0-9_]*/
%ignore /\s+/
"""


@dataclass(frozen=True, slots=True)
class FieldType:
    """One declared type; `precision` and `scale` of a decimal, `item` of a list or map, `fields` of a struct, in order;
    `unit` of a date or timestamp that records have as a whole number since 1970; `base64`: of a decimal, records have
    the number without its point as big-endian bytes, in Base64."""

    name: str
    nullable: bool = False
    precision: int = 0
    scale: int = 0
    item: FieldType | None = None
    fields: tuple[tuple[str, FieldType], ...] = ()
    unit: str = ""
    base64: bool = False

    @property
    def nested(self) -> bool:
        """Whether it has parts: a list, a map or a struct."""
        return self.name in WITH_PARTS

    @property
    def instead(self) -> str | None:
        """What to do where an expression reads it; None: expressions read such values."""
        return _NOT_IN_EXPRESSIONS.get(self.name)

    def holds(self, name: str) -> bool:
        """Whether it, or a part of it, is of the type of this name."""
        parts = [self.item] if self.item else [kind for _, kind in self.fields]
        return self.name == name or any(part.holds(name) for part in parts)

    @property
    def is_base64(self) -> bool:
        """Whether it, or a part of it, is a decimal in Base64."""
        parts = [self.item] if self.item else [kind for _, kind in self.fields]
        return self.base64 or any(part.is_base64 for part in parts)

    @property
    def sql(self) -> str:
        """The type in Spark SQL's spelling."""
        match self.name:
            case "long":
                return "bigint"
            case "decimal":
                return f"decimal({self.precision},{self.scale})"
            case "list":
                return f"array<{self._item.sql}>"
            case "map":
                return f"map<string,{self._item.sql}>"
            case "json":
                return "string"
            case "struct":
                return f"struct<{','.join(f'`{name}`:{kind.sql}' for name, kind in self.fields)}>"
            case _:
                return self.name

    @property
    def _item(self) -> FieldType:
        assert self.item is not None
        return self.item

    def part(self, inner: tuple[str, ...]) -> FieldType | None:
        """The type that a path through structs ends at; None: there is no such part."""
        kind: FieldType | None = self
        for name in inner:
            kind = dict(kind.fields).get(name) if kind else None
        return kind

    @property
    def depth(self) -> int:
        """1 for a scalar, one more for each list, map or struct around it."""
        below = [self.item] if self.item else [kind for _, kind in self.fields]
        return 1 + max((kind.depth for kind in below), default=0)

    @property
    def family(self) -> str:
        """What its values may be compared with: numbers and instants with one another, all else with its like."""
        if self.name in ("int", "long", "double", "decimal"):
            return "number"
        return "instant" if self.name in ("date", "timestamp") else self.name

    def rounds(self, other: FieldType) -> bool:
        """Whether these numbers have no decimal in common: Spark would round them before it compares them."""
        sides = [_DIGITS.get(kind.name, (kind.precision - kind.scale, kind.scale)) for kind in (self, other)]
        exact = "decimal" in (self.name, other.name) and "double" not in (self.name, other.name)
        return exact and sum(map(max, *sides)) > _MOST_DIGITS

    def __str__(self) -> str:
        match self.name:
            case "decimal":
                word = self.sql.replace(")", ",base64)") if self.base64 else self.sql
            case "list":
                word = f"list<{self.item}>"
            case "map":
                word = f"map<string, {self.item}>"
            case "struct":
                word = f"struct<{', '.join(f'{name}: {kind}' for name, kind in self.fields)}>"
            case _:
                word = f"{self.name}({self.unit})" if self.unit else self.name
        return word + ("?" if self.nullable else "")


class _Build(Transformer[Any, FieldType]):
    def start(self, types: list[FieldType]) -> FieldType:
        return types[0]

    def type(self, words: list[Any]) -> FieldType:
        word, optional = words
        if isinstance(word, FieldType):
            return replace(word, nullable=bool(optional))
        if word not in SCALARS:
            raise ValueError(f"{str(word)!r} is no field type (use {_USE})")
        return FieldType(str(word), bool(optional))

    def decimal(self, words: list[Any]) -> FieldType:
        *digits, base64 = words
        precision, scale = (int(each) for each in digits)
        if not 1 <= precision <= _MOST_DIGITS or scale > precision:
            raise ValueError("a decimal has 1 to 38 digits, and no more behind the point than in all")
        return FieldType("decimal", precision=precision, scale=scale, base64=bool(base64))

    def since(self, words: list[Any]) -> FieldType:
        name, unit = map(str, words)
        if unit not in UNITS.get(name, ()):
            known = ", ".join(f"{of}({unit})" for of, units in UNITS.items() for unit in units)
            raise ValueError(f"there is no {name}({unit}) (there are decimal(p,s), decimal(p,s,base64), {known})")
        return FieldType(name, unit=unit)

    def list_of(self, types: list[FieldType]) -> FieldType:
        if types[0].nullable:
            raise ValueError("an element of a list is never absent, and may always be null: leave its ? out")
        return FieldType("list", item=types[0])

    def map_of(self, words: list[Any]) -> FieldType:
        name, kind = words
        if str(name) != "string":
            raise ValueError(f"the keys of a map are string, and {str(name)!r} is not")
        if kind.nullable:
            raise ValueError("a value of a map is never absent, and may always be null: leave its ? out")
        return FieldType("map", item=kind)

    def struct(self, fields: list[Any]) -> FieldType:
        seen: dict[str, str] = {}
        for name, _ in fields:
            if other := seen.get(name.lower()):
                raise ValueError(f"{other} and {name} would be one field of the struct")
            seen[name.lower()] = name
        return FieldType("struct", fields=tuple(fields))

    def field(self, words: list[Any]) -> Any:
        return str(words[0]), words[1]


_USE = (
    f"{', '.join(SCALARS)}, decimal(p,s), decimal(p,s,base64), timestamp(millis), date(days), list<…>, map<string, …> "
    "or struct<name: …>, with ? if it may be absent"
)


def number_type(text: str) -> FieldType:
    """The type of a number in an expression: long, or with a point the decimal of just its digits.

    Raises:
        ValueError: it is no number of 64 bits, or no decimal of 38 digits.
    """
    whole, point, fraction = text.lstrip("-").partition(".")
    if not point:
        if not -(2**63) <= int(text) < 2**63:
            raise ValueError(f"the whole number {text} has more than 64 bits")
        return FieldType("long")
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > _MOST_DIGITS:
        raise ValueError(f"the number {text} has more than {_MOST_DIGITS} digits")
    return FieldType("decimal", precision=digits, scale=len(fraction))


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=True)


@cache
def parse_type(text: str) -> FieldType:
    """Read one type.

    Raises:
        ValueError: no such type, or a decimal out of range.
    """
    try:
        kind = _Build().transform(_parser().parse(text))
    except UnexpectedInput as error:
        raise ValueError(f"{text[:40]!r} is no field type (use {_USE})") from error
    except VisitError as error:
        raise ValueError(f"{text!r}: {error.orig_exc}") from error
    except RecursionError:
        raise ValueError(f"{text[:40]!r}… nests deeper than {DEEPEST} levels") from None
    if kind.depth > DEEPEST:
        raise ValueError(f"{text[:40]!r}… nests deeper than {DEEPEST} levels")
    return kind
