"""Settings: defaults without a server, `onefold.toml`, `ONEFOLD_*` over it; a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from onefold.errors import UsageError
from onefold.settings import load_settings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONEFOLD_HOME", str(tmp_path))
    monkeypatch.delenv("ONEFOLD_LAKE", raising=False)
    return tmp_path


def test_the_defaults_lie_in_the_projects_folder(home: Path) -> None:
    settings = load_settings()
    assert settings.lake_uri == str(home / ".lake")
    assert settings.datasets_folder == home / "datasets"
    assert settings.expectations_folder == home / "expectations"
    assert (settings.catalog, settings.spark_master, settings.publish_tries) == (None, "local[*]", 5)


def test_without_a_home_the_working_folder_is_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEFOLD_HOME")
    monkeypatch.chdir(tmp_path)
    assert load_settings().datasets_folder == tmp_path / "datasets"


def test_the_environment_goes_over_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "onefold.toml").write_text(
        'lake = "s3a://bucket/prefix"\npublish_tries = 3\ndatasets = "contracts"\n'
        '[spark_conf]\n"spark.driver.memory" = "2g"\n'
    )
    assert load_settings().lake_uri == "s3a://bucket/prefix"
    monkeypatch.setenv("ONEFOLD_LAKE", "/data/lake")
    monkeypatch.setenv("ONEFOLD_SPARK_CONF", '{"spark.driver.cores": "1"}')
    settings = load_settings()
    assert (settings.lake_uri, settings.publish_tries) == ("/data/lake", 3)
    assert settings.datasets_folder == home / "contracts"
    assert settings.spark_conf == {"spark.driver.memory": "2g", "spark.driver.cores": "1"}


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("publish_tries = 0\n", "setting publish_tries: .*greater than or equal to 1"),
        ('publish_tries = "often"\n', "setting publish_tries: .*integer"),
        ("lake = 5\n", "setting lake: .*string"),
        ('s3_encryption = "aes"\n', "setting s3_encryption: .*'AES256' or 'aws:kms'"),
        ('s3_put_if_absent = "catalog"\n', "onefold.toml:1: setting s3_put_if_absent: .*nor can one that is not set"),
        ('s3_put_if_absent = "catalog"\ncatalog = "https://c"\n', "setting s3_put_if_absent: .*a REST catalog cannot"),
        ('s3_kms_key = "k"\n', "onefold.toml:1: setting s3_kms_key: .*belongs to s3_encryption = aws:kms"),
        ('s3_encryption = "AES256"\ns3_kms_key = "k"\n', "onefold.toml:2: setting s3_kms_key: "),
        ('s3_ca_bundle = "ca.pem"\n', "setting s3_ca_bundle: .*/ca.pem is no file"),
        (
            '[s3_login]\naws_access_key_id = "a"\n',
            "onefold.toml:1: setting s3_login: .* its secret key belong together",
        ),
        ('[s3_login]\naws_session_token = "a"\n', "setting s3_login: .* a session token to both"),
        ('[s3_login]\nrole_arn = "a"\n', "setting s3_login: .*role_arn is not of a login to S3, which has aws_access"),
        ('task_timeout = "long"\n', "setting task_timeout: .*no duration such as"),
        ('[notify.mail]\nto = "x"\n', "setting notify: .*mail needs a class, such as"),
        ("[spark_conf]\nspark.driver.memory = 1\n", "setting spark_conf.spark: .*string"),
        ('\nlaek = "x"\n', r"onefold.toml:2: there is no setting laek \(did you mean lake\?\)"),
        ("[zzz]\nmaster = 1\n", r"onefold.toml:1: there is no setting zzz \(there are catalog, "),
        ('lake = "x"\npublish_tries = 0\n', "onefold.toml:2: setting publish_tries: "),
        ("lake = \n", "the settings cannot be read: "),
    ],
)
def test_a_wrong_value_in_the_file_is_named(home: Path, toml: str, said: str) -> None:
    (home / "onefold.toml").write_text(toml)
    with pytest.raises(UsageError, match=said):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ONEFOLD_PUBLISH_TRIES", "often", "ONEFOLD_PUBLISH_TRIES: setting publish_tries"),
        ("ONEFOLD_SPARK_CONF", "not json", "the settings cannot be read: .*spark_conf"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=said):
        load_settings()


def test_variables_that_something_else_reads_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ONEFOLD_FAULT", "after_plan")
    monkeypatch.setenv("ONEFOLD_JARS", "/jars")
    monkeypatch.setenv("ONEFOLD_TEST_HISTORIES", "5")
    monkeypatch.setenv("ONEFOLD_SPARK_CONF__spark.ui.enabled", "false")
    assert load_settings().publish_tries == 5
    assert caplog.messages == []


def test_a_variable_that_nothing_reads_is_named_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ONEFOLD_LAEK", "/data/lake")
    monkeypatch.setenv("ONEFOLD_PUBLISH_TRIES__X", "1")
    assert load_settings().lake == ".lake"
    assert caplog.messages == [
        "the environment variable ONEFOLD_LAEK is no setting and is ignored (did you mean ONEFOLD_LAKE?)",
        "the environment variable ONEFOLD_PUBLISH_TRIES__X is no setting and is ignored "
        "(did you mean ONEFOLD_PUBLISH_TRIES?)",
    ]
