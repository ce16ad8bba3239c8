"""Avro schemas: a file's JSON becomes one canonical text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from onefold.dataset.names import Place
from onefold.errors import nearest


def read_avro(folder: Path, name: str, message: str | None) -> str:
    """The canonical text of a schema file below the folder of the dataset files.

    Raises:
        ValueError: it holds no schema.
    """
    from fastavro import parse_schema

    del message
    try:
        schema = json.loads((folder / name).read_bytes())
        parse_schema(schema)
    except RecursionError:
        raise ValueError("it nests too deep") from None
    except Exception as error:  # what a broken schema raises is not settled
        raise ValueError(f"it is no Avro schema: {type(error).__name__} {str(error)[:200]}") from None
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


def check_avro_fields(text: str, places: Mapping[str, Iterable[Place]]) -> None:
    """Refuse declared fields that a record of this schema never has.

    Raises:
        ValueError: it names one.
    """
    schema: Any = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("its type is no record, and only records have fields")
    names = [field["name"] for field in schema["fields"]]
    for name, lie in places.items():
        if not any(place[0] in names for place in lie):
            raise ValueError(f"value.fields: {name} is no field of the schema{nearest(name, names)}")
