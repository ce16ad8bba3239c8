"""Upsert: of the highest version the last claim in the order; with `tie: last | first` that of the largest or smallest
offset, and the row is placeless where claims of its version are in several partitions."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dataset.modes.version import Version
from onefold.proof.expected import Expected
from onefold.tables import staging as C
from onefold.values.canonical import same_content
from onefold.vocabulary import RowState

_POSITION = ("cluster", "topic", "incarnation", "partition", "offset")
_SENT_BY, _LOWEST, _CLAIM = "_name", "_before", "_first"


def _sender(claims: DataFrame) -> Column:
    """By what a message is known, as text: its id, or its producer and sequence, which a producer that the log shows
    counts for each partition."""
    known = [F.concat(F.lit("id "), C.MESSAGE_ID)] if C.MESSAGE_ID in claims.columns else []
    if C.PRODUCER in claims.columns:
        name, epoch, sequence = (F.col(f"{C.PRODUCER}.{part}") for part in ("name", "epoch", "sequence"))
        where = F.concat_ws("/", *(F.col(f"{C.ORDER}.{part}") for part in ("cluster", "topic", "partition")))
        logged = F.concat_ws(" ", F.lit("log"), where, name, epoch, sequence)
        said = F.when(epoch < 0, F.concat_ws(" ", F.lit("said"), sequence, name)).otherwise(logged)
        known.append(F.when(F.col(C.PRODUCER).isNotNull(), said))
    return F.coalesce(*known)


class Rows(Expected):
    """Mode upsert, guard newer."""

    @property
    def version(self) -> Version:
        """What orders the versions of a key."""
        assert self.dataset.apply.version
        return self.dataset.apply.version

    def state(self) -> Column:
        """Live, where it is no delete and `target.where` is true of it."""
        if not self.dataset.where:
            return super().state()
        return F.when(F.col(C.DELETED), RowState.DELETED).otherwise(
            F.when(F.col(C.HIDDEN), RowState.HIDDEN).otherwise(RowState.LIVE)
        )

    @property
    def compared_columns(self) -> list[str]:
        """The version, and whether the row is placeless."""
        return [C.VERSION, *([C.PLACELESS] if self.dataset.ties_by_offset else [])]

    def first(self, claims: DataFrame) -> DataFrame:
        """Of messages that count once; with `_placeless`: whether the claims of a version are in more partitions than
        one."""
        claims = self.first_sent(claims)
        if self.dataset.ties_by_offset:
            of_version = Window.partitionBy(*C.row_key(self.dataset), C.VERSION)
            log = F.concat_ws("/", *(F.col(f"{C.ORDER}.{name}") for name in ("cluster", "partition", "topic")))
            claims = claims.withColumn(C.PLACELESS, F.size(F.collect_set(log).over(of_version)) > 1)
        return super().first(claims)

    def first_sent(self, claims: DataFrame) -> DataFrame:
        """The claims, without those of messages that were sent before: at a smaller version, or at a smaller place of
        that version (in the same partition, where offsets decide ties)."""
        if not self.dataset.versions_by_delivery:
            return claims
        named = claims.withColumn(_SENT_BY, _sender(claims))
        sent, others = (named.where(F.col(_SENT_BY).isNotNull() == is_known) for is_known in (True, False))
        names = [*self.by, _SENT_BY, C.compared(self.dataset)]
        same, place = [F.col(name) for name in names], [F.col(f"{C.ORDER}.{name}") for name in _POSITION]
        at = [F.col(name) for name in (C.TRUE_TIMESTAMP,) if name in claims.columns]
        by = F.struct(C.VERSION, F.coalesce(*at, F.col(f"{C.ORDER}.timestamp")), *place, C.HASH)
        if self.dataset.ties_by_offset:
            lowest = sent.groupBy(*names).agg(F.min(C.VERSION).alias(_LOWEST))
            sent = sent.join(lowest, names).where(F.col(C.VERSION) == F.col(_LOWEST))
            same += [F.col(f"{C.ORDER}.{name}").alias(f"_{name}") for name in ("cluster", "topic", "partition")]
            by = F.struct(*place, C.HASH)
        first = sent.groupBy(*same).agg(F.min_by(F.struct(*claims.columns), by).alias(_CLAIM))
        return first.select(f"{_CLAIM}.*").unionByName(others.drop(_SENT_BY))

    def wrong_messages(self, claims: DataFrame, messages: DataFrame) -> DataFrame | None:
        """By key, version, position and content."""
        if not self.dataset.versions_by_delivery:
            return None
        at, content = [*C.row_key(self.dataset), C.VERSION], C.compared(self.dataset)
        sides = []
        for rows, name in ((self.first_sent(claims), C.ORDER), (messages, f"table_{C.ORDER}")):
            places = [F.col(f"{C.ORDER}.{part}").alias(part) for part in _POSITION]
            given = [F.col(C.ORDER).alias(name), F.col(content).alias(name + content)]
            sides.append(rows.select(*at, *places, *given))
        mine, table = sides
        # What was folded before a field was added knows nothing of it.
        same = same_content(F.col(C.ORDER + content), F.col(f"table_{C.ORDER}{content}"))
        met = reduce(Column.__and__, (mine[part] == table[part] for part in (*at, *_POSITION)), same)
        found = mine.join(table, met, "full").where(mine[C.ORDER].isNull() | table[f"table_{C.ORDER}"].isNull())
        keys = [F.coalesce(mine[part], table[part]).alias(part) for part in at]
        return found.select(*keys, C.ORDER, f"table_{C.ORDER}")

    def preference(self) -> list[Column]:
        """The version, the order, then the hash."""
        parts = ["cluster", "topic", "incarnation", "partition", "offset"]
        parts = ["timestamp", *parts] if self.version.tie == "conflict" else [*parts, "timestamp"]
        order = [F.col(f"{C.ORDER}.{name}") for name in parts]
        own = [part.asc() if self.version.tie == "first" else part.desc() for part in order]
        return [F.col(C.VERSION).desc(), *own, F.col(C.HASH).asc()]
