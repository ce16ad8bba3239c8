"""Which code judged a staged batch: staging by other code is not used. Knows no pyspark."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from onefold.dataset import Dataset


def judged_by(dataset: Dataset) -> str:
    """What judges a record now."""
    return judge_of(code_digest(), dataset.shape)


def judge_of(code: str, shape: str) -> str:
    """What judges a record: the code's digest and, where fields were changed in place, theirs."""
    return f"{code}-fields-{shape}" if shape else code


JUDGING = (
    "dataset", "formats", "tables", "records", "values", "folding", "dedup",
    "instants.py", "offsets.py", "vocabulary.py", "landing/log_segments.py", "schemas/kept.py",
    "spark/strict_json.py", "spark/flat_structs.py", "spark/offset_ranges.py", "spark/python_tasks.py",
    "spark/slots.py",
    "kafka/batch_records.py", "kafka/record_batches.py", "kafka/segment_index.py", "kafka/transactions.py",
)  # fmt: skip
"""The packages and modules that can change a verdict of dedup: staging by other code is not used."""


@cache
def code_digest() -> str:
    """Twelve hex digits over the source that judges a record (`JUDGING`)."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for place in JUDGING:
        below = root / place
        for file in sorted(below.rglob("*.py")) if below.is_dir() else [below]:
            digest.update(f"{file.relative_to(root).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]
