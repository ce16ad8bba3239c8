"""The dataset file as a frozen model: its sections, and what follows from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from onefold.dataset.base import Model, Name
from onefold.dataset.columns import LAYOUT
from onefold.dataset.consistency import check_dataset
from onefold.dataset.expressions import CASTS, PERIODS, Call, Expression, Path, parse, paths
from onefold.dataset.schedule import Schedule
from onefold.dataset.sections import Apply, Identity, KeyFormat, Quality, Target, Value
from onefold.dataset.shapes import Origin, Shape, Standing, origins_of
from onefold.dataset.source import Source
from onefold.dataset.types import FieldType, parse_type

LEVELS = ("position", "producer", "message_id", "business_key")
"""The identity levels, narrow to wide."""

RULES = 1
"""The number of the rules by which records are decoded and judged. It is part of every generation: a release that gives
any record another verdict or other fields raises it, and each table is rebuilt before it goes on, so that none mixes
two sets of rules."""


def _not_onefolds_own(name: str) -> str:
    if name.startswith("onefold_"):
        raise ValueError(f"{name}: names that begin with onefold_ are those of Onefold's own DAGs in Airflow")
    return name


DatasetName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64), AfterValidator(_not_onefolds_own)]


class Dataset(Model):
    """One dataset file."""

    name: DatasetName
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

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_dataset(self)
        return self

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
                return self.fields[name].part(inner)
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
        """What the generation is the digest of: what can change a row, the rules' number, and the tables' layout."""
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
            "table_layout": LAYOUT,
            "rules": RULES,
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
