"""Protobuf schemas: `.proto` text or a set of descriptors becomes one text that says how a message is read, no more.

That text is JSON, the message with all that it is built on:

    {"message": "shop.Order",
     "messages": {"shop.Order": {"id": {"number": 1, "type": "string"}, …}, …},
     "enums": {"shop.State": {"0": "OPEN", …}}}

A field has `number` and `type` (as Protobuf calls it; of a message or an enum also `of`, its full name), and where they
apply `repeated`, `key` (it is a map, with keys of that type), `presence` (a message says whether it has the field) and
`oneof` (its name). Comments, options, services, other messages of a file and the compiler's release change nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from onefold.errors import nearest

_LARGEST = 10_000_000
"""Bytes of a schema with all that it imports."""
_SECONDS = 60
_MOST_MESSAGES = 5_000
_COMPILED = (".proto",)
_DESCRIBED = (".desc", ".binpb", ".pb", ".protoset")


def read_protobuf(folder: Path, name: str, message: str | None) -> str:
    """The text of a schema file below the folder of the dataset files: `.proto`, whose imports lie next to it or in the
    folder, or a FileDescriptorSet (`protoc --include_imports --descriptor_set_out`).

    Raises:
        ValueError: it holds no schema, or has no such message; or several, and none is named.
    """
    file = folder / name
    if file.suffix in _COMPILED:
        described, main = _compiled((file.parent, folder), file.name, _state_of(folder)), file.name
    elif file.suffix in _DESCRIBED:
        described, main = file.read_bytes(), ""
    else:
        known = ", ".join((*_COMPILED, *_DESCRIBED))
        raise ValueError(f"its name ends in none of {known}, so it is neither Protobuf's text nor its descriptors")
    return schema_text(described, message, main or None)


def compile_texts(texts: Mapping[str, str], main: str, *, comments: bool = False) -> bytes:
    """The FileDescriptorSet of `.proto` texts, by the names by which they import each other; with their comments, if
    these are asked for.

    Raises:
        ValueError: they are no schema.
    """
    with tempfile.TemporaryDirectory(prefix="onefold-proto-") as given:
        folder = Path(given)
        for name, text in texts.items():
            file = (folder / name).resolve()
            if not file.is_relative_to(folder.resolve()) or Path(name).is_absolute():
                raise ValueError(f"{name!r} is no name of an import")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return _compile((folder,), main, comments=comments)


def message_at(described: bytes, main: str, indexes: Sequence[int]) -> str:
    """The full name of the message of a file that has these indexes: at the top, then in the message before.

    Raises:
        ValueError: there is none.
    """
    file = next(file for file in _parsed(described).file if file.name == main)
    within, names = file.message_type, [file.package] if file.package else []
    for index in indexes:
        if not 0 <= index < len(within):
            raise ValueError(f"{main} has no message with the indexes {list(indexes)}")
        names.append(within[index].name)
        within = within[index].nested_type
    return ".".join(names)


_MESSAGE, _NESTED, _FIELD = 4, 3, 2
"""FileDescriptorProto.message_type, DescriptorProto.nested_type and field: comments name their places by these."""


def comments_on(described: bytes, message: str) -> dict[str, str]:
    """The comments on a message, by an empty name, and on its fields, by theirs: those that the set has.

    Raises:
        ValueError: it is no FileDescriptorSet.
    """
    for file in _parsed(described).file:
        comments = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        left: list[tuple[tuple[int, ...], str, Any]]
        left = [((_MESSAGE, at), file.package, kind) for at, kind in enumerate(file.message_type)]
        while left:
            place, around, kind = left.pop()
            name = f"{around}.{kind.name}".lstrip(".")
            if name == message:
                fields = {field.name: (*place, _FIELD, at) for at, field in enumerate(kind.field)}
                found = {word: comments.get(at, "").strip() for word, at in {"": place, **fields}.items()}
                return {word: text for word, text in found.items() if text}
            left += [((*place, _NESTED, at), name, inner) for at, inner in enumerate(kind.nested_type)]
    return {}


def message_names(described: bytes, main: str) -> list[str]:
    """The full names of the messages at the top of a file.

    Raises:
        ValueError: it is no FileDescriptorSet.
    """
    return _at_top(_parsed(described), main)


def schema_text(described: bytes, message: str | None, main: str | None = None) -> str:
    """The text of a message's schema, from a FileDescriptorSet.

    Args:
        described: the set.
        message: the message's full name; None: the one that a file has at its top.
        main: the name of that file; None: any that no other imports.

    Raises:
        ValueError: it is no such set, or has no such message; or several, and none is named.
    """
    from google.protobuf.descriptor_pool import DescriptorPool

    parsed, pool = _parsed(described), DescriptorPool()
    try:
        for file in parsed.file:
            pool.Add(file)
        tops = _at_top(parsed, main)
        name = message or _only(tops)
        try:
            found = pool.FindMessageTypeByName(name)
        except KeyError:
            whole = [top for top in tops if top.rpartition(".")[2] == name]
            near = f" (did you mean {whole[0]}?)" if whole else nearest(name, tops)
            raise ValueError(f"it has no message {name}{near}") from None
        return _text_of(found)
    except ValueError:
        raise
    except Exception as error:  # what a set that contradicts itself raises is not settled
        raise ValueError(f"it cannot be read: {type(error).__name__} {str(error)[:200]}") from None


def check_protobuf_fields(text: str, places: Mapping[str, Iterable[tuple[str, ...]]]) -> None:
    """Refuse declared fields that a message of this schema never has.

    Raises:
        ValueError: it names one.
    """
    schema = json.loads(text)
    names = list(schema["messages"][schema["message"]])
    for name, given in places.items():
        if not any(place[0] in names for place in given):
            raise ValueError(f"value.fields: {name} is no field of {schema['message']}{nearest(name, names)}")


# Text to descriptors.


def _state_of(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """What the schema files of a folder are: while nothing of it changes, none need be compiled again.

    Raises:
        ValueError: one of them leads out of the folder.
    """
    found = sorted(folder.rglob("*.proto"))
    if outside := next((file for file in found if not file.resolve().is_relative_to(folder.resolve())), None):
        raise ValueError(f"{outside.relative_to(folder)} lies outside the folder of the dataset files")
    stats = [(str(file), file.stat()) for file in found if file.exists()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


@cache
def _compiled(folders: tuple[Path, ...], name: str, state: object) -> bytes:
    del state
    return _compile(folders, name)


def _compile(folders: Sequence[Path], name: str, *, comments: bool = False) -> bytes:
    """By protoc, as a process of its own: a text that it cannot bear ends that process and no other."""
    well_known = files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory(prefix="onefold-proto-") as made:
        out = Path(made) / "set"
        given = [f"-I{folder.resolve()}" for folder in dict.fromkeys(folders)]
        words = [
            "-m",
            "grpc_tools.protoc",
            *given,
            f"-I{well_known}",
            "--include_imports",
            *(["--include_source_info"] if comments else []),
            f"--descriptor_set_out={out}",
        ]
        try:
            done = subprocess.run(
                [sys.executable, "-P", *words, name], capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"it takes protoc more than {_SECONDS} seconds") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip() or f"protoc ended with {done.returncode}"
            for folder in folders:
                said = said.replace(f"{folder.resolve()}/", "")
            raise ValueError(f"it is no Protobuf schema: {said[:500]}")
        return out.read_bytes()


def _parsed(described: bytes) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    if len(described) > _LARGEST:
        raise ValueError(f"with what it imports it has {len(described):,} bytes, at most {_LARGEST:,} are read")
    try:
        parsed = FileDescriptorSet.FromString(described)
    except DecodeError:
        raise ValueError("it is no FileDescriptorSet") from None
    names = {file.name for file in parsed.file}
    for file in parsed.file:
        if lacking := next((name for name in file.dependency if name not in names), None):
            raise ValueError(f"it lacks {lacking}, which {file.name} imports (protoc --include_imports adds it)")
    if not parsed.file:
        raise ValueError("it is no FileDescriptorSet, or one of no file")
    return parsed


def _at_top(parsed: Any, main: str | None) -> list[str]:
    imported = {name for file in parsed.file for name in file.dependency}
    own = [file for file in parsed.file if (file.name == main if main else file.name not in imported)]
    return [".".join(filter(None, (file.package, kind.name))) for file in own for kind in file.message_type]


def _only(tops: Sequence[str]) -> str:
    if len(tops) == 1:
        return tops[0]
    if not tops:
        raise ValueError("it has no message")
    raise ValueError(f"it has several messages; say which in `message` ({', '.join(tops[:20])})")


# Descriptors to the text.


def _text_of(message: Any) -> str:
    messages: dict[str, Any] = {}
    enums: dict[str, Any] = {}
    left = [message]
    while left:
        found = left.pop()
        if found.full_name in messages:
            continue
        if len(messages) >= _MOST_MESSAGES:
            raise ValueError(f"it is built on more than {_MOST_MESSAGES:,} messages")
        messages[found.full_name] = {field.name: _field(field, left, enums) for field in found.fields}
    schema = {"message": message.full_name, "messages": messages, "enums": enums}
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


def _field(field: Any, left: list[Any], enums: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"number": field.number}
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, field = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        said["key"] = _TYPES[key.type]
    elif field.is_repeated:
        said["repeated"] = True
    elif field.has_presence:
        said["presence"] = True
        if field.containing_oneof is not None and not _is_made_up(field):
            said["oneof"] = field.containing_oneof.name
    said["type"] = _TYPES[field.type]
    if field.message_type is not None:
        said["of"] = field.message_type.full_name
        left.append(field.message_type)
    if field.enum_type is not None:
        said["of"] = field.enum_type.full_name
        names: dict[str, str] = enums.setdefault(field.enum_type.full_name, {})
        for value in field.enum_type.values:  # of several names of a number the first is its name
            names.setdefault(str(value.number), value.name)
    return said


def _is_made_up(field: Any) -> bool:
    """Whether its oneof is how the compiler writes `optional` down."""
    oneof = field.containing_oneof
    return len(oneof.fields) == 1 and oneof.name == f"_{field.name}"


_NAMES = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes",
    "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
_TYPES = dict(enumerate(_NAMES, 1))
"""FieldDescriptorProto.Type."""
