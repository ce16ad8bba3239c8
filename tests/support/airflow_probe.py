"""What tests ask of Airflow, as a process: `airflow_probe.py FUNCTION [WORD…]` prints one line of JSON.

`airflow_probe.py forked` imports Airflow once and answers question after question, each in a fork of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

HEAVY = ("pyspark", "great_expectations", "pyiceberg", "pandas", "pyarrow")


def parsing() -> dict[str, Any]:
    """What reading the DAG files loads, beyond Airflow itself."""
    from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, Param, task  # noqa: F401

    import dags.onefold_datasets as file

    for other in ("onefold_decide", "onefold_housekeeping", "onefold_invalid_datasets"):
        importlib.import_module(f"dags.{other}")
    return {"heavy": [name for name in HEAVY if name in sys.modules], "dags": sorted(file.dags)}


def reading(file: str) -> dict[str, Any]:
    """What reading a file of `dags/` opens and loads, as the interpreter itself reports it."""
    opened: list[str] = []
    asked: list[str] = []

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and str(args[0]).endswith(".yaml"):
            opened.append(Path(str(args[0])).name)
        if event in ("socket.connect", "socket.getaddrinfo"):
            asked.append(str(args))

    import airflow.sdk
    import airflow.utils.session  # noqa: F401  # it opens files of its own

    sys.addaudithook(watch)
    start = time.process_time()
    read = importlib.import_module(f"dags.{file}")
    seconds = time.process_time() - start
    return {
        "opened": opened,
        "asked": asked,
        "heavy": [name for name in HEAVY if name in sys.modules],
        "dags": sorted(getattr(read, "dags", {})),
        "seconds": seconds,
    }


def bag() -> dict[str, Any]:
    """The DAGs and import errors that Airflow finds in the DAGs folder."""
    from airflow.dag_processing.dagbag import DagBag

    found = DagBag(bundle_name="dags-folder")
    return {"dags": {name: _facts(dag) for name, dag in found.dags.items()}, "errors": found.import_errors}


def _facts(dag: Any) -> dict[str, Any]:
    return {
        "owner": dag.owner,
        "tags": sorted(dag.tags),
        "doc": dag.doc_md,
        "description": dag.description,
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "start": dag.start_date.isoformat(),
        "timetable": type(dag.timetable).__name__,
        "params": list(dag.params),
        "described": [name for name in dag.params if dag.params.get_param(name).description],
        "enums": {name: param.get("enum") for name in dag.params if (param := dag.params.get_param(name).schema)},
        "tasks": [task.task_id for task in dag.topological_sort()],
        "links": {task.task_id: [link.name for link in task.operator_extra_links] for task in dag.tasks},
        "edges": sorted(f"{task.task_id}>{below}" for task in dag.tasks for below in task.downstream_task_ids),
        "pools": {task.task_id: task.pool for task in dag.tasks},
        "timeouts": sorted({task.execution_timeout.total_seconds() for task in dag.tasks}),
        "weight_rules": sorted({_named(task.weight_rule) for task in dag.tasks}),
        "retries": {task.task_id: task.retries for task in dag.tasks},
        "by_cause": [task.task_id for task in dag.tasks if task.retry_policy is not None],
        "outlets": {task.task_id: [asset.name for asset in task.outlets] for task in dag.tasks if task.outlets},
        "max_active_tasks": dag.max_active_tasks,
        "approval": next((_approval(task) for task in dag.tasks if task.task_id == "approve"), None),
        "teardowns": [task.task_id for task in dag.tasks if task.is_teardown],
    }


def addresses() -> dict[str, Any]:
    """What of the DAGs, as Airflow keeps them, names a place in memory: another one at each reading."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    found = DagBag(bundle_name="dags-folder").dags
    kept = json.dumps([DagSerialization.to_dict(dag) for dag in found.values()], default=str)
    return {"dags": len(found), "addresses": re.findall(r"<[^<>]* at 0x[0-9a-f]+>", kept)}


def _named(rule: Any) -> str:
    return rule if isinstance(rule, str) else type(rule).__name__


def _approval(task: Any) -> dict[str, Any]:
    return {"defaults": task.defaults, "seconds": task.response_timeout.total_seconds()}


def retries() -> dict[str, Any]:
    """What the retry policy says to each error class."""
    from onefold import errors
    from onefold.orchestration.retries import by_cause

    policy = by_cause(timedelta(minutes=10))

    def decide(kind: type[BaseException]) -> str:
        return policy.evaluate(kind.__new__(kind), try_number=1, max_tries=2).action.value

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    delay = policy.evaluate(errors.NotSettledError("", "", ""), try_number=1, max_tries=2).retry_delay
    settled = {"seconds to settle": delay.total_seconds() if delay else None}
    return {kind.__name__: decide(kind) for kind in (*kinds, ValueError)} | settled


def weights() -> dict[str, Any]:
    """What the scheduler weighs each task of a dataset by, in a run of the schedule, of a person and of a backfill."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.serialization.serialized_objects import DagSerialization

    from dags.onefold_datasets import dags

    known = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dags["accounts"]))
    return {
        kind: {
            task.task_id: TaskInstance(task=task, run_id=f"{kind}__2026-01-01", dag_version_id=None).priority_weight
            for task in known.tasks
        }
        for kind in ("scheduled", "manual", "backfill")
    }


def boundaries(cases: str) -> dict[str, Any]:
    """Of each cron, zone, start and number: the intervals that Airflow would run, and our own boundaries."""
    return {"found": [_boundaries(*case) for case in json.loads(cases)]}


def _boundaries(cron: str, timezone: str, start: str, number: int) -> dict[str, Any]:
    from datetime import datetime
    from itertools import islice

    import pendulum
    from airflow.timetables.base import TimeRestriction
    from airflow.timetables.interval import CronDataIntervalTimetable

    from onefold.dataset.schedule import Schedule

    timetable = CronDataIntervalTimetable(cron, timezone=timezone)
    limits = TimeRestriction(earliest=pendulum.parse(start), latest=None, catchup=True)
    run, found = None, []
    for _ in range(number):
        info = timetable.next_dagrun_info(last_automated_data_interval=run, restriction=limits)
        run = info.data_interval
        found.append([run.start.in_timezone("UTC").isoformat(), run.end.in_timezone("UTC").isoformat()])
    schedule = Schedule(cron=cron, timezone=timezone, start=datetime.fromisoformat(start))
    ours = islice(schedule.instants(datetime.fromisoformat(found[0][0])), number)
    return {"airflow": found, "ours": [found[0][0], *(at.isoformat() for at in ours)]}


def settled(cron: str, timezone: str, seconds: str, *instants: str) -> dict[str, Any]:
    """The intervals that a scheduler would run which looks at these instants, and when it may run them."""
    import pendulum
    from airflow.serialization.decoders import decode_timetable
    from airflow.serialization.encoders import encode_timetable
    from airflow.timetables.base import TimeRestriction

    from onefold.dataset.schedule import Schedule
    from onefold.orchestration import timetable

    start = pendulum.parse("2026-01-01T00:00:00Z")
    schedule = Schedule(cron=cron, timezone=timezone, start=start, settle=timedelta(seconds=int(seconds)))
    made = encode_timetable(timetable.timetable_of(schedule))
    limits, run, found = TimeRestriction(earliest=start, latest=None, catchup=False), None, []
    for instant in instants:
        timetable.utcnow = lambda at=instant: pendulum.parse(at)
        info = decode_timetable(made).next_dagrun_info(last_automated_data_interval=run, restriction=limits)
        run = info.data_interval
        shown = (run.start, run.end, info.run_after)
        found.append([f"{at.in_timezone('UTC'):%d %H:%M}" for at in shown])
    return {"found": found}


def messages() -> dict[str, Any]:
    """The message about a task that ended with each of these."""
    from types import SimpleNamespace

    from onefold import errors
    from onefold.orchestration.notify import message_of

    checks = ("conflicts: found 1, wanted at most 0", "status: found <b>{{ 7 * 7 }}</b>")
    ends: dict[str, BaseException | None] = {
        "red": errors.GateRedError("accounts", "b_1", checks, "/lake/report.html"),
        "loss": errors.DataLossError("accounts", "b_1", checks[:1], "/lake/report.html"),
        "lost": errors.SparkLostError("dedup", "b_1", ("no more memory", "<end>")),
        "other": ValueError("a & b"),
        "killed": None,
    }
    task, dag = SimpleNamespace(task_id="dedup"), SimpleNamespace(dag_id="accounts")
    found = {
        name: message_of({"exception": error, "task": task, "ti": task, "dag": dag}) for name, error in ends.items()
    }
    maintain = SimpleNamespace(task_id="accounts.maintain", dataset="accounts", batch="all")
    gone = errors.SparkLostError("maintain", "all")
    found["maintain"] = message_of({"exception": gone, "task": maintain, "ti": maintain, "dag": dag})
    asked = {"params": {"dataset": "orders"}, "exception": errors.UsageError("no"), "task": task, "ti": task}
    found["decide"] = message_of({**asked, "dag": SimpleNamespace(dag_id="onefold_decide")})
    return {
        name: {"subject": message.subject, "text": message.text, "html": message.html, "batch": message.batch}
        for name, message in found.items()
    }


def figures() -> dict[str, Any]:
    """The figures of a batch with an interval, when it was just published, and when it was not."""
    from datetime import UTC, datetime

    from onefold.landing.plan import Interval
    from onefold.orchestration.metrics import figures_of
    from onefold.report.document import Report
    from onefold.upsert.coverage import PartitionAccount

    end = datetime(2026, 3, 1, 6, tzinfo=UTC)
    account = PartitionAccount(
        partition="t-0", start=0, end=20, distinct=13, quarantined=0, explained={}, unexplained=[(3, 5), (9, 14)]
    )
    report = Report.model_construct(
        landed=13,
        counts={
            "applied": {"insert": 4, "replace": 2},
            "duplicate": {"position": 3, "key_version": 1},
            "rejected": {"undecodable": 1},
            "conflict": {"same_version": 2},
        },
        findings=1,
        accounts=[account],
        held=0,
        status="published",
        interval=Interval(start=end - timedelta(hours=1), end=end),
    )
    newest = int((end - timedelta(seconds=30)).timestamp() * 1000)
    return {
        "published": figures_of(report, end + timedelta(seconds=90), newest),
        "again": figures_of(report, None, newest),
    }


def intervals() -> dict[str, Any]:
    """The interval of a dated, a date-less, an empty and an export run, by the instants that Airflow gives."""
    import pendulum

    from onefold.orchestration.interval import interval_of

    start, end = pendulum.datetime(2026, 1, 1, 6, tz="Europe/Berlin"), pendulum.datetime(2026, 1, 1, 6)
    dated = {"data_interval_start": start, "data_interval_end": end, "params": {"export": None}}
    contexts: dict[str, dict[str, Any]] = {
        "dated": dated,
        "dateless": {"params": {"export": None}},
        "empty": dated | {"data_interval_end": start},
        "export": dated | {"params": {"export": "folder"}},
    }
    found = {name: interval_of(context) for name, context in contexts.items()}
    kinds = {type(at).__module__ for interval in found.values() if interval for at in (interval.start, interval.end)}
    return {name: interval.name if interval else None for name, interval in found.items()} | {"kinds": sorted(kinds)}


def run(dag_id: str, conf: str, retries: str = "") -> dict[str, Any]:
    """Run a DAG once, without a date, with real spark-submit; the outcome."""
    from onefold.orchestration import dataset_names

    dag = _dag(dag_id)
    for task in dag.tasks:
        task.retries = int(retries or task.retries)
    done = dag.test(logical_date=None, run_conf=json.loads(conf))
    tasks = {instance.task_id: str(instance.state) for instance in done.get_task_instances()}
    return {
        "state": str(done.state),
        "tasks": tasks,
        "events": _events(done),
        "xcoms": {instance.task_id: instance.xcom_pull(instance.task_id) for instance in done.get_task_instances()},
        "main": _main(dag_id) if dag_id in dataset_names() and tasks["plan"] != "failed" else None,
    }


def several(calls: str) -> dict[str, Any]:
    """The answers of several of these functions, each with its words: they start Airflow once."""
    return {"answers": [globals()[name](*words) for name, *words in json.loads(calls)]}


def runs(dag_id: str, *confs: str) -> dict[str, Any]:
    """Run a DAG once for each configuration, one behind the other; the outcomes."""
    return {"runs": [run(dag_id, conf) for conf in confs]}


def killed(dag_id: str, conf: str) -> dict[str, Any]:
    """Run a DAG's first tasks, and the report, each supervised in a process of its own as an executor has it.

    The first try of dedup is ended by SIGTERM to its process once its Spark has started a driver.
    """
    from onefold.dataset import find_dataset
    from onefold.dedup.documents import Staged, staged_key
    from onefold.lake import Lake
    from onefold.settings import load_settings

    done = _dag(dag_id).test(logical_date=None, run_conf=json.loads(conf), mark_success_pattern=".*")  # runs nothing
    family: list[psutil.Process] = []
    states = [_supervise(dag_id, done.run_id, task_id) for task_id in ("plan", "land")]
    ending = threading.Thread(target=_end_spark, args=[family])
    ending.start()
    states.append(_supervise(dag_id, done.run_id, "dedup"))
    left = [process.pid for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    ending.join()
    states += [_supervise(dag_id, done.run_id, task_id) for task_id in ("dedup", "report")]
    lake = Lake(load_settings())
    batch = done.get_task_instance("plan").xcom_pull("plan")
    staged = lake.get(staged_key(lake, find_dataset(lake.settings.datasets_folder, dag_id), batch), Staged)
    return {"states": states, "ended": len(family), "left": left, "staged": staged.records if staged else None}


def stale(dag_id: str, start: str, end: str, kind: str) -> dict[str, Any]:
    """A run as the scheduler makes it and finds it late, and its callback as an executor runs it; when it was due."""
    from datetime import datetime

    from airflow.executors.workloads import BundleInfo, ExecuteCallback
    from airflow.models.dagbag import DBDagBag
    from airflow.models.deadline import Deadline
    from airflow.sdk.execution_time.callback_supervisor import supervise_callback
    from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import select

    bundle = BundleInfo(name=_process_dags())
    interval = (datetime.fromisoformat(start), datetime.fromisoformat(end))
    place = Path("onefold_datasets.py")
    with create_session() as session:
        known = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
        assert known is not None
        run = known.create_dagrun(
            run_id=f"{kind}__{start}",
            logical_date=interval[0],
            data_interval=interval,
            run_after=interval[1],
            run_type=DagRunType(kind),
            triggered_by=DagRunTriggeredByType.TIMETABLE,
            state=DagRunState.RUNNING,
            session=session,
        )
        session.flush()
        late = session.scalars(select(Deadline).filter_by(dagrun_id=run.id)).one()
        at = late.deadline_time.isoformat()
        late.handle_miss(session)
        session.flush()
        work = ExecuteCallback.make(late.callback, run, dag_rel_path=place, bundle_info=bundle)
    data, client = work.callback.data, InProcessTestSupervisor._api_client(dag=_dag(dag_id))
    words = {"id": work.callback.id, "callback_path": data["path"], "callback_kwargs": data["kwargs"]}
    code = supervise_callback(**words, dag_rel_path=place, bundle_info=bundle, client=client)
    return {"at": at, "code": code}


def _process_dags() -> str:
    """Read the folder of DAGs into the database, as Airflow's DAG processor does; the name of their bundle."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.utils.session import create_session

    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    (dags,) = DagBundlesManager().get_all_dag_bundles()
    dags.initialize()
    sync_bag_to_db(BundleDagBag(dags.path, bundle_path=dags.path, bundle_name=dags.name), dags.name, dags.version)
    return str(dags.name)


def _end_spark(family: list[psutil.Process]) -> None:
    """End the process that has submitted, once the JVM has started its driver; who ran then."""
    while True:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                drivers = process.children(recursive=True) if process.name() == "java" else []
                if any(driver.name().startswith("python") for driver in drivers):
                    family += [process, *drivers]
                    os.kill(process.ppid(), signal.SIGTERM)
                    return
        threading.Event().wait(0.05)


def _supervise(dag_id: str, run_id: str, task_id: str) -> str:
    from airflow.executors.workloads import BundleInfo, ExecuteTask
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor, supervise_task
    from airflow.utils.session import create_session
    from sqlalchemy import select

    query = select(TaskInstance).filter_by(dag_id=dag_id, run_id=run_id, task_id=task_id)
    with create_session() as session:
        task = session.scalars(query).one()
        task.state, task.try_number, task.max_tries = "queued", task.try_number + 1, 2
        session.flush()
        place, bundle = Path("onefold_datasets.py"), BundleInfo(name="dags-folder")
        work = ExecuteTask.make(task, dag_rel_path=place, bundle_info=bundle)
    client = InProcessTestSupervisor._api_client(dag=_dag(dag_id))  # the real API server, in this process
    supervise_task(
        ti=work.ti, bundle_info=bundle, dag_rel_path=place, token="", client=client, subprocess_logs_to_stdout=True
    )
    with create_session() as session:
        return str(session.scalars(query).one().state)


def _dag(dag_id: str) -> Any:
    if dag_id == "onefold_housekeeping":
        from dags.onefold_housekeeping import dag

        return dag
    from dags.onefold_datasets import dags

    return dags[dag_id]


def decide(conf: str, answer: str, forged: str = "") -> dict[str, Any]:
    """Run the DAG that decides, and answer it from another process; what was shown there, and the outcome.

    `forged`: JSON that a user who may edit the run writes as the XCom of the tasks before, just before `decide` runs.
    Without an answer the task `approve` is marked as successful.
    """
    from dags.onefold_decide import dag

    if forged:
        _forge(dag.get_task("decide"), json.loads(forged))
    found = _answered(dag, conf, answer, None if answer else "approve")
    return found | {"main": _main(json.loads(conf)["dataset"])}


def clear(conf: str, answer: str, forged: str = "") -> dict[str, Any]:
    """Run the housekeeping but for what is of the tables, and answer it."""
    from dags.onefold_housekeeping import dag

    if forged:
        _forge(dag.get_task("clear-landings.clear"), json.loads(forged))
    return _answered(dag, conf, answer, r".*\.(maintain|doctor|stuck)")


def _answered(dag: Any, conf: str, answer: str, marked: str | None) -> dict[str, Any]:
    """Run a DAG, and answer what it asks from another process; tasks that match `marked` are not run."""
    for task in dag.tasks:
        task.retries = 0
    given = {"logical_date": None, "run_conf": json.loads(conf), "mark_success_pattern": marked}
    said = {}
    if answer:
        words = [sys.executable, __file__, "respond", answer, dag.dag_id]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as responding:
            done = dag.test(**given)
            out, _ = responding.communicate()  # closes its input
        said = json.loads(out.rpartition("\nanswer: ")[2].splitlines()[0])
    else:
        done = dag.test(**given)
    return {
        "state": str(done.state),
        "tasks": {instance.task_id: str(instance.state) for instance in done.get_task_instances()},
        "events": _events(done),
        **said,
    }


def _forge(task: Any, xcoms: dict[str, Any]) -> None:
    """Let XComs of the run be written over as Airflow's API does it, just before a task runs."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    def forge(context: Any) -> None:
        run = context["dag_run"]
        for task_id, value in xcoms.items():
            where = {"task_id": task_id, "dag_id": run.dag_id, "run_id": run.run_id}
            with create_session() as session:
                XComModel.set(key="return_value", value=value, serialize=False, **where, session=session)
            assert context["ti"].xcom_pull(task_ids=task_id) == value

    task._pre_execute_hook = forge


def respond(answer: str, dag_id: str) -> dict[str, Any]:
    """Answer whatever a DAG asks by Airflow's API as the user ada, until the input ends; what was shown.

    Then also what the runs' tab shows, and where the buttons of their tasks lead.
    """
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    runs, shown = f"/api/v2/dags/{dag_id}/dagRuns", []
    with TestClient(create_app(apps="core")) as client:
        client.headers["Authorization"] = f"Bearer {_token('ada')}"
        while not select.select([sys.stdin], [], [], 0.5)[0]:
            waiting = client.get(f"{runs}/~/hitlDetails", params={"response_received": False}).json()["hitl_details"]
            for question in waiting:
                of = question["task_instance"]
                if of["state"] != "awaiting_input":  # answered before its task has parked, it is never taken up
                    continue
                place = f"{runs}/{of['dag_run_id']}/taskInstances/{of['task_id']}/-1/hitlDetails"
                said = client.patch(place, json={"chosen_options": [answer], "params_input": {}})
                shown.append(question | {"status": said.status_code})
        of_runs = [question["task_instance"]["dag_run_id"] for question in shown]
        tabs = [client.get(f"/onefold/runs/{dag_id}/{run_id}").text for run_id in of_runs]
        links = [
            {task: client.get(f"{runs}/{run_id}/taskInstances/{task}/links").json() for task in ("gate", "publish")}
            for run_id in of_runs
        ]
    return {"shown": shown, "tabs": tabs, "links": links}


def submitted(folder: str, *connections: str) -> dict[str, Any]:
    """What spark-submit is started with through each of these connections, and the error that the launch ends with.

    The spark-submit on PATH leaves what it was given in `folder`. What is not of it: Kubernetes' client, which the
    provider wants installed, but only asks to end a pod.
    """
    from airflow.providers.apache.spark.hooks import spark_submit

    from onefold.errors import OnefoldError
    from onefold.lake import Lake
    from onefold.orchestration.spark_step import SparkLauncher
    from onefold.settings import load_settings

    spark_submit.kube_client = object()
    lake, given, found = Lake(load_settings()), Path(folder, "given.json"), []
    for connection in connections:
        os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = connection
        before, ended = dict(os.environ), None
        launcher = SparkLauncher(task_id="maintain", dataset="things", batch="all", history="http://history:18080/")
        try:
            launcher.launch({}, lake, "maintain", "all", "a_1")
        except OnefoldError as error:
            ended = error
        found.append(
            {
                "error": type(ended).__name__,
                "said": str(ended),
                "links": {link.name: link.get_link(launcher, ti_key=None) for link in launcher.operator_extra_links},
                "cause": type(ended.__cause__).__name__ if ended else None,
                "started": json.loads(given.read_text()) if given.exists() else None,
                "left": sorted(name for name, _ in set(before.items()) ^ set(os.environ.items())),
            }
        )
        given.unlink(missing_ok=True)
    return {"found": found}


def logins(*connections: str) -> dict[str, Any]:
    """The login to S3 that each of these connections gives, or the error."""
    from onefold.errors import UsageError
    from onefold.orchestration.connections import load_connected

    found: list[Any] = []
    for connection in connections:
        os.environ["AIRFLOW_CONN_S3_LAKE"] = connection
        try:
            found.append(load_connected().s3_login)
        except UsageError as error:
            found.append(str(error))
    return {"found": found}


def _token(username: str) -> str:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return str(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=username, role="admin")))


def _events(done: Any) -> list[dict[str, Any]]:
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    query = select(AssetEvent).where(AssetEvent.source_run_id == done.run_id)
    with create_session() as session:
        return [
            {"asset": event.name, "task": event.source_task_id, "extra": event.extra}
            for event in session.scalars(query)
        ]


def _main(name: str) -> int | None:
    from onefold.dataset import find_dataset
    from onefold.iceberg.state_table import find_state
    from onefold.lake import Lake
    from onefold.orchestration.connections import load_connected

    lake = Lake(load_connected())
    table = find_state(lake, find_dataset(lake.settings.datasets_folder, name))
    return table.main.snapshot if table else None


def pages(*paths: str) -> dict[str, Any]:
    """What the API server answers without a login, and to an admin who is logged in."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    _process_dags()
    with TestClient(create_app()) as client:
        anonymous = {path: client.get(path).status_code for path in paths}
        client.headers["Authorization"] = f"Bearer {_token('admin')}"
        admin = {path: client.get(path).status_code for path in paths}
        views = next(
            plugin for plugin in client.get("/api/v2/plugins").json()["plugins"] if plugin["name"] == "onefold"
        )
    return {"anonymous": anonymous, "admin": admin, "views": [view["name"] for view in views["external_views"]]}


def _run_spark_here() -> None:
    """Run each Spark step by its `main` in this process, on one session: no spark-submit and no JVM a step."""
    from onefold.orchestration import spark_step
    from onefold.spark.result import result_of

    def launch(self: Any, context: Any, lake: Any, step: str, batch: str, attempt: str, *more: str) -> dict[str, Any]:
        del context
        words = ["--dataset", self.dataset, "--batch", batch, "--attempt", attempt, *more]
        importlib.import_module(f"spark_jobs.{step}").main(words)
        return result_of(lake, self.dataset, batch, attempt, step)

    spark_step.SparkLauncher.launch = launch  # type: ignore[method-assign]


def _next_call() -> list[str]:
    """The call of the next question, in a fork that has Airflow, and nothing else of what it asks, imported; the
    process itself prints the exit code of each, and ends with its input."""
    import airflow.dag_processing.dagbag
    import airflow.models.taskinstance  # noqa: F401

    for line in sys.stdin:
        question = json.loads(line)
        if pid := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
            continue
        os.environ.clear()
        os.environ.update(question["environ"])
        for descriptor, file in enumerate((os.devnull, question["out"], question["err"])):
            os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), descriptor)
        call: list[str] = question["call"]
        return call
    sys.exit()


if __name__ == "__main__":
    call = _next_call() if sys.argv[1:] == ["forked"] else sys.argv[1:]
    if os.environ.get("ONEFOLD_TEST_SPARK") == "here":
        _run_spark_here()
    answer = globals()[call[0]](*call[1:])
    print(f"\nanswer: {json.dumps(answer, default=str)}")  # children that outlive a task may have a last word behind it
