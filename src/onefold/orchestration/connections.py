"""Airflow's connections as Onefold's settings; what is secret in them travels by environment, never by arguments."""

from __future__ import annotations

import json

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from onefold.dataset import Dataset, find_dataset
from onefold.errors import UsageError
from onefold.generation import settle
from onefold.lake import Lake
from onefold.schemas.connection import USER, of_airflow
from onefold.setting_origins import speaks_of_secret
from onefold.settings import Settings, load_settings, login_problem
from onefold.spark.settings import secret_settings


def load_connected() -> Settings:
    """The settings, with the login to S3 that the Airflow connection `s3_connection` holds where they hold none.

    Raises:
        UsageError: there is no such connection, or it says what is no login.
    """
    settings = load_settings()
    if settings.s3_connection is None or settings.s3_login:
        return settings
    return settings.model_copy(update={"s3_login": _s3_login(settings.s3_connection)})


def _s3_login(name: str) -> dict[str, str]:
    try:
        connection = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        raise UsageError(
            f"there is no Airflow connection {name!r}, which s3_connection names: it says how S3 is reached. Nothing "
            "was started. Add it (type aws or generic, login: the access key, password: the secret key; extra: "
            f"endpoint_url, region_name, aws_session_token), or set AIRFLOW_CONN_{name.upper()}."
        ) from None
    keys = {"aws_access_key_id": connection.login, "aws_secret_access_key": connection.password}
    members = [*connection.extra_dejson.items(), *keys.items()]
    given = {key: str(value) for key, value in members if value}
    problem = login_problem(given)
    if connection.host:
        problem = "it names a host, but an endpoint belongs in its extra, as endpoint_url"
    if problem:
        raise UsageError(f"the Airflow connection {name!r}, which s3_connection names: {problem}. Nothing was started.")
    return given


def open_dataset(name: str) -> tuple[Lake, Dataset]:
    """The lake, and a dataset whose connections, its cluster's and its schema registries', are looked up in Airflow
    where the settings name none."""
    settings = load_connected()
    dataset = find_dataset(settings.datasets_folder, name)
    lake = Lake(_with_registries(_with_cluster(settings, dataset), dataset))
    lake.restrict_new_files()  # a task is a process of its own
    return lake, settle(lake, dataset)


def _with_cluster(settings: Settings, dataset: Dataset) -> Settings:
    kafka = dataset.source.kafka
    if kafka is None or kafka.connection in settings.kafka:
        return settings
    try:
        extra = BaseHook.get_connection(kafka.connection).extra_dejson
    except AirflowNotFoundException:
        return settings  # the first question to the cluster says what is missing
    return settings.model_copy(update={"kafka": {**settings.kafka, kafka.connection: extra}})


def _with_registries(settings: Settings, dataset: Dataset) -> Settings:
    found = dict(settings.registry)
    for name in {registry.connection for registry in dataset.registries.values()} - {*found}:
        try:
            given = BaseHook.get_connection(name)
        except AirflowNotFoundException:
            continue  # the first question to the registry says what is missing
        named = {field: getattr(given, field) for field in ("host", "schema", "port", "login", "password")}
        found[name] = of_airflow(named | {"extra": given.extra_dejson})
    return settings.model_copy(update={"registry": found})


def secret_variables(settings: Settings) -> dict[str, str]:
    """What connections say, the clusters', the registries' and S3's, and the key of masks, for a process that is
    started."""
    variables = {
        "ONEFOLD_KAFKA": settings.kafka,
        "ONEFOLD_REGISTRY": settings.registry,
        "ONEFOLD_S3_LOGIN": settings.s3_login,
    }
    key = {"ONEFOLD_MASK_KEY": settings.mask_key.get_secret_value()} if settings.mask_key else {}
    return {name: json.dumps(given) for name, given in variables.items() if given} | key


def secrets_of(lake: Lake) -> list[str]:
    """The settings' values that neither a log nor an error may repeat."""
    settings = lake.settings
    connections = [*settings.kafka.values(), *settings.registry.values()]
    pairs = [pair for given in connections for pair in given.items()]
    named = [value for name, value in pairs if isinstance(value, str) and speaks_of_secret(name)]
    named += [str(value).partition(":")[2] for name, value in pairs if name == USER and ":" in str(value)]
    of_spark = secret_settings(lake).items()
    # An access key names a user: masked, its word would be gone from every log.
    key = [lake.settings.mask_key.get_secret_value()] if lake.settings.mask_key else []
    return [*named, *key, *(value for name, value in of_spark if not name.endswith("fs.s3a.access.key"))]
