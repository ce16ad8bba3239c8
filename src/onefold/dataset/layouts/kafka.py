"""Layout kafka: live topics as Onefold lands them, Parquet with a row a record. No export has it."""

from __future__ import annotations

import re

from onefold.dataset.layouts.layout import Layout


class KafkaLayout(Layout):
    """Written and read by Onefold only: `onefold.records.layouts.kafka` has the columns."""

    name = "kafka"
    names = re.compile(r"(?!)")  # there are no objects to look for
    exported = False

    @property
    def plural(self) -> str:
        """Its sources, in a sentence."""
        return "live topics"


KAFKA = KafkaLayout()
