"""JSON: values that are one object, and keys that are one value."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path
from onefold.records import envelope as E
from onefold.spark.strict_json import HALF, key_as_parsed, one_value, without_mark
from onefold.values.arrow_functions import fields_of, fields_of_events, with_decimals
from onefold.values.columns import ATTRIBUTES, FIELDS, PROBLEMS, UNKNOWN, UNUSABLE, Fields
from onefold.values.format import KEY_TEXT, KEY_VARIANT, LEFT_UNREAD
from onefold.values.key_parts import part_of_key, scalar_text, unwrapped_key
from onefold.values.rejection import not_utf8
from onefold.vocabulary import Reason

_READ = "_value_read"
"""What is read of a value (`onefold.values.columns.reader`)."""


class ValueReader:
    """`onefold.values.format.ReadsValues` for JSON."""

    null = "JSON null"

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._numbers = {name: number for number, name in enumerate(dataset.fields)}

    @property
    def scratch(self) -> list[str]:
        """What was read of the value."""
        return [_READ]

    def opened(self, records: DataFrame) -> DataFrame:
        """With what is read of the value."""
        data = F.col(E.VALUE_BYTES)
        wanted = F.when(~F.col(LEFT_UNREAD), data) if LEFT_UNREAD in records.columns else data
        return records.withColumn(_READ, self.read(wanted))

    def read(self, values: Column) -> Column:
        """What is read of a column of values."""
        if self.dataset.value.envelope.in_headers:
            return fields_of_events(values, Fields.of(self.dataset))
        return fields_of(values, Fields.of(self.dataset))

    def field(self, name: str) -> Column:
        """A field's value where the JSON value is one of its type, exactly."""
        return F.col(_READ)[FIELDS][f"f{self._numbers[name]}"]

    def attributes(self) -> Column:
        """What the envelope says."""
        names = self.dataset.envelope_attributes
        said = F.col(_READ)[ATTRIBUTES]
        return F.struct(*(said[f"a{number}"].alias(".".join(name)) for number, name in enumerate(names)))

    def problem(self, name: str) -> Column:
        """Why a field cannot be used."""
        return F.col(_READ)[PROBLEMS][name]

    def is_usable(self) -> Column:
        """Whether the value is exactly one JSON object."""
        return F.col(_READ).isNotNull() & F.col(_READ)[UNUSABLE].isNull()

    def unusable(self) -> Column:
        """Why the value is not exactly one JSON object."""
        return F.col(_READ)[UNUSABLE]

    def is_null_within(self) -> Column:
        """Whether it is `{"schema": …, "payload": null}`, or an event without data."""
        if not (self.dataset.value.envelope.is_wrapped or self.dataset.value.envelope.in_headers):
            return F.lit(False)
        is_null = F.coalesce(F.col(_READ)[UNUSABLE]["reason"] == Reason.NULL_VALUE, F.lit(False))
        return F.col(E.VALUE_BYTES).isNotNull() & (F.col(_READ).isNull() | is_null)

    def unknown_names(self) -> Column:
        """The object's names that the file does not know."""
        return F.col(_READ)[UNKNOWN]

    def is_null(self) -> Column:
        """Whether the value is the word null."""
        data = F.col(E.VALUE_BYTES)
        text, small = without_mark(data.cast("string")), F.octet_length(data) < 64
        is_null = small & text.contains("null") & (F.trim(text, F.lit(" \t\r\n")) == "null")
        return F.coalesce(is_null, F.lit(False))


class KeyReader:
    """`onefold.values.format.ReadsKeys` for JSON: any one value, of which expressions ask for scalar parts. Next to
    values in an envelope, keys may be in `{schema, payload}`."""

    def __init__(self, dataset: Dataset) -> None:
        self._wrapped = dataset.value.envelope.is_wrapped

    @property
    def json(self) -> Column:
        """The bytes that are JSON: the key itself, or what another format has made of it."""
        return F.col(E.KEY_BYTES)

    def opened(self, records: DataFrame) -> DataFrame:
        """With the key as VARIANT, and the text of a string or number."""
        key = (with_decimals(self.json) if self._wrapped else self.json).cast("string")
        parsed = one_value(records, F.when(F.is_valid_utf8(key), key_as_parsed(key)), KEY_VARIANT)
        if self._wrapped:
            parsed = parsed.withColumn(KEY_VARIANT, unwrapped_key())
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
