"""A catalog behind Iceberg's REST protocol, as its two clients open it; they have one vocabulary of properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from onefold.setting_origins import speaks_of_secret


@dataclass(frozen=True)
class RestCatalog:
    """`ONEFOLD_CATALOG` is its address, and `catalog_properties` what else it asks for."""

    uri: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    jar_sets: ClassVar[tuple[str, ...]] = ()
    """Iceberg's own runtime speaks it."""

    @staticmethod
    def meant_by(uri: str) -> bool:
        """Whether it is the address of one."""
        return uri.startswith(("https://", "http://"))

    def of_pyiceberg(self, warehouse: str) -> dict[str, str]:
        """pyiceberg's properties. Where tables lie is told with each; `warehouse` is the server's own word."""
        del warehouse
        return {**self.properties, "type": "rest", "uri": self.uri}

    def of_spark(self, warehouse: str) -> dict[str, str]:
        """Spark's properties, without the secrets."""
        del warehouse
        return {
            # Files are read and written as with every other catalog: by Hadoop's clients, as the lake's store says.
            "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            "rest-metrics-reporting-enabled": "false",
            **{name: value for name, value in self.properties.items() if name not in self.secrets},
            "catalog-impl": "org.apache.iceberg.rest.RESTCatalog",
            "uri": self.uri,
        }

    @property
    def secrets(self) -> dict[str, str]:
        """The properties that no list of processes may show."""
        return {name: value for name, value in self.properties.items() if speaks_of_secret(name)}

    def __str__(self) -> str:
        return self.uri
