"""What a record is the same as: key digest, version, narrower identities, content hashes."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.evolution import Origin
from onefold.dataset.expressions import Expression, Path, parse
from onefold.dataset.sections import Version
from onefold.dataset.types import FieldType
from onefold.records import envelope as E
from onefold.tables import staging as C
from onefold.values.canonical import content_hash, key_digest, key_text
from onefold.values.decode import FILTERED, REJECTED
from onefold.values.expressions import Compiled, compile_expression
from onefold.values.format import KEY_TEXT, KEY_VARIANT
from onefold.values.rejection import REJECTED_TYPE, rejected
from onefold.vocabulary import Level, Reason


def identify(decoded: DataFrame, dataset: Dataset) -> DataFrame:
    """Add `_key`, `_version`, `_order`, `_hash` (and `_compared`), the narrower levels and the key's columns to
    decoded records.

    A record without its deciding identity becomes `rejected`; a narrower level that is null is skipped for it.
    """
    keys = [compile_expression(tree) for tree in dataset.key_expressions]
    if dataset.apply.mode != "upsert" and dataset.deciding in _NAMED_AT:
        at = _NAMED_AT[dataset.deciding]
        keys[at] = _unless_blank(keys[at])
    columns: dict[str, Column] = {name: compile_expression(tree).value for name, tree in dataset.key_columns}
    candidates = [
        F.col(REJECTED),
        *(_of_key(dataset, *one) for one in zip(dataset.key_expressions, keys, dataset.key_names, strict=True)),
    ]
    if dataset.apply.version:
        columns[C.VERSION], refused = _version(dataset.apply.version)
        candidates += refused
    if dataset.sums:
        added_to = [(text, compile_expression(parse(text))) for text in dataset.apply.key or ()]
        candidates += [_null_or_wrong(part, Reason.NULL_KEY, text) for text, part in added_to]
        for field, _ in dataset.sums.values():
            candidates.append(
                F.when(F.col(field).isNull(), rejected(Reason.NULL_VALUE, f"{field} is null: nothing to add"))
            )
    for level in dataset.levels[1:]:
        if level in dataset.narrow or level == Level.PRODUCER:
            given = [compile_expression(tree) for tree in dataset.level_expressions(level)]
            given = [_unless_blank(given[0]), *given[1:]] if given and level in _NAMED_AT else given
            columns[C.LEVELS[level]] = _producer(dataset, given) if level == Level.PRODUCER else _level(level, given)
            candidates += [_failed(part, level) for part in given]
    # Only what is wanted, and what the log counts as a record, is judged by its identity.
    unjudged = F.col(FILTERED) | F.col(E.FATE).isNotNull()
    judged = F.when(unjudged, F.col(REJECTED)).otherwise(F.coalesce(*candidates))
    columns[REJECTED] = judged.cast(REJECTED_TYPE)
    columns[C.ORDER] = E.order_struct()
    known = decoded.withColumns(columns)
    usable = F.col(REJECTED).isNull() & ~unjudged
    # Where no wider identity is declared, the position is the key.
    identity = [key.value for key in keys] or [F.col(name) for name in E.POSITION]
    named = {C.KEY: key_digest(key_text(part) for part in identity)}
    if dataset.within:
        named[C.WITHIN] = identity[-1]
    added = {name: F.when(usable, of) for name, of in named.items()} | {C.HASH: content_of(dataset)}
    if dataset.apply.mode == "upsert":
        readable = reduce(Column.__and__, (one.isNotNull() for one in identity))
        added[C.NULL_KEY] = F.when((F.col(REJECTED)["reason"] == Reason.NULL_VALUE) & readable, named[C.KEY])
    if dataset.excepted:
        added[C.COMPARED] = content_of(dataset, excepted=dataset.excepted)
    return known.withColumns(added).drop(KEY_VARIANT, KEY_TEXT)


def content_of(dataset: Dataset, excepted: Collection[str] = ()) -> Column:
    """The digest of what a record or a row (with `_is_delete`) says, without `excepted` fields. Where the key is not
    the identity, what is added to which key is content."""
    fields = {name: origin for name, origin in dataset.origins.items() if name not in excepted}
    if dataset.sums:
        kinds = {name: dataset.type_of(tree) or FieldType("string") for name, tree in dataset.key_columns}
        fields |= {name: Origin(name, kind, added=False) for name, kind in kinds.items()}
    return content_hash(fields, F.col(C.DELETED))


def _version(version: Version) -> tuple[Column, list[Column]]:
    """A record's version, and why it has none. Of the number it expects, only the next can follow."""
    given = [(place, text, compile_expression(parse(text))) for place, text in version.expressions]
    refused = [_null_or_wrong(part, Reason.NULL_VERSION, text) for _, text, part in given]
    parts = [_of_incarnation(text, part.value) for place, text, part in given if place == "from"]
    for expected in (part.value for place, _, part in given if place == "expected"):
        following = F.try_add(expected, F.lit(1))  # null behind the greatest number
        made = parts[0] if parts else following
        said = F.concat(F.lit("it expects version "), expected.cast("string"))
        if parts:
            said = F.concat(said, F.lit(" and makes "), made.cast("string"))
        refused.append(F.when(following.isNull() | (made != following), rejected(Reason.WRONG_STEP, said)))
        parts = [made]
    if version.guard == "contiguous":
        said = F.lit(f"the first version of a key is {version.begins}")
        refused.append(F.when(parts[0] < version.begins, rejected(Reason.BEFORE_FIRST, said)))
    return parts[0] if len(parts) == 1 else _composite(parts), refused


_OFFSETS = 1 << 48
"""More than a partition ever has: the offsets of a re-created topic, read as versions, start above it."""


def _of_incarnation(text: str, part: Column) -> Column:
    """A part of a version; an offset behind all those of earlier incarnations of the topic."""
    if parse(text) != Path("offset"):
        return part
    return part + (F.col(E.INCARNATION).cast("bigint") - 1) * F.lit(_OFFSETS)


def _composite(parts: list[Column]) -> Column:
    """A version of several parts, as one value that orders by the first, then the second, and so on."""
    return F.struct(*(part.alias(f"v{number}") for number, part in enumerate(parts, 1)))


def _of_key(dataset: Dataset, tree: Expression, key: Compiled, name: str) -> Column:
    own = dataset.apply.mode == "upsert" and tree != dataset.within
    reason = Reason.NULL_KEY if own else Reason.NULL_IDENTITY
    return _null_or_wrong(key, reason, name)


def _null_or_wrong(given: Compiled, reason: str, name: str) -> Column:
    what = "null or blank" if reason == Reason.NULL_IDENTITY else "null"
    return F.coalesce(_failed(given, name), F.when(given.value.isNull(), rejected(reason, f"{name} is {what}")))


_NAMED_AT = {Level.MESSAGE_ID: 0, Level.PRODUCER: 4}
"""Which part of a deciding identity is the id, or the producer's name."""


def _unless_blank(given: Compiled) -> Compiled:
    """An id or a name that is blank is none: else all records that a client sent without one would be one message."""
    there = F.trim(given.value.cast("string"), F.lit(" \t\r\n")) != ""
    return Compiled(F.when(there, given.value), given.failed)


def _failed(given: Compiled, name: str) -> Column:
    return F.when(given.failed, rejected(Reason.WRONG_TYPE, f"{name} cannot be cast"))


def _producer(dataset: Dataset, named: list[Compiled]) -> Column:
    """Who sent it, and as which of its records: as the log shows it, else by the declared name and sequence.

    Null where neither tells: a producer that is not idempotent has no id, a marker no sequence.
    """
    told = []
    if dataset.source.shows_log:
        known = (F.col(E.PRODUCER_ID) >= 0) & (F.col(E.SEQUENCE) >= 0)
        told.append(_session(known, F.col(E.PRODUCER_ID), F.col(E.PRODUCER_EPOCH), F.col(E.SEQUENCE)))
    if named:
        name, sequence = (part.value for part in named)
        told.append(_session(name.isNotNull() & sequence.isNotNull(), name, F.lit(-1), sequence))
    return F.coalesce(*told)


def _session(known: Column, name: Column, epoch: Column, sequence: Column) -> Column:
    struct = F.struct(
        name.cast("string").alias("name"), epoch.cast("int").alias("epoch"), sequence.cast("bigint").alias("sequence")
    )
    return F.when(known, struct)


def _level(level: str, parts: list[Compiled]) -> Column:
    """A narrower level as text: the message id as it is, a business key as its digest in hex; null if a part is."""
    if level == Level.MESSAGE_ID:
        return key_text(parts[0].value)
    return F.lower(F.hex(key_digest(key_text(part.value) for part in parts)))
