"""One JSON value as one declared type, by VARIANT: exactly that, or a rejection that says where and what was found.

A scalar field goes through columns of its own, in compiled code. Lists, maps and structs are read part by part in
lambdas, which Spark interprets: some times slower, and only where a dataset declares them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.types import FieldType
from onefold.spark.strict_json import EXPONENT, HALF, canonical_json, digits_of, path_to
from onefold.values import text as T
from onefold.values.format import KEY_VARIANT
from onefold.values.rejection import REJECTED_TYPE, of_part, rejected
from onefold.vocabulary import Reason


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


def scratch_of_text(name: str, kind: FieldType) -> dict[str, Column]:
    """Further such columns, made of those: what is asked several times is one expression."""
    if kind.name != "decimal":
        return {}
    return {f"_{name}_digits": digits_of(_seen(name, FieldType("string")).text)}


def typed(name: str, kind: FieldType, json: Column) -> Column:
    """The field's value where the JSON value is one of the declared type, exactly; else null."""
    if kind.nested:
        return F.col(f"_{name}_read")["value"]
    return _scalar(json, _seen(name, kind), kind)


def rejection(name: str, kind: FieldType, json: Column, value: Column) -> Column:
    """Why the field cannot be used, as a `REJECTED_TYPE` struct; null where it can. `value` is what `typed` gives."""
    if kind.nested:
        return of_part(F.lit(name), F.col(f"_{name}_read")["problem"])
    return of_part(F.lit(name), _scalar_problem(json, _seen(name, kind), value, kind))


@dataclass(frozen=True, slots=True)
class _Seen:
    """A JSON value as it was parsed (`onefold.spark.strict_json.as_parsed`): its type, and its text."""

    kind: Column
    parsed: Column
    digits: Column | None = None
    """Of a decimal its digits, without an exponent."""

    @property
    def marked(self) -> Column:
        """Whether it is a number with an exponent."""
        return (self.kind == "STRING") & self.parsed.startswith(EXPONENT)

    @property
    def found(self) -> Column:
        """The type that the record has."""
        return F.when(self.marked, "DOUBLE").otherwise(self.kind)

    @property
    def text(self) -> Column:
        """The text that the record has."""
        return F.when(self.marked, F.substring(self.parsed, 2, 1 << 30)).otherwise(self.parsed)


def _seen(name: str, kind: FieldType) -> _Seen:
    digits = F.col(f"_{name}_digits") if kind.name == "decimal" else None
    return _Seen(F.col(f"_{name}_kind"), F.col(f"_{name}_text"), digits)


def _scalar(json: Column, seen: _Seen, kind: FieldType) -> Column:
    """What is null here though the JSON value is not was of another type: each value is looked at once."""
    found, text = seen.found, seen.text
    number = found.isin("BIGINT", "DOUBLE") | found.startswith("DECIMAL")
    if kind.unit:
        return T.since_1970(F.when(number, T.whole(text, "bigint")), kind)
    match kind.name:
        case "string":
            return F.when((found == "STRING") & ~F.contains(text, F.lit(HALF)), text)
        case "boolean":
            return F.when(found == "BOOLEAN", F.try_variant_get(json, "$", "boolean"))
        case "int" | "long":
            plain = F.when(found == "BIGINT", F.try_variant_get(json, "$", kind.sql))
            return plain.when(number, T.whole(text, kind.sql))
        case "double":
            value, whole = F.try_variant_get(json, "$", "double"), F.try_variant_get(json, "$", "bigint")
            value = F.when(seen.marked, text.try_cast("double")).otherwise(value)
            # Compared as whole numbers: a decimal of a double has its shortest digits only. 2^63 is no bigint.
            exact = (whole.cast("double").try_cast("bigint") == whole) & (whole.cast("double") < 2.0**63)
            finite = F.abs(value) < float("inf")  # 1e400 is read as Infinity
            fits = found.startswith("DECIMAL") | ((found == "DOUBLE") & finite)
            return F.when(F.when(found == "BIGINT", exact).otherwise(fits), value)
        case "decimal":
            return F.when(
                number | (found == "STRING"),
                T.decimal(digits_of(seen.text) if seen.digits is None else seen.digits, kind),
            )
        case "date":
            return F.when(found == "STRING", T.date(text))
        case "binary":
            return F.when(found == "STRING", T.binary(text))
        case "json":
            return F.when((found != "VOID") & ~F.contains(text, F.lit(HALF)), canonical_json(json))
        case _:
            return F.when(found == "STRING", T.timestamp(text))


def _scalar_problem(json: Column, seen: _Seen, value: Column, kind: FieldType) -> Column:
    half = F.when(F.contains(seen.text, F.lit(HALF)), _half_pair(seen.text)).otherwise(_wrong_type(seen, kind))
    wrong = F.when(json.isNotNull() & (seen.found != "VOID") & value.isNull(), half)
    return F.coalesce(_absent(json, kind), wrong)


def _absent(json: Column, kind: FieldType) -> Column:
    none = F.lit(None).cast(REJECTED_TYPE)
    return none if kind.nullable else F.when(json.isNull(), rejected(Reason.MISSING_FIELD, " is absent"))


def _wrong_type(seen: _Seen, kind: FieldType) -> Column:
    shown = F.substring(F.replace(seen.text, F.lit(EXPONENT), F.lit("")), 1, 80)
    said = F.concat_ws(" ", F.lit(f": wanted {kind}, found"), F.substring(seen.found, 1, 80), shown)
    fine = T.too_fine(seen.text, kind)
    return rejected(Reason.WRONG_TYPE, F.concat_ws("; ", said, fine))


def _half_pair(text: Column) -> Column:
    shown = F.substring(F.replace(text, F.lit(HALF), F.lit("\\u")), 1, 80)
    return rejected(Reason.UNDECODABLE, F.concat(F.lit(": half of a surrogate pair, which no text holds, in "), shown))


def _read(json: Column, kind: FieldType) -> Column:
    """struct<value: the type, problem: REJECTED_TYPE> of one VARIANT; the value is null where there is a problem."""
    match kind.name:
        case "list":
            return _let(_items(json, kind), lambda items: _list(json, items, kind))
        case "map":
            return _let(_entries(json, kind), lambda entries: _map(json, entries, kind))
        case "struct":
            return _let(_parts(json, kind), lambda parts: _struct(json, parts, kind))
        case _:
            looked = F.struct(
                F.schema_of_variant(json).alias("found"), F.try_variant_get(json, "$", "string").alias("text")
            )

            def scalar(at: Column) -> Column:
                seen = _Seen(at["found"], at["text"])
                return _let(
                    _scalar(json, seen, kind), lambda value: _pair(value, _scalar_problem(json, seen, value, kind))
                )

            return _let(looked, scalar)


def _items(json: Column, kind: FieldType) -> Column:
    assert kind.item is not None
    item = kind.item
    return F.transform(F.try_variant_get(json, "$", "array<variant>"), lambda element: _read(element, item))


def _list(json: Column, items: Column, kind: FieldType) -> Column:
    def placed(pair: Column, index: Column) -> Column:
        return of_part(F.concat(F.lit("["), index.cast("string"), F.lit("]")), pair["problem"])

    first = F.get(F.filter(F.transform(items, placed), lambda problem: problem.isNotNull()), 0)
    return _whole(json, kind, F.transform(items, lambda pair: pair["value"]), items.isNotNull(), first)


def _entries(json: Column, kind: FieldType) -> Column:
    assert kind.item is not None
    item = kind.item

    def entry(given: Column) -> Column:
        return F.struct(given["key"].alias("key"), _read(given["value"], item).alias("read"))

    return F.transform(F.map_entries(F.try_variant_get(json, "$", "map<string,variant>")), entry)


def _map(json: Column, entries: Column, kind: FieldType) -> Column:
    """A map from its entries, which a VARIANT has in the order of their keys, whatever the record's order was."""

    def placed(entry: Column) -> Column:
        half = F.when(F.contains(entry["key"], F.lit(HALF)), _half_pair(entry["key"]))
        place = F.concat(F.lit('["'), F.substring(entry["key"], 1, 80), F.lit('"]'))
        return F.coalesce(half, of_part(place, entry["read"]["problem"]))

    first = F.get(F.filter(F.transform(entries, placed), lambda problem: problem.isNotNull()), 0)
    pairs = F.transform(entries, lambda entry: F.struct(entry["key"], entry["read"]["value"]))
    return _whole(json, kind, F.map_from_entries(pairs), entries.isNotNull(), first)


def _parts(json: Column, kind: FieldType) -> Column:
    return F.struct(
        *(_read(F.try_variant_get(json, f"$.{name}", "variant"), of).alias(name) for name, of in kind.fields)
    )


def _struct(json: Column, parts: Column, kind: FieldType) -> Column:
    first = F.coalesce(*(of_part(F.lit(f".{name}"), parts[name]["problem"]) for name, _ in kind.fields))
    value = F.struct(*(parts[name]["value"].alias(name) for name, _ in kind.fields))
    return _whole(json, kind, value, F.schema_of_variant(json).startswith("OBJECT"), first)


def _whole(json: Column, kind: FieldType, value: Column, fits: Column, first: Column) -> Column:
    """A list, map or struct from its parts: `fits` where the JSON value is one, `first` the first part's problem."""
    found, text = F.schema_of_variant(json), F.try_variant_get(json, "$", "string")
    other = F.when(json.isNotNull() & (found != "VOID"), _wrong_type(_Seen(found, text), kind))
    problem = F.coalesce(_absent(json, kind), F.when(fits, first).otherwise(other))
    return _let(problem, lambda found: _pair(F.when(fits & found.isNull(), value), found))


def _pair(value: Column, problem: Column) -> Column:
    return F.struct(value.alias("value"), problem.alias("problem"))


def _let(column: Column, then: Callable[[Column], Column]) -> Column:
    """`then` of a column that is computed once: Spark shares no expressions inside a lambda."""
    return F.get(F.transform(F.array(column), then), 0)


def part_of_key(*names: str) -> tuple[Column, Column]:
    """The JSON type and the text of a part of the key; of all of it, if no part is named."""
    part = F.try_variant_get(KEY_VARIANT, path_to(names), "variant")
    return F.schema_of_variant(part), F.try_variant_get(KEY_VARIANT, path_to(names), "string")


def scalar_text(kind: Column, text: Column) -> Column:
    """The text of a JSON string or of a number without an exponent; null elsewhere."""
    scalar = kind.isin("STRING", "BIGINT") | kind.startswith("DECIMAL")
    return F.when(scalar & ~F.contains(text, F.lit(HALF)), text)
