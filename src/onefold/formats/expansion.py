"""How far an export object may expand: a few bytes can claim, or unpack to, more than any memory holds."""

from __future__ import annotations

import bz2
import lzma
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import Any

_PIECE = 1 << 20
_DEFLATE_RATIO = 1_032
"""More than deflate's format can."""


@dataclass(frozen=True, slots=True)
class ExpansionLimits:
    """What an object may hold; each is a setting."""

    records: int = 50_000_000
    unpacked: int = 16 << 30
    block: int = 256 << 20

    def check_records(self, count: int) -> None:
        """Refuse an object of more records.

        Raises:
            FormatError: it names the setting.
        """
        if count > self.records:
            raise _refusal(f"it has more than {self.records:,} records, which the setting max_object_records allows")

    def check_unpacked(self, size: int) -> None:
        """Refuse an object that unpacks to more bytes.

        Raises:
            FormatError: it names the setting.
        """
        if size > self.unpacked:
            raise _refusal(
                f"it unpacks to more than {self.unpacked:,} bytes, which the setting max_object_bytes allows"
            )

    def check_block(self, codec: str, data: bytes) -> None:
        """Refuse a packed block that unpacks to more bytes; it is unpacked piece by piece for that.

        Raises:
            FormatError: it names the setting.
        """
        if codec == "deflate" and len(data) * _DEFLATE_RATIO <= self.block:
            return
        size = 0
        for piece in _pieces(codec, data):
            size += piece
            if size > self.block:
                raise _refusal(
                    f"a block unpacks to more than {self.block:,} bytes, which the setting max_block_bytes allows"
                )


def _refusal(problem: str) -> Exception:
    from onefold.formats.structured_json import FormatError  # the settings, which import this, do without its numpy

    return FormatError(problem)


def _pieces(codec: str, data: bytes) -> Any:
    """The sizes of what a block unpacks to, piece by piece. What is broken ends them: the reader says so."""
    match codec:
        case "deflate":
            yield from _deflated(data)
        case "bzip2":
            yield from _streamed(bz2.BZ2Decompressor(), data)
        case "xz":
            yield from _streamed(lzma.LZMADecompressor(), data)
        case "zstandard":
            import zstandard

            try:
                with zstandard.ZstdDecompressor().stream_reader(BytesIO(data), read_across_frames=True) as reader:
                    while piece := reader.read(_PIECE):
                        yield len(piece)
            except zstandard.ZstdError:
                return


def _deflated(data: bytes) -> Any:
    stream = zlib.decompressobj(-15)
    given = data
    try:
        while given and not stream.eof:
            yield len(stream.decompress(given, _PIECE))
            given = stream.unconsumed_tail
    except zlib.error:
        return


def _streamed(stream: bz2.BZ2Decompressor | lzma.LZMADecompressor, data: bytes) -> Any:
    given = data
    try:
        while not stream.eof:
            piece = stream.decompress(given, _PIECE)
            given = b""
            if not piece and stream.needs_input:
                return
            yield len(piece)
    except (OSError, EOFError, lzma.LZMAError):
        return
