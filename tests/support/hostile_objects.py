"""Export objects that claim more than they hold."""

from __future__ import annotations

import io

import fastavro


def zigzag(number: int) -> bytes:
    number, found = (number << 1) ^ (number >> 63), bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def claiming(count: int) -> bytes:
    """A container file of a block that claims many records of no bytes."""
    out = io.BytesIO()
    fastavro.writer(out, "null", [])
    head = out.getvalue()
    return head + zigzag(count) + zigzag(0) + head[-16:]
