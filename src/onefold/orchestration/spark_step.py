"""Spark steps as Airflow operators: submitted through a Spark connection, ended by their own errors."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import mask_secret, redact
from airflow.sdk import Asset, BaseHook, Connection, Context
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException
from pydantic import BaseModel

from onefold import lake_keys
from onefold.dataset import Dataset, find_dataset
from onefold.errors import SparkLostError, UsageError
from onefold.lake import Lake, new_attempt
from onefold.landing.plan import find_plan
from onefold.orchestration.connections import open_dataset, secret_variables, secrets_of
from onefold.orchestration.links import ReportLink, SparkLink
from onefold.processes import environment_of_spark
from onefold.settings import Settings
from onefold.spark.result import application_in, result_key, result_of
from onefold.spark.settings import address, class_path, session_settings

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from onefold.publish import Published


NO_BATCH = "all"
"""Given in place of a batch where a job is of the whole table."""
_GONE_WITHIN = 10.0
"""Seconds that are waited for a killed process: it has no say, the system only clears up behind it."""

_LAST_LINES, _LONGEST = 20, 300
"""How much of a lost process's output its error repeats: lines, and characters of each."""


class SparkLauncher(SparkSubmitOperator):
    """Runs a Spark step through the connection `conn_id`; `on_kill` ends the running step.

    With `history`, the address of Spark's history server, the task leads to its application there.
    """

    template_fields: Sequence[str] = ("dataset", "batch", "attempt")

    def __init__(
        self,
        *,
        dataset: str,
        batch: str,
        attempt: str | None = None,
        conn_id: str = "spark_default",
        history: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=conn_id, **kwargs)
        self.history = history
        if history:
            self.operator_extra_links = (*self.operator_extra_links, SparkLink())
        self.dataset, self.batch, self.attempt = dataset, batch, attempt
        self.given_conf = dict(self.conf or {})
        self.spark_id: str | None = None
        self._environment: dict[str, str] = {}
        self._last: deque[str] = deque(maxlen=_LAST_LINES)

    def launch(self, context: Context, lake: Lake, step: str, batch: str, attempt: str, *more: str) -> dict[str, Any]:
        """Run a step, with `more` arguments if it takes any; its document.

        Raises:
            UsageError: there is no such connection, it names no master, or Spark cannot be submitted through it.
            SparkLostError: the process ended without a result of its own, or by a signal.
            OnefoldError: the error that the step ended with.
        """
        connection = self._connection()
        key = result_key(self.dataset, batch, attempt, step)
        before = lake.storage.stat(key)
        self.name = f"onefold {step} {self.dataset} {batch}"
        self.application = str(application_of(step))
        self.application_args = ["--dataset", self.dataset, "--batch", batch, "--attempt", attempt, *more]
        master = connection.host or ""
        self.conf = {**session_settings(lake, self._small(lake, step, batch), master), **self.given_conf}
        self._spark_binary = self._spark_binary or spark_binary(connection)
        # Not as `env_vars`: on YARN and Kubernetes the provider writes these into the command line.
        self._environment = environment_of_spark(
            driver_environment(connection, lake, self.given_conf) | secret_environment(connection, lake.settings)
        )
        for secret in secrets_of(lake):
            mask_secret(secret)
        self._hook = None  # one hook a submission: it keeps what on_kill must end
        try:
            super().execute(context)
        except FileNotFoundError as error:  # of a program, before it runs
            raise UsageError(
                f"the Airflow connection {self._conn_id!r}: there is no program {error.filename} on this machine's "
                "PATH. Nothing was started."
            ) from error
        except AirflowException as error:
            # An older result is not this process's, and what a driver says whose JVM was killed under it is no cause.
            if lake.storage.stat(key) == before or self._was_killed():
                raise SparkLostError(step, batch, tuple(_shown(line) for line in self._last)) from error
        return result_of(lake, self.dataset, batch, attempt, step)

    def _was_killed(self) -> bool:
        """Whether a signal ended what was submitted, or (128 and more, as shells have it) a program that it started."""
        submitted = getattr(self._hook, "_submit_sp", None)
        code = submitted.poll() if submitted else None
        return code is not None and not 0 <= code <= 128

    def _get_hook(self) -> SparkSubmitHook:
        """The provider's, whose process has an environment of Spark's own, and its last lines kept as they are read.

        Airflow's loggers are no place to listen: in a task they write to its log themselves, past any handler.

        Raises:
            UsageError: the provider refuses what the connection says, or Spark would.
        """
        try:
            hook = super()._get_hook()
        except (AirflowException, ValueError, RuntimeError) as error:
            raise UsageError(f"the Airflow connection {self._conn_id!r}: {error}. Nothing was started.") from error
        master = hook._connection["master"]
        if hook._connection["deploy_mode"] == "cluster" and master.startswith(("local", "spark://")):
            raise UsageError(
                f"the Airflow connection {self._conn_id!r} says deploy-mode cluster, which Spark does not have for "
                f"programs in Python on {master}. Nothing was started. Use deploy-mode client."
            )
        submit, read = hook.submit, hook._process_spark_submit_log
        self._last.clear()
        setattr(hook, submit.__name__, partial(submit, env=self._environment))
        setattr(hook, read.__name__, lambda lines: read(self._noted(lines)))
        return hook

    def _noted(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines, each kept that is not empty; one of them says which application it is."""
        for line in lines:
            if line.strip():
                self._last.append(line.strip())
                self.spark_id = application_in(line) or self.spark_id
            yield line

    def _small(self, lake: Lake, step: str, batch: str) -> bool:
        """Whether the step is over before a JVM has warmed up; maintenance and a rebuild read whole tables."""
        if step in ("maintain", "rebuild"):
            return False
        from onefold.generation import settle
        from onefold.operations.job_size import all_small  # it opens tables; a DAG is parsed without

        dataset = settle(lake, find_dataset(lake.settings.datasets_folder, self.dataset))
        return all_small(lake, dataset, [find_plan(lake, dataset, batch)])

    def on_kill(self) -> None:
        """End Spark: what was submitted, and with it every process that it has started on this machine.

        The JVM's driver and workers are processes of their own; a process that outlives it could still leave a result.
        """
        if self._hook is None:  # nothing was started
            return
        submitted = getattr(self._hook, "_submit_sp", None)
        family = _family(submitted.pid) if submitted and submitted.poll() is None else []
        super().on_kill()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family[1:], timeout=_GONE_WITHIN)  # the submitter reads the end of the first

    def _connection(self) -> Connection:
        try:
            connection = BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            raise UsageError(
                f"there is no Airflow connection {self._conn_id!r}, which says where Spark runs. Nothing was "
                "started. Add it (type Spark, host local[*] or spark://host:7077), or set "
                f"AIRFLOW_CONN_{self._conn_id.upper()}."
            ) from None
        if not connection.host and connection.conn_type != "yarn":
            raise UsageError(
                f"the Airflow connection {self._conn_id!r} names no host, so no Spark master. Nothing was started."
            )
        return connection


class Submitted:
    """The `StepLauncher` of a task: each step is a spark-submit of the task's operator."""

    def __init__(self, operator: SparkLauncher, context: Context, lake: Lake) -> None:
        self.operator, self.context, self.lake = operator, context, lake

    def run(self, step: str, dataset: Dataset, batch: str, attempt: str | None = None) -> BaseModel:
        """Submit a step and wait for it; its document.

        Raises:
            SparkLostError: the process ended without a result.
            OnefoldError: the error that the step ended with.
        """
        from onefold.quality.documents import GateResult
        from onefold.upsert.documents import Upserted

        documents: dict[str, type[BaseModel]] = {"upsert": Upserted, "gate": GateResult}
        document = self.operator.launch(self.context, self.lake, step, batch, attempt or new_attempt())
        return documents[step].model_validate(document)


class SparkStepOperator(SparkLauncher):
    """One step of one batch in Spark; the attempt it made is its XCom."""

    ui_color = "#fdf1e3"
    operator_extra_links = (ReportLink(),)

    def __init__(self, *, step: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.step = step

    def execute(self, context: Context) -> str:  # type: ignore[override]
        """Run the step; the attempt that counts for the batch (upsert may find a published attempt)."""
        attempt = self.attempt or new_attempt()
        lake, _ = open_dataset(self.dataset)
        document = self.launch(context, lake, self.step, self.batch, attempt)
        return str(document.get("attempt") or attempt)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """The gate's checks, where OpenLineage's provider is there to ask; green or red."""
        del task_instance
        if self.step != "gate":
            return None
        from onefold.orchestration.lineage import judgement

        assert self.attempt is not None
        return judgement(*open_dataset(self.dataset), self.batch, self.attempt)


class PublishOperator(SparkLauncher):
    """Moves `main` to the audited head. Spark starts only where `main` has moved since upsert."""

    ui_color = "#e3f5e6"
    operator_extra_links = (ReportLink(),)
    published: Published | None = None

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Publish the attempt; what was published, also as the asset event's extra."""
        from onefold.publish import publish_batch
        from onefold.publish.lease import lease

        lake, dataset = open_dataset(self.dataset)
        submitted = Submitted(self, context, lake)
        assert self.attempt is not None
        with lease(lake, dataset):
            published = publish_batch(lake, dataset, self.batch, self.attempt, submitted)
        extra: dict[str, Any] = {
            "batch": published.batch,
            "snapshot": published.snapshot,
            "counts": published.counts,
            "already": published.already,
            "report": lake.where(lake_keys.report(dataset.name, published.batch, "html")),
        }
        self.announce(context, lake, dataset, published, extra)
        self.published = published
        at = published.at.isoformat()
        return {**extra, "attempt": published.attempt, "record": published.record, "at": at}

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Where the batch came from and went, where OpenLineage's provider is there to ask."""
        del task_instance
        if self.published is None:  # it failed
            return None
        from onefold.orchestration.lineage import publication

        return publication(*open_dataset(self.dataset), self.published)

    def announce(
        self, context: Context, lake: Lake, dataset: Dataset, published: Published, extra: dict[str, Any]
    ) -> None:
        """Give the asset event its extra."""
        del lake, dataset, published
        (outlet,) = self.outlets
        assert isinstance(outlet, Asset)
        context["outlet_events"][outlet].extra = extra


def _shown(line: str) -> str:
    """A line of output as an error may repeat it to any reader."""
    return str(redact(line))[:_LONGEST]


def _family(pid: int) -> list[psutil.Process]:
    """A process and all that descend from it."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def application_of(step: str) -> Path:
    """The file that spark-submit runs for a step, found without importing pyspark."""
    found = importlib.util.find_spec("spark_jobs")
    if found is None or found.origin is None:
        raise UsageError("spark_jobs is not installed here: install onefold, or put it on PYTHONPATH")
    return Path(found.origin).with_name(f"{step}.py")


def spark_binary(connection: Connection) -> str | None:
    """The spark-submit next to this Python; None where the connection names another or PATH has it."""
    if connection.extra_dejson.get("spark-binary") or shutil.which("spark-submit"):
        return None
    return str(Path(sysconfig.get_path("scripts")) / "spark-submit")


def driver_environment(connection: Connection, lake: Lake, conf: Iterable[str] = ()) -> dict[str, str]:
    """The driver's Python and jars, where the driver and its executors run on machines such as this one: this Python,
    and our jars. `conf`: the names of what the submission is given on top of the lake's settings."""
    master = f"{connection.conn_type} {connection.host or ''}"
    if _elsewhere(connection) or "yarn" in master or "k8s" in master:
        return {}
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return {"PYSPARK_PYTHON": python, **class_path(lake, conf), **address(connection.host or "")}


def secret_environment(connection: Connection, settings: Settings) -> dict[str, str]:
    """The variables by which a driver on this machine gets what connections hold, and the key of masks. A driver on
    another machine would get it by the command line, which everybody may read.

    Raises:
        UsageError: the driver runs on another machine, and no secret of Kubernetes has it.
    """
    given = secret_variables(settings)
    if given and _elsewhere(connection):
        variables = [f"spark.kubernetes.driver.secretKeyRef.{name}" for name in given]
        if not all(name in settings.spark_conf for name in variables):
            raise UsageError(
                f"the Airflow connection {connection.conn_id!r} says deploy-mode cluster: the settings of Kafka and "
                "S3 and the key of masks, passwords too, would be in spark-submit's command line. Nothing was "
                "started. Use deploy-mode client, or, on Kubernetes, keep them in a secret and name it in spark_conf: "
                f"{', '.join(variables)}."
            )
        return {}
    return given


def _elsewhere(connection: Connection) -> bool:
    return connection.extra_dejson.get("deploy-mode") == "cluster"
