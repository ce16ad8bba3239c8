"""From the envelope to declared fields: the filter, deletes, and the first reason why a record cannot be used.

How bytes become fields is the format's (`onefold.values.format`); all else is the same for every format.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.envelopes import DELETED as DELETED_PATH
from onefold.dataset.expressions import OF_ENVELOPE, Expression, Junction, Literal, Negation, Path, parse, paths
from onefold.dataset.types import FieldType
from onefold.records import envelope as E
from onefold.values.expressions import compile_expression, unreadable_header
from onefold.values.format import ENVELOPE, LEFT_UNREAD, SCHEMA_NAME, ReadsValues, key_reader, value_reader
from onefold.values.registered import name_of_schema
from onefold.values.rejection import REJECTED_TYPE, Compiled, failed_in, rejected
from onefold.values.text import of_text
from onefold.vocabulary import NO_ROWS, Reason

REJECTED = "_rejected"
"""struct<reason: string, detail: string>, or null."""
FILTERED = "_filtered"
"""Whether the dataset's filter declares the record not wanted."""
LEFT_OUT = "_left_out"
"""Whether `source.filter` does so; only where `Declaration.watches_filter`."""
TOMBSTONE = "_tombstone"
"""Whether the value is null (an empty value is not)."""
DELETED = "_is_delete"
"""Whether the record deletes its key."""

_GIVEN = "_{}_given"
"""While records are decoded: what the value gives for a field that the key fills."""


def decode(records: DataFrame, dataset: Dataset, forgiven: Collection[str] = ()) -> DataFrame:
    """From the envelope to typed fields.

    Adds a column a declared field, the columns `REJECTED`, `FILTERED`, `TOMBSTONE`, `DELETED`, where the filter is
    watched `LEFT_OUT`, and those of the key for expressions. Takes none away and drops no row. What is wrong with
    `forgiven` fields rejects no record.
    """
    value, of_schema = value_reader(dataset), [SCHEMA_NAME, LEFT_UNREAD]
    if uses_schema_name(dataset):
        records = records.withColumn(SCHEMA_NAME, name_of_schema(dataset))
        records = records.withColumn(LEFT_UNREAD, left_unread(dataset))
    opened = value.opened(records)
    opened = opened.withColumn(TOMBSTONE, is_tombstone() | _is_null_within(dataset, value))
    if dataset.envelope_attributes:
        opened = opened.withColumn(ENVELOPE, value.attributes())
    if uses_key(dataset):
        opened = key_reader(dataset).opened(opened)
    fields = {name: value.field(name) for name in dataset.fields}
    given = {_GIVEN.format(name): fields[name] for name in dataset.keyed_fields}
    fields |= {name: _of_key(tree, dataset.fields[name]) for name, tree in dataset.keyed_fields.items()}
    decisions = {DELETED: deletes_of(dataset).value, FILTERED: filtered_of(dataset).value}
    if dataset.watches_filter:
        # A record of another type is no newer version of a row.
        of_type = ~F.col(LEFT_UNREAD) if uses_schema_name(dataset) else F.lit(True)
        decisions[LEFT_OUT] = _filtered_by(dataset).value & of_type
    decided = opened.withColumns(fields | given).withColumns(decisions)
    return decided.withColumn(REJECTED, _rejection(dataset, value, forgiven)).drop(*value.scratch, *given, *of_schema)


def uses_key(dataset: Dataset) -> bool:
    """Whether an expression of the dataset refers to the key or a part of it."""
    return any(path.root == "key" for _, text in dataset.expressions() for path in paths(parse(text)))


def uses_schema_name(dataset: Dataset) -> bool:
    """Whether an expression of the dataset asks for `schema.name`."""
    return any(path.root == "schema" for _, text in dataset.expressions() for path in paths(parse(text)))


def left_unread(dataset: Dataset) -> Column:
    """Whether the filter says of a record, whatever is in its key and value, that it does not belong to the dataset: by
    the name of its schema, its headers and what the log has. It is not decoded then."""
    if not any(path.root == "schema" for path in _filter_paths(dataset)):
        return F.lit(False)
    decided = compile_expression(_without_content(parse(str(dataset.source.filter))))
    return F.coalesce(~decided.value & ~decided.failed, F.lit(False))


def _filter_paths(dataset: Dataset) -> list[Path]:
    return list(paths(parse(dataset.source.filter))) if dataset.source.filter else []


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
        shown = [F.substring(part.cast("string"), 1, 80) for part in (F.col(name), given)]
        both = F.concat(F.lit(f"{name}: the key has "), shown[0], F.lit(", the value "), shown[1])
        found.append(F.when(given != F.col(name), rejected(Reason.KEY_MISMATCH, both)))
    return found


def is_tombstone() -> Column:
    """Whether a record of an envelope has no value; one that its exporter could not read may have had one."""
    return F.col(E.VALUE_BYTES).isNull() & F.col(E.UNREADABLE).isNull()


def _is_null_within(dataset: Dataset, reader: ReadsValues) -> Column:
    read = ~F.col(LEFT_UNREAD) if uses_schema_name(dataset) else F.lit(True)
    return read & reader.is_null_within()


def deletes_of(dataset: Dataset) -> Compiled:
    """Whether a record deletes its key."""
    when, never = dataset.apply.delete_when, F.lit(False)
    if when in (None, "never"):
        return Compiled(never, never)
    if when == "tombstone":
        return Compiled(F.col(TOMBSTONE) | deletes_in_envelope(dataset), never)
    deletes, null = compile_expression(parse(when)), F.col(TOMBSTONE)
    if not dataset.value.envelope.in_headers:
        return Compiled(~null & F.coalesce(deletes.value, never), ~null & deletes.failed)
    of_null = compile_expression(_unasked(parse(when), ("value",)))
    value = F.when(null, F.coalesce(of_null.value, never)).otherwise(F.coalesce(deletes.value, never))
    return Compiled(value, F.when(null, of_null.failed).otherwise(deletes.failed))


def filtered_of(dataset: Dataset) -> Compiled:
    """Whether the filter, or `delete_when: never`, declares a record not wanted."""
    wanted = _filtered_by(dataset)
    if dataset.apply.delete_when != "never":
        return wanted
    ignored = _is_any_null(dataset) | deletes_in_envelope(dataset)
    return Compiled(ignored | wanted.value, ~ignored & wanted.failed)


def deletes_in_envelope(dataset: Dataset) -> Column:
    """Whether a record is a delete by its envelope, whatever the file says: it has no row but its key."""
    if not dataset.value.envelope.has_changes:
        return F.lit(False)
    return F.coalesce(compile_expression(DELETED_PATH).value, F.lit(False))


def is_undeclared_delete(dataset: Dataset) -> Column:
    """Whether a record is a delete by its envelope, and `delete_when` is an expression that says no."""
    return deletes_in_envelope(dataset) & ~F.col(DELETED)


def _is_any_null(dataset: Dataset) -> Column:
    return F.col(TOMBSTONE) | value_reader(dataset).is_null()


def _filtered_by(dataset: Dataset) -> Compiled:
    never, text = F.lit(False), dataset.source.filter
    if text is None:
        return Compiled(never, never)
    null = _is_any_null(dataset)
    wanted = compile_expression(parse(text))
    unwanted = ~F.coalesce(wanted.value, never)
    # A delete need not have what the filter asks for: it leaves only where the filter says no.
    unwanted = F.when(deletes_of(dataset).value, ~F.coalesce(wanted.value, F.lit(True))).otherwise(unwanted)
    in_value = ("value", "schema", *OF_ENVELOPE)
    if all(path.root not in in_value for path in paths(parse(text))):
        return Compiled(unwanted, wanted.failed)
    # A null value may have attributes of an event in headers, or next to data that is absent.
    unknown = ("value", "schema") if dataset.value.envelope.in_headers else in_value
    of_tombstone = compile_expression(_unasked(parse(text), unknown))
    unwanted = F.when(null, ~F.coalesce(of_tombstone.value, F.lit(True))).otherwise(unwanted)
    if uses_schema_name(dataset):
        unread = F.col(LEFT_UNREAD)
        return Compiled(unread | unwanted, wanted.failed & ~null & ~unread)
    return Compiled(unwanted, wanted.failed & ~null)


def _without_content(condition: Expression) -> Expression:
    """A condition of which nothing is known that is in a key or a value."""
    return _unasked(condition, ("key", "value"))


def _unasked(condition: Expression, roots: Collection[str]) -> Expression:
    """A condition of which nothing is known that has one of some roots, so the rest of it decides or nothing: of a null
    value no field is known."""
    match condition:
        case Junction(operator, terms):
            return Junction(operator, tuple(_unasked(term, roots) for term in terms))
        case Negation(term):
            return Negation(_unasked(term, roots))
        case _:
            asks = any(path.root in roots for path in paths(condition))
            return Literal(None) if asks else condition


def _rejection(dataset: Dataset, reader: ReadsValues, forgiven: Collection[str]) -> Column:
    """The first reason that applies; the filter's own fields are judged before it, all others only after it. Of a
    delete no field but the filter's is judged, and none need be there."""
    filter_fields = {path.name for path in _filter_paths(dataset) if path.root == "value"}

    def problem_of_filter(name: str) -> Column:
        found = reader.problem(name)
        return F.when(~F.col(DELETED) | (found["reason"] != Reason.MISSING_FIELD), found)

    asked = [problem_of_filter(name) for name in dataset.fields if name in filter_fields]
    others = [reader.problem(name) for name in dataset.fields if name not in {*filter_fields, *forgiven}]
    if dataset.value.schema_changes == "quarantine":
        others.append(_unknown(reader.unknown_names()))
    none = F.lit(None).cast(REJECTED_TYPE)
    deleting_by_null = dataset.apply.delete_when == "tombstone"
    deleting = F.lit(deleting_by_null)
    null, named = _is_any_null(dataset), f"the value is {reader.null}"
    no_tombstone = F.when(deleting, f"{named}, which is no tombstone").otherwise(named)
    filtered = failed_in(filtered_of(dataset), "source.filter", dataset.source.filter)
    deletes = failed_in(deletes_of(dataset), "apply.delete_when", dataset.apply.delete_when)
    undeclared = rejected(Reason.NULL_VALUE, "the change deletes its row, and apply.delete_when does not say so")
    undeclared = F.when(is_undeclared_delete(dataset), undeclared)
    wanted = F.coalesce(deletes, undeclared, *_mismatch(dataset), F.when(~F.col(DELETED), F.coalesce(none, *others)))
    of_fields = F.coalesce(none, *asked, F.when(~F.col(FILTERED), wanted))
    other = _unreadable_else(dataset)
    of_value = F.when(reader.is_usable(), of_fields).otherwise(_unless_left_out(dataset, reader.unusable()))
    unread = F.col(LEFT_UNREAD) if uses_schema_name(dataset) else F.lit(False)
    if dataset.value.envelope.has_changes and not deleting_by_null:
        no_null = rejected(Reason.TOMBSTONE, "a null value, which the connector sends after a delete")
    elif dataset.value.envelope.in_headers:
        absent = F.when(F.col(E.VALUE_BYTES).isNull(), "the value is null").otherwise("the event has no data")
        no_null = rejected(Reason.NULL_VALUE, absent)
    else:
        no_null = rejected(Reason.NULL_VALUE, "the value is null")
    return (
        F.when(F.col(E.FATE) != E.COVERED, none)
        .when(F.col(E.UNREADABLE).isNotNull(), rejected(Reason.UNDECODABLE, F.col(E.UNREADABLE)))
        # It may be a delete: that its key cannot be read, too, is no reason to count it elsewhere.
        .when(F.col(TOMBSTONE) & ~F.col(DELETED) & ~F.col(FILTERED), no_null)
        .when(other.isNotNull(), other)
        .when(unread, none)
        .when(filtered.isNotNull(), filtered)
        .when(F.col(TOMBSTONE) | (null & F.col(FILTERED)), none)
        .when(null, rejected(Reason.NULL_VALUE, no_tombstone))
        .otherwise(of_value)
    )


def _unless_left_out(dataset: Dataset, unusable: Column) -> Column:
    """Why a value is no row; null where it is an event, or a record of the connector's own, of which the filter says,
    whatever is in a row, that it does not belong to the dataset: a truncate of another table."""
    text, envelope = dataset.source.filter, dataset.value.envelope
    if text is None or not envelope.roots:
        return unusable
    wanted = compile_expression(_without_content(parse(text)))
    is_known = unusable["reason"].isin(*NO_ROWS) if envelope.has_changes else F.lit(True)
    left_out = is_known & ~wanted.value & ~wanted.failed
    return F.when(~F.coalesce(left_out, F.lit(False)), unusable)


def _unreadable_else(dataset: Dataset) -> Column:
    """Why a part of the key, or a header, that an expression asks for cannot be read, a `REJECTED_TYPE` struct; null
    where all can. What the filter asks for is judged before it, all else of what it lets in."""
    key, asked = key_reader(dataset), dict[Path, bool]()
    for place, text in dataset.expressions():
        for path in paths(parse(text)):
            if path.root in ("key", "header"):
                asked[path] = asked.get(path, False) or place == "source.filter"
    wanted = []
    for path, of_filter in asked.items():
        problem = key.unreadable(path) if path.root == "key" else unreadable_header(path.name)
        reason = key.reason() if path.root == "key" else F.lit(Reason.UNDECODABLE)
        why = F.when(problem.isNotNull(), rejected(reason, problem))
        wanted.append(why if of_filter else F.when(~F.col(FILTERED), why))
    return F.coalesce(F.lit(None).cast(REJECTED_TYPE), *wanted)


def _unknown(names: Column) -> Column:
    """A record with a field that the file does not name."""
    shown = F.substring(F.array_join(names, ", "), 1, 200)
    detail = F.concat(F.lit("value.fields does not name "), shown)
    return F.when(F.size(names) > 0, rejected(Reason.UNKNOWN_SCHEMA, detail))
