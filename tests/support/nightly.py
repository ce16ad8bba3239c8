"""What is left to the night, and what holds its claim by day."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cases(all_of_them: Iterable[Any], *, by_day: Collection[Any], why: str) -> list[Any]:
    """The cases of a parametrized test, of which only some run by day; `why`: what stands in for the others."""
    found = list(all_of_them)
    unknown = [one for one in by_day if one not in found]
    assert not unknown, unknown
    return [pytest.param(one, marks=() if one in by_day else pytest.mark.nightly(reason=why)) for one in found]
