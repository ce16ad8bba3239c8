"""A YAML file of a user: whatever is wrong with it is an error of that file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from yaml import MarkedYAMLError, YAMLError  # type: ignore[import-untyped]

from onefold.dataset.tree import LARGEST, Place, TreeLimitError, read_tree
from onefold.errors import InvalidDatasetError


def read_yaml_text(file: Path, key: str = "") -> str:
    """The text of a file, of which no more is read than a file may hold.

    Raises:
        InvalidDatasetError: it cannot be read, is no plain file or too large; `key` is the key that names the file.
    """
    try:
        if file.exists() and not file.is_file():  # a pipe never ends
            raise InvalidDatasetError(str(file), None, key, "cannot be read: it is no plain file")
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise InvalidDatasetError(str(file), None, key, f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise InvalidDatasetError(str(file), None, key, f"cannot be read: larger than {LARGEST:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidDatasetError(str(file), None, key, f"cannot be read: {error}") from None


def read_yaml(text: str, file: Path) -> tuple[Any, dict[Place, int]]:
    """What a file holds that has this text, and the line of each place in it.

    Raises:
        InvalidDatasetError: it is no YAML, or larger or deeper than such files are; with the line, where there is one.
    """
    try:
        return read_tree(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        kind = "cannot be read" if isinstance(error, TreeLimitError) else "not YAML"
        raise InvalidDatasetError(str(file), line, "", f"{kind}: {error.problem}") from None
    except YAMLError as error:  # a character that YAML does not take; it has no mark
        raise InvalidDatasetError(str(file), None, "", f"not YAML: {str(error).splitlines()[0]}") from None
    except Exception as error:  # such as a number of thousands of digits
        raise InvalidDatasetError(str(file), None, "", f"cannot be read: {describe_error(error)}") from None


def describe_error(error: Exception) -> str:
    """An error that no reader expected, in a line."""
    return f"{type(error).__name__}: {error}".rstrip(": ")[:500]
