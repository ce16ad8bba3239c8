"""What the JVM says of an error, as one line."""

from __future__ import annotations

import re


def cause_of(error: Exception) -> str:
    """The innermost cause that the JVM names, in one line; else the error's own first line."""
    text = re.sub(
        r"\{\n[^{}]*\}", lambda answer: " ".join(answer[0].split()), str(error).strip()
    )  # a server's, in JSON
    lines = text.splitlines()
    causes = [line.partition("Caused by:")[2].strip() for line in lines if "Caused by:" in line]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0][:300]
