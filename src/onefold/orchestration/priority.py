"""Whose task is taken first where a pool is full: the schedule's, before a backfill's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.plugins_manager import get_priority_weight_strategy_plugins
from airflow.task.priority_strategy import PriorityWeightStrategy, get_airflow_priority_weight_strategies
from airflow.utils.types import DagRunType

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance

_AHEAD = 1000
"""More than the steps of a run that come behind a task, by which Airflow weighs tasks otherwise."""


class BackfillLast(PriorityWeightStrategy):
    """As Airflow weighs tasks (by what waits behind them), and those of backfills behind all others.

    Airflow knows it by `plugins/onefold_plugin.py`.
    """

    def get_weight(self, ti: TaskInstance) -> int:
        """The weight of a task; the greater goes first."""
        weight = get_airflow_priority_weight_strategies()["downstream"]().get_weight(ti)
        return weight if DagRunType.from_run_id(ti.run_id) == DagRunType.BACKFILL_JOB else weight + _AHEAD

    def __repr__(self) -> str:
        """Without an address: Airflow keeps this text of a DAG's default arguments, and a new text is a new version."""
        return f"{type(self).__name__}()"


def weight_rule() -> PriorityWeightStrategy | str:
    """The rule, or Airflow's own where the plugin is not there: a DAG with a rule that is not known is refused."""
    known = BackfillLast in get_priority_weight_strategy_plugins().values()
    return BackfillLast() if known else "downstream"
