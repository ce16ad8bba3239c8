"""A Spark standalone cluster from pyspark's own jars: its programs, and the status of its master and workers."""

from __future__ import annotations

import importlib.util
import json
import urllib.request
from pathlib import Path
from typing import Any

from sample.broker import HOST


def spark_home() -> Path:
    """The folder of the installed pyspark, found without importing it."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def spark_class() -> Path:
    """The program that starts a master or a worker."""
    return spark_home() / "bin" / "spark-class"


def read_status(page: int) -> dict[str, Any] | None:
    """The status of the master or worker with that page; None while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{page}/json/", timeout=5) as answer:
            status: dict[str, Any] = json.load(answer)
    except OSError:
        return None
    return status


def ran_on(folder: Path) -> list[str]:
    """The workers below a folder, by name, that ran an executor of an application."""
    return sorted({found.parts[-4] for found in folder.glob("*/app-*/*/stderr")})
