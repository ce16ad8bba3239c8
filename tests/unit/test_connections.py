"""How a cluster is reached: from settings or Airflow's variable, for both clients, and no secret is shown."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import ssl
import sys
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from onefold.errors import ClientSettingsError, UsageError
from onefold.kafka.cluster import Cluster
from onefold.kafka.connection import client_settings, java_settings, librdkafka_settings, python_settings
from onefold.kafka.logins import Token, provider
from onefold.kafka.raw_log import NoEvidenceError, RawLog
from onefold.settings import Settings, load_settings
from tests.support.certificates import certificate_in

SERVERS = {"bootstrap.servers": "broker:9092"}
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": 's"1',
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
}


def settings_with(**clusters: dict[str, str]) -> Settings:
    return Settings(kafka=dict(clusters))


def test_the_settings_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PROD", json.dumps({"extra": {"bootstrap.servers": "other:9092"}}))
    assert client_settings(settings_with(prod=SERVERS), "prod") == SERVERS


@pytest.mark.parametrize("packed", [False, True], ids=["extra is an object", "extra is text"])
def test_airflows_own_variable_serves_the_command_line_too(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    extra = {**SERVERS, "enable.ssl.certificate.verification": True, "socket.timeout.ms": 5000}
    given = json.dumps({"conn_type": "kafka", "extra": json.dumps(extra) if packed else extra})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", given)
    wanted = {**SERVERS, "enable.ssl.certificate.verification": "true", "socket.timeout.ms": "5000"}
    assert client_settings(settings_with(), "kafka_default") == wanted


def test_a_file_of_settings_may_hold_several_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onefold.toml").write_text(
        '[kafka.prod]\n"bootstrap.servers" = "a:1"\n[kafka.test]\n"client.id" = "x"\n'
    )
    monkeypatch.setenv("ONEFOLD_HOME", str(tmp_path))
    settings = load_settings()
    assert client_settings(settings, "prod") == {"bootstrap.servers": "a:1"}
    with pytest.raises(UsageError, match=r"'test' names no bootstrap\.servers"):
        client_settings(settings, "test")


def test_a_missing_connection_is_reported_with_the_places_to_describe_it() -> None:
    with pytest.raises(UsageError, match=r"'prod'.*\[kafka\.prod\].*ONEFOLD_KAFKA.*AIRFLOW_CONN_PROD"):
        client_settings(settings_with(), "prod")


@pytest.mark.parametrize("text", ["kafka://:hunter2@h", '"hunter2"', '{"extra": "hunter2"}', '{"extra": [1]}'])
def test_an_unreadable_variable_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PROD", text)
    with pytest.raises(UsageError, match="AIRFLOW_CONN_PROD is not") as raised:
        client_settings(settings_with(), "prod")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"no.such": "1"}, 'No such configuration property: "no.such"'),
        ({"security.protocol": "TLS"}, 'Invalid value "TLS" for configuration property "security.protocol"'),
        ({"socket.timeout.ms": "1"}, '"socket.timeout.ms" value 1 is outside allowed range 10..300000'),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere"}, "ssl.ca.location failed"),
        ({"sasl.jaas.config": "hunter2"}, "Java JAAS configuration is not supported"),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_a_setting_that_librdkafka_refuses_is_named(given: dict[str, str], said: str) -> None:
    cluster = Cluster("prod", SERVERS | given)
    asked: list[Callable[[], object]] = [lambda: cluster.id, lambda: list(cluster.records(("t", 0), 0, 1))]
    asked += [lambda: cluster.starts([("t", 0)]), lambda: cluster.commit_upwards("g", {("t", 0): 1})]
    for ask in asked:
        with pytest.raises(ClientSettingsError) as raised:
            ask()
        assert raised.value.exit_code == 2
        assert re.match(
            rf"prod \(broker:9092\): .*{re.escape(said)}.*\[kafka\.prod\].*AIRFLOW_CONN_PROD", str(raised.value)
        )
        assert not re.search(r"\n|hunter2", str(raised.value))


def test_the_text_of_settings_has_no_password() -> None:
    assert "hunter2" not in repr(settings_with(prod={**SERVERS, "sasl.password": "hunter2"}))


def test_the_jvm_gets_its_own_names() -> None:
    given = {**SERVERS, "security.protocol": "SASL_SSL", "socket.timeout.ms": "1", "group.id": "g", "client.id": "me"}
    given |= {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": 'a"b\\c'}
    assert java_settings(given) == {
        "bootstrap.servers": "broker:9092",
        "client.id": "me",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" '
        'password="a\\"b\\\\c";',
    }


def test_certificates_travel_as_text(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text(f"PEM of {name}")
    places = {"ssl.ca.location": "ca", "ssl.certificate.location": "cert", "ssl.key.location": "key"}
    given = SERVERS | {name: str(tmp_path / f"{file}.pem") for name, file in places.items()}
    given |= {"ssl.key.password": "p", "ssl.endpoint.identification.algorithm": "none"}
    assert java_settings(given) == {
        **SERVERS,
        "ssl.key.password": "p",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "PEM of ca",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "PEM of cert",
        "ssl.keystore.key": "PEM of key",
    }


def test_a_keystore_travels_as_text_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, store = certificate_in(tmp_path)
    given = SERVERS | {"security.protocol": "SSL"} | keystore_of(certificate, store)
    java = java_settings(given | {"ssl.key.password": "of another key"})
    assert java == SERVERS | {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate.read_text(),
        "ssl.keystore.key": store.read_text().removesuffix(certificate.read_text()),
    }
    shown: list[str] = []

    def take(_: ssl.SSLContext, chain: Path, key: Path, password: str | None) -> None:
        shown.extend((chain.read_text(), key.read_text(), str(password)))

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", take)
    python_settings(given)
    assert shown == [java["ssl.keystore.certificate.chain"], java["ssl.keystore.key"], "None"]


def keystore_of(certificate: Path, store: Path) -> dict[str, str]:
    """Settings of a keystore with a certificate and its key."""
    place, password = store.with_suffix(".p12"), "hunter2"
    key = serialization.load_pem_private_key(store.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    shown = x509.load_pem_x509_certificate(certificate.read_bytes())
    locked = serialization.BestAvailableEncryption(password.encode())
    place.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, shown, None, locked))
    return {"ssl.keystore.location": str(place), "ssl.keystore.password": password}


def test_a_keystore_that_cannot_be_opened_is_named_without_its_password(tmp_path: Path) -> None:
    given = keystore_of(*certificate_in(tmp_path))
    place = given["ssl.keystore.location"]
    wrongs = (({"ssl.keystore.password": "hunter3"}, place), ({"ssl.keystore.location": "/nowhere"}, "/nowhere"))
    for wrong, where in wrongs:
        with pytest.raises(UsageError) as raised:
            java_settings(SERVERS | given | wrong)
        assert str(raised.value).startswith(f"ssl.keystore.location {where}: ")
        assert "hunter" not in str(raised.value)


def test_kerberos_settings_are_passed_to_the_jvm() -> None:
    given = SERVERS | {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.kinit.cmd": "kinit"}
    wanted = SERVERS | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    assert java_settings(given) == wanted | {"sasl.kerberos.service.name": "kafka"}
    keytab = {"sasl.kerberos.keytab": "/etc/one.keytab", "sasl.kerberos.principal": "one@REALM"}
    assert java_settings(given | keytab | {"sasl.kerberos.service.name": "brokers"}) == wanted | {
        "sasl.kerberos.service.name": "brokers",
        "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
        'useKeyTab="true" storeKey="true" keyTab="/etc/one.keytab" principal="one@REALM";',
    }


def test_what_the_protocol_does_not_ask_for_hinders_nothing() -> None:
    idle = {"ssl.cipher.suites": "x", "sasl.oauthbearer.scope": "x", "client.rack": "a"}
    assert java_settings(SERVERS | idle) == SERVERS | {"client.rack": "a"}


def test_kafka_python_gets_its_own_names() -> None:
    given = {**SERVERS, "security.protocol": "sasl_plaintext", "socket.timeout.ms": "1", "client.id": "me"}
    given |= {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": 'a"b\\c'}
    assert python_settings({**given, "bootstrap.servers": "a:1, b:2"}) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "me",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": 'a"b\\c',
    }


def test_a_client_of_a_token_server_is_described_to_the_jvm() -> None:
    more = {"sasl.oauthbearer.scope": "read", "sasl.oauthbearer.extensions": "pool=p-1, cluster=c=1"}
    package = "org.apache.kafka.common.security.oauthbearer"
    options = 'clientId="me" clientSecret="s\\"1" scope="read" extension_pool="p-1" extension_cluster="c=1"'
    assert java_settings(SERVERS | SASL | more | {"https.ca.pem": "-\nA"}) == SERVERS | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": "https://login/token",
        "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required {options} "
        'ssl.truststore.type="PEM" ssl.truststore.certificates="-\\nA";',
    }


def test_librdkafka_gets_the_authorities_that_this_machine_trusts() -> None:
    found = librdkafka_settings(SERVERS | SASL)
    assert "BEGIN CERTIFICATE" in Path(found.pop("https.ca.location")).read_text()
    assert found == SERVERS | SASL
    own = SERVERS | SASL | {"https.ca.location": "/own.pem"}
    assert librdkafka_settings(own) == own
    assert librdkafka_settings(SERVERS) == SERVERS


def test_a_token_is_kept_until_shortly_before_it_expires() -> None:
    asked = iter([Token("a", time.time() + 59), Token("b", time.time() + 3600), Token("c", 0)])
    kept = provider(lambda: next(asked), {"pool": "p-1"})
    assert [kept.token() for _ in range(3)] == ["a", "b", "b"]
    assert kept.extensions() == {"pool": "p-1"}


BROKERS = "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com:9098"
MSK = {"bootstrap.servers": BROKERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials of a session, and of a profile without one."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalr/secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session+token")
    profile = tmp_path / "credentials"
    profile.write_text("[other]\naws_access_key_id = AKIDOTHER\naws_secret_access_key = other/secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def signed_by(query: dict[str, str], host: str, region: str, secret: str) -> str:
    """AWS's signature, version 4, of a request by its query."""
    text = "&".join(f"{quote(name, '')}={quote(query[name], '')}" for name in sorted(query))
    empty = hashlib.sha256(b"").hexdigest()
    request = hashlib.sha256(f"GET\n/\n{text}\nhost:{host}\n\nhost\n{empty}".encode()).hexdigest()
    day = query["X-Amz-Date"][:8]
    wanted = f"AWS4-HMAC-SHA256\n{query['X-Amz-Date']}\n{day}/{region}/kafka-cluster/aws4_request\n{request}"
    key = f"AWS4{secret}".encode()
    for part in (day, region, "kafka-cluster", "aws4_request", wanted):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


@pytest.mark.usefixtures("amazon")
@pytest.mark.parametrize(
    ("more", "region", "key", "secret", "session"),
    [
        ({}, "eu-west-1", "AKIDEXAMPLE", "wJalr/secret", "session+token"),
        ({"sasl.aws.profile": "other"}, "eu-west-1", "AKIDOTHER", "other/secret", None),
        ({"sasl.aws.region": "us-east-2"}, "us-east-2", "AKIDEXAMPLE", "wJalr/secret", "session+token"),
        (
            {"bootstrap.servers": "boot-x.c1.kafka-serverless.ap-south-1.amazonaws.com:9098"},
            "ap-south-1",
            "AKIDEXAMPLE",
            "wJalr/secret",
            "session+token",
        ),
    ],
    ids=["default", "profile", "region", "serverless"],
)
def test_an_identity_of_amazon_is_a_signed_request(
    more: dict[str, str], region: str, key: str, secret: str, session: str | None
) -> None:
    begun = time.time()
    token, until = librdkafka_settings(MSK | more)["oauth_cb"]("")
    url = urlsplit(urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = dict(parse_qsl(url.query, strict_parsing=True))
    host = f"kafka.{region}.amazonaws.com"
    assert (url.scheme, url.netloc, url.path) == ("https", host, "/")
    assert re.match("aws-msk-iam-sasl-signer-python/", query.pop("User-Agent"))
    signature = query.pop("X-Amz-Signature")
    assert query == {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{key}/{query['X-Amz-Date'][:8]}/{region}/kafka-cluster/aws4_request",
        "X-Amz-Date": query["X-Amz-Date"],
        "X-Amz-Expires": "900",
        "X-Amz-SignedHeaders": "host",
    } | ({"X-Amz-Security-Token": session} if session else {})
    assert signature == signed_by(query, host, region, secret)
    signed_at = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    assert begun - 1 <= signed_at <= time.time()
    assert begun + 900 <= until <= time.time() + 900


@pytest.mark.usefixtures("amazon")
def test_each_client_gets_an_identity_of_amazon_in_its_own_way() -> None:
    given = MSK | {"sasl.aws.profile": "other", "client.id": "me"}
    assert java_settings(given) == {
        "bootstrap.servers": BROKERS,
        "client.id": "me",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": 'software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="other";',
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    python = python_settings(given)
    assert python["sasl_mechanism"] == "OAUTHBEARER"
    assert urlsafe_b64decode(python["sasl_oauth_token_provider"].token() + "==").startswith(b"https://kafka.eu-west-1.")
    librdkafka = librdkafka_settings(given)
    del librdkafka["oauth_cb"]
    assert librdkafka == {
        "bootstrap.servers": BROKERS,
        "client.id": "me",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
    }


def test_an_identity_of_amazon_that_cannot_be_made_says_what_is_missing(
    amazon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"AWS_MSK_IAM: .*\(none\) could not be found"):
        librdkafka_settings(MSK | {"sasl.aws.profile": "none"})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with pytest.raises(UsageError, match="there are no credentials of Amazon's here"):
        librdkafka_settings(MSK)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    for settings in (librdkafka_settings, python_settings):
        with pytest.raises(UsageError, match=r"pip install 'onefold\[msk\]'"):
            settings(MSK)


def test_kafka_python_shows_the_certificate_and_checks_the_brokers_name(tmp_path: Path) -> None:
    certificate, store = certificate_in(tmp_path)
    files = {"ssl.ca.location": str(certificate), "ssl.certificate.location": str(certificate)}
    text = {"ssl.ca.pem": certificate.read_text(), "ssl.certificate.pem": certificate.read_text()}
    for given in (files | {"ssl.key.location": str(store)}, text | {"ssl.key.pem": store.read_text()}):
        context = python_settings(SERVERS | {"security.protocol": "SSL"} | given)["ssl_context"]
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert [certificate["subject"] for certificate in context.get_ca_certs()] == [((("commonName", "broker"),),)]
    lenient = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}
    assert not python_settings(SERVERS | files | lenient)["ssl_context"].check_hostname


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"},
        {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"},
    ],
    ids=["no broker", "what is not installed", "no certificate"],
)
def test_brokers_that_kafka_python_cannot_reach_are_asked_once(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    monkeypatch.setattr("onefold.kafka.raw_log.SECONDS", 0.3)
    with RawLog({"bootstrap.servers": "127.0.0.1:9"} | given) as log:
        with pytest.raises(NoEvidenceError, match=r"kafka-python cannot reach 127\.0\.0\.1:9: ") as raised:
            log.fetch("t", 0, 0, 1)
        monkeypatch.setattr("onefold.kafka.raw_log.SECONDS", 300.0)
        with pytest.raises(NoEvidenceError, match=re.escape(str(raised.value))):
            log.fetch("t", 1, 0, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sasl.mechanism": "EXTERNAL"}, r"EXTERNAL is not supported \(there are PLAIN, .*OAUTHBEARER"),
        ({"sasl.mechanism": "OAUTHBEARER"}, r"method=oidc and client credentials"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}, r"needs sasl\.oauthbearer\.token\.end"),
        ({**SASL, "sasl.oauthbearer.config": "x"}, r"^sasl\.oauthbearer\.config is not supported"),
        (MSK | {"security.protocol": "SASL_PLAINTEXT"}, r"AWS_MSK_IAM needs security\.protocol=SASL_SSL"),
        (MSK | SERVERS, r"AWS_MSK_IAM needs sasl\.aws\.region"),
        ({"enable.ssl.certificate.verification": "false"}, "name the CA"),
        ({"enable.ssl.certificate.verification": "0"}, "name the CA"),
        ({"security.protocol": "ssl", "ssl.crl.location": "x"}, r"^ssl\.crl\.location is not supported"),
        ({"security.protocol": "SASL_SSL", "ssl.cipher.suites": "x"}, r"^ssl\.cipher\.suites is not supported"),
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
    ],
)
def test_what_cannot_be_kept_safe_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        java_settings(SERVERS | given)
