"""Where records come from, as a dataset file says it: export files of a layout, or live topics."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from onefold.dataset.base import ExpressionText, Model, Name, not_built


class Origin(Model):
    """What an export does not say of itself: the cluster, and which incarnation of its topics."""

    cluster: Name = Field(description="The Kafka cluster's name in positions")
    incarnation: int = Field(default=1, ge=1, description="Raise it when the topic was created anew")


LAYOUTS = {"kcat": True, "connect": False, "aiven": True, "parquet": True, "segments": True}
"""The layouts of export files, and whether each of their records carries its own offset."""
_NOT_BUILT = {"avro": ": Avro objects of Kafka Connect are layout connect"}


class Columns(Model):
    """Which columns of a Parquet export are what Kafka had (layout parquet); names as Kafka and Spark's source say."""

    topic: str = Field(default="topic", min_length=1, description="Text")
    partition: str = Field(default="partition", min_length=1, description="A whole number")
    offset: str = Field(default="offset", min_length=1, description="A whole number")
    timestamp: str | None = Field(
        default="timestamp", min_length=1, description="A timestamp, or whole milliseconds since 1970; null: none"
    )
    key: str | None = Field(default="key", min_length=1, description="Binary or text; null: none")
    value: str = Field(default="value", min_length=1, description="Binary, text, or a struct")
    headers: str | None = Field(
        default="headers", min_length=1, description="A list of structs of key and value, or a map; null: none"
    )

    def required(self, role: str) -> bool:
        """Whether an object must have this column: all but timestamp, key and headers under their usual names."""
        usual = type(self).model_fields[role].default
        return role in ("topic", "partition", "offset", "value") or getattr(self, role) != usual


class Encoding(Model):
    """How Aiven's sink was told to write bytes (layout aiven)."""

    key: Literal["none", "base64"] = Field(default="none", description="base64: of a ByteArrayConverter")
    value: Literal["none", "base64"] = Field(default="none", description="base64: of a ByteArrayConverter")
    headers: Literal["none", "base64"] = Field(default="none", description="base64: of a ByteArrayConverter")


class Exports(Model):
    """Export files as a source."""

    path: str = Field(min_length=1, description="A folder, or s3://bucket/prefix/")
    layout: str = Field(description=" | ".join(LAYOUTS))
    origin: Origin
    columns: Columns = Field(default=Columns(), description="Layout parquet: which column is what")
    encoding: Encoding = Field(default=Encoding(), description="Layout aiven: what is base64")
    holes: Literal["none", "transactional", "compacted"] = Field(
        default="none", description="What explains a missing offset"
    )

    @model_validator(mode="after")
    def _built(self) -> Self:
        if self.layout in _NOT_BUILT:
            raise not_built(f"layout {self.layout} ({', '.join(LAYOUTS)} are){_NOT_BUILT[self.layout]}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"no layout {self.layout!r} ({', '.join(LAYOUTS)})")
        for name, layout in _OF_ONE_LAYOUT.items():
            if getattr(self, name) != type(self).model_fields[name].default and self.layout != layout:
                raise ValueError(f"{name} belongs to layout {layout}, not to {self.layout}")
        if self.layout == "segments" and self.holes == "transactional":
            raise ValueError("holes: segments hold markers and aborted records themselves (none, compacted)")
        return self

    @property
    def meaning(self) -> dict[str, Any]:
        """What of an export can change a row; the path cannot."""
        own = {name: getattr(self, name).model_dump() for name, of in _OF_ONE_LAYOUT.items() if of == self.layout}
        return {"origin": self.origin.model_dump(), "layout": self.layout, "holes": self.holes, **own}


_OF_ONE_LAYOUT = {"columns": "parquet", "encoding": "aiven"}
"""Keys of an export that mean something in one layout only."""


_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


class Kafka(Model):
    """Live topics as a source."""

    connection: str = Field(
        default="kafka_default",
        pattern=r"^[A-Za-z0-9_.-]+$",
        description="The Airflow connection, or the entry of the setting `kafka`, that says how to reach the cluster",
    )
    topics: list[str] = Field(min_length=1, description="Topic names; one that starts with ^ is a regular expression")

    @field_validator("topics")
    @classmethod
    def _names(cls, topics: list[str]) -> list[str]:
        for topic in topics:
            if topic.startswith("^"):
                try:
                    re.compile(topic)
                except re.error as error:
                    raise ValueError(f"{topic!r} is no regular expression: {error}") from None
            elif not _TOPIC.fullmatch(topic):
                raise ValueError(f"{topic!r} is no topic's name (a pattern starts with ^)")
        if len(set(topics)) < len(topics):
            raise ValueError("a topic stands there twice")
        return topics


class Source(Model):
    """Where the records come from."""

    exports: Exports | None = None
    kafka: Kafka | None = None
    filter: ExpressionText | None = Field(default=None, description="Records that are wanted")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.exports is None) == (self.kafka is None):
            raise ValueError("name one source: exports or kafka")
        return self

    @property
    def layout(self) -> str:
        """How the landed bytes are laid out: one of `LAYOUTS`, or kafka for live topics."""
        return self.exports.layout if self.exports else "kafka"

    @property
    def exact(self) -> bool:
        """Whether each record carries its own offset."""
        return LAYOUTS.get(self.layout, True)

    @property
    def shows_log(self) -> bool:
        """Whether record batches are seen as the broker wrote them, with producer, epoch and sequence."""
        return self.layout == "segments"

    @property
    def holes(self) -> str | None:
        """What the file says explains an offset that an export does not hold; None: nothing does."""
        return None if self.exports is None or self.exports.holes == "none" else self.exports.holes

    @property
    def place(self) -> str:
        """Where it lies, for people."""
        if self.kafka:
            return f"{self.kafka.connection}: {', '.join(self.kafka.topics)}"
        assert self.exports
        return self.exports.path

    @property
    def meaning(self) -> dict[str, Any]:
        """What of the source can change a row: neither a connection's name nor a path."""
        if self.kafka:
            return {"layout": self.layout, "topics": sorted(self.kafka.topics)}
        assert self.exports
        return self.exports.meaning

    @cached_property
    def id(self) -> str:
        """Names the source: datasets that read the same one share its landing."""
        words: list[Any]
        if self.kafka:
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", min(self.kafka.topics)).strip("_")
            words = ["kafka", self.kafka.connection, sorted(self.kafka.topics)]
        else:
            assert self.exports
            name = FilePath(self.exports.path.rstrip("/")).name
            words = [self.exports.path, self.exports.layout, self.exports.origin.model_dump()]
            if self.exports.layout == "segments":  # its landing says which transactions are decided, and holes matter
                words.append(self.exports.holes)
        return f"{name or 'root'}-{hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:8]}"
