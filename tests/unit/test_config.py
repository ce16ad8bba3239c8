"""`onefold config`: each value with the line or variable that sets it, and no secret in what is printed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from onefold.cli import main
from onefold.setting_origins import lines_of, without_secrets
from onefold.settings import load_settings

TOML = """\
lake = "lake"

catalog = "postgresql+psycopg2://onefold:s3cr3t-a@db:5432/catalog?sslpassword=s3cr3t-b"

[spark_conf]
"spark.executor.memory" = "2g"
"spark.hadoop.fs.s3a.secret.key" = "s3cr3t-c"
"spark.driver.extraJavaOptions" = "-Dpassword=s3cr3t-d -Xmx1g"

[kafka.kafka_default]
"bootstrap.servers" = "broker:9092"
"sasl.password" = "s3cr3t-e"
"sasl.jaas.config" = "s3cr3t-f"

[s3_login]
aws_access_key_id = "s3cr3t-k"
aws_secret_access_key = "s3cr3t-l"
endpoint_url = "http://s3:7070"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.startswith("ONEFOLD_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ONEFOLD_HOME", str(tmp_path))
    monkeypatch.setenv("ONEFOLD_JARS", "/jars")
    return tmp_path


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The command's words are filled in by `run`."""

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["onefold", "config", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert not ended.value.code, captured.err
        return captured.out

    return [run(), run("--json")]


def test_without_a_file_everything_is_default_but_what_the_environment_says(home: Path, printed: list[str]) -> None:
    rows = {row["setting"]: (row["value"], row["origin"]) for row in json.loads(printed[1])}
    assert rows == {
        "home": (str(home), "ONEFOLD_HOME"),
        "lake": (str(home / ".lake"), "default"),
        "lake_access": ("owner", "default"),
        "datasets": (str(home / "datasets"), "default"),
        "expectations": (str(home / "expectations"), "default"),
        "exports_below": (["."], "default"),
        "catalog": (f"sqlite:///{home / '.lake' / 'catalog.db'}", "default"),
        "catalog_properties": (None, "default"),
        "s3_encryption": (None, "default"),
        "s3_kms_key": (None, "default"),
        "s3_requester_pays": (False, "default"),
        "s3_ca_bundle": (None, "default"),
        "s3_connection": (None, "default"),
        "s3_login": (None, "default"),
        "s3_put_if_absent": ("store", "default"),
        "spark_master": ("local[*]", "default"),
        "spark_conf": (None, "default"),
        "spark_history": (None, "default"),
        "kafka": (None, "default"),
        "registry": (None, "default"),
        "mask_key": (None, "default"),
        "lease_wait": (900.0, "default"),
        "publish_tries": (5, "default"),
        "max_object_records": (10_000_000, "default"),
        "max_object_bytes": (16 << 30, "default"),
        "max_block_bytes": (256 << 20, "default"),
        "max_plan_objects": (100_000, "default"),
        "max_plan_partitions": (10_000, "default"),
        "max_plan_bytes": (64 << 20, "default"),
        "landing_min_age": ("30 days, 0:00:00", "default"),
        "pool": ("default_pool", "default"),
        "task_timeout": ("12:00:00", "default"),
        "notify": (None, "default"),
        "jars": ("/jars", "ONEFOLD_JARS"),
    }


@pytest.fixture
def given(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file, and an environment over it."""
    (home / "onefold.toml").write_text(TOML)
    monkeypatch.setenv("ONEFOLD_LAKE", "s3a://bucket/lake")
    monkeypatch.setenv("ONEFOLD_MASK_KEY", "s3cr3t-m s3cr3t-m")
    monkeypatch.setenv("ONEFOLD_SPARK_CONF", '{"spark.executor.memory": "4g", "spark.my.token": "s3cr3t-g"}')
    monkeypatch.setenv("ONEFOLD_KAFKA__OTHER", '{"ssl.key.password": "s3cr3t-h", "client.id": "onefold"}')
    return home / "onefold.toml"


def test_each_value_names_its_line_or_its_variable(given: Path, printed: list[str]) -> None:
    rows = {row["setting"]: (row["value"], row["origin"]) for row in json.loads(printed[1])}
    expected = {
        "lake": ("s3a://bucket/lake", "ONEFOLD_LAKE"),
        "mask_key": ("(hidden)", "ONEFOLD_MASK_KEY"),
        "catalog": ("postgresql+psycopg2://onefold:(hidden)@db:5432/catalog?sslpassword=(hidden)", f"{given}:3"),
        "spark_conf.spark.executor.memory": ("4g", "ONEFOLD_SPARK_CONF"),
        "spark_conf.spark.hadoop.fs.s3a.secret.key": ("(hidden)", f"{given}:7"),
        "spark_conf.spark.driver.extraJavaOptions": ("-Dpassword=(hidden) -Xmx1g", f"{given}:8"),
        "spark_conf.spark.my.token": ("(hidden)", "ONEFOLD_SPARK_CONF"),
        "kafka.kafka_default.bootstrap.servers": ("broker:9092", f"{given}:11"),
        "kafka.kafka_default.sasl.password": ("(hidden)", f"{given}:12"),
        "s3_login.aws_secret_access_key": ("(hidden)", f"{given}:17"),
        "s3_login.endpoint_url": ("http://s3:7070", f"{given}:18"),
        "kafka.other.client.id": ("onefold", "ONEFOLD_KAFKA__OTHER"),
    }
    assert {name: rows[name] for name in expected} == expected


def test_no_secret_is_printed(given: Path, printed: list[str]) -> None:
    assert [text for text in printed if "s3cr3t" in text] == []
    assert "onefold.toml:11" in "".join(printed[0].replace("│", "").split()), "wherever its cell is broken"


def test_no_secret_is_shown_where_settings_are_printed_as_they_are(
    given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a traceback shows them, or a log."""
    monkeypatch.setenv("ONEFOLD_MASK_KEY", "s3cr3t-m s3cr3t-m")
    notifier = {"class": "a.B", "smtp_password": "s3cr3t-i"}
    monkeypatch.setenv("ONEFOLD_NOTIFY", json.dumps({"mail": notifier}))
    monkeypatch.setenv("ONEFOLD_CATALOG_PROPERTIES", '{"credential": "s3cr3t-j"}')
    assert "s3cr3t" not in f"{load_settings()!r} {load_settings()}"


def test_every_setting_says_what_it_means(printed: list[str]) -> None:
    assert [row["setting"] for row in json.loads(printed[1]) if not row["meaning"]] == []


def test_lines_are_those_of_keys_wherever_they_stand() -> None:
    text = "# a = 1\nb = 1\nc.d = 2\n[e]\nf = '''\ng = 1 [\n'''\nh = {i = 1}\n[[j]]\n  'k = l' = 3\n"
    found = lines_of(text)
    assert {path: found[path] for path in [("b",), ("c", "d"), ("e",), ("e", "f"), ("e", "h"), ("j",)]} == {
        ("b",): 2,
        ("c", "d"): 3,
        ("e",): 4,
        ("e", "f"): 5,
        ("e", "h"): 8,
        ("j",): 9,
    }


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("", "postgresql://u:p@w@h/d", "postgresql://u:(hidden)@h/d"),
        ("", "postgresql://u@h/d", "postgresql://u@h/d"),
        ("", "sqlite:////a/b:c@d.db", "sqlite:////a/b:c@d.db"),
        ("sasl.password", 5, "(hidden)"),
        ("acks", 5, 5),
    ],
)
def test_what_is_secret_goes_and_the_rest_stays(name: str, value: object, shown: object) -> None:
    assert without_secrets(name, value) == shown
