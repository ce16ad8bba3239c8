"""Field types of a dataset file: `string`, `int`, `decimal(18,2)`, with `?` for a field that may be absent or null."""

from __future__ import annotations

import re
from dataclasses import dataclass

SCALARS = ("string", "int", "long", "double", "boolean", "date", "timestamp")
NOT_YET = ("binary", "list", "struct")
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


@dataclass(frozen=True, slots=True)
class FieldType:
    """One declared field type; `precision` and `scale` only for decimals."""

    name: str
    nullable: bool = False
    precision: int = 0
    scale: int = 0

    @property
    def sql(self) -> str:
        """The type in Spark SQL's spelling."""
        return {"long": "bigint", "decimal": f"decimal({self.precision},{self.scale})"}.get(self.name, self.name)

    def __str__(self) -> str:
        name = self.sql if self.name == "decimal" else self.name
        return name + ("?" if self.nullable else "")


class UnsupportedTypeError(ValueError):
    """The type is one of the language, but is not built yet."""


def parse_type(text: str) -> FieldType:
    """Read one type.

    Raises:
        UnsupportedTypeError: a type that Onefold knows but cannot read yet.
        ValueError: no such type, or a decimal out of range.
    """
    word = text.strip()
    nullable = word.endswith("?")
    word = word.removesuffix("?").strip()
    if word in SCALARS:
        return FieldType(word, nullable)
    if found := _DECIMAL.fullmatch(word):
        precision, scale = int(found[1]), int(found[2])
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(f"{text!r}: a decimal has 1 to 38 digits, and no more behind the point than in all")
        return FieldType("decimal", nullable, precision, scale)
    if word.split("<")[0] in NOT_YET:
        raise UnsupportedTypeError(f"the field type {word!r}")
    raise ValueError(f"{text!r} is no field type (use {', '.join(SCALARS)} or decimal(p,s), with ? if optional)")
