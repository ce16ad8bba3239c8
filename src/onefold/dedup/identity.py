"""What a record is the same as: key digest, version, narrower identities, content hashes."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.blank_text import BLANKS
from onefold.dataset.evolution import Origin
from onefold.dataset.expressions import Expression
from onefold.dataset.types import FieldType
from onefold.dedup.said import UNREAD, said_by
from onefold.folding.strategy import folding_of
from onefold.records import envelope as E
from onefold.tables import staging as C
from onefold.values.canonical import content_hash, key_digest, key_text
from onefold.values.decode import FILTERED, LEFT_OUT, REJECTED, TOMBSTONE
from onefold.values.expressions import compile_expression
from onefold.values.format import ENVELOPE, KEY_TEXT, KEY_VARIANT
from onefold.values.rejection import REJECTED_TYPE, Compiled, cast_failed, failed_in, rejected, unusable
from onefold.vocabulary import Level, Reason


def identify(decoded: DataFrame, dataset: Dataset) -> DataFrame:
    """Add `_key`, `_version`, `_order`, `_hash`, the narrower levels and the key's columns to decoded records; as the
    dataset asks, `_said`, `_compared`, `_is_hidden`, `_null_key`, `_filtered_key` and `_readable_key`.

    A record without its deciding identity becomes `rejected`; a narrower level that is null is skipped for it.
    """
    decoded, keys = _with_key_parts(decoded, dataset)
    columns: dict[str, Column] = {name: compile_expression(tree).value for name, tree in dataset.key_columns}
    candidates = [
        F.col(REJECTED),
        *(_of_key(dataset, *part) for part in zip(dataset.key_expressions, keys, dataset.key_names, strict=True)),
    ]
    of_mode, refused = folding_of(dataset).own_columns()
    columns |= of_mode
    candidates += refused
    for level in dataset.levels[1:]:
        if level in dataset.narrow or level == Level.PRODUCER:
            given = [compile_expression(tree) for tree in dataset.level_expressions(level)]
            given = _unless_any_blank(given, _texts_of(dataset, level))
            columns[C.LEVELS[level]] = _producer(dataset, given) if level == Level.PRODUCER else _level(level, given)
            candidates += [cast_failed(part, level) for part in given]
            if level == Level.MESSAGE_ID and dataset.ids_within_key:
                candidates.append(_without_position(given[0]))
    if dataset.where:
        shown = compile_expression(dataset.where)
        columns[C.HIDDEN] = ~F.col(C.DELETED) & ~F.coalesce(shown.value, F.lit(False))
        candidates.append(F.when(~F.col(C.DELETED), failed_in(shown, "target.where", dataset.target.where)))
    # Only what is wanted, and what the log counts as a record, is judged by its identity.
    unjudged = F.col(FILTERED) | F.col(E.FATE).isNotNull()
    judged = F.when(unjudged, F.col(REJECTED)).otherwise(F.coalesce(*candidates))
    columns[REJECTED] = judged.cast(REJECTED_TYPE)
    columns[UNREAD] = F.col(REJECTED)["reason"]
    columns[C.ORDER] = E.order_struct()
    known = decoded.withColumns(columns)
    usable = F.col(REJECTED).isNull() & ~unjudged
    identity = _identity(keys)
    digest, readable = _digest(identity), _is_readable(identity)
    left_out = F.lit(False)
    if LEFT_OUT in decoded.columns:  # what it is a version of, though it takes no part in the fold
        versioned = F.coalesce(*refused).isNull() & F.col(E.FATE).isNull() & F.col(REJECTED).isNull()
        left_out = F.col(LEFT_OUT) & versioned & readable
    added = {C.KEY: F.when(usable, digest), C.HASH: content_of(dataset)}
    if LEFT_OUT in decoded.columns:
        added[C.FILTERED_KEY] = F.when(left_out, digest)
    group = folding_of(dataset).group_key()
    if keys or group is not None:
        row_key = F.when(readable, digest) if group is None else _of_group(dataset, group)
        added[C.READABLE_KEY] = F.when(~usable & _left_by_file_or_decision(), row_key)
    if dataset.within:
        added[C.WITHIN] = F.when(usable | left_out | ~unjudged, identity[-1])
        added[C.IDENTITY] = F.when(usable, F.to_json(F.array(*(key_text(part) for part in identity[:-1]))))
    if dataset.apply.DELETES:
        added[C.NULL_KEY] = F.when((F.col(REJECTED)["reason"] == Reason.NULL_VALUE) & readable, digest)
    if dataset.source.exact:
        added[C.SAID] = said_by(dataset)
    if dataset.excepted:
        added[C.COMPARED] = content_of(dataset, excepted=dataset.excepted)
    return known.withColumns(added).drop(KEY_VARIANT, KEY_TEXT, ENVELOPE, LEFT_OUT, UNREAD, *_key_columns(keys))


def _without_position(position: Compiled) -> Column:
    """Why a change cannot be used that has no position: what the connector sends again would bring old values back."""
    why = rejected(
        Reason.NULL_IDENTITY,
        "debezium.position: the change has none; let ExtractNewRecordState add it (add.fields: source.lsn, "
        "source.sequence; of MySQL and MariaDB source.file, source.pos, source.row)",
    )
    return F.when(position.value.isNull() & ~F.col(TOMBSTONE), why)


def _left_by_file_or_decision() -> Column:
    """Whether it is the filter, a skip or its own content that takes a record out which is not usable, and not what the
    log says of it, nor a forget mark."""
    return F.col(E.FATE).isNull() | (F.col(E.FATE) == E.SKIPPED)


def _of_group(dataset: Dataset, group: Column) -> Column:
    """`_key` of the row that a record adds to; null where a part of its key cannot be read."""
    return F.when(reduce(Column.__and__, (F.col(name).isNotNull() for name in dataset.row_key_names)), group)


def readable_key(dataset: Dataset) -> Column:
    """The key digest of a decoded record, whatever else is wrong with it and whether or not the filter wants it; null
    where the key cannot be read."""
    identity = _identity(_key_parts(dataset))
    return F.when(_is_readable(identity), _digest(identity))


def _with_key_parts(decoded: DataFrame, dataset: Dataset) -> tuple[DataFrame, list[Compiled]]:
    """The parts of what decides, as columns: Spark computes an expression at each place that uses it."""
    keys = _key_parts(dataset)
    columns = dict(zip(_key_columns(keys), (key.value for key in keys), strict=True))
    return decoded.withColumns(columns), [
        Compiled(F.col(name), key.failed) for name, key in zip(columns, keys, strict=True)
    ]


def _key_columns(keys: list[Compiled]) -> list[str]:
    return [f"_fact_key{number}" for number in range(len(keys))]


def _key_parts(dataset: Dataset) -> list[Compiled]:
    keys = [compile_expression(tree) for tree in dataset.key_expressions]
    if dataset.apply.KEYED_BY_IDENTITY:
        before = len(dataset.identity_key) - len(dataset.level_expressions(dataset.deciding))
        return _unless_any_blank(keys, [before + at for at in _texts_of(dataset, dataset.deciding)])
    return keys


def _identity(keys: list[Compiled]) -> list[Column]:
    """The parts of what decides; where no wider identity is declared, the position."""
    return [key.value for key in keys] or [F.col(name) for name in E.POSITION]


def _digest(identity: list[Column]) -> Column:
    return key_digest(key_text(part) for part in identity)


def _is_readable(identity: list[Column]) -> Column:
    return reduce(Column.__and__, (part.isNotNull() for part in identity))


def content_of(dataset: Dataset, excepted: Collection[str] = ()) -> Column:
    """The digest of what a record or a row (with `_is_delete`) says, without `excepted` fields. Where the key is not
    the identity, what is added to which key is content."""
    fields = {name: origin for name, origin in dataset.origins.items() if name not in excepted}
    if dataset.apply.KEYED_BY_IDENTITY:
        kinds = {name: dataset.type_of(tree) or FieldType("string") for name, tree in dataset.key_columns}
        fields |= {name: Origin(name, kind, added=False) for name, kind in kinds.items()}
    return content_hash(fields, F.col(C.DELETED))


def _of_key(dataset: Dataset, tree: Expression, key: Compiled, name: str) -> Column:
    """Why a part of what decides cannot be used."""
    of_identity = dataset.apply.KEYED_BY_IDENTITY or tree == dataset.within
    return unusable(key, Reason.NULL_IDENTITY if of_identity else Reason.NULL_KEY, name)


def _texts_of(dataset: Dataset, level: Level) -> list[int]:
    """Which parts of a level clients make up: those of the message id, the producer's name."""
    ids = len(dataset.identity.message_parts)
    return {Level.MESSAGE_ID: [*range(ids)], Level.PRODUCER: [0]}.get(level, [])


def _unless_any_blank(parts: list[Compiled], at: list[int]) -> list[Compiled]:
    return [_unless_blank(part) if number in at else part for number, part in enumerate(parts)]


def _unless_blank(given: Compiled) -> Compiled:
    """An id or a name that is blank is none: else all records that a client sent without one would be one message."""
    text = given.value.cast("string")
    # Nearly every id begins with a letter or a digit, and to look for many letters is slow.
    there = F.substring(text, 1, 1).between("!", "~") | (F.trim(text, F.lit(BLANKS)) != "")
    return Compiled(F.when(there, given.value), given.failed)


def _producer(dataset: Dataset, named: list[Compiled]) -> Column:
    """Who sent it, and as which of its records: as the log shows it, else by the declared name, epoch and sequence.

    Null where neither tells: a producer that is not idempotent has no id, a marker no sequence.
    """
    sessions = []
    if dataset.source.shows_log:
        known = (F.col(E.PRODUCER_ID) >= 0) & (F.col(E.SEQUENCE) >= 0)
        sessions.append(_session(known, F.col(E.PRODUCER_ID), F.col(E.PRODUCER_EPOCH), F.col(E.SEQUENCE)))
    if named:
        name, *epoch, sequence = (part.value for part in named)
        known = reduce(Column.__and__, (part.isNotNull() for part in (name, *epoch, sequence)))
        # Sessions are kept apart by their names: an epoch that is declared is a part of it, and may be any number.
        whole = F.concat(name.cast("string"), F.lit("/"), *(part.cast("string") for part in epoch)) if epoch else name
        sessions.append(_session(known, whole, F.lit(-1), sequence))
    return F.coalesce(*sessions)


def _session(known: Column, name: Column, epoch: Column, sequence: Column) -> Column:
    struct = F.struct(
        name.cast("string").alias("name"), epoch.cast("int").alias("epoch"), sequence.cast("bigint").alias("sequence")
    )
    return F.when(known, struct)


def _level(level: str, parts: list[Compiled]) -> Column:
    """A narrower level as text: the message id as it is, one of several parts with `|` between them; a business key as
    its digest in hex. Null if a part is."""
    if level == Level.MESSAGE_ID:
        texts = [key_text(part.value) for part in parts]
        if len(texts) == 1:
            return texts[0]
        return reduce(lambda before, text: F.concat(before, F.lit("|"), text), map(_escaped, texts))
    return F.lower(F.hex(key_digest(key_text(part.value) for part in parts)))


def _escaped(text: Column) -> Column:
    """A part of an id: no two lists of parts are the same id."""
    return F.replace(F.replace(text, F.lit("\\"), F.lit("\\\\")), F.lit("|"), F.lit("\\|"))
