"""The records of an export's objects for a draft, newest first: one file a layout, found by the layout's name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from onefold.dataset.layouts import export_layouts
from onefold.draft.readers.reader import DraftReader


def reader_of(layout: str) -> DraftReader | None:
    """The reader of a layout: the constant `READER` of the module here that has the layout's name. None: there is no
    such module, and `onefold init` does not read the layout."""
    name = f"{__name__}.{layout}"
    reader: DraftReader | None = import_module(name).READER if find_spec(name) else None
    return reader


def readers() -> dict[str, DraftReader]:
    """The readers of the layouts of exports that have a reader, by the layout's name."""
    return {layout: reader for layout in export_layouts() if (reader := reader_of(layout))}
