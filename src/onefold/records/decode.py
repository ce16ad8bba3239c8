"""Strict JSON decoding by Spark's VARIANT, without a UDF: nothing is coerced, rounded or guessed.

`from_json` turns 5 into "5" and rounds decimals silently, so each field's own JSON type is looked at first
and cast only then. What cannot be used is `rejected` with a reason and a detail that names the field.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import Expression, Junction, Literal, Negation, parse, paths
from onefold.records import envelope as E
from onefold.records.expressions import KEY_VARIANT, Compiled, compile_expression
from onefold.records.fields import REJECTED_TYPE, rejected, rejection, scratch, typed
from onefold.records.json import LARGEST, is_one_value, one_object, one_value

REJECTED = "_rejected"
"""struct<reason: string, detail: string>, or null."""
FILTERED = "_filtered"
"""Whether the dataset's filter declares the record not wanted."""
TOMBSTONE = "_tombstone"
"""Whether the value is null (an empty value is not)."""
DELETED = "_is_delete"
"""Whether the record deletes its key."""

_OBJECT = "_value_object"


def decode(records: DataFrame, dataset: Dataset, forgiven: Collection[str] = ()) -> DataFrame:
    """From the envelope to typed fields.

    Adds a column a declared field, the columns `REJECTED`, `FILTERED`, `TOMBSTONE`, `DELETED`, and the parsed
    JSON key for expressions. Takes none away and drops no row. What is wrong with `forgiven` fields rejects no record.
    """
    fields = ", ".join(f"`{name}` variant" for name in dataset.read_fields)
    text = F.col(E.VALUE_BYTES).cast("string")
    usable = F.when(F.is_valid_utf8(text) & (F.octet_length(E.VALUE_BYTES) <= LARGEST), text)
    opened = one_object(records, usable, fields, _OBJECT).withColumn(TOMBSTONE, F.col(E.VALUE_BYTES).isNull())
    if uses_key(dataset):
        key = F.col(E.KEY_BYTES).cast("string")
        opened = one_value(opened, F.when(F.is_valid_utf8(key), key), KEY_VARIANT)
    json = _json_of(dataset)
    looked = {
        column: of for name, kind in dataset.fields.items() for column, of in scratch(name, kind, json[name]).items()
    }
    read = {name: typed(name, kind, json[name]) for name, kind in dataset.fields.items()}
    decided = (
        opened.withColumns(looked)
        .withColumns(read)
        .withColumns({DELETED: _deletes(dataset).value, FILTERED: _filtered(dataset).value})
    )
    return decided.withColumn(REJECTED, _rejection(dataset, forgiven)).drop(_OBJECT, *looked)


def uses_key(dataset: Dataset) -> bool:
    """Whether an expression of the dataset refers to a part of a JSON key."""
    return dataset.key.format == "json" and any(_names_key(text) for _, text in dataset.expressions())


def _names_key(text: str) -> bool:
    return any(path.root == "key" for path in paths(parse(text)))


def _json_of(dataset: Dataset) -> dict[str, Column]:
    """Each field as VARIANT, by its name or else by a former one; null where it is absent."""
    named = {name: (name, *dataset.value.renamed.get(name, ())) for name in dataset.fields}
    return {name: F.coalesce(*(F.col(f"{_OBJECT}.{one}") for one in names)) for name, names in named.items()}


def _deletes(dataset: Dataset) -> Compiled:
    """Whether a record deletes its key."""
    when, never = dataset.apply.delete_when, F.lit(False)
    if when is None:
        return Compiled(never, never)
    if when == "tombstone":
        return Compiled(F.col(TOMBSTONE), never)
    told = compile_expression(parse(when))
    return Compiled(~F.col(TOMBSTONE) & F.coalesce(told.value, never), ~F.col(TOMBSTONE) & told.failed)


def _filtered(dataset: Dataset) -> Compiled:
    """Whether the filter declares a record not wanted."""
    text, never = dataset.source.filter, F.lit(False)
    if text is None:
        return Compiled(never, never)
    wanted = compile_expression(parse(text))
    unwanted = ~F.coalesce(wanted.value, never)
    if all(path.root != "value" for path in paths(parse(text))):
        return Compiled(unwanted, wanted.failed)
    of_tombstone = compile_expression(_unasked(parse(text)))
    unwanted = F.when(F.col(TOMBSTONE), ~F.coalesce(of_tombstone.value, F.lit(True))).otherwise(unwanted)
    return Compiled(unwanted, wanted.failed & ~F.col(TOMBSTONE))


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
    return F.when(given.failed, rejected("wrong_type", f"{place}: a cast fails in {text}"))


def _rejection(dataset: Dataset, forgiven: Collection[str]) -> Column:
    """The first reason that applies; the filter's own fields are judged before it, all others only behind it."""
    filter_fields = {path.name for path in paths(parse(dataset.source.filter))} if dataset.source.filter else set()
    json = _json_of(dataset)
    asked = [rejection(n, k, json[n]) for n, k in dataset.fields.items() if n in filter_fields]
    others = [rejection(n, k, json[n]) for n, k in dataset.fields.items() if n not in {*filter_fields, *forgiven}]
    if dataset.value.schema_changes == "quarantine":
        others.append(_unknown(dataset))
    none = F.lit(None).cast(REJECTED_TYPE)
    ok_null = F.lit(dataset.apply.delete_when == "tombstone")
    filtered = _failed(_filtered(dataset), "source.filter", dataset.source.filter)
    deletes = _failed(_deletes(dataset), "apply.delete_when", dataset.apply.delete_when)
    wanted = F.coalesce(deletes, F.when(~F.col(DELETED), F.coalesce(none, *others)))
    of_fields = F.coalesce(none, *asked, F.when(~F.col(FILTERED), wanted))
    of_value = F.when(F.col(_OBJECT).isNotNull(), of_fields).otherwise(_no_object())
    return (
        F.when(F.col(E.FATE).isNotNull(), none)
        .when(F.col(E.UNREADABLE).isNotNull(), rejected("undecodable", F.col(E.UNREADABLE)))
        .when(*_key_rejection(dataset))
        .when(filtered.isNotNull(), filtered)
        .when(F.col(TOMBSTONE) & ok_null, none)
        .when(F.col(TOMBSTONE), rejected("null_value", "the value is null"))
        .otherwise(of_value)
    )


def _key_rejection(dataset: Dataset) -> tuple[Column, Column]:
    """Whether an expression asks for a key that cannot be read, and why; the filter's own are judged before it."""
    asked = [place for place, text in dataset.expressions() if _names_key(text)]
    wanted = F.lit(bool(asked)) & (F.lit("source.filter" in asked) | ~F.col(FILTERED))
    text = F.is_valid_utf8(F.col(E.KEY_BYTES).cast("string"))
    readable = text & F.col(KEY_VARIANT).isNotNull() if uses_key(dataset) else text
    why = F.when(text, "the key is not one JSON value").otherwise("the key is not UTF-8")
    return wanted & F.col(E.KEY_BYTES).isNotNull() & ~readable, rejected("undecodable", why)


def _unknown(dataset: Dataset) -> Column:
    """A record with a field that the file does not name."""
    names = F.json_object_keys(F.col(E.VALUE_BYTES).cast("string"))
    unknown = F.array_distinct(F.array_except(names, F.array(*(F.lit(name) for name in dataset.read_fields))))
    shown = F.substring(F.array_join(unknown, ", "), 1, 200)
    told = F.concat(F.lit("value.fields does not name "), shown)
    return F.when(F.size(unknown) > 0, rejected("unknown_schema", told))


def _no_object() -> Column:
    """Why a value is not exactly one JSON object."""
    text = F.col(E.VALUE_BYTES).cast("string")
    size = F.format_number(F.octet_length(E.VALUE_BYTES), 0)
    large = F.concat(F.lit("the value has "), size, F.lit(f" bytes, at most {LARGEST:,} can be read"))
    return (
        F.when(~F.is_valid_utf8(text), rejected("undecodable", "the value is not UTF-8"))
        .when(F.octet_length(E.VALUE_BYTES) > LARGEST, rejected("too_large", large))
        .when(F.trim(text) == "", rejected("undecodable", "the value is empty"))
        .when(is_one_value(text), rejected("wrong_type", "the value is no JSON object"))
        .otherwise(rejected("undecodable", "the value is not one JSON value"))
    )
