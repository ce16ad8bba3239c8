"""Strict JSON decoding by Spark's VARIANT, without a UDF: nothing is coerced, rounded or guessed.

`from_json` turns 5 into "5" and rounds decimals silently, so each field's own JSON type is looked at first
and cast only then. What cannot be used is `rejected` with a reason and a detail that names the field.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import parse, paths
from onefold.dataset.types import FieldType
from onefold.records import envelope as E
from onefold.records.expressions import KEY_VARIANT, compile_expression
from onefold.records.json import LARGEST, is_one_value, one_object, one_value

REJECTED = "_rejected"
"""struct<reason: string, detail: string>, or null."""
FILTERED = "_filtered"
"""Whether the dataset's filter declares the record not wanted."""
TOMBSTONE = "_tombstone"
"""Whether the value is null (an empty value is not)."""
DELETED = "_is_delete"
"""Whether the record deletes its key."""

REJECTED_TYPE = "struct<reason:string,detail:string>"
_OBJECT = "_value_object"
_TIMESTAMP = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?\z"
_DATE = r"^\d{4}-\d\d-\d\d\z"  # not $, which a line's end may follow


def decode(records: DataFrame, dataset: Dataset) -> DataFrame:
    """From the envelope to typed fields.

    Adds a column a declared field, the columns `REJECTED`, `FILTERED`, `TOMBSTONE`, `DELETED`, and the parsed
    JSON key for expressions. Takes none away and drops no row.
    """
    fields = ", ".join(f"`{name}` variant" for name in dataset.fields)
    text = F.col(E.VALUE_BYTES).cast("string")
    usable = F.when(F.is_valid_utf8(text) & (F.octet_length(E.VALUE_BYTES) <= LARGEST), text)
    opened = one_object(records, usable, fields, _OBJECT).withColumn(TOMBSTONE, F.col(E.VALUE_BYTES).isNull())
    if uses_key(dataset):
        key = F.col(E.KEY_BYTES).cast("string")
        opened = one_value(opened, F.when(F.is_valid_utf8(key), key), KEY_VARIANT)
    looked = {f"_{name}_kind": F.schema_of_variant(_json(name)) for name in dataset.fields}
    looked |= {f"_{name}_text": F.try_variant_get(_json(name), "$", "string") for name in dataset.fields}
    typed = opened.withColumns(looked).withColumns({name: _typed(name, kind) for name, kind in dataset.fields.items()})
    decided = typed.withColumns({DELETED: _deletes(dataset), FILTERED: _filtered(dataset)})
    rejected = decided.withColumn(REJECTED, _rejection(dataset))
    scratch = [f"_{name}_{part}" for name in dataset.fields for part in ("kind", "text")]
    return rejected.drop(_OBJECT, *scratch)


def uses_key(dataset: Dataset) -> bool:
    """Whether an expression of the dataset refers to a part of a JSON key."""
    texts = (text for _, text in dataset.expressions())
    return dataset.key.format == "json" and any(path.root == "key" for text in texts for path in paths(parse(text)))


def _json(name: str) -> Column:
    """The field as VARIANT; null where it is absent."""
    return F.col(f"{_OBJECT}.{name}")


def _typed(name: str, kind: FieldType) -> Column:
    """The field's value where the JSON value is one of the declared type, exactly; else null.

    Each column is looked at once: what is null here though the JSON value is not, was of another type.
    """
    json, found, text = _json(name), F.col(f"_{name}_kind"), F.col(f"_{name}_text")
    number = (found == "BIGINT") | found.startswith("DECIMAL")
    match kind.name:
        case "string":
            return F.when(found == "STRING", text)
        case "boolean":
            return F.when(found == "BOOLEAN", F.try_variant_get(json, "$", "boolean"))
        case "int" | "long":
            return F.when(found == "BIGINT", F.try_variant_get(json, "$", kind.sql))
        case "double":
            value, whole = F.try_variant_get(json, "$", "double"), F.try_variant_get(json, "$", "bigint")
            exact = whole.cast("double").cast("decimal(38,0)") == whole.cast("decimal(38,0)")
            finite = F.abs(value) < float("inf")  # 1e400 is read as Infinity
            fits = found.startswith("DECIMAL") | ((found == "DOUBLE") & finite)
            return F.when(F.when(found == "BIGINT", exact).otherwise(fits), value)
        case "decimal":
            whole_digits, scale = kind.precision - kind.scale, kind.scale
            digits = rf"^-?(?=\d)0*\d{{0,{whole_digits}}}(\.(?=\d)\d{{0,{scale}}}0*)?\z"
            return F.when((number | (found == "STRING")) & text.rlike(digits), text.try_cast(kind.sql))
        case "date":
            return F.when((found == "STRING") & text.rlike(_DATE), text.try_cast("date"))
        case _:
            return F.when((found == "STRING") & text.rlike(_TIMESTAMP), text.try_cast("timestamp"))


def _deletes(dataset: Dataset) -> Column:
    when = dataset.apply.delete_when
    if when is None:
        return F.lit(False)
    if when == "tombstone":
        return F.col(TOMBSTONE)
    return ~F.col(TOMBSTONE) & F.coalesce(compile_expression(parse(when)).value, F.lit(False))


def _filtered(dataset: Dataset) -> Column:
    text = dataset.source.filter
    if text is None:
        return F.lit(False)
    wanted = F.coalesce(compile_expression(parse(text)).value, F.lit(False))
    of_value = any(path.root == "value" for path in paths(parse(text)))
    # A null value answers no question about its fields: a tombstone is not filtered by them.
    return ~wanted & ~F.col(TOMBSTONE) if of_value else ~wanted


def _rejection(dataset: Dataset) -> Column:
    """The first reason that applies; the filter's own fields are judged before it, all others only behind it."""
    filter_fields = {path.name for path in paths(parse(dataset.source.filter))} if dataset.source.filter else set()
    asked = [_field_rejection(n, k) for n, k in dataset.fields.items() if n in filter_fields]
    others = [_field_rejection(n, k) for n, k in dataset.fields.items() if n not in filter_fields]
    none = F.lit(None).cast(REJECTED_TYPE)
    ok_null = F.lit(dataset.apply.delete_when == "tombstone")
    of_fields = F.coalesce(none, *asked, F.when(~F.col(FILTERED) & ~F.col(DELETED), F.coalesce(none, *others)))
    of_value = F.when(F.col(_OBJECT).isNotNull(), of_fields).otherwise(_no_object())
    return (
        F.when(F.col(E.UNREADABLE).isNotNull(), rejected("undecodable", F.col(E.UNREADABLE)))
        .when(F.col(TOMBSTONE) & ok_null, none)
        .when(F.col(TOMBSTONE), rejected("null_value", "the value is null"))
        .otherwise(of_value)
    )


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


def _field_rejection(name: str, kind: FieldType) -> Column:
    json, found, text = _json(name), F.col(f"_{name}_kind"), F.col(f"_{name}_text")
    missing = F.lit(None) if kind.nullable else F.when(json.isNull(), rejected("missing_field", f"{name} is absent"))
    said = F.concat_ws(" ", F.lit(f"{name}: wanted {kind}, found"), found, F.substring(text, 1, 80))
    wrong = F.when(json.isNotNull() & (found != "VOID") & F.col(name).isNull(), rejected("wrong_type", said))
    return F.coalesce(missing.cast(REJECTED_TYPE), wrong)


def rejected(reason: str, detail: str | Column) -> Column:
    """A `REJECTED` struct."""
    detail = F.lit(detail) if isinstance(detail, str) else detail
    return F.struct(F.lit(reason).alias("reason"), detail.alias("detail"))
