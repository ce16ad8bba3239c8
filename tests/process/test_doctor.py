"""`onefold doctor` on an export: what its published batches show, and what only the cluster could tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onefold.diagnosis import diagnose, gather
from onefold.lake import Lake
from tests.support.project import Project, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark]


def test_duplicates_of_published_batches_name_the_setting_that_prevents_them(
    tmp_path: Path, session_on: Callable[[Lake], SparkSession]
) -> None:
    project = Project(tmp_path)
    session = session_on(project.lake)
    project.put("things/1.jsonl", [thing(0, "a"), thing(1, "b"), thing(1, "b"), thing(2, "a")])
    assert [run.red for run in project.run(session)] == [None]
    project.put("things/2.jsonl", [thing(2, "a"), thing(3, "c"), thing(4, "c")])
    assert [run.red for run in project.run(session)] == [None]

    facts = gather(project.lake, project.dataset())
    assert (facts.landed.batches, facts.landed.records) == (2, 7)
    assert facts.landed.duplicates() == {"position": 2, "message_id": 2}
    advice = {
        entry.finding.found: str(entry.finding.change or entry.finding.action)
        for entry in diagnose(facts).findings
        if entry.rule == "duplicates"
    }
    assert advice == {
        "2 duplicates, sent again (28.6% of 7 records)": (
            "enable.idempotence=true (and acks=all; and transactional.id: over restarts)"
        ),
        "1 duplicate, read again (14.3% of 7 records)": (
            "enable.auto.commit=false (and rotate.schedule.interval.ms=-1 (Connect's S3 sink))"
        ),
        "1 duplicate, written twice by the exporter (14.3% of 7 records)": (
            "The exporter: write an object under a new name and move it, or commit with the file."
        ),
    }
    done = project.onefold("doctor", "things")
    assert done.code == 0, done.err
    assert "2 duplicates, sent again" in done.out
    assert "An export tells nothing of the cluster" in done.out
