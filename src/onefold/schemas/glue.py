"""AWS Glue's schema registry: a value names the version of a schema by its UUID."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from onefold.dataset.writer_schema import SchemaType, WriterSchema
from onefold.errors import RegistryRefusedError, RegistryUnavailableError
from onefold.formats.wire import IdSpace, SchemaId
from onefold.schemas.client import Answer
from onefold.schemas.connection import URL, RegistrySettings

_UNKNOWN = "EntityNotFoundException"
_BUSY = ("ThrottlingException", "InternalServiceException", "OperationTimeoutException", "ServiceUnavailable")
_SERVER_ERROR = 500


class Registry:
    """`onefold.schemas.client.Client` by boto3."""

    def __init__(self, connection: str, settings: RegistrySettings) -> None:
        self._connection, self._url = connection, settings[URL]
        login = {name: value for name, value in settings.items() if name != URL}
        retries = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=30)
        region = urlsplit(self._url).netloc
        self._glue: Any = boto3.client("glue", region_name=region, config=retries, **login)  # type: ignore[call-overload]

    def schema(self, schema_id: SchemaId) -> Answer | None:
        """The schema of an id."""
        if schema_id.space is not IdSpace.GLUE:
            return None
        try:
            given = self._glue.get_schema_version(SchemaVersionId=schema_id.value)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code == _UNKNOWN:
                return None
            if code in _BUSY or status >= _SERVER_ERROR:
                raise RegistryUnavailableError(self._connection, self._url, str(error)) from None
            raise RegistryRefusedError(self._connection, self._url, str(error)) from None
        except BotoCoreError as error:
            raise RegistryUnavailableError(self._connection, self._url, str(error)) from None
        schema = WriterSchema(type=cast(SchemaType, given["DataFormat"]), text=given["SchemaDefinition"])
        name = str(given.get("SchemaArn", "")).rpartition("/")[2]
        return Answer(schema, [(name, int(given.get("VersionNumber", 0)))] if name else [])

    def newest(self, subject: str) -> Answer | None:
        """None: what a topic's schemas are called there is the producers' own choice."""
        del subject
        return None

    def versions(self, subject: str, most: int) -> list[Answer]:
        """None: as `newest`."""
        del subject, most
        return []
