"""Brokers that ask for a token (SASL/OAUTHBEARER): all three clients get theirs from the token server."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold.errors import ClusterRefusedError, ClusterUnavailableError
from onefold.kafka.condition import Activity
from onefold.kafka.inspection import Inspection
from onefold.kafka.logins import ByAmazonIdentity, ByClientCredentials
from onefold.lake import Lake
from sample.broker import Broker
from tests.support.certificates import certificate_in
from tests.support.logs import Client, kinds, wait_for_end
from tests.support.token_server import AUDIENCE, CLIENT, SCOPE, SECRET, TokenServer
from tests.support.topics import Topics

pytestmark = pytest.mark.kafka
_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_LISTENER = "listener.name.secure.oauthbearer"


@dataclass
class Guarded:
    """A broker that asks for tokens, and who gives them."""

    broker: Broker
    tokens: TokenServer
    certificate: Path

    def settings(self, **more: str) -> dict[str, str | int | float | bool]:
        """A connection, as Confluent's documentation writes it."""
        return {
            "bootstrap.servers": self.broker.secured,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificate),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.scope": SCOPE,
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
            "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
            "https.ca.location": str(self.certificate),
        } | more


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("tokens")
    certificate, store = certificate_in(folder)
    with TokenServer(folder, store) as tokens:
        keys = tokens.keys.as_uri()
        secure = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": keys,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{_LISTENER}.sasl.jaas.config": f"{_PACKAGE}.OAuthBearerLoginModule required;",
            f"{_LISTENER}.sasl.server.callback.handler.class": f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": store,
        }
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
        with Broker(secure=secure, jvm=(allowed,)) as broker:
            yield Guarded(broker, tokens, certificate)


@pytest.fixture
def topic(guarded: Guarded, lake: Lake, session: SparkSession) -> Topics:
    t = Topics.on(guarded.broker.bootstrap, lake, session, f"guarded-{uuid.uuid4().hex[:8]}")
    t.create()
    return t


def reached_by(t: Topics, settings: dict[str, str | int | float | bool]) -> Topics:
    t.lake = Lake(t.lake.settings.model_copy(update={"kafka": {"kafka_default": settings}}))
    return t


def test_a_topic_is_planned_landed_and_its_holes_explained_by_tokens(guarded: Guarded, topic: Topics) -> None:
    transaction = Client.in_transaction(topic)
    transaction.send("a")
    transaction.end(commit=False)
    wait_for_end(topic, 2)
    Client(topic).send("b")
    t = reached_by(topic, guarded.settings())
    manifest = t.land(t.plan())  # planned by librdkafka, read by Spark's client, explained by kafka-python
    assert [offset for _, _, offset in t.positions(manifest)] == [2]
    assert (kinds(manifest.holes), manifest.notes) == ({0: "aborted", 1: "control"}, [])
    found = Inspection("c", {name: str(value) for name, value in guarded.settings().items()}).condition([*t.names])
    assert isinstance(found.activity, Activity)
    assert guarded.tokens.asked >= 3


def test_the_clients_in_python_send_tokens_that_are_made_here(
    guarded: Guarded, topic: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for Amazon MSK; this broker takes the token server's."""
    settings = {name: str(value) for name, value in guarded.settings().items()}
    own = {name: settings[name] for name in ("bootstrap.servers", "security.protocol", "ssl.ca.location")}
    own |= {"sasl.mechanism": "AWS_MSK_IAM", "sasl.aws.region": "eu-west-1"}
    monkeypatch.setattr(ByAmazonIdentity, "token", lambda _: ByClientCredentials(settings).token())
    Client(topic).send("b")
    plan = reached_by(topic, dict(own)).plan()
    assert [range_.end for range_ in plan.ranges] == [1]
    assert isinstance(Inspection("c", own).condition([*topic.names]).activity, Activity)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sasl.oauthbearer.client.secret": "battery-staple"}, "invalid_client"),
        ({"sasl.oauthbearer.scope": "other"}, "invalid_scope"),
    ],
)
def test_a_client_without_a_token_fails_at_once(
    guarded: Guarded, topic: Topics, wrong: dict[str, str], said: str
) -> None:
    begun = time.monotonic()
    with pytest.raises(ClusterRefusedError, match=f"kafka_default .*{said}") as raised:
        reached_by(topic, guarded.settings(**wrong)).plan()
    assert time.monotonic() - begun < 20, "librdkafka would try for longer"
    assert "battery-staple" not in str(raised.value)


def test_a_token_server_that_is_away_may_come_back(
    guarded: Guarded, topic: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.kafka.cluster.SECONDS", 3.0)
    away = {"sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token"}
    with pytest.raises(ClusterUnavailableError, match=r"OAUTHBEARER token: .*127\.0\.0\.1"):
        reached_by(topic, guarded.settings(**away)).plan()
