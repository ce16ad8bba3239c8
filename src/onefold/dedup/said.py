"""What a record says by itself: by it copies of one position are compared, before identities and never by headers or
times."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import OF_ENVELOPE, Path, parse, paths
from onefold.records import envelope as E
from onefold.tables import staging as C
from onefold.values.canonical import content_hash, with_parts
from onefold.values.decode import FILTERED, TOMBSTONE
from onefold.values.expressions import compile_expression
from onefold.vocabulary import NO_ROWS, Reason

UNREAD = "_fact_unread"
"""Why a record cannot be read by itself, before its identity is asked for; null: it can."""


def said_by(dataset: Dataset) -> Column:
    """`_said` of an identified record: null where its `_hash` says it; empty where it cannot be read.

    Key and declared fields. Of what is not read as a row (filtered, skipped, of no committed transaction, a null value
    that deletes nothing) key and value bytes. Nothing of what was forgotten.
    """
    fate, unread = F.col(E.FATE), F.col(UNREAD)
    null = F.coalesce(unread.isin(Reason.NULL_VALUE, *NO_ROWS), F.lit(False))
    no_row = F.coalesce(fate != E.COVERED, F.lit(False)) | null
    # A filter that asks for headers or times may answer otherwise of a copy: what it leaves out is read, too.
    if not _asks_envelope(dataset, dataset.source.filter):
        no_row |= F.col(FILTERED)
    return (
        F.when((fate == E.FORGOTTEN) | (unread.isNotNull() & ~null), F.lit(b""))
        .when(no_row, _bytes())
        .otherwise(_fields(dataset))
    )


def _fields(dataset: Dataset) -> Column:
    """Key and declared fields; null where `_hash` is made of no more and no less."""
    asked = {path for _, text in dataset.expressions() for path in paths(parse(text))}
    of_key = sorted((path for path in asked if path.root == "key"), key=str)
    parts = [compile_expression(path).value.cast("string") for path in of_key]
    if _is_hash_of_envelope(dataset):
        return with_parts(content_hash(dataset.origins, F.col(TOMBSTONE)), parts)
    return with_parts(F.col(C.HASH), parts) if parts else F.lit(None).cast("binary")


def _is_hash_of_envelope(dataset: Dataset) -> bool:
    """Whether headers or the log change `_hash`: by what deletes, or by a key that is content."""
    of_key = (
        [path for _, tree in dataset.key_columns for path in paths(tree)] if dataset.apply.KEYED_BY_IDENTITY else []
    )
    deletes = [text for place, text in dataset.expressions() if place == "apply.delete_when"]
    return any(_is_envelope(dataset, path) for path in of_key) or any(_asks_envelope(dataset, text) for text in deletes)


def _asks_envelope(dataset: Dataset, text: str | None) -> bool:
    return text is not None and any(_is_envelope(dataset, path) for path in paths(parse(text)))


def _is_envelope(dataset: Dataset, path: Path) -> bool:
    in_value = () if dataset.value.envelope.in_headers else OF_ENVELOPE
    return path.root not in ("key", "value", *in_value)


def _bytes() -> Column:
    """The digest of key and value as they lie there."""
    parts = []
    for name in (E.KEY_BYTES, E.VALUE_BYTES):
        size = F.coalesce(F.octet_length(name).cast("string"), F.lit("~"))
        parts += [F.encode(F.concat(size, F.lit(":")), "UTF-8"), F.coalesce(F.col(name), F.lit(b""))]
    return F.unhex(F.sha2(F.concat(*parts), 256))
