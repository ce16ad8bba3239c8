"""The schema that a message was written by, as a registry gave it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SchemaType = Literal["AVRO", "JSON", "PROTOBUF", ""]


class SchemaReference(BaseModel):
    """A schema that another one is built on."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="What the other calls it: the full name of an Avro type, the file of an import")
    subject: str
    version: int
    text: str


class WriterSchema(BaseModel):
    """A schema with all that it is built on: what an id of a registry means, for ever."""

    model_config = ConfigDict(frozen=True)

    type: SchemaType = Field(description="Empty: the registry does not say; then it is what the dataset file declares")
    text: str
    references: list[SchemaReference] = Field(default=[], description="Each behind those that it is built on itself")
