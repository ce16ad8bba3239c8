"""Expressions of a dataset file as Spark columns over decoded records.

Header values and string keys are text, and an expression casts. A cast is strict: text that is no such value
makes the record `wrong_type`, never NULL by accident.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.expressions import (
    PERIODS,
    Call,
    Compare,
    Expression,
    Junction,
    Literal,
    Member,
    Negation,
    NullTest,
    Path,
)
from onefold.dataset.types import number_type
from onefold.instants import FIRST, LAST
from onefold.records import envelope as E
from onefold.records.fields import DATE, TIMESTAMP

KEY_VARIANT = "_key_variant"
"""The parsed JSON key, while records are decoded."""

_SQL_TYPES = {"long": "bigint", "int": "int"}
_WHOLE_NUMBER = r"^[+-]?\d+\z"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\z"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A column, and the condition under which a cast failed that it needs."""

    value: Column
    failed: Column


def compile_expression(expression: Expression) -> Compiled:
    """The column of an expression, over the envelope and the decoded fields."""
    never = F.lit(False)
    match expression:
        case Path(root, name, parts):
            value = reduce(Column.getField, parts, _path(root, name))
            # One that no timestamp can hold is no version, and none that another could be.
            return Compiled(value, F.col(E.TIMESTAMP).isNotNull() & value.isNull() if root == "timestamp" else never)
        case Literal(literal, number):
            column = F.lit(literal) if literal is not None else F.lit(None).cast("boolean")
            return Compiled(column.cast(number_type(str(literal)).sql) if number else column, never)
        case Call(function, argument):
            inner = compile_expression(argument)
            value = _call(function, inner.value)
            lost = inner.value.isNotNull() & value.isNull()
            return Compiled(value, inner.failed | lost)
        case Compare(operator, left, right):
            one, other = compile_expression(left), compile_expression(right)
            return Compiled(_compare(operator, one.value, other.value), one.failed | other.failed)
        case Junction(operator, terms):
            given = [compile_expression(term) for term in terms]
            # What one term decides needs no other: `header.kind = 'entry' and long(header.v) > 3` of another kind.
            settles = [~term.failed & term.value.eqNullSafe(F.lit(operator == "or")) for term in given]
            failed = reduce(Column.__or__, (term.failed for term in given)) & ~reduce(Column.__or__, settles)
            both = Column.__and__ if operator == "and" else Column.__or__
            return Compiled(reduce(both, (term.value for term in given)), failed)
        case Negation(term):
            inner = compile_expression(term)
            return Compiled(~inner.value, inner.failed)
        case NullTest(term, negated):
            inner = compile_expression(term)
            return Compiled(inner.value.isNotNull() if negated else inner.value.isNull(), inner.failed)
        case Member(term, items):
            inner = compile_expression(term)
            return Compiled(inner.value.isin([compile_expression(item).value for item in items]), inner.failed)


def _path(root: str, name: str) -> Column:
    if root == "value":
        return F.col(name)
    if root == "header":
        named = F.filter(E.HEADERS, lambda header: header.key == name)
        return F.get(named, F.size(named) - 1)["value"]  # of equal names the last counts
    if root == "key":
        if not name:
            text = F.col(E.KEY_BYTES).cast("string")
            return F.when(F.is_valid_utf8(text), text)
        part = F.try_variant_get(KEY_VARIANT, f"$.{name}", "variant")
        kind = F.schema_of_variant(part)
        scalar = kind.isin("STRING", "BIGINT") | kind.startswith("DECIMAL")
        return F.when(scalar, F.try_variant_get(KEY_VARIANT, f"$.{name}", "string"))
    if root == "timestamp":
        return F.timestamp_millis(F.when(F.col(E.TIMESTAMP).between(FIRST, LAST), F.col(E.TIMESTAMP)))
    return F.col(f"_{root}")


def _call(function: str, value: Column) -> Column:
    if function in ("lower", "upper", "trim"):
        return getattr(F, function)(value.cast("string"))  # type: ignore[no-any-return]
    if function == "string":
        return value.cast("string")
    if function in PERIODS:
        begins = F.date_trunc(function, value.cast("timestamp"))
        return begins if function == "hour" else begins.cast("date")
    text = F.trim(value.cast("string"))
    if function in ("long", "int"):  # a cast alone would cut '1.9' to 1
        return F.when(text.rlike(_WHOLE_NUMBER), text.try_cast(_SQL_TYPES[function]))
    if function == "double":  # nor is '1d' or 'NaN' one, nor 1e400 infinite
        number = F.when(text.rlike(_NUMBER), text.try_cast("double"))
        return F.when(F.abs(number) < float("inf"), number)
    kind = F.typeof(value)
    if function == "timestamp":
        of_text = F.when(text.rlike(TIMESTAMP), text.try_cast("timestamp"))
        return F.coalesce(F.when(kind != "string", value.try_cast("timestamp")), of_text)
    if function == "date":
        return F.when((kind == "timestamp") | text.rlike(DATE), text.try_cast("date"))
    return text.try_cast(function)


def _compare(operator: str, left: Column, right: Column) -> Column:
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]
