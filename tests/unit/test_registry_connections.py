"""How a schema registry is named and reached: in dataset files, settings and Airflow's connections."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from onefold.dataset import Dataset
from onefold.dataset.load import load_dataset
from onefold.errors import InvalidDatasetError, UsageError
from onefold.schemas.connection import of_airflow, registry_settings
from onefold.settings import Settings

URL = "https://registry:8081"
REGISTRY = {"connection": "registry_default"}
AVRO = {"format": "avro", "registry": REGISTRY, "fields": {"id": "string", "n": "long"}}


FILE = """\
name: orders
source: {kafka: {topics: [orders]}}
value:
  format: avro
  registry: {connection: registry_default}
  fields: {id: string}
apply: {mode: append}
identity: {message_id: id}
target: {table: a.b}
"""


def test_the_settings_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PROD", json.dumps({"host": "other", "port": 1}))
    given = Settings(registry={"prod": {"url": URL, "basic.auth.user.info": "mia:x"}})
    assert registry_settings(given, "prod") == {"url": URL, "basic.auth.user.info": "mia:x"}


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        ({"host": URL}, {"url": URL}),
        ({"host": "https://registry", "port": 8081}, {"url": URL}),
        ({"host": "registry", "port": 8081, "schema": "https"}, {"url": URL}),
        ({"host": "registry"}, {"url": "http://registry"}),
        (
            {"host": URL, "login": "mia", "password": "a:b", "extra": {"ssl.ca.location": "ca.pem"}},
            {"url": URL, "basic.auth.user.info": "mia:a:b", "ssl.ca.location": "ca.pem"},
        ),
        ({"extra": json.dumps({"url": URL, "bearer.auth.token": "t"})}, {"url": URL, "bearer.auth.token": "t"}),
        ({"extra": {"url": "glue://eu-central-1"}}, {"url": "glue://eu-central-1"}),
    ],
)
def test_airflows_connection_serves_the_command_line_too(
    monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any], expected: dict[str, str]
) -> None:
    assert of_airflow(connection) == expected
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY_DEFAULT", json.dumps(connection))
    assert registry_settings(Settings(), "registry_default") == expected


def test_a_missing_connection_is_reported_with_the_places_to_describe_it() -> None:
    with pytest.raises(UsageError, match=r"'prod'.*\[registry\.prod\].*ONEFOLD_REGISTRY.*AIRFLOW_CONN_PROD"):
        registry_settings(Settings(), "prod")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "no address such as https"),
        ({"url": "registry:8081"}, "no address such as https"),
        ({"url": "https://mia:secret-word@registry"}, r"holds a login, which belongs in basic\.auth\.user\.info"),
        ({"url": "ftp://mia:secret-word@registry"}, "no address such as https"),
        ({"url": URL, "basic.auth.user": "secret-word"}, r"did you mean basic\.auth\.user\.info"),
        ({"url": URL, "basic.auth.credentials.source": "SASL_INHERIT"}, "can be USER_INFO only"),
        ({"url": "glue://eu-central-1", "basic.auth.user.info": "a:secret-word"}, "is no setting of it"),
    ],
)
def test_settings_that_are_none_say_why_and_no_secret(given: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as raised:
        registry_settings(Settings(registry={"prod": given}), "prod")
    assert "secret-word" not in str(raised.value)


def test_what_a_variable_holds_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PROD", "https://mia:secret-word@registry")
    with pytest.raises(UsageError, match="AIRFLOW_CONN_PROD is not an Airflow connection as JSON") as raised:
        registry_settings(Settings(), "prod")
    assert "secret-word" not in str(raised.value)


def test_the_registrys_name_is_part_of_the_generation_and_the_connection_is_not(
    dataset: Callable[..., Dataset],
) -> None:
    def generation(**registry: str) -> str:
        return dataset(value={**AVRO, "registry": {**REGISTRY, **registry}}).generation

    assert generation() == generation(name="registry_default") == generation(connection="b", name="registry_default")
    assert len({generation(), generation(name="prod"), generation(ids="global"), generation(ids="content")}) == 4
    plain = dataset(value={"fields": AVRO["fields"]})
    assert "registries" not in plain.meaning


@pytest.mark.parametrize(
    ("section", "given", "problem"),
    [
        ("value", {"format": "avro"}, "needs schema, .*or registry"),
        ("value", {"format": "avro", "schema": "a.avsc", "registry": REGISTRY}, "exclude each other"),
        ("value", {"format": "json", "registry": REGISTRY}, "format json has no schema in a registry"),
        ("value", {"format": "json_schema", "schema": "a.avsc"}, "format json_schema has no schema"),
        ("value", {"format": "avro", "registry": {}}, "Field required"),
        ("value", {"format": "avro", "registry": {"connection": "a", "ids": "other"}}, "'global' or 'content'"),
        ("value", {"format": "avro", "registry": {"connection": "a/b"}}, "should match pattern"),
        ("key", {"format": "string", "registry": REGISTRY}, "format string has no schema in a registry"),
        ("key", {"format": "avro"}, "needs schema, .*or registry"),
        ("value", {"format": "protobuf"}, "needs schema, .*or registry"),
        ("value", {"format": "protobuf", "message": "a.B", "registry": REGISTRY}, "message and registry exclude"),
    ],
)
def test_a_registry_or_a_file_has_the_schemas(
    dataset: Callable[..., Dataset], section: str, given: dict[str, Any], problem: str
) -> None:
    fields = {"fields": AVRO["fields"]} if section == "value" else {}
    with pytest.raises(ValidationError, match=problem):
        dataset(**{section: {**given, **fields}})


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"identity": {"message_id": "schema.name"}}, "may be read by source.filter and apply.delete_when only"),
        ({"value": {"fields": {"id": "string", "n": "long"}}, "filter": "schema.name = 'a'"}, "needs value.registry"),
        (
            {
                "value": {**AVRO, "fields": {"id": "string", "schema": "struct<name: string>"}},
                "filter": "schema.name = 'a'",
            },
            r"write log\.schema\.name \(what it meant before\) or value\.schema\.name",
        ),
    ],
)
def test_schema_name_is_the_name_of_a_registered_schema(
    dataset: Callable[..., Dataset], more: dict[str, Any], problem: str
) -> None:
    given = {"value": AVRO, **more}
    source = {"exports": {"path": "e", "layout": "kcat", "origin": {"cluster": "c", "incarnation": 1}}}
    if text := given.pop("filter", None):
        source["filter"] = text
    with pytest.raises(ValidationError, match=problem):
        dataset(source=source, **given)


def test_a_field_called_schema_keeps_its_meaning_where_there_is_no_registry(dataset: Callable[..., Dataset]) -> None:
    source = {"exports": {"path": "e", "layout": "kcat", "origin": {"cluster": "c", "incarnation": 1}}}
    fields = {"id": "string", "schema": "struct<name: string>"}
    made = dataset(source={**source, "filter": "schema.name = 'a'"}, value={"fields": fields})
    assert made.source.filter == "value.schema.name = 'a'"
    clear = "log.schema.name = 'a' and value.schema.name = 'b'"
    assert dataset(source={**source, "filter": clear}, value={**AVRO, "fields": fields})


def test_an_export_without_the_records_bytes_has_no_ids(dataset: Callable[..., Dataset]) -> None:
    source = {"exports": {"path": "e", "layout": "connect", "origin": {"cluster": "c", "incarnation": 1}}}
    for given in ("avro", "json_schema"):
        with pytest.raises(ValidationError, match="holds what the exporter made of the records"):
            dataset(source=source, value={**AVRO, "format": given}, identity={"message_id": "id"})


def test_an_unknown_key_of_a_registry_is_reported_with_the_nearest_known_key(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE.replace("connection", "conection"))
    with pytest.raises(InvalidDatasetError, match=r"orders\.yaml:5: value\.registry\.conection: .*'connection'"):
        load_dataset(file)


def test_airflows_tasks_look_the_connection_up_and_no_log_repeats_its_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onefold.orchestration.connections import open_dataset, secret_variables, secrets_of

    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "orders.yaml").write_text(FILE)
    given = {"conn_type": "http", "host": URL, "login": "mia", "password": "secret-word"}
    monkeypatch.setenv("ONEFOLD_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY_DEFAULT", json.dumps(given))
    lake, _ = open_dataset("orders")
    expected = {"registry_default": {"url": URL, "basic.auth.user.info": "mia:secret-word"}}
    assert lake.settings.registry == expected
    assert json.loads(secret_variables(lake.settings)["ONEFOLD_REGISTRY"]) == expected
    assert {"mia:secret-word", "secret-word"} <= {*secrets_of(lake)}
    assert "secret-word" not in repr(lake.settings)
