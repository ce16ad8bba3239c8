"""How far an export object may expand: a few bytes can claim, or unpack to, more than any memory holds."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

LONGEST_LINE = 64 << 20
"""Bytes of a line of text that is taken up: what is longer is no record that could be read."""
_PIECE = 1 << 20
_DEFLATE_RATIO = 1_032
"""More than deflate's format can."""


@dataclass(frozen=True, slots=True)
class ExpansionLimits:
    """What an object may hold; each is a setting."""

    records: int = 10_000_000
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

    def check_line(self, size: int) -> None:
        """Refuse an object with a longer line: a reader of lines holds each line whole.

        Raises:
            FormatError: it says how long a line may be.
        """
        if size > LONGEST_LINE:
            raise _refusal(f"it has a line of more than {LONGEST_LINE:,} bytes")

    def unpacked_lines(self, packed: BinaryIO) -> Iterator[bytes]:
        """The bytes of an object of lines that is packed by gzip, a piece at a time.

        Raises:
            FormatError: it is damaged; or it has too many lines, or unpacks to too many bytes, or a line is too long,
                with the setting's name.
        """
        size = lines = last = 0
        with gzip.GzipFile(fileobj=packed) as stream:
            while piece := _piece_of(stream):
                size += len(piece)
                lines += piece.count(b"\n")
                end = piece.rfind(b"\n") + 1
                last = len(piece) - end if end else last + len(piece)
                self.check_unpacked(size)
                self.check_records(lines + bool(last))
                self.check_line(last)
                yield piece

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
            self.check_block_size(size)

    def check_block_size(self, size: int) -> None:
        """Refuse a packed block, or record batch of a log, that unpacks to more bytes.

        Raises:
            FormatError: it names the setting.
        """
        if size > self.block:
            raise _refusal(
                f"a block unpacks to more than {self.block:,} bytes, which the setting max_block_bytes allows"
            )


def _piece_of(stream: gzip.GzipFile) -> bytes:
    try:
        return stream.read(_PIECE)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _refusal(f"it is cut off or broken gzip: {error}") from error


LIMITS = ExpansionLimits()
"""The defaults."""


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
