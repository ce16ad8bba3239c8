"""Landed objects as Spark reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def literal(uris: Iterable[str]) -> list[str]:
    """URIs as Spark's readers take them: `[ ] { } * ?` are letters of a folder's name there, never a pattern."""
    return [re.sub(r"([\[\]{}*?\\])", r"\\\1", uri) for uri in uris]
