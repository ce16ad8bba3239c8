"""Settings: `onefold.toml` in the project's folder, overridden by `ONEFOLD_*`. Read once, passed down."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Any, Literal, get_origin

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from onefold.catalog import CATALOGS, kind_at, listed
from onefold.errors import UsageError, nearest
from onefold.formats.expansion import LIMITS, ExpansionLimits
from onefold.instants import Duration
from onefold.setting_origins import origins_in, unknown_variables

_UMASKS = {"owner": 0o077, "group": 0o007, "everyone": 0o022}
"""The bits that new files of the lake do not have, by `lake_access`."""
_LOG = logging.getLogger(__name__)
S3_LOGIN = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "endpoint_url", "region_name")
"""What a login to S3 may hold."""


def _own_places(lake: str) -> list[str]:
    """The project's folder, and the lake's bucket, if the lake is a part of one."""
    scheme, found, rest = lake.partition("://")
    bucket, _, prefix = rest.strip("/").partition("/")
    return [".", f"s3://{bucket}"] if found and scheme != "file" and prefix else ["."]


class Settings(BaseSettings):
    """Where things lie and how Spark runs. The defaults need no server."""

    model_config = SettingsConfigDict(
        env_prefix="ONEFOLD_", env_nested_delimiter="__", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    home: Path = Field(
        default_factory=Path.cwd,
        description="The project's folder: relative paths in settings and dataset files start here",
    )
    lake: str = Field(default=".lake", description="A folder, or s3a://bucket/prefix")
    lake_access: Literal["owner", "group", "everyone"] = Field(
        default="owner",
        description="Who on a host may open the files of the lake: the user who writes them, that user's group (reads "
        "and writes), or everyone (reads)",
    )
    datasets: Path = Field(default=Path("datasets"), description="The folder of the dataset files")
    expectations: Path = Field(default=Path("expectations"), description="The folder of the users' quality suites")
    exports_below: list[str] = Field(
        default_factory=lambda given: _own_places(given.get("lake", "")),
        description="Folders and s3://bucket/prefix places below which exports are read, links resolved; default: the "
        "project's folder, and the bucket of the lake, if it lies in one. s3:// is every bucket that the login reaches",
    )
    catalog: str | None = Field(
        default=None,
        repr=False,  # it may hold a password
        description="SQLAlchemy URI of the catalog's database, or a REST catalog's https:// address; default: "
        "catalog.db in the lake's folder",
    )
    catalog_properties: dict[str, str] = Field(
        default_factory=dict,
        repr=False,  # it holds credentials
        description="What a REST catalog asks for, in Iceberg's names: warehouse, credential, scope, …",
    )
    s3_encryption: Literal["AES256", "aws:kms"] | None = Field(
        default=None, description="How S3 encrypts what is written; default: as the bucket does by itself"
    )
    s3_kms_key: str | None = Field(default=None, description="The id or ARN of the key of aws:kms")
    s3_requester_pays: bool = Field(
        default=False, description="Whether requests to S3 say that who asks pays, as some buckets of exports want"
    )
    s3_ca_bundle: Path | None = Field(
        default=None, description="A PEM file of the authorities that are trusted in place of the usual authorities"
    )
    s3_connection: str | None = Field(
        default=None,
        description="The Airflow connection that tells Airflow's tasks keys, endpoint and region of S3; the command "
        "line ignores it",
    )
    s3_login: dict[str, str] = Field(
        default_factory=dict,
        repr=False,  # it holds credentials
        description="Keys, endpoint and region for S3, in boto3's names; default: as boto3 finds them",
    )
    s3_put_if_absent: Literal["store", "catalog"] = Field(
        default="store",
        description="Who tells which of two writers of a document is the first: the store, by conditional puts, or for "
        "a store that has none the catalog's database",
    )
    spark_master: str = Field(default="local[*]", description="Spark master of in-process steps")
    spark_conf: dict[str, str] = Field(
        default_factory=dict,
        repr=False,  # it may hold passwords
        description="More Spark settings",
    )
    spark_history: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/]+",
        description="Spark's history server, http://host:18080: Airflow's tasks lead to their applications there",
    )
    kafka: dict[str, dict[str, str | int | float | bool]] = Field(
        default_factory=dict,
        repr=False,  # it holds passwords
        description="How to reach clusters: connection name to client settings, in librdkafka's names",
    )
    registry: dict[str, dict[str, str | int | float | bool]] = Field(
        default_factory=dict,
        repr=False,  # it holds passwords
        description="How to reach schema registries: connection name to url and login, in the names of Confluent's "
        "clients",
    )
    mask_key: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="The key of `mask: hmac`, at least 16 letters: the same wherever Onefold runs",
    )
    lease_wait: float = Field(
        default=900,
        ge=0,
        description="Seconds that a batch waits for another of its table, before it goes on at the same time",
    )
    publish_tries: int = Field(default=5, ge=1, description="How often a moved main is met with a new attempt")
    max_object_records: int = Field(default=LIMITS.records, ge=1, description="Records of an export object, at most")
    max_object_bytes: int = Field(
        default=LIMITS.unpacked, ge=1, description="Bytes that a packed export object unpacks to, at most"
    )
    max_block_bytes: int = Field(
        default=LIMITS.block,
        ge=1,
        description="Bytes that a packed block of Avro, or a record batch of a segment, unpacks to, at most",
    )
    max_plan_objects: int = Field(default=100_000, ge=1, description="Objects of an export that a batch reads, at most")
    max_plan_partitions: int = Field(default=10_000, ge=1, description="Partitions that a batch reads, at most")
    max_plan_bytes: int = Field(default=64 << 20, ge=1, description="Bytes of a batch's plan itself, at most")
    landing_min_age: Duration = Field(
        default=timedelta(days=30),
        ge=timedelta(days=1),
        description="How old landed bytes are at least before an operator may have them cleared; never below 1d",
    )
    pool: str = Field(default="default_pool", description="Airflow's pool of the tasks that start Spark; it must exist")
    task_timeout: Duration = Field(
        default=timedelta(hours=12), description="After which Airflow ends a try of a task, such as 90m or 12h"
    )
    notify: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        repr=False,  # it may hold passwords
        description="Who is notified when a task has failed or data are stale: a name to `class`, one of Airflow's "
        "notifiers, and its arguments",
    )

    @field_validator("s3_kms_key")
    @classmethod
    def _of_kms(cls, key: str | None, info: ValidationInfo) -> str | None:
        if key and info.data.get("s3_encryption") != "aws:kms":
            raise ValueError("a key belongs to s3_encryption = aws:kms")
        return key

    @field_validator("s3_put_if_absent")
    @classmethod
    def _of_database(cls, teller: str, info: ValidationInfo) -> str:
        catalog = info.data.get("catalog")
        kind = kind_at(catalog) if catalog else None
        if teller == "catalog" and (catalog is None or (kind and not kind.has_claims)):
            without = listed(found.title for found in CATALOGS.values() if not found.has_claims)
            able = [found for found in CATALOGS.values() if found.has_claims]
            servers = listed(found.address for found in able if not found.one_host)
            files = listed(found.address for found in able if found.one_host)
            raise ValueError(
                f"{without} cannot tell who is first, nor can one that is not set: it takes ONEFOLD_CATALOG={servers}, "
                f"or for drivers on one host {files}"
            )
        return teller

    @field_validator("s3_ca_bundle")
    @classmethod
    def _there(cls, bundle: Path | None, info: ValidationInfo) -> Path | None:
        found = (info.data["home"] / bundle).absolute() if bundle else None
        if found and not found.is_file():
            raise ValueError(f"{found} is no file")
        return found

    @field_validator("s3_login")
    @classmethod
    def _login(cls, login: dict[str, str]) -> dict[str, str]:
        if problem := login_problem(login):
            raise ValueError(problem)
        return login

    @field_validator("notify")
    @classmethod
    def _with_classes(cls, notify: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name, given in notify.items():
            place = given.get("class")
            if not isinstance(place, str) or not all(part.isidentifier() for part in place.split(".")):
                raise ValueError(
                    f"{name} needs a class, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier"
                )
        return notify

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        toml = TomlConfigSettingsSource(settings_cls, toml_file=home_folder() / "onefold.toml")
        return init_settings, env_settings, toml

    def path(self, place: str | Path) -> Path:
        """A path of the settings or of a dataset file, made absolute from the project's folder."""
        return (self.home / place).absolute()

    @property
    def mask_key_bytes(self) -> bytes | None:
        """The key of `mask: hmac`, if it is set."""
        return self.mask_key.get_secret_value().encode() if self.mask_key else None

    @property
    def expansion_limits(self) -> ExpansionLimits:
        """How far an export object may expand."""
        return ExpansionLimits(self.max_object_records, self.max_object_bytes, self.max_block_bytes)

    @property
    def umask(self) -> int:
        """The bits that new files of the lake do not have."""
        return _UMASKS[self.lake_access]

    @property
    def lake_uri(self) -> str:
        """The lake as an absolute path, or as its s3a:// URI."""
        return self.lake if "://" in self.lake else str(self.path(self.lake))

    @property
    def datasets_folder(self) -> Path:
        """The folder of the dataset files, absolute."""
        return self.path(self.datasets)

    @property
    def expectations_folder(self) -> Path:
        """The folder of the users' suites, absolute."""
        return self.path(self.expectations)


def load_settings(**overrides: Any) -> Settings:
    """Read the settings once; of a variable that is none, a warning is logged.

    Raises:
        UsageError: a setting is none, or has a value that it cannot have; the message names it and where it is set.
    """
    for problem in unknown_variables(os.environ, ENTRIES):
        _LOG.warning(problem)
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise UsageError(_complaint(error)) from error
    except (SettingsError, TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the settings cannot be read: {error}") from error


def login_problem(login: Mapping[str, str]) -> str | None:
    """Why a login to S3 is none; no value is repeated."""
    if unknown := sorted(set(login) - set(S3_LOGIN)):
        return f"{', '.join(unknown)} is not of a login to S3, which has {', '.join(S3_LOGIN)}"
    key, secret, token = (login.get(name) for name in S3_LOGIN[:3])
    if bool(key) != bool(secret) or (token and not key):
        return "an access key and its secret key belong together, and a session token to both"
    return None


ENTRIES = {name: get_origin(field.annotation) is dict for name, field in Settings.model_fields.items()}
"""The settings by name, and whether each holds entries of its own."""


def home_folder() -> Path:
    """The folder of `onefold.toml`."""
    return Path(os.environ.get("ONEFOLD_HOME", "."))


def _complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    path = tuple(str(part) for part in first["loc"])
    origins = origins_in(home_folder(), os.environ)
    if first["type"] == "extra_forbidden":
        where = origins.line_of(*path) or "given"  # a variable that is no setting is not read
        return f"{where}: there is no setting {'.'.join(path)}{nearest(path[0], ENTRIES)}. Nothing was run."
    return f"{origins.of(*path)}: setting {'.'.join(path)}: {first['msg']}. Nothing was run."
