"""Layout connect: objects of Kafka Connect's S3 sink. Values, keys and headers lie in objects of their own.

Records do not carry their offsets: an offset is inferred from the object's name and the record's place in it.
"""

from __future__ import annotations

import re

from onefold.dataset.layouts.layout import Layout, Role

_FORMATS = r"(?:\.json(?:\.gz)?|\.avro|(?:\.(?:snappy|gz|zstd|lz4|br))?\.parquet)$"
"""How objects of the sink end, by format and compression."""
_TOMBSTONES = re.compile(rf"(?:^|/)tombstone/[^/]+\.keys{_FORMATS}")
_ROLES: dict[str, Role] = {".keys": "keys", ".headers": "headers"}


class ConnectLayout(Layout):
    """Objects called `<topic>+<partition>+<first offset>.json`, with companions `….keys.json`, `….headers.json`."""

    name = "connect"
    names = re.compile(
        rf"(?:^|/)(?P<topic>[^/+]+)\+(?P<partition>\d+)\+(?P<start>\d+)(?P<role>\.keys|\.headers)?{_FORMATS}"
    )
    exact = False
    holds_bytes = False

    def role_of(self, name: str) -> Role | None:
        """What an object holds; keys of records without a value are values, for no others belong to them."""
        match = self.names.search(name)
        if not match:
            return None
        return "values" if is_tombstones(name) else _ROLES.get(match["role"] or "", "values")

    def group_of(self, name: str) -> str:
        """The name without role and format: formats of companions may differ."""
        return re.sub(rf"(?:\.keys|\.headers)?{_FORMATS}", "", name)


CONNECT = ConnectLayout()


def is_tombstones(name: str) -> bool:
    """Whether an object holds the keys of records without a value, and represents these records.

    The sink writes them into a folder of their own (`behavior.on.null.values=write`, `tombstone.encoded.partition`).
    """
    return bool(_TOMBSTONES.search(name))
