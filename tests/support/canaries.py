"""A text that is in every secret setting and must be found in no output, and what looks for it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.postgres import Postgres
    from tests.support.rest_server import RestServer

CANARY = f"c4n4ry{secrets.token_hex(6)}"
_SPARK = {
    "spark.ssl.keyPassword": CANARY,
    "spark.ssl.keyStorePassword": CANARY,
    "spark.ssl.ui.trustStorePassword": CANARY,
    "spark.hadoop.fs.s3a.secret.key": CANARY,
    "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": CANARY,
    "spark.sql.catalog.other.credential": f"id:{CANARY}",
    "spark.sql.catalog.other.header.Authorization": f"Bearer {CANARY}",
    "spark.sql.catalog.other.uri": f"jdbc:postgresql://db/other?user=me&password={CANARY}",
    "spark.sql.catalog.third.uri": f"jdbc:postgresql://me:{CANARY}@db/other",
}
"""Secrets that a user gives to Spark: some are of use before a session runs, some only then."""
OTHERS = {
    "AIRFLOW__API_AUTH__JWT_SECRET": CANARY * 4,
    "AIRFLOW_CONN_OTHER": f"smtp://me:{CANARY}@mail",
    "_AIRFLOW_WWW_USER_PASSWORD": CANARY,
    "ONEFOLD_NOTIFY": json.dumps({"mail": {"class": "tests.support.airflow_notifier.FileNotifier", "key": CANARY}}),
}
"""Variables that Spark has no use for."""


def settings_with_canaries(events: Path) -> dict[str, str]:
    """The variables of every setting that takes a secret, but for the catalog's; Spark's event log goes to a folder."""
    events.mkdir()
    logged = {"enabled": "true", "dir": events.as_uri(), "compress": "false"}
    return {
        **OTHERS,
        "ONEFOLD_SPARK_CONF": json.dumps({**_SPARK, **{f"spark.eventLog.{key}": logged[key] for key in logged}}),
        "ONEFOLD_KAFKA": json.dumps({"kafka_default": {"sasl.password": CANARY, "bootstrap.servers": "h:1"}}),
        "ONEFOLD_REGISTRY": json.dumps(
            {"registry_default": {"url": "http://h:1", "basic.auth.user.info": f"me:{CANARY}"}}
        ),
        "ONEFOLD_MASK_KEY": CANARY,
        "ONEFOLD_S3_LOGIN": json.dumps({"aws_access_key_id": "me", "aws_secret_access_key": CANARY}),
    }


def catalog_with_canaries(kind: str, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The variables of a real catalog: an empty database whose password is the canary, or a REST server."""
    if kind == "rest":
        server: RestServer = request.getfixturevalue("rest_server")
        properties = {
            "credential": f"me:{CANARY}",
            "header.Authorization": f"Bearer {CANARY}",
            "header.X-Gateway": CANARY,
        }
        yield {"ONEFOLD_CATALOG": server.uri, "ONEFOLD_CATALOG_PROPERTIES": json.dumps(properties)}
        server.clear()
        return
    postgres: Postgres = request.getfixturevalue("postgres")
    name = f"test_{secrets.token_hex(4)}"
    address = postgres.database_of(name, CANARY, name).replace("@", f":{CANARY}@")
    yield {"ONEFOLD_CATALOG": f"{address}?sslpassword={CANARY}"}


def files_below(*folders: Path) -> dict[str, str]:
    """Every file of some folders, as text."""
    return {
        str(file): file.read_bytes().decode(errors="replace")
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file()
    }


def leaks(outputs: Mapping[str, str]) -> dict[str, str]:
    """The outputs in which the canary is, each with what comes before it."""
    return {name: text.partition(CANARY)[0][-80:] for name, text in outputs.items() if CANARY in text}
