"""The dataset file as frozen models: what a user may say, and what each key means."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, Self

from croniter import croniter
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from onefold.dataset.expressions import CASTS, PERIODS, ROOTS, Call, Expression, Path, calls, parse, paths, used
from onefold.dataset.types import FieldType, parse_type

SAFE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
Name = Annotated[str, Field(pattern=SAFE_NAME, max_length=64)]


class NotBuiltError(ValueError):
    """What is asked for stands in the language but is not built yet."""


def not_built(what: str) -> NotBuiltError:
    """The error for a key or value that a later version will know."""
    return NotBuiltError(f"not_supported_yet: {what}")


def _readable(text: Any) -> Any:
    if isinstance(text, str):
        parse(text)
    return text


ExpressionText = Annotated[str, BeforeValidator(_readable)]


def duration(text: Any) -> timedelta:
    """A duration of a dataset file or a command, such as 30s, 10m, 2h or 1d."""
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    if isinstance(text, str) and text[:-1].isdigit() and text[-1:] in units:
        return timedelta(**{units[text[-1]]: int(text[:-1])})
    if isinstance(text, timedelta):
        return text
    raise ValueError(f"{text!r} is no duration such as 30s, 10m, 2h or 1d")


Duration = Annotated[timedelta, BeforeValidator(duration)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))


class Origin(_Model):
    """What an export does not say of itself: the cluster, and which incarnation of its topics."""

    cluster: Name = Field(description="The Kafka cluster's name in positions")
    incarnation: int = Field(default=1, ge=1, description="Raise it when the topic was created anew")


LAYOUTS = {"kcat": True, "connect": False, "aiven": True, "parquet": True, "segments": True}
"""The layouts of export files, and whether each of their records carries its own offset."""
_NOT_BUILT = {"avro": ": Avro objects of Kafka Connect are layout connect"}


class Columns(_Model):
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


class Encoding(_Model):
    """How Aiven's sink was told to write bytes (layout aiven)."""

    key: Literal["none", "base64"] = Field(default="none", description="base64: of a ByteArrayConverter")
    value: Literal["none", "base64"] = Field(default="none", description="base64: of a ByteArrayConverter")
    headers: Literal["none", "base64"] = Field(default="none", description="base64: of a ByteArrayConverter")


class Exports(_Model):
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


class Kafka(_Model):
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


class Source(_Model):
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


class Schedule(_Model):
    """When Airflow runs it."""

    cron: str = Field(description="Five cron fields, UTC")
    start: datetime = Field(description="The first interval's start")
    settle: Duration = Field(
        default=timedelta(minutes=10),
        description="How long an object must be unchanged, or an interval over, before it is read",
    )

    @model_validator(mode="before")
    @classmethod
    def _instants(cls, given: Any) -> Any:
        start = given.get("start") if isinstance(given, dict) else None
        if isinstance(start, date) and not isinstance(start, datetime):
            start = datetime(start.year, start.month, start.day, tzinfo=UTC)
        if isinstance(start, datetime):
            given = {**given, "start": start if start.tzinfo else start.replace(tzinfo=UTC)}
        return given

    @field_validator("cron")
    @classmethod
    def _readable_cron(cls, cron: str) -> str:
        if len(cron.split()) != 5 or not croniter.is_valid(cron):
            raise ValueError(f"{cron!r} is no schedule of five cron fields, such as '0 * * * *'")
        return cron


class KeyFormat(_Model):
    """How the Kafka key is read."""

    format: Literal["json", "string", "bytes"] = "string"


class Value(_Model):
    """How the value is read."""

    format: str = "json"
    fields: dict[Name, str] = Field(min_length=1, description="Field name to type, `?` for optional")
    unknown_fields: Literal["ignore", "stop"] = "ignore"

    @model_validator(mode="after")
    def _built(self) -> Self:
        if self.unknown_fields != "ignore":
            raise not_built("value.unknown_fields stop (ignore is)")
        if self.format != "json":
            if self.format.split("+")[0] in ("json", "avro", "protobuf"):
                raise not_built(f"value format {self.format} (json is)")
            raise ValueError(f"no value format {self.format!r} (json)")
        for name, text in self.fields.items():
            try:
                parse_type(text)
            except ValueError as error:
                if type(error).__name__ == "UnsupportedTypeError":
                    raise not_built(str(error)) from error
                raise ValueError(f"{name}: {error}") from error
            if name.startswith("_"):
                raise ValueError(f"{name}: names that start with _ are Onefold's own")
        return self


class NamedProducer(_Model):
    """A producer's name and the sequence that it counts for a partition, where records carry them."""

    name: ExpressionText = Field(description="The producer's name, such as header.producer")
    sequence: ExpressionText = Field(description="A whole number that the producer raises by one a record")


class Identity(_Model):
    """What makes two records the same message; position is always on."""

    producer: NamedProducer | None = Field(default=None, description="Of a source that does not show the log's own")
    message_id: ExpressionText | None = None
    business_key: list[ExpressionText] | None = Field(default=None, min_length=1)
    within: ExpressionText | None = Field(
        default=None, description="A period that never changes for a message, such as day(booked_at)"
    )


class Version(_Model):
    """What orders the versions of a key."""

    from_: ExpressionText | list[ExpressionText] = Field(
        alias="from", description="The version's expression; of several the first that differs decides"
    )
    guard: Literal["newer", "contiguous"] = Field(
        default="newer", description="contiguous: a version is applied only behind the one before it"
    )
    tie: Literal["conflict", "last", "first"] = "conflict"
    first: int | None = Field(default=None, description="guard contiguous: the number of a key's first version; 1")

    @field_validator("from_", mode="before")
    @classmethod
    def _some(cls, given: Any) -> Any:
        if not isinstance(given, str) and not (isinstance(given, list) and given):
            raise ValueError("it takes an expression, or a list of them, the weightiest first")
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.guard == "newer" and self.first is not None:
            raise ValueError("first belongs to guard contiguous")
        if self.guard == "contiguous" and len(self.parts) > 1:
            raise ValueError("guard contiguous counts one whole number: a version of several parts has no next one")
        return self

    @property
    def parts(self) -> list[str]:
        """The expressions that make the version, the weightiest first."""
        return self.from_ if isinstance(self.from_, list) else [self.from_]

    @property
    def begins(self) -> int:
        """The number of a key's first version (guard contiguous)."""
        return 1 if self.first is None else self.first


class Apply(_Model):
    """What a record does to the table."""

    mode: str
    key: list[ExpressionText] | None = Field(default=None, min_length=1)
    version: Version | None = None
    delete_when: str | None = Field(default=None, description="tombstone, or an expression")
    add: dict[str, str] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.mode in ("increment", "history"):
            raise not_built(f"mode {self.mode} (append and upsert are)")
        if self.mode == "append":
            if self.key or self.version or self.delete_when or self.add:
                raise ValueError("append takes no key, version, delete_when or add: its identity decides")
        elif self.mode == "upsert":
            if not self.key or not self.version:
                raise ValueError("upsert needs a key and a version")
            if self.add:
                raise ValueError("add belongs to mode increment")
            if self.delete_when not in (None, "tombstone"):
                parse(str(self.delete_when))
        else:
            raise ValueError(f"no mode {self.mode!r} (append, upsert)")
        return self


class Target(_Model):
    """Where readers find it."""

    table: str = Field(pattern=r"^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$", description="namespace.name")
    buckets: int = Field(default=8, ge=1, le=4096, description="Buckets of the key's digest")

    @field_validator("table")
    @classmethod
    def _free(cls, table: str) -> str:
        if table.endswith("__quarantine"):
            raise ValueError(f"{table!r}: names that end in __quarantine are those of rejected records")
        return table

    @property
    def namespace(self) -> str:
        """The namespace part."""
        return self.table.split(".")[0]

    @property
    def name(self) -> str:
        """The name part."""
        return self.table.split(".")[1]


LEVELS = ("position", "producer", "message_id", "business_key")
"""The identity levels, narrow to wide."""
_IDENTIFYING = (
    "identity.producer.name",
    "identity.producer.sequence",
    "identity.message_id",
    "identity.business_key",
    "apply.key",
)

Rate = Annotated[float, Field(ge=0, le=1)]


class Quality(_Model):
    """What the gate asks."""

    max_duplicate_rate: Rate | None = Field(default=None, description="Of the records not covered before")
    max_rejected_rate: Rate = Field(default=0.01, description="Of the records not covered before")
    max_conflicts: int = Field(default=0, ge=0)
    min_records: int = Field(default=100, ge=0, description="Below it, a rate only warns")
    freshness: Duration | None = Field(default=None, description="At the live edge: age of the newest record")
    max_held_age: Duration | None = Field(
        default=None, description="Guard contiguous: how far the newest record may be ahead of the oldest that is held"
    )
    loss: Literal["refused", "tolerated"] = Field(
        default="refused",
        description="Whether a batch may be published of which records were gone before they were landed",
    )
    suite: str | None = Field(default=None, pattern=r"^[\w.-]+\.ya?ml$", description="A file in expectations/")


class Dataset(_Model):
    """One dataset file."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
    description: str = ""
    owner: str = ""
    source: Source
    schedule: Schedule | None = None
    key: KeyFormat = KeyFormat()
    value: Value
    identity: Identity = Identity()
    apply: Apply
    target: Target
    quality: Quality = Quality()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for place, text in self.expressions():
            for path in paths(parse(text)):
                self._check(place, text, path)
        for place, text in self.expressions():
            for path in used(parse(text)):
                if (kind := self.type_of(path)) and kind.nested:
                    raise ValueError(f"{place}: {text!r}: {path.column} is a {kind.name}; name a field of it")
            if place in _IDENTIFYING and (kind := self.type_of(parse(text))) and kind.name == "double":
                raise ValueError(f"{place}: {text!r} is a double: equal doubles are no identity; declare decimal(p,s)")
        if self.apply.mode == "append" and len(self.levels) == 1 and not self.source.exact:
            raise ValueError(
                f"identity: positions of layout {self.source.layout} are inferred and cannot decide; "
                "declare message_id or business_key"
            )
        if self.apply.delete_when == "tombstone":
            self._check_tombstones()
        self._check_periods()
        self._check_chain()
        taken = [name for name, _ in self.key_columns if name in self.value.fields]
        if taken:
            raise ValueError(f"apply.key: value.fields has {taken[0]} too; name the key's part otherwise")
        self._check_column_names()
        return self

    def _check_periods(self) -> None:
        for place, text in self.expressions():
            period = next((one.function for one in calls(parse(text)) if one.function in PERIODS), None)
            if period and place != "identity.within":
                raise ValueError(f"{place}: {text!r}: {period} is a function of identity.within alone")
        if not self.within:
            return
        place, given = f"identity.within: {self.identity.within!r}", self.within
        kind = self.type_of(given.argument) if isinstance(given, Call) and given.function in PERIODS else None
        if not isinstance(given, Call) or not kind or kind.name not in ("date", "timestamp"):
            raise ValueError(f"{place}: it takes {', '.join(PERIODS)} of a date or a timestamp, such as day(booked_at)")
        if given.argument == Path("timestamp"):
            raise ValueError(f"{place}: the record's own timestamp changes when a message is sent again; name a field")
        if self.apply.mode == "append" and self.deciding == "position":
            raise ValueError(f"{place}: only the position decides, and it needs no bound; declare a wider identity")

    def _check_chain(self) -> None:
        if self.quality.max_held_age and not self.chained:
            raise ValueError("quality.max_held_age: only guard contiguous holds records")
        if self.chained:
            assert self.apply.version
            [text] = self.apply.version.parts
            kind = self.type_of(parse(text))
            if not kind or kind.name not in ("int", "long"):
                raise ValueError(
                    f"apply.version.from: {text!r}: guard contiguous counts whole numbers; cast with long(…) or int(…)"
                )

    def _check_column_names(self) -> None:
        """Names that differ only in case, or not at all, would be one column."""
        seen: dict[str, str] = {}
        for name in (*self.value.fields, *(name for name, _ in self.key_columns)):
            if other := seen.get(name.lower()):
                raise ValueError(f"value.fields: {other} and {name} would be one column of the table")
            seen[name.lower()] = name

    def expressions(self) -> list[tuple[str, str]]:
        """Every expression of the file, with the key that holds it."""
        found = [("source.filter", self.source.filter), ("identity.message_id", self.identity.message_id)]
        if self.identity.producer:
            found.append(("identity.producer.name", self.identity.producer.name))
            found.append(("identity.producer.sequence", self.identity.producer.sequence))
        found += [("identity.business_key", text) for text in self.identity.business_key or ()]
        found += [("identity.within", self.identity.within)]
        found += [("apply.key", text) for text in self.apply.key or ()]
        if self.apply.version:
            found += [("apply.version.from", text) for text in self.apply.version.parts]
        if self.apply.delete_when != "tombstone":
            found.append(("apply.delete_when", self.apply.delete_when))
        return [(place, text) for place, text in found if text is not None]

    def type_of(self, expression: Expression) -> FieldType | None:
        """The type of an expression's values; None: text, or a condition."""
        match expression:
            case Path("value", name, inner):
                return self._within(self.fields[name], inner)
            case Path("timestamp"):
                return FieldType("timestamp")
            case Path("offset"):
                return FieldType("long")
            case Call(function, _) if function in CASTS:
                return FieldType(function)
            case Call(function, _) if function in PERIODS:
                return FieldType("timestamp" if function == "hour" else "date")
            case _:
                return None

    @staticmethod
    def _within(kind: FieldType | None, inner: tuple[str, ...]) -> FieldType | None:
        """The type that a path through structs ends at; None: there is no such part."""
        for name in inner:
            kind = dict(kind.fields).get(name) if kind else None
        return kind

    def _check(self, place: str, text: str, path: Path) -> None:
        if path.root == "value" and path.name not in self.value.fields:
            known = ", ".join(self.value.fields)
            roots = f"; {path.name!r} is none of {', '.join(ROOTS)}" if path.inner else ""
            raise ValueError(f"{place}: {text!r} names no field of value.fields (there are {known}){roots}")
        if path.root == "value" and self._within(self.fields[path.name], path.inner) is None:
            raise ValueError(f"{place}: {text!r}: value.fields has no such part of {path.name}")
        if path.root == "key" and bool(path.name) != (self.key.format == "json"):
            wanted = "key.NAME needs key.format json" if path.name else "a json key is used by its parts, key.NAME"
            raise ValueError(f"{place}: {text!r}: {wanted}")
        if path.root == "key" and self.key.format == "bytes":
            raise ValueError(f"{place}: {text!r}: a key of bytes cannot be used in an expression")
        if path.root in ("offset", "timestamp") and not self.source.exact:
            raise ValueError(f"{place}: {text!r}: layout {self.source.layout} carries no {path.root}")

    def _check_tombstones(self) -> None:
        assert self.apply.key
        assert self.apply.version
        if any(path.root != "key" for text in self.apply.key for path in paths(parse(text))):
            raise ValueError("apply.delete_when: tombstone needs every key part from key.* (a null value holds none)")
        if self.within and any(path.root == "value" for path in paths(self.within)):
            raise ValueError("apply.delete_when: tombstone needs identity.within from key.* or header.*, too")
        parts = [path for text in self.apply.version.parts for path in paths(parse(text))]
        if any(path.root in ("value", "key") for path in parts):
            raise ValueError(
                "apply.delete_when: tombstone needs the version from header.*, timestamp or offset "
                "(a null value holds none)"
            )

    @cached_property
    def fields(self) -> dict[str, FieldType]:
        """The declared value fields, in order."""
        return {name: parse_type(text) for name, text in self.value.fields.items()}

    @cached_property
    def key_columns(self) -> list[tuple[str, Expression]]:
        """Columns that the table has beside the value's fields: key parts that are no value field."""
        named = [(parse(text), text) for text in self.apply.key or ()]
        return [
            (next(iter(paths(tree))).column, tree)
            for tree, _ in named
            if not (isinstance(tree, Path) and tree.root == "value" and not tree.inner)
        ]

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The identity levels in force, narrow to wide; the producer's also where the source shows the log itself."""
        logged = self.source.shows_log
        return tuple(name for name in LEVELS if name in self._declared or (name == "producer" and logged))

    @cached_property
    def _declared(self) -> tuple[str, ...]:
        return ("position", *(name for name in LEVELS[1:] if getattr(self.identity, name)))

    @cached_property
    def deciding(self) -> str:
        """The level that decides: append: the widest declared; upsert: (key, version)."""
        return "key_version" if self.apply.mode == "upsert" else self._declared[-1]

    @cached_property
    def narrow(self) -> tuple[str, ...]:
        """The levels below the deciding one, beside the position: they name the reason of a duplicate."""
        wide = self.levels.index(self.deciding) if self.deciding in self.levels else len(self.levels)
        return self.levels[1:wide]

    @property
    def chained(self) -> bool:
        """Whether a version is applied only behind the one before it (guard contiguous)."""
        return bool(self.apply.version) and self.apply.version.guard == "contiguous"  # type: ignore[union-attr]

    def level_expressions(self, level: str) -> list[Expression]:
        """The expressions of a declared level (`position` has none)."""
        if level == "producer":
            named = self.identity.producer
            return [parse(named.name), Call("long", parse(named.sequence))] if named else []
        if level == "message_id":
            return [parse(str(self.identity.message_id))]
        return [parse(text) for text in self.identity.business_key or ()]

    @cached_property
    def within(self) -> Expression | None:
        """The period that is part of the identity and bounds a look-up; the tables are partitioned by it."""
        return parse(self.identity.within) if self.identity.within else None

    @cached_property
    def key_expressions(self) -> list[Expression]:
        """What a row of the table is keyed by; empty when the position decides."""
        return [*self._own_key, *([self.within] if self.within else [])]

    @property
    def _own_key(self) -> list[Expression]:
        if self.apply.mode == "upsert":
            return [parse(text) for text in self.apply.key or ()]
        if self.deciding == "producer":  # a producer counts for each partition anew
            partition = [Path(name) for name in ("cluster", "topic", "incarnation", "partition")]
            return [*partition, *self.level_expressions("producer")]
        return [] if self.deciding == "position" else self.level_expressions(self.deciding)

    @cached_property
    def key_names(self) -> list[str]:
        """The names of the key's parts, as `explain --key` takes them; the last is that of `within`, if declared."""
        return [next(iter(paths(tree))).column for tree in self.key_expressions]

    @cached_property
    def meaning(self) -> dict[str, Any]:
        """What the generation is the digest of: everything that can change a row."""
        return {
            **self.source.meaning,
            "filter": self.source.filter,
            "key": self.key.format,
            "value.format": self.value.format,
            "value.fields": {name: str(kind) for name, kind in self.fields.items()},
            "identity": self.identity.model_dump(exclude_none=True),
            "apply": self.apply.model_dump(exclude_none=True, by_alias=True),
            "buckets": self.target.buckets,
        }

    @cached_property
    def generation(self) -> str:
        """Twelve hex digits of the meaning's SHA-256."""
        canonical = json.dumps(self.meaning, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    @property
    def source_id(self) -> str:
        """The name of the dataset's source."""
        return self.source.id
