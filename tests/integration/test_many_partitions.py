"""S6: a plan of a topic with very many partitions."""

from __future__ import annotations

import uuid

import pytest
from pyspark.sql import SparkSession

from onefold.lake import Lake
from onefold.landing.plan import RangesPlan
from sample.broker import Broker
from tests.support.topics import Topics, ranges

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly(reason="by day plans have some partitions, and the limit is asked"),
]
PARTITIONS = 5_000


def test_s6_five_thousand_partitions_are_planned(broker: Broker, lake: Lake, session: SparkSession) -> None:
    topics = Topics.on(broker.bootstrap, lake, session, f"wide-{uuid.uuid4().hex[:8]}")
    topics.create(PARTITIONS)
    try:
        for partition in (0, 17, PARTITIONS - 1):
            topics.send([1.0], partition, wait=300)  # the broker is still making them
        plan = topics.plan()
    finally:
        topics.delete()
    assert isinstance(plan, RangesPlan)
    found = {partition: end - start for (_, partition), (start, end) in ranges(plan).items() if end > start}
    assert found == {0: 1, 17: 1, PARTITIONS - 1: 1}
