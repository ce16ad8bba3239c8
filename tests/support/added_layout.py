"""A layout that Onefold does not have, added as docs/development.md says: its files, and its row."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

import onefold.dataset.layouts
import onefold.draft.readers
import onefold.records.layouts

NAME = "tsv"
DATASET = """
import re
from onefold.dataset.layouts.layout import Layout

class TsvLayout(Layout):
    name = "tsv"
    names = re.compile(r"[.]tsv$")

TSV = TsvLayout()
"""
RECORDS = """
from pyspark.sql import functions as F
from onefold.records import envelope as E
from onefold.records.landed_objects import count_lines, literal, object_name
from onefold.records.layouts import LayoutReader

def read(batch):
    lines = batch.session.read.text(literal(uri for _, uri in batch.uris))
    part = F.split("value", "\\t")
    return lines.select(
        F.lit(None).cast("long").alias(E.TIMESTAMP),
        F.lit(batch.origin.cluster).alias(E.CLUSTER),
        part[0].alias(E.TOPIC),
        F.lit(batch.origin.incarnation).alias(E.INCARNATION),
        part[1].cast("int").alias(E.PARTITION),
        part[2].cast("long").alias(E.OFFSET),
        F.lit(None).cast("binary").alias(E.KEY_BYTES),
        part[3].cast("binary").alias(E.VALUE_BYTES),
        F.array().cast(E.HEADERS_TYPE).alias(E.HEADERS),
        object_name(F.col("_metadata.file_path"), batch.uris).alias(E.OBJECT),
        F.lit(None).cast("int").alias(E.LINE),
        F.lit(None).cast("string").alias(E.UNREADABLE),
        *E.not_shown(),
    )

def count(batch):
    return count_lines(batch.session, [uri for _, uri in batch.values])

READER = LayoutReader(read, count)
"""
DRAFT = """
from onefold.draft.readers.lines import read_lines
from onefold.draft.readers.reader import DraftReader
from onefold.kafka.record import Record

def record_of(line):
    topic, partition, offset, value = line.split(b"\\t")
    return Record(topic.decode(), int(partition), int(offset), None, None, value, ())

READER = DraftReader(
    objects="lines of tab separated values",
    reason="lines with topic, partition and offset",
    rank=99,
    read=lambda store, object_, companions: read_lines(store, object_, record_of),
)
"""


def line(offset: int, value: str) -> str:
    """A record of topic t, partition 0."""
    return f"t\t0\t{offset}\t{value}\n"


def add_layout(patch: pytest.MonkeyPatch, folder: Path, *, drafts: bool) -> None:
    """Add layout tsv until the test ends; with `drafts`, what `onefold init` needs, too."""
    added = [(onefold.dataset.layouts, DATASET), (onefold.records.layouts, RECORDS)]
    for package, text in [*added, (onefold.draft.readers, DRAFT)] if drafts else added:
        place = folder / "added" / package.__name__
        place.mkdir(parents=True)
        (place / f"{NAME}.py").write_text(text)
        patch.setattr(package, "__path__", [*package.__path__, str(place)])
        module = f"{package.__name__}.{NAME}"
        patch.setitem(sys.modules, module, package)  # so that it is removed when the test ends
        del sys.modules[module]
    layout = import_module(f"onefold.dataset.layouts.{NAME}").TSV
    patch.setitem(onefold.dataset.layouts.LAYOUTS, NAME, layout)
