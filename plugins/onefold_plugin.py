"""Onefold in Airflow: reports behind its login, as a menu entry and a tab of each run; priorities and timetable."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from onefold.orchestration.priority import BackfillLast
from onefold.orchestration.timetable import SettledTimetable

if TYPE_CHECKING:
    from fastapi import FastAPI

PREFIX = "/onefold"


class Reports:
    """The pages' application, built at the first request: all of Airflow loads plugins, one process serves."""

    @cached_property
    def app(self) -> "FastAPI":
        """The application, with Airflow's login and rights."""
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.core_api.security import GetUserDep

        from onefold.lake import Lake
        from onefold.orchestration.connections import load_connected
        from onefold.orchestration.runs import batch_of
        from onefold.ui.reports import reports_app

        def readable(user: GetUserDep) -> set[str]:
            """The DAGs that the user may read; 401 if no user is logged in."""
            return set(get_auth_manager().get_authorized_dag_ids(user=user, method="GET"))

        lake = Lake(load_connected())  # one lake for all requests: a bucket's client is expensive to create
        return reports_app(lambda: lake, readable, batch_of)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As ASGI wants it."""
        await self.app(scope, receive, send)


class OnefoldPlugin(AirflowPlugin):
    """What Airflow's UI shows of Onefold."""

    name = "onefold"
    priority_weight_strategies = [BackfillLast]  # noqa: RUF012
    timetables = [SettledTimetable]  # noqa: RUF012
    fastapi_apps = [{"app": Reports(), "url_prefix": PREFIX, "name": "Onefold reports"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Data quality",
            "href": f"{PREFIX.strip('/')}/",
            "destination": "nav",
            "url_route": "data-quality",
            "nav_top_level": True,
        },
        {
            "name": "Report",
            "href": f"{PREFIX.strip('/')}/runs/{{DAG_ID}}/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "onefold-report",
        },
    ]
