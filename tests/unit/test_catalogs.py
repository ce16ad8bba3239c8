"""Kinds of catalogs: one URI for two clients, a password that nothing shows, and one place that knows each kind."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable
from inspect import isabstract
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ValidationError

import onefold
from onefold.catalog import CATALOGS, CatalogKind, JarSet, catalog_at, kind_at
from onefold.catalog.kind import Release
from onefold.catalog.postgres import PostgresCatalog
from onefold.catalog.sqlite import SqliteCatalog
from onefold.cli.config import rows_of
from onefold.dataset import Dataset
from onefold.errors import LakeUnavailableError, UsageError
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.publish.lease import lease
from onefold.setting_origins import origins_in
from onefold.settings import Settings
from onefold.spark.jars import locked
from onefold.spark.settings import jar_sets, secret_settings, session_settings
from tests.support.certificates import certificate_in

POSTGRES = "postgresql+psycopg2://me:s3cr3t@db.example:5433/catalog?sslmode=require"
NAME = "spark.sql.catalog.onefold"
SOURCE = Path(onefold.__file__).parent
JARS_OF_REST = ("spark/jars.py", "rest")
"""The set of jars of Iceberg's own test server."""


@pytest.mark.parametrize(
    ("uri", "jdbc"),
    [
        (POSTGRES, "jdbc:postgresql://db.example:5433/catalog?sslmode=require"),
        ("postgresql://me@db/catalog", "jdbc:postgresql://db/catalog"),
        ("postgresql://me@[::1]:5432/catalog", "jdbc:postgresql://[::1]:5432/catalog"),
    ],
)
def test_spark_opens_the_same_server(uri: str, jdbc: str) -> None:
    catalog = catalog_at(uri, {})
    assert isinstance(catalog, PostgresCatalog)
    assert catalog.jdbc == jdbc
    assert catalog.spark_properties("w")["jdbc.user"] == "me"
    assert catalog.sqlalchemy == uri.replace("postgresql://", "postgresql+psycopg2://")


def test_sqlite_waits_for_the_other_client(tmp_path: Path) -> None:
    catalog = catalog_at(f"sqlite:///{tmp_path / 'new' / 'catalog.db'}", {})
    assert isinstance(catalog, SqliteCatalog)
    assert catalog.jdbc == f"jdbc:sqlite:{tmp_path / 'new' / 'catalog.db'}?busy_timeout=60000"
    assert catalog.sqlalchemy.endswith("/new/catalog.db?timeout=60")
    assert (catalog.secrets, "jdbc.user" in catalog.spark_properties("w")) == ({}, False)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("catalog.db", "no URI of a database"),
        ("mysql://me:s3cr3t@db/catalog", "not a database that is supported"),
        ("postgresql+psycopg://me:s3cr3t@db/catalog", "not a database that is supported"),
        ("postgresql://me:s3cr3t@/catalog", "user, host and database must be named"),
        ("postgresql://db/catalog", "user, host and database must be named"),
        ("postgresql://me:s3cr3t@db", "user, host and database must be named"),
        ("postgresql://me@db/catalog?password=s3cr3t", "belongs before the host"),
    ],
)
def test_what_not_both_can_open_is_refused_without_its_password(uri: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        catalog_at(uri, {}).pyiceberg_properties("w")
    assert "s3cr3t" not in str(raised.value)


def remote(monkeypatch: pytest.MonkeyPatch, catalog: str = POSTGRES, **variables: str) -> Lake:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    own = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "s3cr3t", "AWS_SECRET_ACCESS_KEY": "s3cr3t"}
    for name, value in {**own, **variables}.items():
        monkeypatch.setenv(name, value)
    return Lake(Settings(lake="s3a://bucket/lake", catalog=catalog))


@pytest.fixture(autouse=True)
def jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names only: a unit test fetches nothing."""
    monkeypatch.setattr("onefold.spark.settings.jars", lambda name="spark": [Path(f"/jars/{name}.jar")])


def test_no_secret_is_in_the_settings_that_start_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = remote(monkeypatch, AWS_ENDPOINT_URL="http://127.0.0.1:9")
    started = session_settings(lake)
    assert [name for name, value in started.items() if "s3cr3t" in value] == []
    assert started[f"{NAME}.uri"] == "jdbc:postgresql://db.example:5433/catalog?sslmode=require"
    assert started[f"{NAME}.jdbc.user"] == "me"
    assert secret_settings(lake) == {f"{NAME}.jdbc.password": "s3cr3t"}


def test_s4_what_is_secret_behind_the_address_of_a_database_is_a_property_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = "postgresql://me@db.example/catalog?sslmode=require&sslpassword=s3cr3t"
    lake = remote(monkeypatch, address)
    assert session_settings(lake)[f"{NAME}.uri"] == "jdbc:postgresql://db.example/catalog?sslmode=require"
    assert secret_settings(lake) == {f"{NAME}.jdbc.sslpassword": "s3cr3t"}
    assert str(lake.catalog) == address.replace("s3cr3t", "(hidden)")
    with pytest.raises(UsageError, match=r"host and database must be named") as raised:
        _ = str(remote(monkeypatch, "postgresql://me@db.example?sslpassword=s3cr3t").catalog)
    assert "s3cr3t" not in str(raised.value)
    with pytest.raises(UsageError, match="not a database that is supported") as raised:
        catalog_at("mysql://me:s3cr3t@db/catalog?ssl_password=s3cr3t", {})
    assert "s3cr3t" not in str(raised.value)


def test_s4_the_address_of_a_rest_catalog_holds_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = remote(monkeypatch, "https://me:s3cr3t@catalog.example/api")
    for clients in (lake.catalog.spark_properties, lake.catalog.pyiceberg_properties):
        with pytest.raises(UsageError, match=r"as credential, token or header\.Authorization") as raised:
            clients("w")
        assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "public"),
    [
        ("spark.ssl.keyPassword", "a", False),
        ("spark.ssl.ui.keyStorePassword", "a", False),
        ("spark.authenticate.secret", "a", False),
        ("spark.sql.catalog.other.header.X-Gateway", "a", False),
        ("spark.sql.catalog.other.uri", "jdbc:postgresql://db/a?user=b&password=c", False),
        ("spark.sql.catalog.other.uri", "jdbc:postgresql://b:c@db/a", False),
        ("spark.executor.memory", "1g", True),
        ("spark.sql.requireAllClusterKeysForCoPartition", "true", True),
        ("spark.kubernetes.driver.secretKeyRef.ONEFOLD_KAFKA", "name:key", True),
        ("spark.hadoop.hadoop.security.credential.provider.path", "jceks://file/etc/a.jceks", True),
        ("spark.kerberos.keytab", "/etc/a.keytab", True),
    ],
)
def test_s4_a_secret_that_a_user_gives_to_spark_is_in_no_command_line_and_redacted(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, public: bool
) -> None:
    lake = remote(monkeypatch)
    lake = Lake(lake.settings.model_copy(update={"spark_conf": {name: value, "spark.redaction.regex": "mine"}}))
    started = session_settings(lake)
    assert (name in started, name in secret_settings(lake)) == (public, not public)
    redacted = re.compile(started["spark.redaction.regex"])
    assert redacted.search("is.mine")
    assert public or redacted.search(name) or redacted.search(value)


def test_a_secret_among_the_user_s_settings_of_hadoop_is_in_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {"spark.hadoop.fs.s3a.secret.key": "s3cr3t", "spark.hadoop.fs.s3a.connection.maximum": "9"}
    lake = remote(monkeypatch)
    lake = Lake(lake.settings.model_copy(update={"spark_conf": conf}))
    started = session_settings(lake)
    assert [name for name, value in started.items() if "s3cr3t" in value] == []
    assert started["spark.hadoop.fs.s3a.connection.maximum"] == "9"
    assert secret_settings(lake)["spark.hadoop.fs.s3a.secret.key"] == "s3cr3t"


@pytest.mark.parametrize("token", [None, "s3cr3t-token"])
def test_a_login_is_in_no_command_line_and_goes_before_what_a_machine_has(
    monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    keys = {"aws_access_key_id": "s3cr3t-user", "aws_secret_access_key": "s3cr3t-key"}
    tokens = {"aws_session_token": token} if token else {}
    login = {**keys, **tokens, "endpoint_url": "http://s3:7070", "region_name": "eu-north-1"}
    lake = remote(monkeypatch, AWS_ENDPOINT_URL="http://other:1")
    lake = Lake(lake.settings.model_copy(update={"s3_login": login}))
    started = session_settings(lake)
    assert [name for name, value in started.items() if "s3cr3t" in value] == []
    assert started["spark.hadoop.fs.s3a.endpoint"] == started["spark.executorEnv.AWS_ENDPOINT_URL"] == "http://s3:7070"
    assert started["spark.hadoop.fs.s3a.endpoint.region"] == "eu-north-1"
    provider = started["spark.hadoop.fs.s3a.aws.credentials.provider"]
    assert provider.rpartition(".")[2] == f"{'Temporary' if token else 'Simple'}AWSCredentialsProvider"
    own = {"access.key": "s3cr3t-user", "secret.key": "s3cr3t-key"} | ({"session.token": token} if token else {})
    own = {f"spark.hadoop.fs.s3a.{name}": value for name, value in own.items()}
    assert own.items() <= secret_settings(lake).items()
    assert "s3cr3t" not in f"{lake.access!r} {lake.settings!r}"


def test_spark_reaches_the_bucket_as_boto3_does(monkeypatch: pytest.MonkeyPatch) -> None:
    own = session_settings(remote(monkeypatch, AWS_ENDPOINT_URL="http://s3:7070"))
    assert own["spark.hadoop.fs.s3a.endpoint"] == own["spark.executorEnv.AWS_ENDPOINT_URL"] == "http://s3:7070"
    assert own["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert own["spark.jars"] == "/jars/spark.jar,/jars/s3.jar,/jars/postgres.jar"
    amazon = session_settings(remote(monkeypatch))
    assert "spark.hadoop.fs.s3a.endpoint" not in amazon
    assert amazon["spark.hadoop.fs.s3a.endpoint.region"] == amazon["spark.executorEnv.AWS_REGION"] == "eu-west-1"


def test_every_jvm_trusts_the_bundle_whatever_its_other_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle, _ = certificate_in(tmp_path)
    conf = {"spark.driver.extraJavaOptions": "-Xint"}
    given = {"home": tmp_path, "s3_ca_bundle": bundle, "spark_conf": conf}
    started = session_settings(Lake(remote(monkeypatch).settings.model_copy(update=given)))
    [store] = (tmp_path / ".onefold").iterdir()
    assert started["spark.files"] == str(store)
    kind = "-Djavax.net.ssl.trustStoreType=PKCS12"
    assert started["spark.driver.defaultJavaOptions"] == f'"-Djavax.net.ssl.trustStore={store}" {kind}'
    assert started["spark.executor.defaultJavaOptions"] == f'"-Djavax.net.ssl.trustStore={store.name}" {kind}'
    assert started["spark.driver.extraJavaOptions"] == "-Xint"


def test_a_bundle_without_certificates_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("none\n")
    given = {"home": tmp_path, "s3_ca_bundle": bundle}
    with pytest.raises(UsageError, match=f"{bundle} holds no certificates"):
        session_settings(Lake(remote(monkeypatch).settings.model_copy(update=given)))


def test_a_folder_needs_nothing_more(lake: Lake) -> None:
    assert jar_sets(lake) == ["spark"]
    assert [name for name in session_settings(lake) if "s3a" in name or "jdbc.user" in name] == []


def test_a_rest_catalog_is_an_address_with_properties_of_which_no_secret_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"warehouse": "shop", "credential": "me:s3cr3t", "scope": "all"}
    monkeypatch.setenv("ONEFOLD_CATALOG_PROPERTIES", json.dumps(own))
    lake = remote(monkeypatch, "https://catalog.example/api")
    started = session_settings(lake)
    assert [name for name, value in started.items() if "s3cr3t" in value] == []
    assert secret_settings(lake) == {f"{NAME}.credential": "me:s3cr3t"}
    names = ("catalog-impl", "uri", "warehouse", "scope")
    assert [started[f"{NAME}.{name}"] for name in names] == [
        *("org.apache.iceberg.rest.RESTCatalog", "https://catalog.example/api", "shop", "all")
    ]
    assert jar_sets(lake) == ["spark", "s3"]
    assert lake.catalog.pyiceberg_properties(lake.warehouse) == {
        "type": "rest",
        "uri": "https://catalog.example/api",
        **own,
    }
    assert "s3cr3t" not in repr(lake)
    shown = {row["setting"]: row["value"] for row in rows_of(lake.settings, origins_in(Path(), os.environ))}
    assert (shown["catalog"], shown["catalog_properties.scope"]) == ("https://catalog.example/api", "all")
    assert "s3cr3t" not in str(shown)


def test_properties_belong_to_a_rest_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEFOLD_CATALOG_PROPERTIES", '{"scope": "all"}')
    with pytest.raises(UsageError, match="belong to a REST catalog"):
        _ = remote(monkeypatch).catalog


def test_a_rest_server_that_does_not_answer_is_named(dataset: Callable[..., Dataset], tmp_path: Path) -> None:
    lake = Lake(Settings(home=tmp_path, catalog="http://127.0.0.1:9/catalog"))
    with pytest.raises(LakeUnavailableError, match=r"http://127\.0\.0\.1:9/catalog"):
        find_state(lake, dataset())


def test_a_server_that_does_not_answer_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, dataset: Callable[..., Dataset]
) -> None:
    lake = remote(monkeypatch, "postgresql://me:s3cr3t@127.0.0.1:9/catalog")
    with pytest.raises(LakeUnavailableError, match=r"postgresql://me:\(hidden\)@127.0.0.1:9/catalog") as raised:
        find_state(lake, dataset())
    assert "s3cr3t" not in str(raised.value)


def test_each_kind_has_a_file_and_a_row() -> None:
    files = {file.stem for file in (SOURCE / "catalog").glob("*.py")}
    assert files - {"__init__", "kind", "database", "claims", "file_lock"} == set(CATALOGS)
    for name, kind in CATALOGS.items():
        assert kind.__module__ == f"onefold.catalog.{name}"
        assert not isabstract(kind)


def test_each_kind_answers_only_to_its_own_addresses() -> None:
    schemes = [scheme for kind in CATALOGS.values() for scheme in kind.schemes]
    assert len(schemes) == len(set(schemes))
    assert all(kind_at(kind.address) is kind for kind in CATALOGS.values())
    assert kind_at("catalog.db") is None


def test_the_jars_of_each_kind_are_locked() -> None:
    for kind in CATALOGS.values():
        for package in kind.jars.packages if kind.jars else ():
            _, artifact, version = package.split(":")
            assert any(
                name.endswith(f"{artifact}-{version}.jar") for name in locked(kind.jars.name if kind.jars else "")
            )


def test_no_file_names_a_kind_of_catalog_or_a_class_of_store_by_itself() -> None:
    """A kind is asked through its class, and a store through `Storage`; `rest` is a set of jars, too."""
    classes = {kind.__name__ for kind in CATALOGS.values()}
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        place = file.relative_to(SOURCE).as_posix()
        if place.startswith("catalog/"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            literal = isinstance(node, ast.Constant) and node.value in CATALOGS and (place, node.value) != JARS_OF_REST
            if literal or (isinstance(node, ast.Name) and node.id in classes) or is_test_of_a_store(node, place):
                found.append((place, node.lineno))
    assert found == []


def is_test_of_a_store(node: ast.AST, place: str) -> bool:
    """`isinstance(…, LocalStorage)` and the like; only a copy on the server asks for a bucket of the same endpoint."""
    if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "isinstance" or place == "storage/s3.py":
        return False
    return bool({"LocalStorage", "S3Storage"} & {getattr(part, "id", "") for part in ast.walk(node)})


class Toy(CatalogKind):
    """A kind of catalog as one adds it: answers, and no word about it elsewhere."""

    title = "a toy"
    schemes = ("toy",)
    address = "toy://box"
    has_claims = True
    jars = JarSet("toys", ("org.example:toy:1",))
    taken: ClassVar[list[str]] = []

    def pyiceberg_properties(self, warehouse: str) -> dict[str, str]:
        return {"type": "in-memory", "warehouse": warehouse}

    def spark_properties(self, warehouse: str) -> dict[str, str]:
        return {"catalog-impl": "org.example.Toy", "warehouse": warehouse}

    @property
    def secrets(self) -> dict[str, str]:
        return {"toy.key": "s3cr3t"}

    def take_lease(self, name: str, wait: float, folder: Path) -> Release | None:
        self.taken.append(f"{name}, {wait:g} s")
        return (lambda: self.taken.append(f"{name} given back")) if wait else None

    def __str__(self) -> str:
        return self.uri


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> type[Toy]:
    monkeypatch.setitem(CATALOGS, "toy", Toy)
    monkeypatch.setattr(Toy, "taken", [])
    return Toy


def test_a_new_kind_is_asked_for_all_that_depends_on_it(
    toy: type[Toy], monkeypatch: pytest.MonkeyPatch, dataset: Callable[..., Dataset]
) -> None:
    lake = remote(monkeypatch, "toy://box")
    started = session_settings(lake)
    assert started[f"{NAME}.catalog-impl"] == "org.example.Toy"
    assert started["spark.jars"] == "/jars/spark.jar,/jars/s3.jar,/jars/toys.jar"
    assert secret_settings(lake) == {f"{NAME}.toy.key": "s3cr3t"}
    with lease(lake, dataset()) as got:
        assert got
    assert toy.taken == ["tests.things, 0 s", "tests.things, 900 s", "tests.things given back"]
    assert Settings(catalog="toy://box", s3_put_if_absent="catalog").s3_put_if_absent == "catalog"


def test_messages_name_a_new_kind(toy: type[Toy], monkeypatch: pytest.MonkeyPatch) -> None:
    del toy
    with pytest.raises(
        UsageError, match=r"it takes sqlite:\S+, postgresql\S+, a REST catalog's https://… or toy://box$"
    ):
        catalog_at("box://toy", {})
    for name in ("AWS_PROFILE", "ONEFOLD_CATALOG"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=r"to its catalog, postgresql\S+, a REST catalog's https://… or toy://box \."):
        _ = Lake(Settings(lake="s3a://bucket/lake")).catalog
    with pytest.raises(ValidationError, match=r"=postgresql\S+ or toy://box, or for drivers on one host sqlite"):
        Settings(s3_put_if_absent="catalog")
