"""How to reach a cluster: client settings by connection name, never from a dataset file or a command line.

They are in librdkafka's names, as Airflow's Kafka connections have them. The JVM's client and kafka-python have
other names for some of them.
"""

from __future__ import annotations

import json
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onefold.errors import UsageError
from onefold.settings import Settings

ClientSettings = dict[str, str]
SERVERS = "bootstrap.servers"
_SHARED = (SERVERS, "client.id", "security.protocol", "sasl.kerberos.service.name", "ssl.key.password")
_BY_PASSWORD = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def client_settings(settings: Settings, connection: str) -> ClientSettings:
    """The settings of a connection: `[kafka.<connection>]` of the settings, else `AIRFLOW_CONN_<CONNECTION>`.

    Raises:
        UsageError: there is no such connection, or it names no brokers.
    """
    variable = f"AIRFLOW_CONN_{connection.upper()}"
    given = settings.kafka.get(connection)
    if given is None and variable in os.environ:
        given = _of_airflow(variable, os.environ[variable])
    if given is None:
        raise UsageError(
            f"nothing says how to reach the Kafka connection {connection!r}. Nothing was read. Put its client settings "
            f'into onefold.toml ([kafka.{connection}] with "bootstrap.servers" = "host:9092"), into ONEFOLD_KAFKA as '
            f"JSON, or into {variable}."
        )
    if not given.get(SERVERS):
        raise UsageError(f"the Kafka connection {connection!r} names no bootstrap.servers. Nothing was read.")
    return {name: _text(value) for name, value in given.items()}


def _of_airflow(variable: str, text: str) -> dict[str, str | int | float | bool]:
    try:
        extra = json.loads(text).get("extra") or {}
        return dict(json.loads(extra) if isinstance(extra, str) else extra)
    except (ValueError, AttributeError, TypeError):  # what it holds is not said: it may be a password
        problem = f"{variable} is not an Airflow connection as JSON, with the client settings as extra"
        raise UsageError(problem) from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def java_settings(given: ClientSettings) -> dict[str, str]:
    """The settings as the JVM's client names them, certificates and keys as PEM text so that executors need no file.

    What tunes only librdkafka is left out.

    Raises:
        UsageError: something that decides about security has no counterpart there.
    """
    found = {name: given[name] for name in _SHARED if name in given}
    if mechanism := given.get("sasl.mechanism") or given.get("sasl.mechanisms"):
        found["sasl.mechanism"] = mechanism
        if mechanism in _BY_PASSWORD:
            found["sasl.jaas.config"] = _jaas(mechanism, given)
        elif mechanism != "GSSAPI":
            known = ", ".join([*_BY_PASSWORD, "GSSAPI"])
            raise UsageError(f"sasl.mechanism {mechanism} is not supported (there are {known})")

    if given.get("enable.ssl.certificate.verification") == "false":
        raise UsageError("enable.ssl.certificate.verification=false is not supported: name the CA in ssl.ca.location")
    if "ssl.endpoint.identification.algorithm" in given:
        algorithm = given["ssl.endpoint.identification.algorithm"]
        found["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if authority := pem_of(given, "ssl.ca"):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    certificate, key = pem_of(given, "ssl.certificate"), pem_of(given, "ssl.key")
    if certificate and key:
        chain = {"ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": key}
        found |= {"ssl.keystore.type": "PEM", **chain}
    return found


def _jaas(mechanism: str, given: ClientSettings) -> str:
    def quoted(name: str) -> str:
        text = given.get(name, "").replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'

    user, password = quoted("sasl.username"), quoted("sasl.password")
    return f"{_BY_PASSWORD[mechanism]} required username={user} password={password};"


def pem_of(given: ClientSettings, name: str) -> str | None:
    """The PEM text of `ssl.ca`, `ssl.certificate` or `ssl.key`, given as such or by a file; None: not given.

    Raises:
        UsageError: the file cannot be read.
    """
    if text := given.get(f"{name}.pem"):
        return text
    place = given.get(f"{name}.location")
    if place is None:
        return None
    try:
        return Path(place).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}.location {place}: {error}") from None


def python_settings(given: ClientSettings) -> dict[str, Any]:
    """The settings as kafka-python names them; what tunes only librdkafka is left out.

    Raises:
        UsageError: a certificate or key cannot be read.
        ssl.SSLError: it is none.
    """
    found: dict[str, Any] = {"bootstrap_servers": [one.strip() for one in given[SERVERS].split(",")]}
    if name := given.get("client.id"):
        found["client_id"] = name
    if protocol := given.get("security.protocol"):
        found["security_protocol"] = protocol.upper()
    if mechanism := given.get("sasl.mechanism") or given.get("sasl.mechanisms"):
        found |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": given.get("sasl.username", ""),
            "sasl_plain_password": given.get("sasl.password", ""),
            "sasl_kerberos_service_name": given.get("sasl.kerberos.service.name", "kafka"),
        }
    if found.get("security_protocol") in ("SSL", "SASL_SSL"):
        found["ssl_context"] = _tls(given)
    return found


def _tls(given: ClientSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = given.get("ssl.endpoint.identification.algorithm") != "none"
    if authority := pem_of(given, "ssl.ca"):
        context.load_verify_locations(cadata=authority)
    else:
        context.load_default_certs()
    certificate, key = pem_of(given, "ssl.certificate"), pem_of(given, "ssl.key")
    if certificate and key:
        with _file(certificate) as chain, _file(key) as secret:
            context.load_cert_chain(chain, secret, given.get("ssl.key.password"))
    return context


@contextmanager
def _file(text: str) -> Iterator[Path]:
    """A file that only this user can read, for as long as OpenSSL reads it: it takes a key from nowhere else."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "pem"
        place.touch(0o600)
        place.write_text(text, encoding="ascii")
        yield place
