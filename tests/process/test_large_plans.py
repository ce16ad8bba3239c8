"""S6: a plan of as many objects as the setting allows by default."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.landing.plan import ObjectsPlan, plan_of


@pytest.mark.nightly
def test_s6_a_hundred_thousand_objects_are_planned(lake: Lake, dataset: Callable[..., Dataset]) -> None:
    exports = lake.settings.path("exports")
    exports.mkdir(parents=True, exist_ok=True)
    for number in range(lake.settings.max_plan_objects):
        (exports / f"t-{number}.jsonl").touch()
    plan = plan_batch(lake, dataset())
    assert isinstance(plan, ObjectsPlan)
    assert len(plan.objects) == lake.settings.max_plan_objects == 100_000
    assert plan_of(lake, plan.source, plan.batch) == plan
