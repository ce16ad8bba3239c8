"""Schema files: what values are written by, where no registry says it. A file counts by its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onefold.dataset.avro_schema import check_avro_fields, read_avro
from onefold.dataset.names import Place
from onefold.dataset.protobuf_schema import check_protobuf_fields, read_protobuf
from onefold.dataset.value_formats import ValueFormat

LARGEST = 1_000_000
"""Bytes of a schema file."""


@dataclass(frozen=True, slots=True)
class Language:
    """What schemas of a format are written in."""

    read: Callable[[Path, str, str | None], str]
    """The folder of the dataset files, a file below it, and perhaps the name of a message, to the schema as one text;
    ValueError: it is none."""
    check_fields: Callable[[str, Mapping[str, Iterable[Place]]], None]
    """Such a text, and where the declared fields lie; ValueError: a value never has one of them."""


LANGUAGES = {
    ValueFormat.AVRO: Language(read_avro, check_avro_fields),
    ValueFormat.PROTOBUF: Language(read_protobuf, check_protobuf_fields),
}
"""The formats that have schema files."""


def read_schema(of_format: ValueFormat, folder: Path, name: str, message: str | None = None) -> str:
    """The schema of a file below the folder of the dataset files, as one text that is equal for equal schemas.

    Raises:
        ValueError: there is no such file, or it holds no schema.
    """
    file = folder / name
    if not file.resolve().is_relative_to(folder.resolve()):
        raise ValueError("it lies outside the folder of the dataset files")
    try:
        with file.open("rb") as data:
            size = len(data.read(LARGEST + 1))
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    if size > LARGEST:
        raise ValueError(f"it has {file.stat().st_size:,} bytes, at most {LARGEST:,} are read")
    return LANGUAGES[of_format].read(folder, name, message)
