"""What a Spark step is submitted with: by the provider's own hook, to a spark-submit that leaves what it was given."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import Any

import pytest

from onefold.spark.result import StepResult

PASSWORD = "sw0rdfish-of-the-broker"
CLUSTER = {"conn_type": "spark", "host": "k8s://https://h", "extra": {"deploy-mode": "cluster"}}
SPARK_SUBMIT = f"""\
#!{sys.executable}
import json, os, pathlib, sys
given = {{"arguments": sys.argv[1:], "environment": dict(os.environ)}}
(pathlib.Path(__file__).parent / "given.json").write_text(json.dumps(given))
print("Spark application app-2026-0001, its page while it runs: http://h:4040")
print("0 is too long ago")
for number in range(1, 20):
    print(f"{{number}} of what it said\\n")
print("SASL refused", json.loads(os.environ.get("ONEFOLD_KAFKA", "0")), flush=True)
if "ONEFOLD_MASK_KEY" in os.environ:
    print("masked by", os.environ["ONEFOLD_MASK_KEY"], flush=True)
if "RESULT" in os.environ:
    result = pathlib.Path(os.environ["ONEFOLD_LAKE"], "datasets/things/results/all/a_1-maintain.json")
    result.parent.mkdir(parents=True)
    result.write_text(os.environ["RESULT"])
if "SIGNAL" in os.environ:
    os.kill(os.getpid(), int(os.environ["SIGNAL"]))
sys.exit(int(os.environ.get("CODE", "1")))
"""


MASTERS = ("local[*]", "spark://h:7077", "yarn", "k8s://https://h")
REFUSED = ({"spark-home": "/opt/spark"}, {"spark-binary": "rm"})


@pytest.fixture(scope="module")
def submit(probe: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Launches a step through each connection, with Kafka settings that hold a password; each call below a folder of
    its own."""

    def once(*connections: dict[str, Any], **environ: str) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("submitted")
        program = folder / "spark-submit"
        program.write_text(SPARK_SUBMIT)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        path = os.pathsep.join((str(folder), os.environ["PATH"]))
        where = {"PATH": path, "ONEFOLD_LAKE": str(folder / "lake"), "ONEFOLD_KAFKA": None}
        words = [json.dumps(connection) for connection in connections]
        (folder / "onefold.toml").write_text(f'[kafka.kafka_default]\n"sasl.password" = "{PASSWORD}"\n')
        return list(probe("submitted", str(folder), *words, ONEFOLD_HOME=str(folder), **where | environ)["found"])

    return once


@pytest.fixture(scope="module")
def submitted(submit: Any) -> list[dict[str, Any]]:
    """What became of a step on each of `MASTERS`, and with each of the extras that are `REFUSED`, in their order."""
    masters = ({"conn_type": "spark", "host": master} for master in MASTERS)
    return list(submit(*masters, *({"conn_type": "spark", "host": MASTERS[0], "extra": extra} for extra in REFUSED)))


def test_on_every_master_a_password_is_in_the_environment_of_a_driver_of_this_machine_and_in_no_argument(
    submitted: list[dict[str, Any]],
) -> None:
    for master, found in zip(MASTERS, submitted, strict=False):
        arguments, environment = found["started"]["arguments"], found["started"]["environment"]
        assert arguments[arguments.index("--master") + 1] == master
        assert not [argument for argument in arguments if PASSWORD in argument or "ONEFOLD_KAFKA" in argument]
        assert json.loads(environment["ONEFOLD_KAFKA"])["kafka_default"]["sasl.password"] == PASSWORD
        assert ("SPARK_DIST_CLASSPATH" in environment) == (master in MASTERS[:2]), "jars of this machine's driver"
        assert found["left"] == [], "the task's own environment is as it was"


def test_s10_spark_on_one_host_is_submitted_with_the_loopback_address_and_without_pages(
    submitted: list[dict[str, Any]],
) -> None:
    own = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
    words = {f"{name}={value}" for name, value in own.items()}

    for found, here in zip(submitted, (True, False), strict=False):
        arguments, environment = set(found["started"]["arguments"]), found["started"]["environment"]
        assert arguments & words == (words if here else set())
        assert (environment.get("SPARK_LOCAL_IP") == "127.0.0.1") == here
        assert "spark.ui.killEnabled=false" in arguments


def test_a_driver_on_another_machine_gets_passwords_by_a_secret_of_kubernetes_or_is_not_started(submit: Any) -> None:
    secret = "spark.kubernetes.driver.secretKeyRef.ONEFOLD_KAFKA"

    [refused] = submit(CLUSTER)
    [started] = submit(CLUSTER, ONEFOLD_SPARK_CONF=json.dumps({secret: "onefold-kafka:settings"}))

    assert (refused["error"], refused["started"], refused["left"]) == ("UsageError", None, [])
    assert "says deploy-mode cluster" in refused["said"]
    assert f"name it in spark_conf: {secret}." in refused["said"]
    assert PASSWORD not in refused["said"]
    assert f"{secret}=onefold-kafka:settings" in started["started"]["arguments"]
    assert PASSWORD not in json.dumps(started["started"])
    assert started["left"] == []


def test_s5_the_key_of_masks_is_handed_to_a_driver_by_its_environment_and_shown_nowhere(submit: Any) -> None:
    key, conf = (
        "mask-by-these-letters",
        {"spark.kubernetes.driver.secretKeyRef.ONEFOLD_KAFKA": "onefold-kafka:settings"},
    )

    [found] = submit({"conn_type": "spark", "host": "local[*]"}, ONEFOLD_MASK_KEY=key)
    [refused] = submit(CLUSTER, ONEFOLD_MASK_KEY=key, ONEFOLD_SPARK_CONF=json.dumps(conf))

    assert found["started"]["environment"]["ONEFOLD_MASK_KEY"] == key
    assert found["said"].endswith("masked by ***")
    assert [text for text in [*found["started"]["arguments"], found["said"], refused["said"]] if key in text] == []
    assert (refused["error"], refused["started"]) == ("UsageError", None)
    assert "secretKeyRef.ONEFOLD_MASK_KEY" in refused["said"]


def test_a_process_that_leaves_no_result_is_lost_with_its_last_lines_and_without_a_password(
    submitted: list[dict[str, Any]],
) -> None:
    found = submitted[0]

    assert (found["error"], found["cause"]) == ("SparkLostError", "AirflowException")
    sentence, *lines = found["said"].splitlines()
    assert sentence.endswith("Its last lines:")
    said = [f"  {number} of what it said" for number in range(1, 20)]
    assert lines == [*said, "  SASL refused {'kafka_default': {'sasl.password': '***'}}"]


def test_what_the_provider_refuses_of_a_connection_is_no_reason_to_try_again(
    submitted: list[dict[str, Any]],
) -> None:
    for found in submitted[-len(REFUSED) :]:
        assert (found["error"], found["started"], found["left"]) == ("UsageError", None, [])
        assert "'spark_default': The `spark-home` extra" in found["said"] or "The spark-binary extra" in found["said"]


@pytest.mark.by_day("ends1-SparkLostError", why="the others differ in the exit code alone")
@pytest.mark.parametrize(
    ("ends", "error"),
    [({"CODE": "1"}, "SparkStepError"), ({"SIGNAL": "9"}, "SparkLostError"), ({"CODE": "137"}, "SparkLostError")],
)
def test_what_a_driver_says_whose_jvm_was_killed_is_no_cause_to_give_up(
    submit: Any, ends: dict[str, str], error: str
) -> None:
    fields = {"step": "maintain", "of": "things all", "problem": "ConnectionRefusedError: Connection refused"}
    result = StepResult(step="maintain", error="SparkStepError", fields=fields)

    [found] = submit({"conn_type": "spark", "host": "local[*]"}, RESULT=result.model_dump_json(), **ends)

    assert found["error"] == error


def test_a_task_leads_to_its_application_on_sparks_history_server(submitted: list[dict[str, Any]]) -> None:
    assert submitted[0]["links"] == {"Spark": "http://history:18080/history/app-2026-0001/"}
