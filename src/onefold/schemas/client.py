"""REGISTRIES: what a registry is asked, and who asks it, by the scheme of its address."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from onefold.dataset.sections import Registry
from onefold.dataset.writer_schema import WriterSchema
from onefold.formats.wire import SchemaId
from onefold.schemas.connection import URL, RegistrySettings, registry_settings
from onefold.settings import Settings


@dataclass(frozen=True, slots=True)
class Answer:
    """What a registry says of an id: the schema, and the subjects with their versions that it is registered for."""

    schema: WriterSchema
    subjects: list[tuple[str, int]] = field(default_factory=list)


class Client(Protocol):
    """A registry that answers."""

    def __init__(self, connection: str, settings: RegistrySettings) -> None: ...

    def schema(self, schema_id: SchemaId) -> Answer | None:
        """The schema of an id; None: the registry knows none, or has no such number space.

        Raises:
            RegistryUnavailableError: it does not answer, after some tries.
            RegistryRefusedError: it does not answer to this user, or is no registry.
        """

    def newest(self, subject: str) -> Answer | None:
        """The newest schema of a subject; None: the registry has no such subject, or no subjects.

        Raises:
            RegistryUnavailableError, RegistryRefusedError: as `schema`.
        """

    def versions(self, subject: str, most: int) -> list[Answer]:
        """The newest schemas of a subject, at most so many, the newest first; none: as `newest`.

        Raises:
            RegistryUnavailableError, RegistryRefusedError: as `schema`.
        """


REGISTRIES = {"http": "confluent", "https": "confluent", "glue": "glue"}
"""The module that has the `Registry` class of an address, by its scheme."""


def open_registry(settings: Settings, registry: Registry) -> Client:
    """A client of a registry; nothing is asked yet.

    Raises:
        UsageError: nothing says how it is reached.
    """
    given = registry_settings(settings, registry.connection)
    module = importlib.import_module(f"onefold.schemas.{REGISTRIES[urlsplit(given[URL]).scheme]}")
    client: Client = module.Registry(registry.connection, given)
    return client
