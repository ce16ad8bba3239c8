"""What a message of a key is known by, where a delivery decides: never the identity itself."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.decisions.marks import DIGEST
from onefold.folding.positions import place_of
from onefold.tables import staging as C


def message_digest(key: Column, columns: Sequence[str]) -> Column:
    """16 bytes of a digest of key and message id, or, where that is null, of key and producer's sequence (of a producer
    that the log shows, in its partition). Null where a record has neither. Content is no part of it: a field that is
    declared later would change it."""
    message = F.col(C.MESSAGE_ID) if C.MESSAGE_ID in columns else F.lit(None).cast("string")
    sequence = F.lit(None).cast("string")
    if C.PRODUCER in columns:
        sent = F.col(C.PRODUCER)
        named = F.concat_ws(" ", sent["sequence"].cast("string"), sent["name"])
        logged = F.concat_ws(" ", sent["epoch"].cast("string"), place_of(F.col(C.ORDER)), named)
        sequence = F.when(sent.isNotNull(), F.when(sent["epoch"] < 0, named).otherwise(logged))
    text = F.coalesce(F.concat(F.lit("m"), message), F.concat(F.lit("p"), sequence))
    return F.unhex(F.substring(F.sha2(F.concat(key, F.encode(text, "UTF-8")), 256), 1, 2 * DIGEST))
