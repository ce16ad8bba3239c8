"""A dataset file next to the newest schemas of its topics: what its next records may bring."""

from __future__ import annotations

import json

from onefold.dataset import Dataset
from onefold.dataset.value_formats import ValueFormat
from onefold.dataset.writer_schema import WriterSchema
from onefold.formats import registered_protobuf
from onefold.formats.avro import message_reader
from onefold.formats.structured_json import FormatError
from onefold.lake import Lake
from onefold.schemas.client import open_registry
from onefold.schemas.kept import check_kept
from onefold.vocabulary import Reason, Verdict

_SHOWN = 20
"""Fields that a note names, at most."""


def notes_of_registry(lake: Lake, dataset: Dataset) -> list[str]:
    """What the newest schemas of a dataset's topics, by the subjects `<topic>-value`, have and the file has not, or the
    other way round. Asks the registry, also whether the schemas that the lake has of it are as they were.

    Raises:
        RegistryUnavailableError, RegistryRefusedError, UsageError: it does not answer.
        RegistryDiffersError: it says something else of a kept schema.
    """
    for registry in {registry.label: registry for registry in dataset.registries.values()}.values():
        check_kept(lake, registry)
    named = dataset.value.registry
    if named is None or dataset.source.kafka is None:
        return []
    client, notes = open_registry(lake.settings, named), list[str]()
    for topic in (name for name in dataset.source.kafka.topics if not name.startswith("^")):
        subject = f"{topic}-value"
        if answer := client.newest(subject):
            [(_, version)] = answer.subjects
            notes += [f"{subject} version {version}: {note}" for note in _differences(dataset, answer.schema)]
        else:
            notes.append(f"the registry {named.label} has no subject {subject}, so its fields were not compared")
    return notes


def _differences(dataset: Dataset, schema: WriterSchema) -> list[str]:
    try:
        names = _fields_of(dataset, schema)
    except (FormatError, ValueError, KeyError, TypeError) as error:
        return [f"its messages cannot be read: {error}"]
    lacking = [
        name
        for name, places in dataset.read_places.items()
        if not any(place[0] in names for place in places)
        and not dataset.fields[name].nullable
        and name not in dataset.defaults
    ]
    more = sorted(names - {*dataset.read_fields})
    notes = []
    if lacking:
        notes.append(
            f"it has no field {', '.join(lacking[:_SHOWN])}: its records are {Verdict.REJECTED}/"
            f"{Reason.MISSING_FIELD}, unless value.fields has a default or a ?"
        )
    if more:
        quarantined = dataset.value.schema_changes == "quarantine"
        what = f"are {Verdict.REJECTED}/{Reason.UNKNOWN_SCHEMA}" if quarantined else "lose them"
        notes.append(f"value.fields does not name {', '.join(more[:_SHOWN])}: its records {what}")
    return notes


def _fields_of(dataset: Dataset, schema: WriterSchema) -> set[str]:
    """The names at the top of a schema's records; of the messages at the top of a Protobuf file, those of the message
    that has the most of the declared fields.

    Raises:
        FormatError, ValueError, KeyError, TypeError: it is no schema of the declared format, or a declared field of it
            cannot be read.
    """
    match dataset.value.format:
        case ValueFormat.AVRO:
            message_reader(schema.text, dataset.read_fields, [part.text for part in schema.references])
            return {field["name"] for field in json.loads(schema.text)["fields"]}
        case ValueFormat.PROTOBUF:
            [compiled] = registered_protobuf.described({"newest": schema}).values()
            texts = [json.loads(text) for text in registered_protobuf.texts_at_top(compiled)]
            fields = [{*text["messages"][text["message"]]} for text in texts]
            return max(fields, key=lambda names: len(names & {*dataset.read_fields}))
        case _:
            return {*json.loads(schema.text)["properties"]}
