"""A registry with Confluent's API: Confluent's own, Karapace, Redpanda's, and Apicurio, which has a second API for its
own ids.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html,
https://www.apicur.io/registry/docs/apicurio-registry/2.6.x/assets-attachments/registry-rest-api.htm
"""

from __future__ import annotations

import re
from typing import Any, cast
from urllib.parse import quote

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from onefold.dataset.writer_schema import SchemaReference, SchemaType, WriterSchema
from onefold.errors import RegistryRefusedError, RegistryUnavailableError
from onefold.formats.wire import IdSpace, SchemaId
from onefold.schemas.client import Answer
from onefold.schemas.connection import AUTHORITY, CERTIFICATE, KEY, TOKEN, URL, USER, RegistrySettings

TRIES = 4
"""How often a question is repeated, after 0, 1, 2 and 4 seconds or as long as the registry says."""
TIMEOUT = (5, 30)
"""Seconds until a connection is made, and until an answer begins."""
MOST_REFERENCES = 200
"""Schemas that one schema is built on, at most."""
_BUSY = (429, 500, 502, 503, 504)
_UNKNOWN = (40401, 40402, 40403)
"""Confluent's codes of: no such subject, version, schema."""
_COMPATIBLE = re.compile(r"/apis/ccompat/v\d+/?$")
_OWN_API = "/apis/registry/v2"
_TYPES = ("AVRO", "JSON", "PROTOBUF")


class Registry:
    """`onefold.schemas.client.Client` over HTTP."""

    def __init__(self, connection: str, settings: RegistrySettings) -> None:
        self._connection, self._url = connection, settings[URL].rstrip("/")
        self._session = requests.Session()
        retry = Retry(TRIES, backoff_factor=0.5, status_forcelist=_BUSY, raise_on_status=False, redirect=3)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retry))
        if user := settings.get(USER):
            name, _, password = user.partition(":")
            self._session.auth = (name, password)
        if token := settings.get(TOKEN):
            self._session.headers["Authorization"] = f"Bearer {token}"
        if authority := settings.get(AUTHORITY):
            self._session.verify = authority
        if certificate := settings.get(CERTIFICATE):
            self._session.cert = (certificate, settings[KEY]) if settings.get(KEY) else certificate

    def schema(self, schema_id: SchemaId) -> Answer | None:
        """The schema of an id."""
        match schema_id.space:
            case IdSpace.CONFLUENT:
                return self._of_id(f"/schemas/ids/{schema_id.value}", f"/schemas/ids/{schema_id.value}/versions")
            case IdSpace.GUID:
                return self._of_id(f"/schemas/guids/{schema_id.value}")
            case IdSpace.GLOBAL | IdSpace.CONTENT if _COMPATIBLE.search(self._url):
                return self._of_own_id(f"/ids/{schema_id.space}Ids/{schema_id.value}")
            case _:
                return None

    def _of_id(self, path: str, subjects: str | None = None) -> Answer | None:
        given = self._json(path)
        if given is None:
            return None
        named = (self._json(subjects) if subjects else None) or []
        return Answer(self._schema_in(given), [(entry["subject"], entry["version"]) for entry in named])

    def newest(self, subject: str) -> Answer | None:
        """The newest schema of a subject."""
        return self._of_version(subject, "latest")

    def versions(self, subject: str, most: int) -> list[Answer]:
        """The newest schemas of a subject, the newest first."""
        numbers = self._json(f"/subjects/{quote(subject, safe='')}/versions") or []
        answers = (self._of_version(subject, number) for number in sorted(numbers, reverse=True)[:most])
        return [answer for answer in answers if answer]

    def _of_version(self, subject: str, version: int | str) -> Answer | None:
        given = self._json(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        return Answer(self._schema_in(given), [(subject, given["version"])]) if given else None

    def _schema_in(self, given: dict[str, Any]) -> WriterSchema:
        """The schema of an answer, with all that it is built on."""
        references: dict[tuple[str, int], SchemaReference] = {}
        self._follow(given, references)
        return WriterSchema(
            type=self._type(given.get("schemaType") or "AVRO"),
            text=given["schema"],
            references=list(references.values()),
        )

    def _follow(self, given: dict[str, Any], found: dict[tuple[str, int], SchemaReference], depth: int = 0) -> None:
        """Add the schemas that a schema is built on, each behind its own."""
        for entry in given.get("references") or ():
            place = (entry["subject"], entry["version"])
            if place in found:
                continue
            if len(found) >= MOST_REFERENCES or depth >= MOST_REFERENCES:
                raise self._refused(f"a schema is built on more than {MOST_REFERENCES} others")
            subject = quote(place[0], safe="")
            schema = self._json(f"/subjects/{subject}/versions/{place[1]}?deleted=true")
            if schema is None:
                raise self._refused(f"a schema is built on version {place[1]} of {place[0]}, which it does not have")
            self._follow(schema, found, depth + 1)
            found[place] = SchemaReference(
                name=entry["name"], subject=place[0], version=place[1], text=schema["schema"]
            )

    def _of_own_id(self, path: str) -> Answer | None:
        """By Apicurio's own API, which gives the schema as it is."""
        base = _COMPATIBLE.sub(_OWN_API, self._url)
        answer = self._ask(base + path)
        if answer.status_code == requests.codes.not_found and self._own_code(answer) is not None:
            return None
        self._check(answer)
        references = self._own_references(base, f"{base}{path}/references", {})
        is_protobuf = "protobuf" in answer.headers.get("Content-Type", "")
        return Answer(WriterSchema(type="PROTOBUF" if is_protobuf else "", text=answer.text, references=references))

    def _own_references(
        self, base: str, url: str, found: dict[tuple[str, str], SchemaReference]
    ) -> list[SchemaReference]:
        answer = self._ask(url)
        self._check(answer)
        for entry in answer.json():
            place = (entry["artifactId"], str(entry["version"]))
            if place in found:
                continue
            if len(found) >= MOST_REFERENCES:
                raise self._refused(f"a schema is built on more than {MOST_REFERENCES} others")
            group, artifact = (quote(entry.get(name) or "default", safe="") for name in ("groupId", "artifactId"))
            version = f"{base}/groups/{group}/artifacts/{artifact}/versions/{quote(place[1], safe='')}"
            content = self._ask(version)
            self._check(content)
            self._own_references(base, f"{version}/references", found)
            number = int(place[1]) if place[1].isdigit() else 0
            found[place] = SchemaReference(name=entry["name"], subject=place[0], version=number, text=content.text)
        return list(found.values())

    def _own_code(self, answer: requests.Response) -> int | None:
        """The code by which Apicurio's own API says that it has no such thing; None: it says something else."""
        try:
            given = answer.json()
        except ValueError:
            return None
        missing = isinstance(given, dict) and "NotFoundException" in str(given.get("name"))
        return answer.status_code if missing else None

    def _json(self, path: str) -> Any:
        """What is at a path; None: the registry says that it has no such thing."""
        answer = self._ask(self._url + path)
        if answer.status_code == requests.codes.not_found:
            try:
                code = answer.json().get("error_code")
            except (ValueError, AttributeError):
                code = None
            if code in _UNKNOWN:
                return None
        self._check(answer)
        try:
            return answer.json()
        except ValueError:
            raise self._refused(f"what it says is no JSON: {answer.text[:80]!r}") from None

    def _ask(self, url: str) -> requests.Response:
        try:
            return self._session.get(url, timeout=TIMEOUT, headers={"Accept": "application/json, */*"})
        except requests.exceptions.SSLError as error:
            raise self._refused(f"no connection by TLS: {_cause(error)}") from None
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.RetryError) as error:
            raise RegistryUnavailableError(self._connection, self._url, _cause(error)) from None
        except (requests.RequestException, OSError) as error:  # OSError: a certificate that is not there
            raise self._refused(str(error)[:300]) from None

    def _check(self, answer: requests.Response) -> None:
        if answer.status_code in _BUSY:
            raise RegistryUnavailableError(self._connection, self._url, f"HTTP {answer.status_code}")
        if answer.status_code in (requests.codes.unauthorized, requests.codes.forbidden):
            raise self._refused(f"HTTP {answer.status_code}: its login is refused")
        if answer.status_code != requests.codes.ok:
            raise self._refused(f"HTTP {answer.status_code} is no answer of a registry: {answer.text[:80]!r}")

    def _type(self, name: str) -> SchemaType:
        if name not in _TYPES:
            raise self._refused(f"it has a schema of the unknown type {name!r}")
        return cast(SchemaType, name)

    def _refused(self, problem: str) -> RegistryRefusedError:
        return RegistryRefusedError(self._connection, self._url, problem)


def _cause(error: Exception) -> str:
    """What a connection failed of, without the addresses of objects in between."""
    reason = getattr(error.args[0], "reason", error) if error.args else error
    return re.sub(r"<[^>]*>:? ?", "", str(reason))[:300]
