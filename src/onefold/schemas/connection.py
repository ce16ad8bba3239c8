"""How to reach a schema registry: settings by connection name, never from a dataset file or a command line.

They are in the names of Confluent's clients. `url` is that of the Confluent API (for Apicurio: `…/apis/ccompat/v7`), or
`glue://REGION` for AWS Glue, whose login has boto3's names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from onefold.errors import UsageError, nearest
from onefold.setting_origins import without_secrets
from onefold.settings import S3_LOGIN, Settings

RegistrySettings = dict[str, str]
URL, USER, TOKEN = "url", "basic.auth.user.info", "bearer.auth.token"
AUTHORITY, CERTIFICATE, KEY = "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"
_SOURCE = "basic.auth.credentials.source"
_OF_HTTP = (URL, USER, TOKEN, AUTHORITY, CERTIFICATE, KEY, _SOURCE)
_OF_GLUE = (URL, *(name for name in S3_LOGIN if name != "region_name"))


def registry_settings(settings: Settings, connection: str) -> RegistrySettings:
    """The settings of a connection: `[registry.<connection>]` of the settings, else `AIRFLOW_CONN_<CONNECTION>`.

    Raises:
        UsageError: there is no such connection, it names no address, or has what nothing reads.
    """
    variable = f"AIRFLOW_CONN_{connection.upper()}"
    given: Mapping[str, object] | None = settings.registry.get(connection)
    if given is None and variable in os.environ:
        given = _of_variable(variable, os.environ[variable])
    if given is None:
        raise UsageError(
            f"nothing says how to reach the schema registry {connection!r}. Nothing was judged. "
            f"{how_to_set(connection)}"
        )
    named = {name: _text(value) for name, value in given.items()}
    if problem := _problem(named):
        raise UsageError(f"the schema registry {connection!r}: {problem}. Nothing was judged.")
    return named


def how_to_set(connection: str) -> str:
    """A sentence on where the settings of a connection may be."""
    return (
        f'Put its address into onefold.toml ([registry.{connection}] with "url" = "https://host:8081"), into '
        f"ONEFOLD_REGISTRY as JSON, or into AIRFLOW_CONN_{connection.upper()}."
    )


def of_airflow(connection: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that an Airflow connection holds: its extra, and its host and login where the extra names none.

    Raises:
        ValueError: its extra is no object.
    """
    extra = connection.get("extra") or {}
    found: dict[str, Any] = dict(json.loads(extra) if isinstance(extra, str) else extra)
    host, port = connection.get("host"), connection.get("port")
    if host and URL not in found:
        address = host if "://" in host else f"{connection.get('schema') or 'http'}://{host}"
        found[URL] = f"{address}:{port}" if port else address
    if connection.get("login") and not {USER, TOKEN} & {*found}:
        found[USER] = f"{connection['login']}:{connection.get('password') or ''}"
    return found


def _of_variable(variable: str, text: str) -> dict[str, Any]:
    try:
        return of_airflow(json.loads(text))
    except (ValueError, AttributeError, TypeError):  # what it holds is not said: it may be a password
        problem = f"{variable} is not an Airflow connection as JSON, with a host, or with url as extra"
        raise UsageError(problem) from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem(given: RegistrySettings) -> str | None:
    """Why the settings are none; no secret is repeated."""
    address = urlsplit(given.get(URL, ""))
    if address.scheme not in ("http", "https", "glue") or not address.netloc:
        shown = without_secrets(URL, given.get(URL, ""))
        return f"its url, {shown!r}, is no address such as https://host:8081 or glue://eu-central-1"
    if address.username or address.password:
        return f"its url holds a login, which belongs in {USER}"
    known = _OF_GLUE if address.scheme == "glue" else _OF_HTTP
    if unknown := sorted({*given} - {*known}):
        return f"{unknown[0]} is no setting of it{nearest(unknown[0], known)}"
    if given.get(_SOURCE, "USER_INFO") != "USER_INFO":
        return f"{_SOURCE} can be USER_INFO only"
    return None
