"""The layouts in which records lie: objects of exports, and live topics as they are landed. One file a layout.

A layout's reader for Spark has the same name in `onefold.records.layouts`, its reader for `onefold init` in
`onefold.draft.readers`.
"""

from __future__ import annotations

from onefold.dataset.layouts.aiven import AIVEN, AivenOptions
from onefold.dataset.layouts.connect import CONNECT
from onefold.dataset.layouts.kafka import KAFKA
from onefold.dataset.layouts.kcat import KCAT
from onefold.dataset.layouts.layout import Layout, Role
from onefold.dataset.layouts.parquet import PARQUET, ParquetOptions
from onefold.dataset.layouts.segments import SEGMENTS

LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in (KCAT, CONNECT, AIVEN, PARQUET, SEGMENTS, KAFKA)}
"""Every layout, by its name."""
NOT_BUILT = {"avro": ": Avro objects of Kafka Connect are layout connect"}
"""Layouts of exports that a later version may know, and what to do until then."""


class LayoutOptions(AivenOptions, ParquetOptions):
    """The keys of `source.exports` that belong to one layout each."""


def export_layouts() -> list[str]:
    """The names of the layouts that an export may have."""
    return [name for name, layout in LAYOUTS.items() if layout.exported]


__all__ = ["LAYOUTS", "NOT_BUILT", "Layout", "LayoutOptions", "Role", "export_layouts"]
