"""Strict JSON decoding by Spark's VARIANT, without a UDF: nothing is coerced, rounded or guessed.

`from_json` turns 5 into "5" and rounds decimals silently, so each field's own JSON type is looked at first
and cast only then. What cannot be used is `rejected` with a reason and a detail that names the field.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import Expression, Junction, Literal, Negation, Path, parse, paths
from onefold.dataset.names import Place
from onefold.dataset.types import FieldType
from onefold.records import envelope as E
from onefold.spark.strict_json import (
    LARGEST,
    as_parsed,
    has_own_letters,
    is_one_value,
    key_as_parsed,
    one_object,
    one_value,
    path_to,
    without_mark,
)
from onefold.values.expressions import (
    KEY_TEXT,
    KEY_VARIANT,
    Compiled,
    compile_expression,
    not_utf8,
    text_of_key,
    unreadable,
)
from onefold.values.json import REJECTED_TYPE, of_text, rejected, rejection, scratch, scratch_of_text, typed
from onefold.vocabulary import Reason

REJECTED = "_rejected"
"""struct<reason: string, detail: string>, or null."""
FILTERED = "_filtered"
"""Whether the dataset's filter declares the record not wanted."""
TOMBSTONE = "_tombstone"
"""Whether the value is null (an empty value is not)."""
DELETED = "_is_delete"
"""Whether the record deletes its key."""

_OBJECT, _GIVEN = "_value_object", "_{}_given"
"""While records are decoded: the value's parts, and what it gives for a field that the key fills."""


def decode(records: DataFrame, dataset: Dataset, forgiven: Collection[str] = ()) -> DataFrame:
    """From the envelope to typed fields.

    Adds a column a declared field, the columns `REJECTED`, `FILTERED`, `TOMBSTONE`, `DELETED`, and the parsed
    JSON key for expressions. Takes none away and drops no row. What is wrong with `forgiven` fields rejects no record.
    """
    text = F.col(E.VALUE_BYTES).cast("string")
    usable = F.when(F.is_valid_utf8(text) & (F.octet_length(E.VALUE_BYTES) <= LARGEST), as_parsed(text))
    read = dict.fromkeys(dataset.read_fields, "variant")
    opened = one_object(records, usable, read, _OBJECT).withColumn(TOMBSTONE, is_tombstone())
    if uses_key(dataset):
        opened = _with_key(opened, dataset)
    json = _json_of(dataset)
    looked = {
        column: of for name, kind in dataset.fields.items() for column, of in scratch(name, kind, json[name]).items()
    }
    further = {
        column: of for name, kind in dataset.fields.items() for column, of in scratch_of_text(name, kind).items()
    }
    values = {name: typed(name, kind, json[name]) for name, kind in dataset.fields.items()}
    given = {_GIVEN.format(name): values[name] for name in dataset.keyed_fields}
    values |= {name: _of_key(tree, dataset.fields[name]) for name, tree in dataset.keyed_fields.items()}
    decided = (
        (opened.withColumns(looked).withColumns(further) if further else opened.withColumns(looked))
        .withColumns(values | given)
        .withColumns({DELETED: deletes_of(dataset).value, FILTERED: filtered_of(dataset).value})
    )
    return decided.withColumn(REJECTED, _rejection(dataset, forgiven)).drop(_OBJECT, *looked, *further, *given)


def uses_key(dataset: Dataset) -> bool:
    """Whether an expression of the dataset refers to the key or a part of it."""
    return any(path.root == "key" for _, text in dataset.expressions() for path in paths(parse(text)))


def _with_key(records: DataFrame, dataset: Dataset) -> DataFrame:
    if dataset.key.format == "json":
        key = F.col(E.KEY_BYTES).cast("string")
        records = one_value(records, F.when(F.is_valid_utf8(key), key_as_parsed(key)), KEY_VARIANT)
    return records.withColumn(KEY_TEXT, text_of_key(dataset.key.format))


def _json_of(dataset: Dataset) -> dict[str, Column]:
    """Each field as VARIANT, from the first of its places that a record has; null where it has none."""
    columns = {name: F.col(f"{_OBJECT}.f{number}") for number, name in enumerate(dataset.read_fields)}

    def at(place: Place) -> Column:
        first, *below = place
        return F.try_variant_get(columns[first], path_to(below), "variant") if below else columns[first]

    return {name: F.coalesce(*map(at, places)) for name, places in dataset.read_places.items()}


def _of_key(tree: Path, kind: FieldType) -> Column:
    """A part of the Kafka key as the type of the field that has its name; null where it is none."""
    return of_text(compile_expression(tree).value, kind)


def _mismatch(dataset: Dataset) -> list[Column]:
    """Why a field that is a part of the key, too, is not what the key says."""
    found = []
    for name, tree in dataset.keyed_fields.items():
        said, kind, given = compile_expression(tree).value, dataset.fields[name], F.col(_GIVEN.format(name))
        detail = F.concat(F.lit(f"{name}: wanted {kind}, found in the key "), F.substring(said, 1, 80))
        found.append(F.when(said.isNotNull() & F.col(name).isNull(), rejected(Reason.WRONG_TYPE, detail)))
        shown = [F.substring(one.cast("string"), 1, 80) for one in (F.col(name), given)]
        both = F.concat(F.lit(f"{name}: the key has "), shown[0], F.lit(", the value "), shown[1])
        found.append(F.when(given != F.col(name), rejected(Reason.KEY_MISMATCH, both)))
    return found


def is_tombstone() -> Column:
    """Whether a record of an envelope has no value; one that its exporter could not read may have had one."""
    return F.col(E.VALUE_BYTES).isNull() & F.col(E.UNREADABLE).isNull()


def _is_json_null() -> Column:
    text = without_mark(F.col(E.VALUE_BYTES).cast("string"))
    return F.coalesce((F.octet_length(E.VALUE_BYTES) < 64) & (F.trim(text, F.lit(" \t\r\n")) == "null"), F.lit(False))


def deletes_of(dataset: Dataset) -> Compiled:
    """Whether a record deletes its key."""
    when, never = dataset.apply.delete_when, F.lit(False)
    if when in (None, "never"):
        return Compiled(never, never)
    if when == "tombstone":
        return Compiled(F.col(TOMBSTONE), never)
    deletes = compile_expression(parse(when))
    return Compiled(~F.col(TOMBSTONE) & F.coalesce(deletes.value, never), ~F.col(TOMBSTONE) & deletes.failed)


def filtered_of(dataset: Dataset) -> Compiled:
    """Whether the filter, or `delete_when: never`, declares a record not wanted."""
    wanted = _filtered_by(dataset.source.filter)
    if dataset.apply.delete_when != "never":
        return wanted
    null = F.col(TOMBSTONE) | _is_json_null()
    return Compiled(null | wanted.value, ~null & wanted.failed)


def _filtered_by(text: str | None) -> Compiled:
    never = F.lit(False)
    if text is None:
        return Compiled(never, never)
    null = F.col(TOMBSTONE) | _is_json_null()
    wanted = compile_expression(parse(text))
    unwanted = ~F.coalesce(wanted.value, never)
    if all(path.root != "value" for path in paths(parse(text))):
        return Compiled(unwanted, wanted.failed)
    of_tombstone = compile_expression(_unasked(parse(text)))
    unwanted = F.when(null, ~F.coalesce(of_tombstone.value, F.lit(True))).otherwise(unwanted)
    return Compiled(unwanted, wanted.failed & ~null)


def _unasked(condition: Expression) -> Expression:
    """A condition as a null value answers it: of its fields nothing is known, so the rest of it decides or nothing."""
    match condition:
        case Junction(operator, terms):
            return Junction(operator, tuple(map(_unasked, terms)))
        case Negation(term):
            return Negation(_unasked(term))
        case _:
            asks = any(path.root == "value" for path in paths(condition))
            return Literal(None) if asks else condition


def _failed(given: Compiled, place: str, text: str | None) -> Column:
    return F.when(given.failed, rejected(Reason.WRONG_TYPE, f"{place}: a cast fails in {text}"))


def _rejection(dataset: Dataset, forgiven: Collection[str]) -> Column:
    """The first reason that applies; the filter's own fields are judged before it, all others only behind it."""
    filter_fields = {path.name for path in paths(parse(dataset.source.filter))} if dataset.source.filter else set()
    json = _json_of(dataset)

    def problem(name: str) -> Column:
        kind, keyed = dataset.fields[name], name in dataset.keyed_fields
        value = F.col(_GIVEN.format(name) if keyed else name)
        return rejection(name, replace(kind, nullable=True) if keyed else kind, json[name], value)

    asked = [problem(name) for name in dataset.fields if name in filter_fields]
    others = [problem(name) for name in dataset.fields if name not in {*filter_fields, *forgiven}]
    if dataset.value.schema_changes == "quarantine":
        others.append(_unknown(dataset))
    none = F.lit(None).cast(REJECTED_TYPE)
    deleting = F.lit(dataset.apply.delete_when == "tombstone")
    null = F.col(TOMBSTONE) | _is_json_null()
    json_null = F.when(deleting, "the value is JSON null, which is no tombstone").otherwise("the value is JSON null")
    filtered = _failed(filtered_of(dataset), "source.filter", dataset.source.filter)
    deletes = _failed(deletes_of(dataset), "apply.delete_when", dataset.apply.delete_when)
    wanted = F.coalesce(deletes, *_mismatch(dataset), F.when(~F.col(DELETED), F.coalesce(none, *others)))
    of_fields = F.coalesce(none, *asked, F.when(~F.col(FILTERED), wanted))
    beside = _unreadable_beside(dataset)
    of_value = F.when(F.col(_OBJECT).isNotNull(), of_fields).otherwise(_no_object())
    return (
        F.when(F.col(E.FATE).isNotNull(), none)
        .when(F.col(E.UNREADABLE).isNotNull(), rejected(Reason.UNDECODABLE, F.col(E.UNREADABLE)))
        # It may be a delete: that its key cannot be read, too, is no reason to count it elsewhere.
        .when(F.col(TOMBSTONE) & ~deleting & ~F.col(FILTERED), rejected(Reason.NULL_VALUE, "the value is null"))
        .when(beside.isNotNull(), rejected(Reason.UNDECODABLE, beside))
        .when(filtered.isNotNull(), filtered)
        .when(F.col(TOMBSTONE) | (null & F.col(FILTERED)), none)
        .when(null, rejected(Reason.NULL_VALUE, json_null))
        .otherwise(of_value)
    )


def _unreadable_beside(dataset: Dataset) -> Column:
    """Why a part of the key, or a header, that an expression asks for cannot be read; null where all can. What the
    filter asks for is judged before it, all else of what it lets in."""
    key_format, asked = dataset.key.format, dict[Path, bool]()
    for place, text in dataset.expressions():
        for path in paths(parse(text)):
            asked[path] = asked.get(path, False) or place == "source.filter"
    wanted = [
        unreadable(path, key_format) if of_filter else F.when(~F.col(FILTERED), unreadable(path, key_format))
        for path, of_filter in asked.items()
        if path.root in ("key", "header")
    ]
    return F.coalesce(F.lit(None).cast("string"), *wanted)


def _unknown(dataset: Dataset) -> Column:
    """A record with a field that the file does not name."""
    names = F.json_object_keys(without_mark(F.col(E.VALUE_BYTES).cast("string")))
    unknown = F.array_distinct(F.array_except(names, F.array(*(F.lit(name) for name in dataset.read_fields))))
    shown = F.substring(F.array_join(unknown, ", "), 1, 200)
    detail = F.concat(F.lit("value.fields does not name "), shown)
    return F.when(F.size(unknown) > 0, rejected(Reason.UNKNOWN_SCHEMA, detail))


_NONCHARACTERS = (
    "the value holds a character of U+FDD0 to U+FDD4, which cannot be read next to an exponent or an escaped surrogate"
)


def _no_object() -> Column:
    """Why a value is not exactly one JSON object."""
    text = without_mark(F.col(E.VALUE_BYTES).cast("string"))
    letters = F.when(has_own_letters(text), _NONCHARACTERS)
    not_text = not_utf8("the value", F.col(E.VALUE_BYTES))
    size = F.format_number(F.octet_length(E.VALUE_BYTES), 0)
    large = F.concat(F.lit("the value has "), size, F.lit(f" bytes, at most {LARGEST:,} can be read"))
    return (
        F.when(not_text.isNotNull(), rejected(Reason.UNDECODABLE, not_text))
        .when(F.octet_length(E.VALUE_BYTES) > LARGEST, rejected(Reason.TOO_LARGE, large))
        .when(F.trim(text) == "", rejected(Reason.UNDECODABLE, "the value is empty"))
        .when(letters.isNotNull(), rejected(Reason.UNDECODABLE, letters))
        .when(is_one_value(text), rejected(Reason.WRONG_TYPE, "the value is no JSON object"))
        .otherwise(rejected(Reason.UNDECODABLE, "the value is not one JSON value"))
    )
