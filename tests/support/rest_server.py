"""The REST catalog server that Iceberg tests its own clients against, as a process: a catalog in a SQLite file.

with RestServer(folder) as server:
    Settings(catalog=server.uri)
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen
from xml.sax.saxutils import escape

from pyiceberg.catalog.rest import RestCatalog

from onefold.spark.jars import jars
from sample.broker import HOST, free_ports

START_SECONDS = 60
STOP_SECONDS = 20
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SHIPPED = ("hadoop-client-*", "slf4j-api-*", "jcl-over-slf4j-*", "log4j-*", "httpclient-4*", "httpcore-4*")
"""What Spark brings along."""


class RestServer:
    """A server with one catalog. Its own place for new tables is no lake's.

    `hadoop` are the settings by which it reads metadata that lie in a bucket.
    """

    def __init__(self, folder: Path, hadoop: Mapping[str, str] | None = None) -> None:
        (port,) = free_ports(1)
        self.folder, self.hadoop, self.port = folder, hadoop or {}, port
        self.uri = f"http://{HOST}:{port}"

    def __enter__(self) -> Self:
        settings = "".join(
            f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
            for name, value in self.hadoop.items()
        )
        (self.folder / "core-site.xml").write_text(f"<configuration>{settings}</configuration>")
        spec = importlib.util.find_spec("pyspark")
        assert spec
        assert spec.origin
        shipped = Path(spec.origin).parent / "jars"
        others = [path for kind in SHIPPED for path in shipped.glob(f"{kind}.jar")]
        # S3's first: among Iceberg's tests is a class of theirs that has the name of one of those.
        path = [self.folder, *(jars("s3") if self.hadoop else []), *jars("rest"), *others]
        own = {
            "CATALOG_URI": f"jdbc:sqlite:{self.folder / 'rest.db'}",
            "CATALOG_WAREHOUSE": f"file:{self.folder / 'elsewhere'}",
            "CATALOG_REST_PORT": str(self.port),
        }
        words = ["java", *JVM_OPTIONS, "-cp", ":".join(map(str, path)), "org.apache.iceberg.rest.RESTCatalogServer"]
        self._log = self.folder / "server.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(words, env=os.environ | own, stdout=log, stderr=log)
        self._await()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(STOP_SECONDS)

    def clear(self) -> None:
        """Forget every table and view; no file goes."""
        catalog = RestCatalog("rest", uri=self.uri)
        for namespace in catalog.list_namespaces():
            for table in catalog.list_tables(namespace):
                catalog.drop_table(table)
            for view in catalog.list_views(namespace):
                catalog.drop_view(view)
            catalog.drop_namespace(namespace)

    def _await(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urlopen(f"{self.uri}/v1/config", timeout=5):
                    return
            except (URLError, OSError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(self._log.read_text()) from None
                time.sleep(0.1)
