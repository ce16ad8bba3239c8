"""JSON of sampled records, exactly."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

_MOST_DIGITS = 38


def parse_json(text: str) -> Any:
    """One JSON value, its decimals exact; a number of more than 38 digits is a float.

    Raises:
        ValueError: it is not exactly one JSON value.
    """

    def decimal(word: str) -> Decimal | float:
        try:
            exact = Decimal(word)
        except ArithmeticError:  # an exponent that no decimal has
            return float(word)
        spelled = abs(exact.adjusted()) <= _MOST_DIGITS and sum(map(str.isdigit, f"{exact:f}")) <= _MOST_DIGITS
        return exact if spelled else float(word)

    def whole(word: str) -> int | float:
        return int(word) if len(word) <= _MOST_DIGITS else float(word)

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    try:
        return json.loads(text, parse_float=decimal, parse_int=whole, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it nests too deep") from None
