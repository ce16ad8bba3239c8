"""How to reach a cluster: client settings by connection name, never from a dataset file or a command line.

They are in librdkafka's names, as Airflow's Kafka connections have them. The JVM's client and kafka-python have
other names for some of them.
"""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from onefold.errors import UsageError
from onefold.kafka.logins import HANDLED, OAUTH, login_of, mechanism_of
from onefold.kafka.pem import file_of, pem_of
from onefold.settings import Settings

ClientSettings = dict[str, str]
SERVERS = "bootstrap.servers"
_SHARED = (SERVERS, "client.id", "client.rack", "client.dns.lookup", "security.protocol")
_HANDLED = HANDLED | {
    *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location"),
    *("ssl.key.pem", "ssl.key.password", "ssl.keystore.location", "ssl.keystore.password"),
    "ssl.endpoint.identification.algorithm",
}
"""Settings of TLS and SASL that are translated for the JVM's client, or do not concern it."""


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
        UsageError: something that decides about security has no counterpart there, or cannot be read.
    """
    _check_security(given)
    found = {name: given[name] for name in _SHARED if name in given}
    if login := login_of(given):
        found |= login.java()

    verifies = given.get("enable.ssl.certificate.verification", "true")
    if verifies.lower() in ("false", "f", "0"):
        problem = f"enable.ssl.certificate.verification={verifies} is not supported"
        raise UsageError(f"{problem}: name the CA in ssl.ca.location")
    if "ssl.endpoint.identification.algorithm" in given:
        algorithm = given["ssl.endpoint.identification.algorithm"]
        found["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if authority := pem_of(given, "ssl.ca"):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    if shown := _certificate_of(given):
        chain = {"ssl.keystore.certificate.chain": shown.chain, "ssl.keystore.key": shown.key}
        found |= {"ssl.keystore.type": "PEM", **chain}
        if shown.password:
            found["ssl.key.password"] = shown.password
    return found


def _check_security(given: ClientSettings) -> None:
    """Refuse what decides about security, where the protocol asks for it, and would be left out."""
    protocol = given.get("security.protocol", "").upper()
    rooms = {"ssl.": protocol.endswith("SSL"), "sasl.": protocol.startswith("SASL")}
    idle = OAUTH if mechanism_of(given) != "OAUTHBEARER" else "\0"
    for name in sorted(name for name in given.keys() - _HANDLED if not name.startswith(idle)):
        if any(name.startswith(room) and used for room, used in rooms.items()):
            raise UsageError(
                f"{name} is not supported: the topics are read by Spark's client, which has no such setting. "
                "Nothing was read. Remove it from the connection, or land an export (source.exports)."
            )


class _Certificate(NamedTuple):
    """What a client shows, in PEM; `password` is the key's."""

    chain: str
    key: str
    password: str | None = None


def _certificate_of(given: ClientSettings) -> _Certificate | None:
    """The client's certificate and key; of a keystore, where it is set, as librdkafka takes it.

    Raises:
        UsageError: it cannot be read.
    """
    if place := given.get("ssl.keystore.location"):
        return _of_keystore(place, given.get("ssl.keystore.password"))
    certificate, key = pem_of(given, "ssl.certificate"), pem_of(given, "ssl.key")
    return _Certificate(certificate, key, given.get("ssl.key.password")) if certificate and key else None


def _of_keystore(place: str, password: str | None) -> _Certificate:
    """What a keystore (PKCS#12) holds, as text: executors need no file, and kafka-python takes no other."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        held = pkcs12.load_pkcs12(Path(place).read_bytes(), None if password is None else password.encode())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"ssl.keystore.location {place}: {error}. Nothing was read.") from None
    if held.key is None or held.cert is None:
        raise UsageError(f"ssl.keystore.location {place} holds no key with its certificate. Nothing was read.")
    chain = [
        certificate.certificate.public_bytes(Encoding.PEM).decode()
        for certificate in (held.cert, *held.additional_certs)
    ]
    key = held.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return _Certificate("".join(chain), key)


def librdkafka_settings(given: ClientSettings) -> dict[str, Any]:
    """The settings as librdkafka takes them: as they are, but for what its login needs.

    Raises:
        UsageError: the login lacks something.
    """
    login = login_of(given)
    return login.librdkafka() if login else dict(given)


def python_settings(given: ClientSettings) -> dict[str, Any]:
    """The settings as kafka-python names them; what tunes only librdkafka is left out.

    Raises:
        UsageError: a certificate or key cannot be read.
        ssl.SSLError: it is none.
    """
    found: dict[str, Any] = {"bootstrap_servers": [server.strip() for server in given[SERVERS].split(",")]}
    if name := given.get("client.id"):
        found["client_id"] = name
    if protocol := given.get("security.protocol"):
        found["security_protocol"] = protocol.upper()
    if login := login_of(given):
        found |= login.python()
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
    if shown := _certificate_of(given):
        with file_of(shown.chain) as chain, file_of(shown.key) as secret:
            context.load_cert_chain(chain, secret, shown.password)
    return context
