"""One JSON value as one declared type, by VARIANT: exactly that, or a rejection that says where and what was found.

A scalar field goes through columns of its own, in compiled code. Lists and structs are read part by part in
lambdas, which Spark interprets: some times slower, and only where a dataset declares them.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.types import FieldType

REJECTED_TYPE = "struct<reason:string,detail:string>"
TIMESTAMP = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?\z"
"""Text that is a timestamp: a cast alone would take less of one, and put today's date before a time."""
DATE = r"^\d{4}-\d\d-\d\d\z"  # not $, which a line's end may follow


def scratch(name: str, kind: FieldType, json: Column) -> dict[str, Column]:
    """Columns that `typed` and `rejection` look at, to be added first and dropped after.

    Args:
        name: the field.
        kind: its type.
        json: the field as VARIANT, null where it is absent.
    """
    if kind.nested:
        return {f"_{name}_read": _read(json, kind)}
    return {f"_{name}_kind": F.schema_of_variant(json), f"_{name}_text": F.try_variant_get(json, "$", "string")}


def typed(name: str, kind: FieldType, json: Column) -> Column:
    """The field's value where the JSON value is one of the declared type, exactly; else null."""
    if kind.nested:
        return F.col(f"_{name}_read")["value"]
    return _scalar(json, F.col(f"_{name}_kind"), F.col(f"_{name}_text"), kind)


def rejection(name: str, kind: FieldType, json: Column) -> Column:
    """Why the field cannot be used, as a `REJECTED_TYPE` struct; null where it can. `typed` is the column `name`."""
    if kind.nested:
        return _behind(F.lit(name), F.col(f"_{name}_read")["problem"])
    problem = _scalar_problem(json, F.col(f"_{name}_kind"), F.col(f"_{name}_text"), F.col(name), kind)
    return _behind(F.lit(name), problem)


def rejected(reason: str, detail: str | Column) -> Column:
    """A `REJECTED_TYPE` struct."""
    detail = F.lit(detail) if isinstance(detail, str) else detail
    return F.struct(F.lit(reason).alias("reason"), detail.alias("detail"))


def _scalar(json: Column, found: Column, text: Column, kind: FieldType) -> Column:
    """What is null here though the JSON value is not was of another type: each value is looked at once."""
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
            return F.when((found == "STRING") & text.rlike(DATE), text.try_cast("date"))
        case _:
            return F.when((found == "STRING") & text.rlike(TIMESTAMP), text.try_cast("timestamp"))


def _scalar_problem(json: Column, found: Column, text: Column, value: Column, kind: FieldType) -> Column:
    wrong = F.when(json.isNotNull() & (found != "VOID") & value.isNull(), _wrong_type(found, text, kind))
    return F.coalesce(_absent(json, kind), wrong)


def _absent(json: Column, kind: FieldType) -> Column:
    none = F.lit(None).cast(REJECTED_TYPE)
    return none if kind.nullable else F.when(json.isNull(), rejected("missing_field", " is absent"))


def _wrong_type(found: Column, text: Column, kind: FieldType) -> Column:
    said = F.concat_ws(" ", F.lit(f": wanted {kind}, found"), F.substring(found, 1, 80), F.substring(text, 1, 80))
    return rejected("wrong_type", said)


def _behind(place: Column, problem: Column) -> Column:
    """A problem of a part, said of the whole: `[1].sku` and ` is absent` become ` lines[1].sku is absent`."""
    detail = F.concat(place, problem["detail"])
    return F.when(problem.isNotNull(), F.struct(problem["reason"].alias("reason"), detail.alias("detail")))


def _read(json: Column, kind: FieldType) -> Column:
    """struct<value: the type, problem: REJECTED_TYPE> of one VARIANT; the value is null where there is a problem."""
    match kind.name:
        case "list":
            return _let(_items(json, kind), lambda items: _list(json, items, kind))
        case "struct":
            return _let(_parts(json, kind), lambda parts: _struct(json, parts, kind))
        case _:
            looked = F.struct(
                F.schema_of_variant(json).alias("found"), F.try_variant_get(json, "$", "string").alias("text")
            )

            def scalar(seen: Column) -> Column:
                value = _scalar(json, seen["found"], seen["text"], kind)
                return _let(
                    value, lambda one: _pair(one, _scalar_problem(json, seen["found"], seen["text"], one, kind))
                )

            return _let(looked, scalar)


def _items(json: Column, kind: FieldType) -> Column:
    assert kind.item is not None
    item = kind.item
    return F.transform(F.try_variant_get(json, "$", "array<variant>"), lambda one: _read(one, item))


def _list(json: Column, items: Column, kind: FieldType) -> Column:
    def placed(one: Column, index: Column) -> Column:
        return _behind(F.concat(F.lit("["), index.cast("string"), F.lit("]")), one["problem"])

    first = F.get(F.filter(F.transform(items, placed), lambda problem: problem.isNotNull()), 0)
    return _whole(json, kind, F.transform(items, lambda one: one["value"]), items.isNotNull(), first)


def _parts(json: Column, kind: FieldType) -> Column:
    return F.struct(
        *(_read(F.try_variant_get(json, f"$.{name}", "variant"), of).alias(name) for name, of in kind.fields)
    )


def _struct(json: Column, parts: Column, kind: FieldType) -> Column:
    first = F.coalesce(*(_behind(F.lit(f".{name}"), parts[name]["problem"]) for name, _ in kind.fields))
    value = F.struct(*(parts[name]["value"].alias(name) for name, _ in kind.fields))
    return _whole(json, kind, value, F.schema_of_variant(json).startswith("OBJECT"), first)


def _whole(json: Column, kind: FieldType, value: Column, fits: Column, first: Column) -> Column:
    """A list or a struct from its parts: `fits` where the JSON value is one, `first` the first part's problem."""
    found, text = F.schema_of_variant(json), F.try_variant_get(json, "$", "string")
    other = F.when(json.isNotNull() & (found != "VOID"), _wrong_type(found, text, kind))
    problem = F.coalesce(_absent(json, kind), F.when(fits, first).otherwise(other))
    return _let(problem, lambda one: _pair(F.when(fits & one.isNull(), value), one))


def _pair(value: Column, problem: Column) -> Column:
    return F.struct(value.alias("value"), problem.alias("problem"))


def _let(column: Column, then: Callable[[Column], Column]) -> Column:
    """`then` of a column that is computed once: Spark shares no expressions inside a lambda."""
    return F.get(F.transform(F.array(column), then), 0)
