"""How buckets are reached. Credentials and endpoint every client finds by itself, where no login is given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CONNECTIONS = 32
"""Kept open at once: objects are landed side by side, large objects in parts."""
PROPERTY = "onefold.s3"
"""The property of a catalog that holds an access (`as_json`) for pyiceberg."""


@dataclass(frozen=True, slots=True)
class S3Access:
    """What the settings say of S3. Spark's tasks and pyiceberg take it along; a login in it is secret."""

    encryption: str | None = None
    """`AES256` or `aws:kms`; None: as the bucket does by itself"""
    kms_key: str | None = None
    requester_pays: bool = False
    ca_bundle: str | None = None
    """A file of the authorities that are trusted"""
    login: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """Keys, endpoint and region in boto3's names; empty: as boto3 finds them"""

    @property
    def asked(self) -> dict[str, str]:
        """What each request asks for that can ask for it, in boto3's names."""
        wanted = {
            "ServerSideEncryption": self.encryption,
            "SSEKMSKeyId": self.kms_key,
            "RequestPayer": "requester" if self.requester_pays else None,
        }
        return {name: value for name, value in wanted.items() if value}

    def client(self) -> S3Client:
        """boto3's client, of which every request asks for it: also those that its transfers make."""
        retries: Any = {"max_attempts": 8, "mode": "adaptive"}
        config = Config(retries=retries, max_pool_connections=CONNECTIONS)
        login: Any = self.login
        made = boto3.client("s3", config=config, verify=self.ca_bundle, **login)
        ask: Any = self._ask
        made.meta.events.register("provide-client-params.s3", ask)
        return made

    def _ask(self, params: dict[str, Any], model: Any, **_: object) -> dict[str, Any]:
        shape = model.input_shape
        return {**params, **{name: value for name, value in self.asked.items() if name in shape.members}}

    def as_json(self) -> str:
        """As text, for `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> S3Access:
        """From `as_json`."""
        return cls(**json.loads(text))
