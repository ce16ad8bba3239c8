"""Floating-point numbers as JSON has them, for the second decoders."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from math import isfinite
from typing import Any

from onefold.formats.text import Number

_ROUNDINGS = (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING)


def float_number(value: float, kind: str) -> Any:
    """The shortest number that reads back as the same `float` or `double`; NaN and infinities as words."""
    if not isfinite(value):
        return {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, "NaN")
    if kind == "double":
        return Number(repr(value))
    four = struct.pack("<f", value)
    return next(Number(repr(number)) for number in _shorter(value) if _is_same(number, four))


def _shorter(value: float) -> Iterator[float]:
    """The number with one digit, with two, and so on: the nearest first, then those below and above. Next to a power of
    two the nearest may be another float where one farther away is not."""
    for digits in range(1, 18):
        for rounding in _ROUNDINGS:
            yield float(Context(prec=digits, rounding=rounding).plus(Decimal(value)))


def _is_same(number: float, four: bytes) -> bool:
    try:
        return struct.pack("<f", number) == four
    except OverflowError:
        return False
