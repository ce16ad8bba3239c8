"""Schemas in the lake: what an id of a registry means is written once, and never asked again.

Folding, rebuild, replay and proof decode by what is kept, so that the same bytes always give the same row, whatever
became of the registry.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset.sections import Registry
from onefold.dataset.writer_schema import WriterSchema
from onefold.errors import RegistryDiffersError, RegistryUnavailableError
from onefold.formats.wire import SchemaId
from onefold.lake import Lake
from onefold.schemas.client import Client, open_registry

MOST_ASKED = 1_000
"""Ids that a registry is asked for a batch, at most, those of the most records first: bytes that are no message may
name any number."""


MOST_COMPARED = 3
"""Kept schemas of a batch that a registry is asked for again, at most, where it is asked for new ones."""


class Subject(BaseModel):
    """For what a schema is registered."""

    model_config = ConfigDict(frozen=True)

    subject: str
    version: int


class KeptSchema(BaseModel):
    """What an id of a registry means."""

    model_config = ConfigDict(frozen=True)

    registry: str
    id: str
    meaning: WriterSchema
    subjects: list[Subject] = Field(description="As the registry said when it was asked; more may have come since")
    at: datetime


class UnknownSchema(BaseModel):
    """That a registry did not know an id."""

    model_config = ConfigDict(frozen=True)

    registry: str
    id: str
    at: datetime


def read_kept(lake: Lake, registry: Registry, ids: Iterable[SchemaId]) -> dict[str, WriterSchema]:
    """What the lake has of some ids; there may be many that it has not, and one listing tells."""
    known = {*_kept_names(lake, registry)}
    wanted = [name for id_ in ids if (name := str(id_)) in known]
    kept = ((name, lake.get(lake_keys.schema(registry.label, name), KeptSchema)) for name in wanted)
    return {name: document.meaning for name, document in kept if document}


def read_all_kept(lake: Lake, registry: Registry) -> dict[str, WriterSchema]:
    """All that the lake has of a registry."""
    return read_kept(lake, registry, [SchemaId.of(name) for name in _kept_names(lake, registry)])


def _kept_names(lake: Lake, registry: Registry) -> list[str]:
    prefix = lake_keys.schemas(registry.label)
    return [info.key.removeprefix(prefix).removesuffix(".json") for info in lake.storage.list(prefix)]


def keep(lake: Lake, registry: Registry, ids: Collection[SchemaId], *, again: bool = True) -> dict[str, WriterSchema]:
    """What some ids mean: the registry is asked for those that the lake lacks, and what it says is kept. It is asked
    for some that are kept, too: whether the connection leads to another registry now.

    Args:
        lake: where they are kept.
        registry: whose ids they are.
        ids: the ids, those of the most records first.
        again: whether a registry that does not answer is an error also where it did not know any of these ids before.

    Raises:
        RegistryUnavailableError: it does not answer.
        RegistryRefusedError: it does not answer to this user, or is no registry.
        RegistryDiffersError: it says something else than what is kept.
        UsageError: nothing says how it is reached.
    """
    found = read_kept(lake, registry, ids)
    missing = [id_ for id_ in ids if str(id_) not in found][:MOST_ASKED]
    if not missing:
        return found
    client = open_registry(lake.settings, registry)
    try:
        _compare(lake, registry, client, dict(islice(found.items(), MOST_COMPARED)))
        for id_ in missing:
            if answer := client.schema(id_):
                subjects = [Subject(subject=subject, version=version) for subject, version in answer.subjects]
                found[str(id_)] = _put(lake, registry, id_, answer.schema, subjects)
            else:
                key = lake_keys.unknown_schema(registry.label, str(id_))
                lake.put_first(key, UnknownSchema(registry=registry.label, id=str(id_), at=datetime.now(UTC)))
    except RegistryUnavailableError:
        left = [id_ for id_ in missing if str(id_) not in found]
        if again or not all(lake.storage.stat(lake_keys.unknown_schema(registry.label, str(id_))) for id_ in left):
            raise
    return found


def _put(lake: Lake, registry: Registry, id_: SchemaId, schema: WriterSchema, subjects: list[Subject]) -> WriterSchema:
    key = lake_keys.schema(registry.label, str(id_))
    document = KeptSchema(registry=registry.label, id=str(id_), meaning=schema, subjects=subjects, at=datetime.now(UTC))
    kept = lake.put_first(key, document).meaning
    if _canonical(kept) != _canonical(schema):
        raise RegistryDiffersError(registry.label, str(id_), lake.where(key))
    return kept


def check_kept(lake: Lake, registry: Registry) -> int:
    """Ask the registry for each kept schema of its; how many there are. What it does not know any more stays kept.

    Raises:
        RegistryDiffersError: it says something else of one.
    """
    kept = read_all_kept(lake, registry)
    _compare(lake, registry, open_registry(lake.settings, registry), kept)
    return len(kept)


def _compare(lake: Lake, registry: Registry, client: Client, kept: Mapping[str, WriterSchema]) -> None:
    for name, schema in kept.items():
        answer = client.schema(SchemaId.of(name))
        if answer and _canonical(answer.schema) != _canonical(schema):
            raise RegistryDiffersError(registry.label, name, lake.where(lake_keys.schema(registry.label, name)))


def _canonical(schema: WriterSchema) -> tuple[str, Any, list[Any]]:
    """A schema without what does not change its meaning: how its JSON is laid out."""
    return schema.type, _parsed(schema.text), [(part.name, _parsed(part.text)) for part in schema.references]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
