"""JSON: values that are one object, and keys that are one value."""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path
from onefold.dataset.names import Place
from onefold.dataset.types import FieldType
from onefold.records import envelope as E
from onefold.spark.strict_json import (
    HALF,
    LARGEST,
    as_parsed,
    has_own_letters,
    is_one_value,
    key_as_parsed,
    may_have_mark,
    one_object,
    one_value,
    path_to,
    without_mark,
)
from onefold.values.format import KEY_TEXT, KEY_VARIANT
from onefold.values.rejection import not_utf8, rejected
from onefold.values.variant import part_of_key, rejection, scalar_text, scratch, scratch_of_text, typed
from onefold.vocabulary import Reason

_OBJECT = "_value_object"
"""The fields that the file names, each as VARIANT; null where the value is not one JSON object."""
_NONCHARACTERS = (
    "the value holds a character of U+FDD0 to U+FDD4, which cannot be read next to an exponent, an escaped surrogate "
    "or a field of type json"
)


class ValueReader:
    """`onefold.values.format.ReadsValues` for JSON, by Spark's VARIANT: nothing is coerced, rounded or guessed.

    `from_json` turns 5 into "5" and rounds decimals silently, so each field's own JSON type is looked at first, and
    cast only then.
    """

    null = "JSON null"

    @property
    def json(self) -> Column:
        """The bytes that are JSON: the value itself, or what another format has made of it."""
        return F.col(E.VALUE_BYTES)

    def __init__(self, dataset: Dataset) -> None:
        self._fields, self._names = dataset.fields, dataset.read_fields
        self._json = {name: self._first_of(places) for name, places in dataset.read_places.items()}
        for name, default in dataset.defaults.items():
            of_absent = F.when(F.col(_OBJECT).isNotNull(), F.parse_json(F.lit(default)))
            self._json[name] = F.coalesce(self._json[name], of_absent)

    def _first_of(self, places: tuple[Place, ...] | list[Place]) -> Column:
        """A field as VARIANT, from the first of its places that a record has; null where it has none."""
        columns = {name: F.col(f"{_OBJECT}.f{number}") for number, name in enumerate(self._names)}

        def at(place: Place) -> Column:
            first, *below = place
            return F.try_variant_get(columns[first], path_to(below), "variant") if below else columns[first]

        return F.coalesce(*map(at, places))

    @cached_property
    def _looked(self) -> dict[str, Column]:
        each = (scratch(name, kind, self._json[name]) for name, kind in self._fields.items())
        return {column: of for columns in each for column, of in columns.items()}

    @cached_property
    def _further(self) -> dict[str, Column]:
        each = (scratch_of_text(name, kind) for name, kind in self._fields.items())
        return {column: of for columns in each for column, of in columns.items()}

    @property
    def scratch(self) -> list[str]:
        """What was parsed, and what was looked at of each field."""
        return [_OBJECT, *self._looked, *self._further]

    def opened(self, records: DataFrame) -> DataFrame:
        """With the object's fields, and of each its JSON type and text."""
        text = self.json.cast("string")
        fits = F.is_valid_utf8(text) & (F.octet_length(self.json) <= LARGEST)
        usable = F.when(fits & ~self._is_ambiguous(text), as_parsed(text))
        opened = one_object(records, usable, dict.fromkeys(self._names, "variant"), _OBJECT).withColumns(self._looked)
        return opened.withColumns(self._further) if self._further else opened

    def field(self, name: str) -> Column:
        """A field's value where the JSON value is one of its type, exactly."""
        return typed(name, self._fields[name], self._json[name])

    def problem(self, name: str, kind: FieldType, value: Column) -> Column:
        """Why a field cannot be used."""
        return rejection(name, kind, self._json[name], value)

    def is_usable(self) -> Column:
        """Whether the value is exactly one JSON object."""
        return F.col(_OBJECT).isNotNull()

    def unusable(self) -> Column:
        """Why the value is not exactly one JSON object."""
        text = without_mark(self.json.cast("string"))
        letters = F.when(has_own_letters(text) | self._is_ambiguous(text), _NONCHARACTERS)
        not_text = not_utf8("the value", self.json)
        size = F.format_number(F.octet_length(self.json), 0)
        large = F.concat(F.lit("the value has "), size, F.lit(f" bytes, at most {LARGEST:,} can be read"))
        return (
            F.when(not_text.isNotNull(), rejected(Reason.UNDECODABLE, not_text))
            .when(F.octet_length(self.json) > LARGEST, rejected(Reason.TOO_LARGE, large))
            .when(F.trim(text) == "", rejected(Reason.UNDECODABLE, "the value is empty"))
            .when(letters.isNotNull(), rejected(Reason.UNDECODABLE, letters))
            .when(is_one_value(text), rejected(Reason.WRONG_TYPE, "the value is no JSON object"))
            .otherwise(rejected(Reason.UNDECODABLE, "the value is not one JSON value"))
        )

    def _is_ambiguous(self, text: Column) -> Column:
        """Whether a string may look like a number that is kept as it was written."""
        keeps = any(kind.holds("json") for kind in self._fields.values())
        return may_have_mark(text) if keeps else F.lit(False)

    def unknown_names(self) -> Column:
        """The object's names that the file does not know."""
        names = F.json_object_keys(without_mark(self.json.cast("string")))
        return F.array_distinct(F.array_except(names, F.array(*(F.lit(name) for name in self._names))))

    def is_null(self) -> Column:
        """Whether the value is the word null."""
        text = without_mark(self.json.cast("string"))
        return F.coalesce((F.octet_length(self.json) < 64) & (F.trim(text, F.lit(" \t\r\n")) == "null"), F.lit(False))


class KeyReader:
    """`onefold.values.format.ReadsKeys` for JSON: any one value, of which expressions ask for scalar parts."""

    def __init__(self, dataset: Dataset) -> None:
        del dataset

    @property
    def json(self) -> Column:
        """The bytes that are JSON: the key itself, or what another format has made of it."""
        return F.col(E.KEY_BYTES)

    def opened(self, records: DataFrame) -> DataFrame:
        """With the key as VARIANT, and the text of a string or number."""
        key = self.json.cast("string")
        parsed = one_value(records, F.when(F.is_valid_utf8(key), key_as_parsed(key)), KEY_VARIANT)
        return parsed.withColumn(KEY_TEXT, scalar_text(*part_of_key()))

    def unreadable(self, path: Path) -> Column:
        """Why the key, or a part of it, cannot be read."""
        names = (path.name, *path.inner) if path.name else ()
        kind, text = part_of_key(*names)
        half = F.when(
            F.contains(text, F.lit(HALF)), f"{'.'.join(('key', *names))}: half of a surrogate pair, which no text holds"
        )
        there = F.col(E.KEY_BYTES).isNotNull()
        whole = F.when(there & F.col(KEY_VARIANT).isNull(), "the key is not one JSON value")
        other = F.when(F.col(KEY_TEXT).isNull() & (kind != "VOID"), "the key is no JSON string or number")
        return F.coalesce(not_utf8("the key", self.json), whole, half, *([] if names else [other]))

    def reason(self) -> Column:
        """That the key is not in its format."""
        return F.lit(Reason.UNDECODABLE)
