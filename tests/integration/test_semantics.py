"""docs/semantics.md, run as it is written, against a real broker: its blocks assert what Onefold counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onefold.lake import Lake
from onefold.operations.in_process import InSession
from sample.semantics import PAGE, Counted, lesson, teach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1200)]


@pytest.mark.nightly(reason="what producers and brokers do changes with their releases, and no rule of Onefold's")
def test_the_page_counts_what_each_promise_keeps(session: SparkSession, lake: Lake) -> None:
    said: list[str] = []
    with lesson(lake, InSession(lake, session)) as given:
        names = teach(PAGE.read_text(), given, said.append)
        assert given.lost == 4  # the faults were real: one acknowledgement for each promise
    counted = {name: of for name, of in names.items() if isinstance(of, Counted)}
    assert list(counted) == [
        "at_most_once",
        "at_least_once",
        "exported",
        "idempotent",
        "read_twice",
        "restarted",
        "transactional",
        "pressed",
    ]
    # Blocks that assert nothing would pass: each batch has an assertion of its verdicts.
    assert all(f"{name}.verdicts" in PAGE.read_text() for name in counted)
    assert [line for line in said if not line.startswith(" ")][:2] == ["At most once", "At least once"]
