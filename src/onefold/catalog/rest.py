"""A catalog behind Iceberg's REST protocol. Its two clients have one vocabulary of properties."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from onefold.catalog.kind import CatalogKind, Release
from onefold.errors import UsageError
from onefold.setting_origins import holds_secret, without_secrets


class RestCatalog(CatalogKind):
    """A REST server. Iceberg's own runtime speaks the protocol, so that Spark needs no more jars."""

    title: ClassVar[str] = "a REST catalog"
    schemes: ClassVar[tuple[str, ...]] = ("https", "http")
    address: ClassVar[str] = "https://…"
    takes_properties: ClassVar[bool] = True

    @classmethod
    def example(cls) -> str:
        """Its address in a list of what `ONEFOLD_CATALOG` takes."""
        return f"{cls.title}'s {cls.address}"

    def pyiceberg_properties(self, warehouse: str) -> dict[str, str]:
        """pyiceberg's properties. Each table names its own location; `warehouse` is a word of the server's."""
        del warehouse
        return {**self.properties, "type": "rest", "uri": self._address()}

    def spark_properties(self, warehouse: str) -> dict[str, str]:
        """Spark's properties, without the secrets."""
        del warehouse
        return {
            # Files are read and written as with every other catalog: by Hadoop's clients, as the lake's store says.
            "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            "rest-metrics-reporting-enabled": "false",
            **{name: value for name, value in self.properties.items() if name not in self.secrets},
            "catalog-impl": "org.apache.iceberg.rest.RESTCatalog",
            "uri": self._address(),
        }

    def _address(self) -> str:
        """The URI, which command lines and errors show.

        Raises:
            UsageError: it holds a secret.
        """
        if str(self) != self.uri:
            raise UsageError(
                f"ONEFOLD_CATALOG={self}: a password does not belong into the address of a REST catalog, which errors "
                "and lists of processes show. Give it in ONEFOLD_CATALOG_PROPERTIES, as credential, token or "
                "header.Authorization. Nothing was run."
            )
        return self.uri

    @property
    def secrets(self) -> dict[str, str]:
        """The properties that no output may show: `credential`, `token`, every `header.*` and the like."""
        return {name: value for name, value in self.properties.items() if holds_secret(name, value)}

    def take_lease(self, name: str, wait: float, folder: Path) -> Release | None:
        """A lock on a file of this host: the protocol has none, so drivers of several hosts do not see each other."""
        from onefold.catalog.file_lock import take_file_lock

        folder.mkdir(parents=True, exist_ok=True)
        return take_file_lock(folder / "catalog", name, wait)

    def __str__(self) -> str:
        return str(without_secrets("", self.uri))
