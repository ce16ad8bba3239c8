"""Instants as numbers. A producer may write any number, and Python says no instant outside the years 1 to 9999.

What lies beyond is shown as the first or the last instant that can be said: no number ends a command.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
FIRST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MILLISECOND
LAST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MILLISECOND
"""The first and the last millisecond that have an instant, since 1970."""


def clamped(millis: int) -> int:
    """The nearest milliseconds that have an instant."""
    return min(max(millis, FIRST), LAST)


def instant(millis: int) -> datetime:
    """The instant of milliseconds since 1970, or the nearest that there is."""
    return EPOCH + clamped(millis) * _MILLISECOND


def stamped(millis: int) -> datetime | None:
    """The instant of a record's timestamp; None: it has none, which Kafka says by -1."""
    return instant(millis) if millis >= 0 else None


def millis_from(at: datetime) -> int:
    """The first millisecond at or after an instant: what a record's timestamp must reach."""
    return -((EPOCH - at) // _MILLISECOND)


def rows_of(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of an Arrow table as Python's values; top-level dates and timestamps are the nearest that there are."""
    columns = [_told(table.column(number)) for number in range(table.num_columns)]
    return type(table).from_arrays(columns, names=table.schema.names).to_pylist()  # type: ignore[no-any-return]


def _told(column: Any) -> Any:
    import pyarrow as pa  # which most questions do without
    import pyarrow.compute as pc

    kind = column.type
    ends: tuple[date, date]
    if pa.types.is_timestamp(kind):
        zone = UTC if kind.tz else None
        ends, number = (datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)), pa.int64()
    elif pa.types.is_date32(kind):
        ends, number = (date.min, date.max), pa.int32()
    else:
        return column
    first, last = (pa.scalar(one, kind).cast(number) for one in ends)
    late_enough = pc.max_element_wise(column.cast(number), first, skip_nulls=False)
    return pc.min_element_wise(late_enough, last, skip_nulls=False).cast(kind)
