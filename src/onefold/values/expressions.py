"""Expressions of a dataset file as Spark columns over decoded records.

Header values and string keys are text, and an expression casts. A cast is strict: text that is no such value
makes the record `wrong_type`, never NULL by accident.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.envelopes import DELETED, MARKED, OP, POSITION, POSITION_PARTS, Attribute
from onefold.dataset.expressions import (
    PERIODS,
    Call,
    Compare,
    Expression,
    Fallback,
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
from onefold.values import text as T
from onefold.values.connector_positions import position_part
from onefold.values.format import ENVELOPE, KEY_TEXT, SCHEMA_NAME
from onefold.values.key_parts import part_of_key, scalar_text
from onefold.values.rejection import Compiled, not_utf8

_SQL_TYPES = {"long": "bigint", "int": "int"}
# Whatever is repeated without a bound is possessive: else text of a producer's costs its square.
_WHOLE_NUMBER = r"^[+-]?\d++\z"
_NUMBER = r"^[+-]?(\d++(\.\d*+)?+|\.\d++)([eE][+-]?\d++)?+\z"


def compile_expression(expression: Expression) -> Compiled:
    """The column of an expression, over the envelope and the decoded fields."""
    never = F.lit(False)
    match expression:
        case Path(root, name, parts):
            value = _path(root, name, parts)
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
        case Fallback(terms):
            tried = [compile_expression(term) for term in terms]
            failed = reduce(Column.__or__, (term.failed for term in tried))
            return Compiled(F.coalesce(*(term.value for term in tried)), failed)
        case Compare(operator, left, right):
            mine, other = compile_expression(left), compile_expression(right)
            return Compiled(_compare(operator, mine.value, other.value), mine.failed | other.failed)
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


def _path(root: str, name: str, inner: tuple[str, ...]) -> Column:
    if root == "value":
        return reduce(Column.getField, inner, F.col(name))
    if root == "header":
        return _text(_header(name))
    if root == "schema":
        return F.col(SCHEMA_NAME)
    if root == "envelope":
        return _is_marked_deleted() if Path(root, name, inner) == DELETED else _attribute((name, *inner))
    if root == "debezium":
        return _position() if Path(root, name, inner) == POSITION else position_part(name, _attribute, _of_hex)
    if root == "key":
        return scalar_text(*part_of_key(name, *inner)) if name else F.col(KEY_TEXT)
    if root == "timestamp":
        return F.timestamp_millis(F.when(F.col(E.TIMESTAMP).between(FIRST, LAST), F.col(E.TIMESTAMP)))
    return F.col(f"_{root}")


def _attribute(attribute: Attribute) -> Column:
    return F.col(ENVELOPE).getField(".".join(attribute))


def _is_marked_deleted() -> Column:
    """Null where there is no envelope: of a null value."""
    marked = (_attribute(OP) == "d") | (F.lower(_attribute(MARKED)) == "true")
    known = _attribute(OP).isNotNull() | _attribute(MARKED).isNotNull()
    return F.when(known, F.coalesce(marked, _attribute(OP) == "d", F.lower(_attribute(MARKED)) == "true"))


def _position() -> Column:
    """`name=… op=u … lsn=…`: null where the envelope has no position, or a part of it that other changes have, too."""
    parts = {".".join(part).removeprefix("source."): _attribute(part) for part in POSITION_PARTS}
    texts = [F.concat(F.lit(f"{name}="), value) for name, value in parts.items()]

    def has(*names: str) -> Column:
        return reduce(Column.__and__, (_attribute(("source", name)).isNotNull() for name in names))

    alone = has("sequence") | has("lsn") | has("scn") | has("file", "pos") | has("ord", "ts_ms")
    known = alone | (has("commit_lsn") & (has("change_lsn") | F.coalesce(_attribute(OP) == "r", F.lit(False))))
    return F.when(known, F.concat_ws(" ", *texts))


def _header(name: str) -> Column:
    named = F.filter(E.HEADERS, lambda header: header.key == name)
    return F.get(named, F.size(named) - 1)["value"]  # of equal names the last counts


def _text(data: Column) -> Column:
    """Bytes as text; null where they are none (`unreadable_header`)."""
    return F.try_validate_utf8(data.cast("string"))


def unreadable_header(name: str) -> Column:
    """Why a header cannot be read, as text for people; null where it can, or is not there."""
    headers = F.when(F.col(E.HEADERS).isNull(), "the headers cannot be read")
    return F.coalesce(headers, not_utf8(f"header {name!r}", _header(name)))


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
        return F.coalesce(F.when(kind != "string", value.try_cast("timestamp")), T.timestamp(text))
    if function == "date":
        return F.when((kind == "timestamp") | text.rlike(T.DATE), text.try_cast("date"))
    if function == "pg_lsn":
        return _pg_lsn(text)
    if function == "hex":
        return _of_hex(text)
    return text.try_cast(function)


_PG_LSN = r"^([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})\z"
_HEX = r"^(?:0[xX])?([0-9a-fA-F]{1,30})\z"
_SQL_SERVER_LSN = r"^([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})\z"
"""As Debezium and `sys.fn_cdc_` functions' text have it: its parts have their widths, so they are one number."""


def _pg_lsn(text: Column) -> Column:
    """PostgreSQL's `16/B374D848`: two numbers of 32 bits."""
    high, low = (_number(F.regexp_extract(text, _PG_LSN, group)) for group in (1, 2))
    return F.when(text.rlike(_PG_LSN), (high * F.lit(1 << 32) + low)).try_cast("decimal(20,0)")


def _of_hex(text: Column) -> Column:
    """Up to 30 hexadecimal digits, also in the three parts of SQL Server's positions."""
    joined = F.regexp_replace(text, _SQL_SERVER_LSN, "$1$2$3")
    digits = F.lpad(F.regexp_extract(joined, _HEX, 1), 30, "0")
    high, low = (_number(F.substr(digits, F.lit(start), F.lit(15))) for start in (1, 16))
    return F.when(joined.rlike(_HEX), (high * F.lit(1 << 60) + low)).try_cast("decimal(38,0)")


def _number(digits: Column) -> Column:
    """At most 15 hexadecimal digits as a number."""
    return F.conv(digits, 16, 10).try_cast("decimal(19,0)")


def _compare(operator: str, left: Column, right: Column) -> Column:
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]
