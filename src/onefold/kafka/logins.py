"""How a client says who it is, by SASL mechanism, in the words of each of the three clients.

Connections are in librdkafka's names. The JVM's client takes a JAAS line, kafka-python arguments, and what librdkafka
lacks it is given as a function that makes a token.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

from onefold.errors import UsageError
from onefold.kafka.pem import file_of, pem_of

Given = Mapping[str, str]
MECHANISMS = ("sasl.mechanism", "sasl.mechanisms")
OAUTH = "sasl.oauthbearer."
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_TIMEOUT, _EARLY = 30.0, 60.0
"""Seconds that a token server may take, and that a token is renewed before it expires."""


_MSK, _MSK_CLASSES = "AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAM"
_MSK_SECONDS = 900.0
"""How long Amazon's signer lets a token live."""
_REGION, _PROFILE = "sasl.aws.region", "sasl.aws.profile"
_OF_AMAZON = re.compile(r"\.(?:kafka|kafka-serverless)\.([a-z0-9-]+)\.amazonaws\.com")


class Login(Protocol):
    """What one mechanism makes of a connection."""

    handled: ClassVar[frozenset[str]]
    """The settings, except the mechanism's name, that it translates or that do not concern it."""

    def __init__(self, given: Given) -> None: ...

    def java(self) -> dict[str, str]:
        """Settings of the JVM's client, the mechanism's name included.

        Raises:
            UsageError: something is missing, or has no counterpart there.
        """

    def python(self) -> dict[str, Any]:
        """Arguments of kafka-python, the mechanism's name included."""

    def librdkafka(self) -> dict[str, Any]:
        """The connection as librdkafka takes it: what its login needs, and no name that it does not know."""


@dataclass(frozen=True)
class ByPassword:
    """PLAIN and SCRAM."""

    given: Given
    handled: ClassVar = frozenset({"sasl.username", "sasl.password"})

    def java(self) -> dict[str, str]:
        """A user and a password."""
        name = mechanism_of(self.given) or ""
        kind = "plain.PlainLoginModule" if name == "PLAIN" else "scram.ScramLoginModule"
        options = {option: self.given.get(f"sasl.{option}", "") for option in ("username", "password")}
        return {"sasl.mechanism": name, "sasl.jaas.config": jaas(f"org.apache.kafka.common.security.{kind}", options)}

    def python(self) -> dict[str, Any]:
        """A user and a password."""
        return {
            "sasl_mechanism": mechanism_of(self.given),
            "sasl_plain_username": self.given.get("sasl.username", ""),
            "sasl_plain_password": self.given.get("sasl.password", ""),
        }

    def librdkafka(self) -> dict[str, Any]:
        """As it is."""
        return dict(self.given)


@dataclass(frozen=True)
class ByTicket:
    """Kerberos. Without a keytab the JVM's own login configuration says who it is."""

    given: Given
    handled: ClassVar = frozenset(
        {
            *("sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab"),
            *("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"),  # how librdkafka renews a ticket
        }
    )

    @property
    def _service(self) -> str:
        return self.given.get("sasl.kerberos.service.name", "kafka")

    def java(self) -> dict[str, str]:
        """A service's name, and perhaps a keytab."""
        found = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": self._service}
        if keytab := self.given.get("sasl.kerberos.keytab"):
            principal = self.given.get("sasl.kerberos.principal", "kafkaclient")
            options = {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab, "principal": principal}
            found["sasl.jaas.config"] = jaas("com.sun.security.auth.module.Krb5LoginModule", options)
        return found

    def python(self) -> dict[str, Any]:
        """A service's name."""
        return {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": self._service}

    def librdkafka(self) -> dict[str, Any]:
        """As it is."""
        return dict(self.given)


class Token(NamedTuple):
    """What a token server gave."""

    text: str
    until: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class ByClientCredentials:
    """OAUTHBEARER by OpenID Connect: a client's id and secret are exchanged for a token, which brokers verify."""

    given: Given
    handled: ClassVar = frozenset(
        {
            *(f"{OAUTH}{name}" for name in ("method", "client.id", "client.credentials.client.id", "grant.type")),
            *(f"{OAUTH}{name}" for name in ("client.secret", "client.credentials.client.secret", "scope")),
            *(f"{OAUTH}{name}" for name in ("extensions", "token.endpoint.url")),
            *("https.ca.location", "https.ca.pem"),
        }
    )

    @cached_property
    def _asked(self) -> tuple[str, str, str]:
        """The token server's address, the client's id and its secret."""
        method, grant = self._named("method"), self._named("grant.type") or "client_credentials"
        if method.lower() != "oidc" or grant != "client_credentials":
            raise UsageError(
                f"sasl.mechanism OAUTHBEARER is supported with {OAUTH}method=oidc and client credentials "
                f"({OAUTH}client.id, {OAUTH}client.secret, {OAUTH}token.endpoint.url). Nothing was read."
            )
        found = [self._named(*names) for names in (("token.endpoint.url",), _CLIENT_ID, _CLIENT_SECRET)]
        for name, text in zip(("token.endpoint.url", _CLIENT_ID[0], _CLIENT_SECRET[0]), found, strict=True):
            if not text:
                raise UsageError(f"sasl.mechanism OAUTHBEARER needs {OAUTH}{name}. Nothing was read.")
        return found[0], found[1], found[2]

    def _named(self, *names: str) -> str:
        return next((self.given[f"{OAUTH}{name}"] for name in names if f"{OAUTH}{name}" in self.given), "")

    @cached_property
    def extensions(self) -> dict[str, str]:
        """What the broker gets together with the token, by name (Confluent Cloud: the cluster's and the pool's id)."""
        pairs = [pair.partition("=") for pair in self._named("extensions").split(",") if pair]
        return {name.strip(): value.strip() for name, _, value in pairs}

    def java(self) -> dict[str, str]:
        """The client, what it asks for, and the authority of the token server's certificate."""
        url, client, secret = self._asked
        options = {"clientId": client, "clientSecret": secret}
        if scope := self._named("scope"):
            options["scope"] = scope
        options |= {f"extension_{name}": value for name, value in self.extensions.items()}
        if authority := pem_of(self.given, "https.ca"):
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": _OAUTH_HANDLER,
            f"{OAUTH}token.endpoint.url": url,
            "sasl.jaas.config": jaas(_OAUTH_MODULE, options),
        }

    def python(self) -> dict[str, Any]:
        """A provider of tokens that asks the server itself."""
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider(self.token, self.extensions)}

    def librdkafka(self) -> dict[str, Any]:
        """With the authorities of this machine: what librdkafka brings looks for them where only some systems have
        them."""
        _ = self._asked
        return ({} if "https.ca.pem" in self.given else {"https.ca.location": _authorities()}) | dict(self.given)

    def token(self) -> Token:
        """A token, from the server.

        Raises:
            requests.RequestException: the server does not answer, or refuses the client.
        """
        import requests

        url, client, secret = self._asked
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if (scope := self._named("scope")) else {})
        with _authority(self.given) as verify:
            answer = requests.post(url, form, auth=(client, secret), timeout=_TIMEOUT, verify=verify)
        answer.raise_for_status()
        found = answer.json()
        return Token(str(found["access_token"]), time.time() + float(found.get("expires_in", 300)))


@dataclass(frozen=True)
class ByAmazonIdentity:
    """AWS_MSK_IAM: a request that is signed with Amazon's credentials says who calls. The JVM's client needs Amazon's
    jar for it; the others send the same signature as a token (OAUTHBEARER).

    Source: https://docs.aws.amazon.com/msk/latest/developerguide/configure-clients-for-iam-access-control.html
    """

    given: Given
    handled: ClassVar = frozenset({_REGION, _PROFILE})

    @cached_property
    def region(self) -> str:
        """The region of the brokers: as it is given, or as their names have it."""
        servers = self.given.get("bootstrap.servers", "")
        found = self.given.get(_REGION) or next(iter(_OF_AMAZON.findall(servers)), "")
        if self.given.get("security.protocol", "").upper() != "SASL_SSL":
            raise UsageError(f"sasl.mechanism {_MSK} needs security.protocol=SASL_SSL. Nothing was read.")
        if not found:
            raise UsageError(
                f"sasl.mechanism {_MSK} needs {_REGION}, for the names of the brokers have no region. Nothing was read."
            )
        return found

    def java(self) -> dict[str, str]:
        """The classes of Amazon's jar, which finds region and credentials by itself."""
        _ = self.region
        options = {"awsProfileName": profile} if (profile := self.given.get(_PROFILE)) else {}
        return {
            "sasl.mechanism": _MSK,
            "sasl.jaas.config": jaas(f"{_MSK_CLASSES}LoginModule", options),
            "sasl.client.callback.handler.class": f"{_MSK_CLASSES}ClientCallbackHandler",
        }

    def python(self) -> dict[str, Any]:
        """A provider of tokens."""
        _ = self.region, self._signer
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider(self.token, {})}

    def librdkafka(self) -> dict[str, Any]:
        """A function that makes tokens; the first is made at once, for librdkafka would not say why there is none."""
        self.token()
        kept = {name: text for name, text in self.given.items() if name not in {*MECHANISMS, *self.handled}}
        return kept | {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: tuple(self.token())}

    def token(self) -> Token:
        """A token: the address of a signed request, which brokers accept for a quarter of an hour.

        Raises:
            UsageError: there are no credentials, or no such profile.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        profile, signer = self.given.get(_PROFILE), self._signer
        try:
            made = (
                signer.generate_auth_token_from_profile(self.region, profile)
                if profile
                else signer.generate_auth_token(self.region)
            )
        except AttributeError:  # the signer asks None for its key
            raise UsageError(
                f"sasl.mechanism {_MSK}: there are no credentials of Amazon's here. Nothing was read."
            ) from None
        except (BotoCoreError, ClientError) as error:
            raise UsageError(f"sasl.mechanism {_MSK}: {error}. Nothing was read.") from None
        return Token(made[0], time.time() + _MSK_SECONDS)

    @property
    def _signer(self) -> Any:
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        except ImportError:
            raise UsageError(
                f"sasl.mechanism {_MSK} needs the package aws-msk-iam-sasl-signer-python (pip install 'onefold[msk]'). "
                "Nothing was read."
            ) from None
        return MSKAuthTokenProvider


_CLIENT_ID = ("client.id", "client.credentials.client.id")
_CLIENT_SECRET = ("client.secret", "client.credentials.client.secret")
LOGINS: dict[str, type[Login]] = {
    "PLAIN": ByPassword,
    "SCRAM-SHA-256": ByPassword,
    "SCRAM-SHA-512": ByPassword,
    "GSSAPI": ByTicket,
    "OAUTHBEARER": ByClientCredentials,
    _MSK: ByAmazonIdentity,
}
"""What each mechanism is made of; a new one is a class and a row."""
HANDLED = frozenset(MECHANISMS).union(*(login.handled for login in LOGINS.values()))
"""Settings that some mechanism takes; of those that the connection's own does not ask for, none is used."""


def mechanism_of(given: Given) -> str | None:
    """The mechanism that a connection names; where SASL is asked for, librdkafka's own choice is GSSAPI."""
    named = next((given[name] for name in MECHANISMS if name in given), None)
    return named or ("GSSAPI" if given.get("security.protocol", "").upper().startswith("SASL") else None)


def login_of(given: Given) -> Login | None:
    """The login of a connection; None: it has none.

    Raises:
        UsageError: its mechanism is not known.
    """
    if (mechanism := mechanism_of(given)) is None:
        return None
    if mechanism not in LOGINS:
        raise UsageError(f"sasl.mechanism {mechanism} is not supported (there are {', '.join(LOGINS)})")
    return LOGINS[mechanism](given)


def jaas(module: str, options: Mapping[str, str]) -> str:
    """A line of a JAAS configuration; its parser ends a quoted text at a line's end."""

    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    return " ".join([module, "required", *(f"{name}={quoted(text)}" for name, text in options.items())]) + ";"


def provider(token: Callable[[], Token], extensions: Mapping[str, str]) -> Any:
    """kafka-python's form of a function that makes tokens; one is kept until shortly before it expires."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        kept: Token | None = None

        def token(self) -> str:
            if self.kept is None or self.kept.until - _EARLY < time.time():
                self.kept = token()
            return self.kept.text

        def extensions(self) -> dict[str, str]:
            return dict(extensions)

    return Provider()


@contextmanager
def _authority(given: Given) -> Iterator[str]:
    """The file by which a token server's certificate is verified."""
    if text := pem_of(given, "https.ca"):
        with file_of(text) as place:
            yield str(place)
    else:
        yield _authorities()


def _authorities() -> str:
    """The file of the authorities that this machine trusts; else that of Python's package."""
    import certifi

    return ssl.get_default_verify_paths().cafile or certifi.where()
