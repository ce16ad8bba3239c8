"""A client of Airflow's REST API, for what starts an Airflow on this machine: the demo and the stack."""

from __future__ import annotations

from typing import Any

import httpx

HEALTHY = ("api-server", "scheduler", "dag-processor", "triggerer")
"""The services whose health the API server tells, its own first."""


class Api:
    """Airflow's API at a URL; `log_in` first."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def close(self) -> None:
        """Let go of its connections."""
        self.client.close()

    def health(self) -> dict[str, bool]:
        """Which services answer or have a heartbeat."""
        try:
            answer = self.client.get("/api/v2/monitor/health").json()
        except (httpx.HTTPError, ValueError):
            return dict.fromkeys(HEALTHY, False)
        beats = {name: (answer.get(name.replace("-", "_")) or {}).get("status") == "healthy" for name in HEALTHY}
        return beats | {"api-server": True}

    def log_in(self, user: str, password: str) -> None:
        """Take a token for the API."""
        answer = self.client.post("/auth/token", json={"username": user, "password": password})
        answer.raise_for_status()
        self.client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def has(self, dag: str) -> bool:
        """Whether the DAG has been read from its file."""
        return self.client.get(f"/api/v2/dags/{dag}").status_code == 200

    def unpause(self, dag: str) -> None:
        """Let the scheduler run the DAG."""
        self.client.patch(f"/api/v2/dags/{dag}", json={"is_paused": False}).raise_for_status()

    def trigger(self, dag: str, conf: dict[str, Any]) -> dict[str, Any]:
        """Start a run without a date; the run."""
        answer = self.client.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None, "conf": conf})
        answer.raise_for_status()
        return dict(answer.json())

    def run(self, dag: str, run_id: str) -> dict[str, Any] | None:
        """A run as it is now; None where a busy server does not answer (the next time will do)."""
        return self._get(f"/api/v2/dags/{dag}/dagRuns/{run_id}")

    def tasks(self, dag: str, run_id: str) -> list[dict[str, Any]]:
        """The task instances of a run as they are now; none where a busy server does not answer."""
        answer = self._get(f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances") or {}
        return list(answer.get("task_instances", []))

    def returned(self, dag: str, run_id: str, task: str) -> Any:
        """What a task of a run returned."""
        place = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/xcomEntries/return_value"
        answer = self.client.get(place, params={"deserialize": False})
        answer.raise_for_status()
        return answer.json()["value"]

    def _get(self, place: str) -> dict[str, Any] | None:
        try:
            answer = self.client.get(place)
        except httpx.HTTPError:
            return None
        return dict(answer.json()) if answer.status_code == 200 else None
