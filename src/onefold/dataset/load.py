"""Read dataset files; every complaint names the file, the line and the nearest key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from onefold.dataset.base import NotBuiltError
from onefold.dataset.model import Dataset
from onefold.dataset.modes import MODES
from onefold.dataset.schema_files import LANGUAGES, read_schema
from onefold.dataset.tree import Place, line_of
from onefold.dataset.value_formats import ValueFormat
from onefold.dataset.yaml_file import describe_error, read_yaml, read_yaml_text
from onefold.errors import InvalidDatasetError, NotSupportedYetError, UnknownDatasetError


def load_dataset(file: Path) -> Dataset:
    """One dataset file.

    Raises:
        InvalidDatasetError: with the file, the line and the key at fault.
        NotSupportedYetError: it asks for something that is not built yet.
    """
    text = read_yaml_text(file)
    return read_dataset(text, file)


def read_dataset(text: str, file: Path) -> Dataset:
    """What a dataset file says that has this text, whether or not it is written.

    Raises:
        InvalidDatasetError: with the file, the line and the key at fault.
        NotSupportedYetError: it asks for something that is not built yet.
    """
    tree, lines = _read(text, file)
    try:
        dataset = Dataset.model_validate(tree)
    except ValidationError as error:
        raise _complaint(file, lines, error) from None
    except Exception as error:  # a check that does not know what it met: one file takes no other down
        raise InvalidDatasetError(str(file), None, "", f"cannot be checked: {describe_error(error)}") from error
    of_fields = {name: line_of(lines, ("value", "fields", name)) for name in dataset.fields}
    of_fields[""] = line_of(lines, ("value", "fields"))
    schemas = {section: _schema(section, name, dataset, file, lines) for section, name in dataset.schema_files.items()}
    return dataset.with_schemas(schemas).read_from(str(file), {name: line for name, line in of_fields.items() if line})


def _schema(section: str, name: str, dataset: Dataset, file: Path, lines: dict[Place, int]) -> str:
    given = dataset.key if section == "key" else dataset.value
    of_format = ValueFormat(given.format)
    try:
        text = read_schema(of_format, file.parent, name, given.message)
        if section == "value":
            LANGUAGES[of_format].check_fields(text, dataset.read_places)
    except ValueError as error:
        key = f"{section}.schema"
        raise InvalidDatasetError(str(file), line_of(lines, (section, "schema")), key, f"{name}: {error}") from None
    return text


def find_dataset(folder: Path, name: str) -> Dataset:
    """The dataset called `name` in `folder`; its file is `<name>.yaml`.

    Raises:
        UnknownDatasetError: there is no such file.
    """
    return load_dataset(_file_of(folder, name))


def find_valid(folder: Path, names: Iterable[str] = ()) -> tuple[list[Dataset], list[InvalidDatasetError]]:
    """The datasets of these names (default: all in `folder`), and what is wrong with the files of the others.

    Raises:
        UnknownDatasetError: there is no file of a name.
    """
    found, wrong = [], []
    for file in [_file_of(folder, name) for name in names] or dataset_files(folder):
        try:
            found.append(load_dataset(file))
        except InvalidDatasetError as error:
            wrong.append(error)
    return found, wrong


def _file_of(folder: Path, name: str) -> Path:
    file = folder / f"{name}.yaml"
    if not file.is_file() or "/" in name:
        raise UnknownDatasetError(name, str(folder), tuple(found.stem for found in dataset_files(folder)))
    return file


def dataset_files(folder: Path) -> list[Path]:
    """The dataset files of a folder, by name."""
    return sorted(folder.glob("*.yaml"))


def _read(text: str, file: Path) -> tuple[dict[str, Any], dict[Place, int]]:
    tree, lines = read_yaml(text, file)
    if not isinstance(tree, dict):
        raise InvalidDatasetError(str(file), 1, "", "not a mapping of keys such as name, source, value, apply")
    if tree.get("name") != file.stem:
        problem = f"the name must be that of the file, {file.stem!r}"
        raise InvalidDatasetError(str(file), line_of(lines, ("name",)), "name", problem)
    return tree, lines


def _complaint(file: Path, lines: dict[Place, int], error: ValidationError) -> InvalidDatasetError:
    # A misspelt key also leaves a missing key: the misspelling is said first. What is not built yet is said only
    # when nothing is plainly wrong.
    found = sorted(error.errors(), key=lambda problem: (_not_built(problem), problem["type"] != "extra_forbidden"))
    first = found[0]
    place = _place_of(first["loc"])
    key, line = ".".join(str(part) for part in place), line_of(lines, place)
    if _not_built(first):
        problem = str(first["ctx"]["error"]).removeprefix("not_supported_yet: ")
        return NotSupportedYetError(str(file), line, key or "dataset", problem)
    if first["type"] == "extra_forbidden":
        return InvalidDatasetError(str(file), line, key, _unknown(first["loc"]))
    problem = first["msg"].removeprefix("Value error, ")
    if not place and ": " in problem:  # a check across keys names its place itself
        key, problem = problem.split(": ", 1)
        line = line_of(lines, tuple(key.split(".")))
    return InvalidDatasetError(str(file), line, key, problem)


def _place_of(loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """Where the file has what pydantic complains of, which names the mode behind `apply`, too."""
    place = [part for part in loc if not (isinstance(part, str) and part.startswith("function-"))]
    if place[:1] == ["apply"] and place[1:2] and place[1] in MODES:
        del place[1]
    return tuple(place)


def _not_built(problem: Any) -> bool:
    return isinstance(problem.get("ctx", {}).get("error"), NotBuiltError)


def _unknown(loc: tuple[Any, ...]) -> str:
    model: type[BaseModel] | None = Dataset
    for part in loc[:-1]:
        if part in MODES and model not in MODES.values():  # the mode is named behind `apply`
            model = MODES[part]
            continue
        field = model.model_fields.get(part) if model else None
        model = _model_in(field.annotation) if field else None
    known = [field.alias or name for name, field in model.model_fields.items()] if model else []
    near = difflib.get_close_matches(str(loc[-1]), known, n=1, cutoff=0.5)
    return f"unknown key; did you mean {near[0]!r}?" if near else f"unknown key (there are {', '.join(known)})"


def _model_in(annotation: Any) -> type[BaseModel] | None:
    kinds = [annotation, *getattr(annotation, "__args__", ())]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
