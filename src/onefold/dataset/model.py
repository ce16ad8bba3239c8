"""A checked declaration with its generation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import PrivateAttr, model_validator

from onefold.dataset.consistency import check_declaration
from onefold.dataset.declaration import Declaration
from onefold.dataset.envelopes import Envelope
from onefold.dataset.evolution import FieldHistory, Origin, origins_of
from onefold.dataset.reserved_columns import LAYOUT, MESSAGE_LEDGER
from onefold.dataset.sections import Registry
from onefold.dataset.writer_schema import WriterSchema

RULES = 4
"""The number of the rules by which records are decoded and judged. It is part of every generation: a release that gives
any record another verdict or other fields raises it, and each table is rebuilt before it goes on, so that none mixes
two sets of rules."""
RULES_CHANGED = {
    2: "whole numbers and decimals may have an exponent, times may leave out seconds and have zeros behind the "
    "microseconds; text with half of a surrogate pair is rejected; bytes that nothing reads reject nothing; an offset "
    "as a version is compared within one partition; a version that is a time and lies too far after the record's log "
    "timestamp (apply.version.max_ahead) is rejected; a delete needs its key, its version and its period only, and "
    "a filter leaves it out only where it is false; apply.version.tie goes by the offset within a partition, and no "
    "longer by the timestamp; an id or a producer's name of letters that a reader does not see is none",
    3: "a decimal in Base64, of which the schema next to the value has the scale, is the text of its digits in a field "
    "that is declared string",
    4: "so is such a decimal in a Kafka key and within a list, a map or a struct; in these it is a decimal where "
    "that is declared; a JSON number next to such a schema (decimal.format=NUMERIC) is never taken for Base64",
}
"""By number, what these rules do otherwise than those before."""


class Dataset(Declaration):
    """One dataset file, checked, and the generation that its tables are of."""

    _field_history: FieldHistory | None = PrivateAttr(default=None)
    _file: str = PrivateAttr(default="")
    _lines: dict[str, int] = PrivateAttr(default={})
    _mask_key: bytes | None = PrivateAttr(default=None)
    _schemas: dict[str, str] = PrivateAttr(default={})
    _writer_schemas: Mapping[str, Mapping[str, WriterSchema]] = PrivateAttr(default={})

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_declaration(self)
        return self

    @cached_property
    def meaning(self) -> dict[str, Any]:
        """What the generation is the digest of: what can change a row, the rules' number, and the tables' layout."""
        return {
            **self.source.meaning,
            "filter": self.source.filter,
            "key": self.key.format,
            "value.format": self.value.format,
            **({"value.envelope": self.value.envelope} if self.value.envelope is not Envelope.NONE else {}),
            "value.fields": self.declared.fields,
            **({"schemas": self._schemas} if self._schemas else {}),
            **({"registries": self._registries_meaning} if self.registries else {}),
            **({"value.renamed": self.declared.renamed} if self.value.renamed else {}),
            **({"value.from": self.declared.places} if self.declared.places else {}),
            **({"value.defaults": self.defaults} if self.defaults else {}),
            **({"value.schema_changes": "quarantine"} if self.value.schema_changes == "quarantine" else {}),
            "identity": self.identity.model_dump(exclude_none=True),
            "apply": self.apply.model_dump(exclude_none=True, by_alias=True),
            "buckets": self.target.buckets,
            **({"target.where": self.target.where} if self.target.where else {}),
            "table_layout": LAYOUT,
            **({"message_ledger": MESSAGE_LEDGER} if self.versions_by_delivery else {}),
            "rules": RULES,
        }

    @property
    def generation(self) -> str:
        """The published generation that the file's fields are changed in place of, else the file's own."""
        return self._field_history.generation if self._field_history else self.own_generation()

    def own_generation(self, again: int = 0) -> str:
        """Twelve hex digits of the meaning's SHA-256; `again`: of a further generation with this meaning."""
        meaning = self.meaning | ({"again": again} if again else {})
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    @property
    def again(self) -> int:
        """How many generations of this very meaning there were before."""
        return self._field_history.again if self._field_history else 0

    @property
    def shape(self) -> str:
        """The digest of the fields, where they are not those that the generation began with; else nothing."""
        return self._field_history.shape if self._field_history else ""

    @property
    def origins(self) -> Mapping[str, Origin]:
        """What each field was when the generation began, or when it was added."""
        return self._field_history.origins if self._field_history else origins_of([self.declared])

    @property
    def added(self) -> frozenset[str]:
        """The fields that were added in place: NULL for what was folded before."""
        return frozenset(name for name, origin in self.origins.items() if origin.added)

    def with_field_history(self, history: FieldHistory | None) -> Dataset:
        """The dataset as a published generation has it (`onefold.generation.settle`); None: as its file is."""
        made = self.model_copy()
        made._field_history = history
        return made

    def with_mask_key(self, key: bytes | None) -> Dataset:
        """The dataset with the key of `mask: hmac`, which is a setting."""
        made = self.model_copy()
        made._mask_key = key
        return made

    @property
    def mask_key(self) -> bytes | None:
        """The key of `mask: hmac`; None: it is not set."""
        return self._mask_key

    @property
    def schema_files(self) -> dict[str, str]:
        """The schema files that it names, by section: key, value."""
        named = {"key": self.key.schema_file, "value": self.value.schema_file}
        return {section: file for section, file in named.items() if file}

    @property
    def schemas(self) -> dict[str, str]:
        """What these files say, by section."""
        return self._schemas

    def with_schemas(self, schemas: dict[str, str]) -> Dataset:
        """The dataset with the contents of its schema files, which are part of its meaning."""
        self._schemas = schemas
        return self

    @property
    def registries(self) -> dict[str, Registry]:
        """The schema registries that it names, by section: key, value."""
        named = {"key": self.key.registry, "value": self.value.registry}
        return {section: registry for section, registry in named.items() if registry}

    @property
    def _registries_meaning(self) -> dict[str, dict[str, str]]:
        return {section: registry.meaning for section, registry in self.registries.items()}

    @property
    def writer_schemas(self) -> Mapping[str, Mapping[str, WriterSchema]]:
        """The schemas that the records which are decoded were written by, by section and id (`confluent-7`)."""
        return self._writer_schemas

    def with_writer_schemas(self, schemas: Mapping[str, Mapping[str, WriterSchema]]) -> Dataset:
        """The dataset with the kept schemas of the records that are to be decoded (`onefold.schemas.kept`). They are no
        part of its meaning: what an id says never changes."""
        made = self.model_copy()
        made._writer_schemas = schemas
        return made

    def read_from(self, file: str, lines: dict[str, int]) -> Dataset:
        """The dataset with where it is said: the file, and the lines of its fields."""
        self._file, self._lines = file, lines
        return self

    def place_of(self, field: str) -> str:
        """Where the file declares a field, or would: `datasets/things.yaml:9`."""
        line = self._lines.get(field, self._lines.get(""))
        return ":".join(str(part) for part in (self._file or "value.fields", line) if part)
