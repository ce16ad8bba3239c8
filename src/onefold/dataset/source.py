"""Where records come from, as a dataset file says it: export files of a layout, or live topics."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, field_validator, model_validator

from onefold.dataset.base import ExpressionText, Model, Name, not_built
from onefold.dataset.layouts import LAYOUTS, NOT_BUILT, LayoutOptions, export_layouts
from onefold.dataset.layouts.kafka import KAFKA
from onefold.vocabulary import HoleKind


class Origin(Model):
    """What an export does not say of itself: the cluster, and which incarnation of its topics."""

    cluster: Name = Field(description="The Kafka cluster's name in positions")
    incarnation: int = Field(default=1, ge=1, description="Raise it when the topic was created again")


HoleWord = Literal["none", "transactional", "compacted"]
MARKERS = 2
"""Offsets without a record that markers leave in a row, where the file does not say."""


class Holes(Model):
    """What explains an offset that an export does not hold: a word, or a mapping with more."""

    kind: HoleWord = Field(description="none | transactional | compacted")
    longest: int | None = Field(
        default=None, ge=1, description="transactional: the offsets that may be missing in a row; 2"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.longest is not None and self.kind != "transactional":
            raise ValueError(f"longest belongs to kind transactional, not to {self.kind}")
        return self


def _with_kind(given: Any) -> Any:
    return {"kind": given} if isinstance(given, str) else given


class _Export(Model):
    """What every export says."""

    path: str = Field(min_length=1, description="A folder, or s3://bucket/prefix/")
    layout: str = Field(description=" | ".join(export_layouts()))
    origin: Origin


class Exports(LayoutOptions, _Export):
    """Export files as a source."""

    holes: Annotated[Holes, BeforeValidator(_with_kind)] = Field(
        default=Holes(kind="none"), description="What explains a missing offset"
    )

    @model_validator(mode="after")
    def _built(self) -> Self:
        known = ", ".join(export_layouts())
        if self.layout in NOT_BUILT:
            raise not_built(f"layout {self.layout} ({known} are){NOT_BUILT[self.layout]}")
        if self.layout not in export_layouts():
            raise ValueError(f"no layout {self.layout!r} ({known})")
        for layout in LAYOUTS.values():
            for name, field in layout.options.model_fields.items():
                if getattr(self, name) != field.default and self.layout != layout.name:
                    raise ValueError(f"{name} belongs to layout {layout.name}, not to {self.layout}")
        refused = LAYOUTS[self.layout].refused_holes
        if self.holes.kind in refused:
            left = ", ".join(word for word in get_args(HoleWord) if word not in refused)
            raise ValueError(f"holes: {refused[self.holes.kind]} ({left})")
        return self

    @property
    def meaning(self) -> dict[str, Any]:
        """What of an export can change a row; the path cannot, nor how long a hole may be."""
        own = {name: getattr(self, name).model_dump() for name in LAYOUTS[self.layout].options.model_fields}
        return {"origin": self.origin.model_dump(), "layout": self.layout, "holes": self.holes.kind, **own}


_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


class Kafka(Model):
    """Live topics as a source."""

    connection: str = Field(
        default="kafka_default",
        pattern=r"^[A-Za-z0-9_.-]+$",
        description="The Airflow connection, or the entry of the setting `kafka`, that says how to reach the cluster",
    )
    topics: list[str] = Field(
        min_length=1, description="Topic names; what starts with ^ is a regular expression that a whole name must match"
    )
    former_topics: list[str] = Field(
        default=[],
        description="Topics that were read before and are not any more: what is landed of them belongs to the dataset",
    )

    @field_validator("topics", "former_topics")
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
            raise ValueError("a topic is listed twice")
        return topics

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if both := sorted({*self.topics} & {*self.former_topics}):
            raise ValueError(f"{both[0]!r} is listed in topics and in former_topics: a topic that is read is in topics")
        return self

    def names_topic(self, topic: str) -> bool:
        """Whether the file names a topic: one that is read, or was read before."""
        return any(
            re.fullmatch(name, topic) if name.startswith("^") else name == topic
            for name in (*self.topics, *self.former_topics)
        )


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
        """How the landed bytes are laid out: a name of `LAYOUTS`."""
        return self.exports.layout if self.exports else KAFKA.name

    @property
    def exact(self) -> bool:
        """Whether each record carries its own offset."""
        return LAYOUTS[self.layout].exact

    @property
    def shows_log(self) -> bool:
        """Whether record batches are seen as the broker wrote them, with producer, epoch and sequence."""
        return LAYOUTS[self.layout].shows_log

    @property
    def holes(self) -> str | None:
        """What the file says explains an offset that an export does not hold; None: nothing does."""
        return None if self.exports is None or self.exports.holes.kind == "none" else self.exports.holes.kind

    @property
    def longest_hole(self) -> int | None:
        """How many offsets in a row that explains at most; None: any number."""
        if self.holes != HoleKind.TRANSACTIONAL or self.exports is None:
            return None
        return self.exports.holes.longest or MARKERS

    def has_topics(self, topics: Iterable[str]) -> bool:
        """Whether records of all of these live topics belong to it; an export's batches name none."""
        return self.kafka is None or all(self.kafka.names_topic(topic) for topic in topics)

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
            former = sorted(self.kafka.former_topics)
            topics = {"topics": sorted(self.kafka.topics)} | ({"former_topics": former} if former else {})
            return {"layout": self.layout} | topics
        assert self.exports
        return self.exports.meaning

    @cached_property
    def id(self) -> str:
        """Names the source: datasets that read the same source share its landing."""
        words: list[Any]
        if self.kafka:
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", min(self.kafka.topics)).strip("_")
            words = [self.layout, self.kafka.connection, sorted(self.kafka.topics)]
        else:
            assert self.exports
            name = FilePath(self.exports.path.rstrip("/")).name
            words = [self.exports.path, self.exports.layout, self.exports.origin.model_dump()]
            if self.shows_log:  # its landing says which transactions are decided, and holes matter
                words.append(self.exports.holes.kind)
        return f"{name or 'root'}-{hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:8]}"
