"""Instants as numbers, durations and spans as text. A producer may write any number; Python has years 1 to 9999.

What lies beyond is shown as the first or the last instant that can be said: no number ends a command.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

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


LONGEST = timedelta(days=365_000)
"""The longest duration: what is so long before today, or behind it, is an instant that Python can still say."""


def duration(text: Any) -> timedelta:
    """A duration of a dataset file or a command, such as 30s, 10m, 2h or 1d.

    Raises:
        ValueError: it is none, or longer than `LONGEST`.
    """
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,20}[smhd]", text):
        raise ValueError(f"{text!r} is no duration such as 30s, 10m, 2h or 1d")
    given = int(text[:-1]) * seconds[text[-1]]
    if given > LONGEST.total_seconds():
        raise ValueError(f"{text} is too long a duration (at most {LONGEST.days}d)")
    return timedelta(seconds=given)


Duration = Annotated[timedelta, BeforeValidator(duration)]
"""A duration in a model: text, as `duration` reads it."""


def in_utc(at: datetime) -> datetime:
    """An instant in UTC; without a zone it is in UTC already.

    Raises:
        ValueError: it lies in the first year that Python has, or in the last hundred: a schedule looks for instants
            before it, and for decades behind it.
    """
    if not 1 < at.year < 9900:
        raise ValueError(f"{at.isoformat()} is no instant of the years 2 to 9899")
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


def span_text(span: timedelta) -> str:
    """A span for people, by its two largest units that count."""
    left, parts = span // timedelta(milliseconds=1), []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def rows_of(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of an Arrow table as Python's values; top-level dates and timestamps are the nearest that there are, and
    maps are dictionaries."""
    columns = [_nearest(table.column(number)) for number in range(table.num_columns)]
    return type(table).from_arrays(columns, names=table.schema.names).to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]


def _nearest(column: Any) -> Any:
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
    first, last = (pa.scalar(end, kind).cast(number) for end in ends)
    late_enough = pc.max_element_wise(column.cast(number), first, skip_nulls=False)
    return pc.min_element_wise(late_enough, last, skip_nulls=False).cast(kind)
