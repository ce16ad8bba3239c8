"""The dataset file as frozen models: what a user may say, and what each key means."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from onefold.dataset.base import Duration, ExpressionText, Model, Name, not_built
from onefold.dataset.expressions import (
    CASTS,
    PERIODS,
    ROOTS,
    Call,
    Compare,
    Expression,
    Junction,
    Member,
    Negation,
    NullTest,
    Path,
    calls,
    parse,
    parts,
    paths,
    used,
)
from onefold.dataset.expressions import Literal as LiteralValue
from onefold.dataset.schedule import Schedule
from onefold.dataset.shapes import Origin, Shape, Standing, origins_of
from onefold.dataset.source import Source
from onefold.dataset.types import FieldType, number_type, parse_type


class KeyFormat(Model):
    """How the Kafka key is read."""

    format: Literal["json", "string", "bytes"] = "string"


class Value(Model):
    """How the value is read."""

    format: str = "json"
    fields: dict[Name, str] = Field(min_length=1, description="Field name to type, `?` for optional")
    renamed: dict[Name, list[Name]] = Field(default={}, description="Field name to the name it had, or the names")
    schema_changes: Literal["evolve", "freeze", "quarantine"] = Field(
        default="evolve",
        description="evolve: the file's compatible changes are made in place; freeze: none is; quarantine: as evolve, "
        "and a record with a field that the file does not name is rejected",
    )

    @field_validator("renamed", mode="before")
    @classmethod
    def _lists(cls, given: Any) -> Any:
        pairs = given.items() if isinstance(given, dict) else ()
        return {name: [one] if isinstance(one, str) else one for name, one in pairs} if pairs else given

    @model_validator(mode="after")
    def _once(self) -> Self:
        seen = set(self.fields)
        for name, former in self.renamed.items():
            if name not in self.fields:
                raise ValueError(f"renamed: {name} is no field of value.fields (it is the new name to the former one)")
            for one in former:
                if one in seen:
                    raise ValueError(f"renamed: {one}, the former name of {name}, is another field's name")
                seen.add(one)
        return self

    @model_validator(mode="after")
    def _built(self) -> Self:
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


class NamedProducer(Model):
    """A producer's name and the sequence that it counts for a partition, where records carry them."""

    name: ExpressionText = Field(description="The producer's name, such as header.producer")
    sequence: ExpressionText = Field(description="A whole number that the producer raises by one a record")


class Identity(Model):
    """What makes two records the same message; position is always on."""

    producer: NamedProducer | None = Field(default=None, description="Of a source that does not show the log's own")
    message_id: ExpressionText | None = None
    business_key: list[ExpressionText] | None = Field(default=None, min_length=1)
    within: ExpressionText | None = Field(
        default=None, description="A period that never changes for a message, such as day(booked_at)"
    )


class Version(Model):
    """What orders the versions of a key."""

    from_: ExpressionText | list[ExpressionText] | None = Field(
        default=None, alias="from", description="The version's expression; of several the first that differs decides"
    )
    expected: ExpressionText | None = Field(
        default=None,
        description="guard contiguous: the version that the record was made for; its own is the next, from or not",
    )
    guard: Literal["newer", "contiguous"] = Field(
        default="newer", description="contiguous: a version is applied only behind the one before it"
    )
    tie: Literal["conflict", "last", "first"] = "conflict"
    first: int | None = Field(default=None, description="guard contiguous: the number of a key's first version; 1")

    @field_validator("from_", mode="before")
    @classmethod
    def _some(cls, given: Any) -> Any:
        if given is not None and not isinstance(given, str) and not (isinstance(given, list) and given):
            raise ValueError("it takes an expression, or a list of them, the weightiest first")
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.from_ is None and self.expected is None:
            raise ValueError("from is missing: the expression of a record's version")
        for name in ("first", "expected"):
            if self.guard == "newer" and getattr(self, name) is not None:
                raise ValueError(f"{name} belongs to guard contiguous")
        if self.guard == "contiguous" and len(self.parts) > 1:
            raise ValueError("guard contiguous counts one whole number: a version of several parts has no next one")
        return self

    @property
    def parts(self) -> list[str]:
        """The expressions that make the version, the weightiest first; without `from` there is none."""
        given = self.from_ or []
        return given if isinstance(given, list) else [given]

    @property
    def expressions(self) -> list[tuple[str, str]]:
        """All that a record's version is read from: (place below `version`, text)."""
        return [*(("from", text) for text in self.parts), *([("expected", self.expected)] if self.expected else [])]

    @property
    def begins(self) -> int:
        """The number of a key's first version (guard contiguous)."""
        return 1 if self.first is None else self.first


class Apply(Model):
    """What a record does to the table."""

    mode: str
    key: list[ExpressionText] | None = Field(default=None, min_length=1)
    version: Version | None = None
    delete_when: str | None = Field(default=None, description="tombstone, or an expression")
    add: dict[Name, ExpressionText] | None = Field(
        default=None, min_length=1, description="increment: a column of the table to the field that is added to it"
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.mode == "history":
            raise not_built("mode history (append, upsert and increment are)")
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
        elif self.mode == "increment":
            if not self.key or not self.add:
                raise ValueError("increment needs a key, and add: what is added to which column")
            if self.version or self.delete_when:
                raise ValueError("increment takes no version or delete_when: what was added once stays added")
        else:
            raise ValueError(f"no mode {self.mode!r} (append, upsert, increment)")
        return self


class Target(Model):
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

_ADDED_DIGITS = 27
"""Of a decimal that is added up: with ten more, Spark still adds without rounding."""

Rate = Annotated[float, Field(ge=0, le=1)]


class Quality(Model):
    """What the gate asks."""

    max_duplicate_rate: Rate | None = Field(default=None, description="Of the records not covered before")
    max_rejected_rate: Rate = Field(default=0.01, description="Of the records not covered before")
    max_conflicts: int = Field(default=0, ge=0)
    min_records: int = Field(default=100, ge=0, description="Below it, a rate only warns")
    freshness: Duration | None = Field(default=None, description="At the live edge: age of the newest record")
    max_held_age: Duration | None = Field(
        default=None, description="Guard contiguous: how far the newest record may be ahead of the oldest that is held"
    )
    max_held: int | None = Field(default=None, ge=0, description="Guard contiguous: records that wait in the table")
    loss: Literal["refused", "tolerated"] = Field(
        default="refused",
        description="Whether a batch may be published of which records were gone before they were landed",
    )
    suite: str | None = Field(default=None, pattern=r"^[\w.-]+\.ya?ml$", description="A file in expectations/")


class Dataset(Model):
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
    mask: dict[Name, Literal["hash"]] = Field(
        default={}, description="Columns of which reports, checks, errors and logs show digests in place of values"
    )
    _standing: Standing | None = PrivateAttr(default=None)
    _file: str = PrivateAttr(default="")
    _lines: dict[str, int] = PrivateAttr(default={})

    @field_validator("name")
    @classmethod
    def _not_onefolds_own(cls, name: str) -> str:
        if name.startswith("onefold_"):
            raise ValueError(f"{name}: names that begin with onefold_ are those of Onefold's own DAGs in Airflow")
        return name

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
        for place, text in self.expressions():
            self._check_kinds(place, text)
        if self.apply.mode == "append" and len(self.levels) == 1 and not self.source.exact:
            raise ValueError(
                f"identity: positions of layout {self.source.layout} are inferred and cannot decide; "
                "declare message_id or business_key"
            )
        if self.apply.delete_when == "tombstone":
            self._check_tombstones()
        self._check_periods()
        self._check_chain()
        self._check_sums()
        taken = [name for name, _ in self.key_columns if name in self.value.fields]
        if taken:
            raise ValueError(f"apply.key: value.fields has {taken[0]} too; name the key's part otherwise")
        self._check_column_names()
        self._check_masks()
        return self

    def _check_kinds(self, place: str, text: str) -> None:
        """Refuses what Spark would refuse, or try to cast by itself, record by record."""
        tree = parse(text)
        conditions = [tree] if place in ("source.filter", "apply.delete_when") else []
        for part in parts(tree):
            match part:
                case Compare(_, left, right):
                    self._check_pair(f"{place}: {text!r}", left, right)
                case Member(term, items):
                    for item in items:
                        self._check_pair(f"{place}: {text!r}", term, item)
                case Junction(_, terms):
                    conditions += terms
                case Negation(term):
                    conditions.append(term)
                case Call("timestamp", argument) if (kind := self._kind_of(argument)).name == "boolean":
                    raise ValueError(f"{place}: {text!r}: a {kind} is no timestamp")
                case _:
                    pass
        for term in conditions:
            if (kind := self._kind_of(term)).name != "boolean":
                raise ValueError(f"{place}: {text!r} takes a {kind} for a condition; compare it with something")

    def _check_pair(self, said: str, left: Expression, right: Expression) -> None:
        one, other = self._kind_of(left), self._kind_of(right)
        if one.family != other.family:
            wanted = other.name if one.name == "string" else one.name
            cast = wanted if wanted in CASTS else "double"
            raise ValueError(f"{said} compares a {one.name} with a {other.name}; cast one of them, such as {cast}(…)")
        if one.rounds(other):
            raise ValueError(
                f"{said} compares a {one} with a {other}, of which Spark would round one; cast with double(…)"
            )

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
        for name in ("max_held_age", "max_held"):
            if getattr(self.quality, name) is not None and not self.chained:
                raise ValueError(f"quality.{name}: only guard contiguous holds records")
        if self.chained:
            assert self.apply.version
            for place, text in self.apply.version.expressions:
                kind = self.type_of(parse(text))
                if not kind or kind.name not in ("int", "long"):
                    raise ValueError(
                        f"apply.version.{place}: {text!r}: guard contiguous counts whole numbers; "
                        "cast with long(…) or int(…)"
                    )

    def _check_sums(self) -> None:
        if self.apply.mode != "increment":
            return
        if not self.identity.message_id or self.identity.business_key:
            raise ValueError(
                "identity: in mode increment the message id decides what is added once; "
                "declare message_id, and no business_key"
            )
        if self.within:
            raise not_built("identity.within in mode increment")
        for name, text in (self.apply.add or {}).items():
            tree = parse(text)
            plain = isinstance(tree, Path) and tree.root == "value" and not tree.inner
            kind = self.type_of(tree) if plain else None
            if not kind or kind.name not in ("int", "long", "decimal") or kind.precision > _ADDED_DIGITS:
                raise ValueError(
                    f"apply.add.{name}: {text!r}: what is added is a field of type int, long or decimal(p,s), "
                    f"p at most {_ADDED_DIGITS}"
                )
            if name.startswith("_"):
                raise ValueError(f"apply.add.{name}: names that start with _ are Onefold's own")

    def _check_column_names(self) -> None:
        """Names that differ only in case, or not at all, would be one column."""
        seen: dict[str, str] = {}
        former = [one for some in self.value.renamed.values() for one in some]
        for name in (*self.value.fields, *former, *(name for name, _ in self.key_columns), *(self.apply.add or ())):
            if other := seen.get(name.lower()):
                place = "apply.add" if name in (self.apply.add or ()) else "value.fields"
                raise ValueError(f"{place}: {other} and {name} would be one column of the table")
            seen[name.lower()] = name

    def _check_masks(self) -> None:
        columns = list(dict.fromkeys([*self.published_columns, *self.fields]))
        for name in self.mask:
            if name not in columns:
                raise ValueError(f"mask.{name}: there is no such column (there are {', '.join(columns)})")
        if self.identity.producer and self.masks(parse(self.identity.producer.name)):
            raise ValueError(
                "mask: identity.producer.name reads a masked column, and producers are told by their names"
            )

    def masks(self, expression: Expression) -> bool:
        """Whether an expression reads a masked column."""
        return any(name in self.mask for path in paths(expression) for name in (path.name, path.column))

    @cached_property
    def masked(self) -> frozenset[str]:
        """The masked columns, those included that are made of one: parts of the key, the period, sums."""
        made = [*self.key_columns, *([("_within", self.within)] if self.within else [])]
        sums = {name for name, (field, _) in self.sums.items() if field in self.mask}
        return frozenset({*self.mask, *sums, *(name for name, tree in made if self.masks(tree))})

    def expressions(self) -> list[tuple[str, str]]:
        """Every expression of the file, with the key that holds it."""
        found = [("source.filter", self.source.filter), ("identity.message_id", self.identity.message_id)]
        if self.identity.producer:
            found.append(("identity.producer.name", self.identity.producer.name))
            found.append(("identity.producer.sequence", self.identity.producer.sequence))
        found += [("identity.business_key", text) for text in self.identity.business_key or ()]
        found += [("identity.within", self.identity.within)]
        found += [("apply.key", text) for text in self.apply.key or ()]
        found += [(f"apply.add.{name}", text) for name, text in (self.apply.add or {}).items()]
        if self.apply.version:
            found += [(f"apply.version.{place}", text) for place, text in self.apply.version.expressions]
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

    def _kind_of(self, expression: Expression) -> FieldType:
        """The type as which an expression is compared."""
        match expression:
            case Compare() | Junction() | Negation() | NullTest() | Member() | LiteralValue(bool()):
                return FieldType("boolean")
            case LiteralValue(text, number=True):
                return number_type(str(text))
            case Path("partition"):
                return FieldType("int")
            case _:
                return self.type_of(expression) or FieldType("string")

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
        parts = [path for _, text in self.apply.version.expressions for path in paths(parse(text))]
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
    def read_fields(self) -> dict[str, FieldType]:
        """The names under which records have the fields: their own and their former ones."""
        former = {one: self.fields[name] for name, some in self.value.renamed.items() for one in some}
        return self.fields | former

    @cached_property
    def used_fields(self) -> dict[str, str]:
        """Of each field that expressions use, a key of the file that holds one."""
        named = ((path, place) for place, text in self.expressions() for path in paths(parse(text)))
        return {path.name: place for path, place in named if path.root == "value"}

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
        """The level that decides: append: the widest declared; upsert: (key, version); increment: the message id."""
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
    def row_key_names(self) -> list[str]:
        """The names of what a published row is unique by: of increment the key that is added to, not the message."""
        if self.sums:
            return list(dict.fromkeys(next(iter(paths(parse(text)))).column for text in self.apply.key or ()))
        return self.key_names

    @cached_property
    def sums(self) -> dict[str, tuple[str, FieldType]]:
        """Mode increment: of each column that is added to, the field and the sum's type: ten digits wider."""
        found = {}
        for name, text in (self.apply.add or {}).items():
            field = next(iter(paths(parse(text)))).name
            kind = self.fields[field]
            wide = FieldType("decimal", precision=kind.precision + 10, scale=kind.scale)
            found[name] = field, (wide if kind.name == "decimal" else FieldType("long"))
        return found

    @cached_property
    def published_columns(self) -> list[str]:
        """The columns that readers see."""
        if self.sums:
            return [*self.row_key_names, *self.sums]
        return [*(name for name, _ in self.key_columns), *self.fields]

    @cached_property
    def meaning(self) -> dict[str, Any]:
        """What the generation is the digest of: everything that can change a row."""
        return {
            **self.source.meaning,
            "filter": self.source.filter,
            "key": self.key.format,
            "value.format": self.value.format,
            "value.fields": self.declared.fields,
            **({"value.renamed": self.declared.renamed} if self.value.renamed else {}),
            **({"value.schema_changes": "quarantine"} if self.value.schema_changes == "quarantine" else {}),
            "identity": self.identity.model_dump(exclude_none=True),
            "apply": self.apply.model_dump(exclude_none=True, by_alias=True),
            "buckets": self.target.buckets,
        }

    @cached_property
    def declared(self) -> Shape:
        """The value's fields as the file declares them."""
        return Shape(fields={name: str(kind) for name, kind in self.fields.items()}, renamed=self.value.renamed)

    @property
    def generation(self) -> str:
        """The published generation that the file's fields are changed in place of, else the file's own."""
        return self._standing.generation if self._standing else self.own_generation()

    def own_generation(self, again: int = 0) -> str:
        """Twelve hex digits of the meaning's SHA-256; `again`: of a further generation with this meaning."""
        meaning = self.meaning | ({"again": again} if again else {})
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    @property
    def again(self) -> int:
        """How many generations of this very meaning there were before."""
        return self._standing.again if self._standing else 0

    @property
    def shape(self) -> str:
        """The digest of the fields, where they are not those that the generation began with; else nothing."""
        return self._standing.shape if self._standing else ""

    @property
    def origins(self) -> Mapping[str, Origin]:
        """What each field was when the generation began, or when it was added."""
        return self._standing.origins if self._standing else origins_of([self.declared])

    @property
    def added(self) -> frozenset[str]:
        """The fields that were added in place: NULL for what was folded before."""
        return frozenset(name for name, origin in self.origins.items() if origin.added)

    def standing_as(self, standing: Standing | None) -> Dataset:
        """The dataset as a published generation has it (`onefold.upsert.generation.settle`); None: as its file is."""
        made = self.model_copy()
        made._standing = standing
        return made

    def read_from(self, file: str, lines: dict[str, int]) -> Dataset:
        """The dataset with where it is said: the file, and the lines of its fields."""
        self._file, self._lines = file, lines
        return self

    def place_of(self, field: str) -> str:
        """Where the file declares a field, or would: `datasets/things.yaml:9`."""
        line = self._lines.get(field, self._lines.get(""))
        return ":".join(str(part) for part in (self._file or "value.fields", line) if part)

    @property
    def source_id(self) -> str:
        """The name of the dataset's source."""
        return self.source.id
