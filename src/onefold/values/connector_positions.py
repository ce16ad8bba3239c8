"""The position of a change in its database, as numbers that order the changes of a key.

What orders follows Debezium's documentation, and for PostgreSQL and MariaDB recordings of real connectors:

| database | major | minor | step |
| --- | --- | --- | --- |
| PostgreSQL | first part of `sequence`, else -1 | 1; 0 of a read | its second part; 0 of a read with a first |
| MySQL, MariaDB | number of `file` | `pos` | `row` |
| SQL Server | `commit_lsn` | `change_lsn` | `event_serial_no` |
| Oracle | `commit_scn`, of a read its `scn` | `scn` | `ssn` |
| MongoDB | `ts_ms` | `ord` | 0 |

`source` is the kind of database times 2³², and of MySQL and MariaDB the server's id. A change has no position where
what tells its place is unknown: of PostgreSQL `op`, of MySQL and MariaDB `server_id`, of Oracle `commit_scn`, but for a
read. Spark's columns; no engine else.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.envelopes import OP, Attribute

_NUMBER = "decimal(38,0)"
_SEQUENCE = r'^\[(?:null|"?(\d{1,30})"?), ?"?(\d{1,30})"?\]\z'
_FILE = r"\.(\d{1,18})\z"
POSTGRES, MYSQL, SQL_SERVER, ORACLE, MONGODB = range(1, 6)
SERVERS = 32
"""Bits of `source` that are the server's id."""


def position_part(
    name: str, attribute: Callable[[Attribute], Column], hexadecimal: Callable[[Column], Column]
) -> Column:
    """A part of a change's position (`onefold.dataset.envelopes.ORDER_PARTS`); null where it has none.

    Args:
        name: the part.
        attribute: what the envelope says, as text.
        hexadecimal: digits as a number.
    """

    def source(of: str) -> Column:
        return attribute(("source", of))

    sequence, op = source("sequence"), attribute(OP)
    is_read = F.coalesce(op == "r", F.lit(False))
    first, second = (_number(F.regexp_extract(sequence, _SEQUENCE, group)) for group in (1, 2))
    below, nothing = F.lit(-1).cast(_NUMBER), F.lit(0).cast(_NUMBER)
    file, commit, scn = _number(F.regexp_extract(source("file"), _FILE, 1)), source("commit_lsn"), source("scn")
    of_kind: dict[int, tuple[Column, dict[str, Column]]] = {
        POSTGRES: (
            sequence.rlike(_SEQUENCE) & op.isNotNull(),  # a snapshot's row has a place of its own
            {
                "major": F.coalesce(first, below),
                "minor": F.when(is_read, nothing).otherwise(F.lit(1).cast(_NUMBER)),
                "step": F.when(is_read & first.isNotNull(), nothing).otherwise(second),
            },
        ),
        SQL_SERVER: (
            hexadecimal(commit).isNotNull(),
            {
                "major": hexadecimal(commit),
                "minor": F.coalesce(hexadecimal(source("change_lsn")), below),
                "step": F.coalesce(_number(source("event_serial_no")), below),
            },
        ),
        ORACLE: (
            _number(scn).isNotNull() & (is_read | _number(source("commit_scn")).isNotNull()),
            {
                "major": F.coalesce(_number(source("commit_scn")), _number(scn)),
                "minor": _number(scn),
                "step": F.coalesce(_number(source("ssn")), below),
            },
        ),
        MYSQL: (
            file.isNotNull() & _number(source("pos")).isNotNull() & _number(source("server_id")).isNotNull(),
            {"major": file, "minor": _number(source("pos")), "step": F.coalesce(_number(source("row")), nothing)},
        ),
        MONGODB: (
            _number(source("ord")).isNotNull(),
            {"major": _number(source("ts_ms")), "minor": _number(source("ord")), "step": nothing},
        ),
    }
    found = F.lit(None).cast(_NUMBER)
    for kind, (is_kind, parts) in reversed(of_kind.items()):
        if name == "source":
            server = _number(source("server_id")) if kind == MYSQL else nothing
            part = (F.lit(kind << SERVERS).cast(_NUMBER) + server).cast(_NUMBER)
        else:
            part = parts[name]
        found = F.when(F.coalesce(is_kind, F.lit(False)), part).otherwise(found)
    return found


def _number(text: Column) -> Column:
    """Digits as a number; null where they are none."""
    return F.when(text.rlike(r"^\d{1,38}\z"), text.try_cast(_NUMBER))
