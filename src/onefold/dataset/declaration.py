"""The sections of a dataset file, and what follows from them, whatever its generation."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from onefold.dataset.base import Model, Name
from onefold.dataset.defaults import json_of
from onefold.dataset.envelopes import DELETED, ORDER_PARTS, POSITION, Attribute, Envelope, attributes_of
from onefold.dataset.evolution import Shape
from onefold.dataset.expressions import CASTS, OF_ENVELOPE, PERIODS, Call, Expression, Fallback, Path, parse, paths
from onefold.dataset.masked_columns import masked_columns
from onefold.dataset.masks import Mask, strictest
from onefold.dataset.modes import MODES, AnyMode
from onefold.dataset.modes.version import MAX_AHEAD
from onefold.dataset.names import Place, with_field_names
from onefold.dataset.schedule import Schedule
from onefold.dataset.sections import Identity, KeyFormat, Quality, Target, Value
from onefold.dataset.source import Source
from onefold.dataset.types import FieldType, parse_type
from onefold.vocabulary import DECLARED_LEVELS, Level


def _not_onefolds_own(name: str) -> str:
    if name.startswith("onefold_"):
        raise ValueError(f"{name}: names that begin with onefold_ are those of Onefold's own DAGs in Airflow")
    return name


def _around(names: list[str], kind: FieldType) -> FieldType:
    """A struct in which names lead to a field."""
    for name in reversed(names):
        kind = FieldType("struct", nullable=True, fields=((name, kind),))
    return kind


def _merged(first: FieldType, other: FieldType) -> FieldType:
    """A struct with the fields of two."""
    both = dict(first.fields)
    for name, kind in other.fields:
        both[name] = _merged(both[name], kind) if name in both and both[name].name == kind.name == "struct" else kind
    return FieldType("struct", nullable=True, fields=tuple(both.items()))


def _with_deletes(given: Any) -> Any:
    """A file whose envelope says what deletes, where the file does not."""
    try:
        deletes, applied = Envelope(given["value"]["envelope"]).deletes, given["apply"]
        mode = MODES.get(applied["mode"])
        if deletes is None or mode is None or not mode.DELETES or applied.get("delete_when") is not None:
            return given
    except (KeyError, TypeError, AttributeError, ValueError):  # another check reports that
        return given
    return {**given, "apply": {**applied, "delete_when": deletes}}


LOG_TIME = Path("timestamp")
"""The record's log timestamp, as an expression."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")


def _without_control(text: str) -> str:
    """Airflow's database takes no NUL, and a terminal would obey the others."""
    if found := _CONTROL.search(text):
        raise ValueError(f"it holds the control character {found[0]!r}")
    return text


Shown = Annotated[str, AfterValidator(_without_control)]
"""A text that Airflow stores and shows."""
DatasetName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64), AfterValidator(_not_onefolds_own)]


class Declaration(Model):
    """The sections of one dataset file, and what follows from them."""

    name: DatasetName
    description: Shown = Field(default="", max_length=5_000)
    owner: Shown = Field(default="", max_length=250, description="Airflow shows it, and finds DAGs by it")
    source: Source
    schedule: Schedule | None = None
    key: KeyFormat = KeyFormat()
    value: Value
    identity: Identity = Identity()
    apply: AnyMode
    target: Target
    quality: Quality = Quality()
    mask: dict[Name, Mask] = Field(
        default={},
        description="Columns of which reports, checks, errors and logs show no values, but what the mask says",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_field_names(cls, given: Any) -> Any:
        return with_field_names(_with_deletes(given))

    def masks(self, expression: Expression) -> bool:
        """Whether an expression reads a masked column."""
        return self.mask_of(expression) is not None

    def mask_of(self, expression: Expression) -> Mask | None:
        """The strictest mask of the columns that an expression reads."""
        return strictest(self.masked.get(name) for path in paths(expression) for name in (path.name, path.column))

    @cached_property
    def masked(self) -> dict[str, Mask]:
        """The masked columns with their masks, and the columns that show the same values (`masked_columns`)."""
        return masked_columns(self)

    def expressions(self) -> list[tuple[str, str]]:
        """Every expression of the file, with the key that holds it."""
        found = [("source.filter", self.source.filter)]
        found += [("identity.message_id", text) for text in self.identity.message_parts]
        if self.identity.producer:
            found.append(("identity.producer.name", self.identity.producer.name))
            found.append(("identity.producer.epoch", self.identity.producer.epoch))
            found.append(("identity.producer.sequence", self.identity.producer.sequence))
        found += [("identity.business_key", text) for text in self.identity.business_key or ()]
        found += [("identity.within", self.identity.within)]
        found += self.apply.expressions()
        found += [("target.where", self.target.where)]
        return [(place, text) for place, text in found if text is not None]

    def type_of(self, expression: Expression) -> FieldType | None:
        """The type of an expression's values; None: text, or a condition."""
        match expression:
            case Path("value", name, inner):
                return self.fields[name].part(inner)
            case Path() if expression == DELETED:
                return FieldType("boolean")
            case Path() if expression in ORDER_PARTS:
                return FieldType("decimal", precision=38)
            case Fallback(terms):
                return self.type_of(terms[0])
            case Call("pg_lsn", _):
                return FieldType("decimal", precision=20)
            case Call("hex", _):
                return FieldType("decimal", precision=38)
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

    @cached_property
    def fields(self) -> dict[str, FieldType]:
        """The declared value fields, in order."""
        return {name: parse_type(field.type) for name, field in self.value.fields.items()}

    @cached_property
    def defaults(self) -> dict[str, str]:
        """What fields are of which a record has none, as JSON."""
        declared = {name: field.default for name, field in self.value.fields.items()}
        return {name: json_of(default, self.fields[name]) for name, default in declared.items() if default is not None}

    @cached_property
    def read_places(self) -> dict[str, list[Place]]:
        """Where records may have each field: at its own place, else under a former name; the first that is there
        counts."""
        former = self.value.renamed
        return {
            name: [place, *((former_name,) for former_name in former.get(name, ()))]
            for name, place in self.value.places.items()
        }

    @cached_property
    def read_fields(self) -> dict[str, FieldType]:
        """What of a value is read, by its names at the top: the types that are declared for it. Of what is declared
        below a name, a struct."""
        read = [(place, self.fields[name]) for name, places in self.read_places.items() for place in places]
        whole = {place[0]: kind for place, kind in read if len(place) == 1}
        parts: dict[str, FieldType] = {}
        for (first, *below), kind in read:
            if below and first not in whole:
                part = _around(below, kind)
                parts[first] = _merged(parts[first], part) if first in parts else part
        return whole | parts

    @cached_property
    def used_fields(self) -> dict[str, str]:
        """Of each field that expressions use, a key of the file that holds such an expression."""
        named = ((path, place) for place, text in self.expressions() for path in paths(parse(text)))
        return {path.name: place for path, place in named if path.root == "value"}

    @cached_property
    def envelope_attributes(self) -> list[Attribute]:
        """What expressions read of the envelope, and what says that a change deletes."""
        asked = [parse(text) for _, text in self.expressions()]
        return attributes_of([*asked, DELETED] if self.value.envelope.has_changes else asked)

    @property
    def deletes_by_envelope(self) -> bool:
        """Whether the envelope says what deletes, and the file nothing else."""
        return self.value.envelope.deletes is not None and self.apply.delete_when == self.value.envelope.deletes

    @property
    def ids_within_key(self) -> bool:
        """Whether a message id names a message together with its key only."""
        return POSITION in map(parse, self.identity.message_parts)

    @cached_property
    def fields_of_delete(self) -> frozenset[str]:
        """The fields that a delete has in an envelope of changes: parts of the key, and that of `within`."""
        if not self.value.envelope.has_changes:
            return frozenset(self.value.fields)
        return frozenset(path.name for tree in self.key_expressions for path in paths(tree) if path.root == "value")

    @cached_property
    def key_columns(self) -> list[tuple[str, Expression]]:
        """Columns that the table has besides the value's fields: key parts that are no value field."""
        return [
            (next(iter(paths(tree))).column, tree)
            for tree in map(self.of_field, self.apply.key_parts)
            if not (isinstance(tree, Path) and tree.root == "value" and not tree.inner)
        ]

    @cached_property
    def keyed_fields(self) -> dict[str, Path]:
        """Fields that are a part of the Kafka key, too (`apply.key: [key.id]` next to a field `id`), with that part: it
        is one column, which the key fills."""
        parts = {tree.column: tree for tree in self.apply.key_parts if isinstance(tree, Path)}
        return {name: tree for name, tree in parts.items() if tree.root == "key" and name in self.fields}

    def of_field(self, tree: Expression) -> Expression:
        """A part of the row's key: of the Kafka key, if a field has its name, that field."""
        keyed = isinstance(tree, Path) and self.keyed_fields.get(tree.column) == tree
        return Path("value", tree.column) if isinstance(tree, Path) and keyed else tree

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The identity levels in force, narrow to wide; the producer's also where the source shows the log itself."""
        logged = self.source.shows_log
        declared = self.declared_levels
        return tuple(level for level in Level if level in declared or (level is Level.PRODUCER and logged))

    @cached_property
    def declared_levels(self) -> tuple[Level, ...]:
        """The identity levels that the file declares, narrow to wide, the position included."""
        return (Level.POSITION, *(level for level in DECLARED_LEVELS if getattr(self.identity, level)))

    @cached_property
    def deciding(self) -> Level:
        """The level that decides whether two records are the same."""
        return self.apply.deciding(self)

    @cached_property
    def narrow(self) -> tuple[Level, ...]:
        """The levels below the deciding level, without the position: they name the reason of a duplicate."""
        wide = self.levels.index(self.deciding) if self.deciding in self.levels else len(self.levels)
        return self.levels[1:wide]

    @property
    def max_rejected_rate(self) -> float:
        """The share of the wanted records that may be rejected."""
        declared = self.quality.max_rejected_rate
        return self.apply.MAX_REJECTED_RATE if declared is None else declared

    @cached_property
    def before_offset(self) -> int | None:
        """How many parts of the version come before an offset, which orders the records of one partition only; None:
        the version holds no offset."""
        parts = self.apply.version.parts if self.apply.version else []
        return next((n for n, text in enumerate(parts) if parse(text) == Path("offset")), None)

    @cached_property
    def ties_by_offset(self) -> bool:
        """Whether of several contents of one version the offset decides. Where the version holds an offset, one version
        is one position, and there are no ties."""
        version = self.apply.version
        return version is not None and version.tie != "conflict" and self.before_offset is None

    @cached_property
    def delivery_decides(self) -> bool:
        """Whether the version, or what decides a tie, is that of a delivery and not of its message."""
        return self.ties_by_offset or self.version_of_delivery

    @cached_property
    def version_of_delivery(self) -> bool:
        """Whether a part of the version is read from the log or a header, so that a message that is sent again may have
        a greater version."""
        texts = [text for _, text in self.apply.version.expressions] if self.apply.version else []
        return any(path.root not in ("value", "key", *OF_ENVELOPE) for text in texts for path in paths(parse(text)))

    @property
    def versions_by_delivery(self) -> bool:
        """Whether a delivery decides, and a message has an identity by which several deliveries of it are found."""
        return self.delivery_decides and bool({Level.MESSAGE_ID, Level.PRODUCER} & {*self.narrow})

    @cached_property
    def versioned_by(self) -> str:
        """What versions are read from, and as which types: versions of two declarations do not compare."""
        texts = [text for _, text in self.apply.version.expressions] if self.apply.version else []
        return ", ".join(f"{text}: {self.type_of(parse(text))}" for text in texts)

    @cached_property
    def max_ahead(self) -> timedelta | None:
        """How far a time of the version may be ahead: one of the record's own of its log timestamp, and that of the
        clock. None: it is not asked, for the version is more than times, and the file declares no limit."""
        version = self.apply.version
        declared = version.max_ahead if version else None
        by_log_time = version is not None and any(parse(text) == LOG_TIME for text in version.parts)
        return MAX_AHEAD if declared is None and (self.times_of_version or by_log_time) else declared

    @cached_property
    def times_of_version(self) -> list[str]:
        """The parts of the version that are compared with the record's log timestamp, by `max_ahead`: its own times."""
        version = self.apply.version
        if version is None or (version.max_ahead is None and not all(map(self._is_time, version.parts))):
            return []
        return [text for text in version.parts if self._is_time(text) and parse(text) != LOG_TIME]

    def _is_time(self, text: str) -> bool:
        kind = self.type_of(parse(text))
        return kind is not None and kind.name in ("timestamp", "date")

    def level_expressions(self, level: str) -> list[Expression]:
        """The expressions of a declared level (`position` has none)."""
        if level == Level.PRODUCER:
            named = self.identity.producer
            numbers = [text for text in (named.epoch, named.sequence) if text] if named else []
            return [parse(named.name), *(Call("long", parse(text)) for text in numbers)] if named else []
        if level == Level.MESSAGE_ID:
            return [parse(text) for text in self.identity.message_parts]
        return [parse(text) for text in self.identity.business_key or ()]

    @cached_property
    def where(self) -> Expression | None:
        """Which rows readers see; None: all."""
        return parse(self.target.where) if self.target.where else None

    @cached_property
    def watches_filter(self) -> bool:
        """Whether a record that the filter leaves out may be a newer version of a row: the mode has versions, and the
        filter reads what changes from version to version, and not the log or headers alone."""
        asked = paths(parse(self.source.filter)) if self.source.filter else ()
        return self.apply.HIDES and any(path.root in ("value", "key") for path in asked)

    @cached_property
    def within(self) -> Expression | None:
        """The period that is part of the identity and bounds a look-up; the tables are partitioned by it."""
        return parse(self.identity.within) if self.identity.within else None

    @cached_property
    def key_expressions(self) -> list[Expression]:
        """What a row of the table is keyed by; empty when the position decides."""
        return [*self.apply.row_key(self), *([self.within] if self.within else [])]

    @property
    def identity_key(self) -> list[Expression]:
        """What a message is known by at its widest declared level; empty: by its position."""
        level = self.declared_levels[-1]
        if level is Level.PRODUCER:  # it counts for each partition from the start
            partition = [Path(name) for name in ("cluster", "topic", "incarnation", "partition")]
            return [*partition, *self.level_expressions(level)]
        return [] if level is Level.POSITION else self.level_expressions(level)

    @cached_property
    def key_names(self) -> list[str]:
        """The names of the key's parts, as `explain --key` takes them; the last is that of `within`, if declared."""
        return [next(iter(paths(tree))).column for tree in self.key_expressions]

    @cached_property
    def row_key_names(self) -> list[str]:
        """The names of what a published row is unique by."""
        return self.apply.row_key_names(self)

    @cached_property
    def row_key_columns(self) -> list[str]:
        """The parts of a published row's key that are columns; of the period, where it begins. A value's field may have
        the name of a part that is read elsewhere, such as a header, and is none then."""
        names: list[str] = []
        for tree in self.apply.published_key(self):
            path = next(iter(paths(tree)))
            of_value = path.root == "value" and not path.inner
            if tree == self.within:
                names.append("_within")
            elif (of_value and path.name in self.fields) or (path.column, tree) in self.key_columns:
                names.append(path.column)
        return list(dict.fromkeys(names))

    @property
    def earliest_wins(self) -> bool:
        """Whether of two records of one identity (in upsert: and version) the earlier one is the row."""
        return self.apply.version is None or self.apply.version.tie == "first"

    @property
    def resolves_ties(self) -> bool:
        """Whether the file says which of two contents of one version is the row: no decision does, then."""
        return self.apply.version is not None and self.apply.version.tie != "conflict"

    @cached_property
    def excepted(self) -> frozenset[str]:
        """The fields that do not count when two contents are compared."""
        return frozenset(self.apply.compare.except_ if self.apply.compare else ())

    @cached_property
    def bound_fields(self) -> dict[str, str]:
        """The fields that must count when two contents are compared, each with the key of the file that uses it: parts
        of the key, the version, an identity, the period, what is added, what says that a record deletes, and what hides
        a row."""
        used = [(path, place) for place, text in self.expressions() for path in paths(parse(text))]
        bound = {path.name: place for path, place in used if path.root == "value" and place != "source.filter"}
        return bound | dict.fromkeys(self.keyed_fields, "apply.key")

    @cached_property
    def published_columns(self) -> list[str]:
        """The columns that readers see."""
        return self.apply.published_columns(self)

    @cached_property
    def declared(self) -> Shape:
        """The value's fields as the file declares them."""
        return Shape(
            fields={name: str(kind) for name, kind in self.fields.items()},
            renamed=self.value.renamed,
            places={name: field.from_ for name, field in self.value.fields.items() if field.from_},
        )

    @property
    def source_id(self) -> str:
        """The name of the dataset's source."""
        return self.source.id
