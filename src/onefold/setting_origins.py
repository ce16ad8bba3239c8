"""Where a setting comes from: a line of `onefold.toml` or a variable."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onefold.errors import nearest

PREFIX = "ONEFOLD_"
DEFAULT = "default"
OTHER_VARIABLES = {
    "ONEFOLD_JARS": "where the jars are kept",
    "ONEFOLD_FAULT": "a named point at which the process ends, for tests",
    "ONEFOLD_PYTHON": "the Python that `make` makes the environment of",
}
"""Variables that are read elsewhere than in the settings."""
_TESTS = "ONEFOLD_TEST_"
_HIDDEN = "(hidden)"
_SECRET_NAMES = r"key|secret|passw|token|credential|jaas|user\.info|authorization|(^|\.)header\."
_SECRET = re.compile(_SECRET_NAMES, re.IGNORECASE)
_IN_URI = re.compile(r"(://[^:/@\s]*):\S*@")
REDACTED = f"(?i:{_SECRET_NAMES})|{_IN_URI.pattern}"
"""What Spark redacts in its event log and on its pages: `spark.redaction.regex`, of names and values."""
_IN_WORDS = re.compile(r"((?:passw\w*|secret\w*|token)\s*=\s*)[^\s&;]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Origins:
    """What `onefold.toml` and the environment set, to ask where a value comes from."""

    file: Path
    lines: Mapping[tuple[str, ...], int]
    variables: Mapping[str, str]

    def of(self, *path: str) -> str:
        """The variable, the file and line, or `default`; `path` goes into settings that hold entries."""
        return self.variable_of(*path) or self.line_of(*path) or DEFAULT

    def variable_of(self, *path: str) -> str | None:
        """The variable that sets it, if any does; an object in a variable sets only its own entries."""
        names = {name.upper(): name for name in self.variables}
        for end in range(len(path), 1, -1):
            if name := names.get(PREFIX + "__".join(path[:end]).upper()):
                return name
        name = names.get(PREFIX + path[0].upper())
        return name if name and (len(path) == 1 or _holds(self.variables[name], path[1:])) else None

    def line_of(self, *path: str) -> str | None:
        """The file and the line that set it, if they do."""
        for end in range(len(path), 0, -1):
            if line := self.lines.get(path[:end]):
                return f"{self.file}:{line}"
        return None


def origins_in(home: Path, environ: Mapping[str, str]) -> Origins:
    """What the project's `onefold.toml` and the environment set."""
    file = home / "onefold.toml"
    variables = {name: value for name, value in environ.items() if name.upper().startswith(PREFIX)}
    return Origins(file, lines_of(file.read_text(encoding="utf-8")) if file.is_file() else {}, variables)


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The line of every key of a TOML text, by its path; what no single line names has the line of what holds it."""
    table: tuple[str, ...] = ()
    found: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[", line)
        name = line if header else f"{line.partition('=')[0]} = 0"
        try:
            path = _path(tomllib.loads(name))
        except tomllib.TOMLDecodeError:  # the middle of a value that has several lines
            continue
        if header:
            table = path
        found.setdefault(path if header else (*table, *path), number)
    return found


def unknown_variables(environ: Iterable[str], settings: Mapping[str, bool]) -> list[str]:
    """A sentence for each `ONEFOLD_*` that nothing reads; `settings` are names, and whether they hold entries."""
    known = {f"{PREFIX}{name.upper()}" for name in settings} | set(OTHER_VARIABLES)
    nested = tuple(f"{PREFIX}{name.upper()}__" for name, entries in settings.items() if entries)
    given = (name for name in environ if name.upper().startswith(PREFIX) and not name.upper().startswith(_TESTS))
    return [
        f"the environment variable {name} is no setting and is ignored{nearest(name.upper(), known)}"
        for name in sorted(given)
        if name.upper() not in known and not name.upper().startswith(nested)
    ]


def speaks_of_secret(name: str) -> bool:
    """Whether what has this name is kept from every output."""
    return _SECRET.search(name) is not None


def holds_secret(name: str, value: str) -> bool:
    """Whether a setting is secret: by its name, or by a password in its value. `true` and `false` are none."""
    return value.lower() not in ("true", "false") and bool(without_secrets(name, value) != value)


def without_secrets(name: str, value: Any) -> Any:
    """The value as it may be shown: hidden where the name speaks of a secret, or without the passwords in it."""
    if speaks_of_secret(name):
        return _HIDDEN
    if not isinstance(value, str):
        return value
    return _IN_WORDS.sub(rf"\g<1>{_HIDDEN}", _IN_URI.sub(rf"\g<1>:{_HIDDEN}@", value))


def _holds(value: str, path: tuple[str, ...]) -> bool:
    try:
        at = json.loads(value)
    except ValueError:
        return False
    for name in path:
        if not isinstance(at, dict) or name not in at:
            return False
        at = at[name]
    return True


def _path(tree: Any) -> tuple[str, ...]:
    path: list[str] = []
    while isinstance(tree, dict | list) and tree:
        if isinstance(tree, list):
            tree = tree[0]
            continue
        ((name, tree),) = tree.items()
        path.append(name)
    return tuple(path)
