"""Import rules: what a command or a DAG imports, and who may name which library."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2] / "src" / "onefold"
HEAVY = ("pyspark", "great_expectations", "airflow", "pandas")
LIGHT = (
    "onefold.dataset", "onefold.landing.land", "onefold.spark.settings", "onefold.spark.result", "onefold.cli",
    "onefold.publish", "onefold.report", "onefold.report.ledger", "onefold.operations.run", "onefold.operations.step",
    "onefold.cli.demo", "onefold.ui", "onefold.draft", "onefold.draft.exports", "onefold.draft.topics",
    "onefold.diagnosis", "onefold.kafka.inspection", "onefold.decisions", "onefold.operations.decide",
    "onefold.quality.waivers", "onefold.quality.checks", "onefold.upsert.decisions_in_force",
    "onefold.report.decisions", "onefold.operations.decision_requests", "onefold.operations.stuck_batches",
    "onefold.maintenance.keep",
)  # fmt: skip


def test_commands_and_drivers_import_no_engine() -> None:
    program = (
        "import importlib, sys\n"
        f"for module in {LIGHT!r}:\n"
        "    importlib.import_module(module)\n"
        f"    print(module, [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{module} []" for module in LIGHT]


def test_the_settings_know_each_kind_of_catalog_and_import_no_driver() -> None:
    drivers = ("sqlalchemy", "psycopg2", "pyiceberg", "filelock")
    program = f"import onefold.settings, sys; print([name for name in {drivers!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        (r"boto3|botocore", {"storage", "schemas", "kafka"}),  # kafka: errors of the signer for MSK
        (r"confluent_kafka|kafka", {"kafka"}),
        (r"airflow", {"orchestration", "ui"}),
        (r"great_expectations", {"quality"}),
        (r"sqlalchemy|psycopg2|filelock", {"catalog", "iceberg", "orchestration"}),  # Airflow's own database, too
        (r"pyiceberg", {"iceberg", "report", "maintenance", "operations"}),
        (
            r"pyspark",
            {
                "records",
                "values",
                "folding",
                "dedup",
                "upsert",
                "quality",
                "maintenance",
                "proof",
                "spark",
                "operations",
            },
        ),
    ],
)
def test_a_library_is_imported_only_in_its_rooms(library: str, rooms: set[str]) -> None:
    wanted = re.compile(rf"^\s*(?:import|from)\s+(?:{library})\b", re.MULTILINE)
    found = {file.relative_to(ROOT).parts[0] for file in ROOT.rglob("*.py") if wanted.search(file.read_text())}
    assert found <= rooms
    assert found, "the pattern matches nothing: the test would prove nothing"


def test_no_module_imports_itself_through_others() -> None:
    """Imports in functions count, those for type checking do not."""
    graph = grimp.build_graph("onefold", exclude_type_checking_imports=True)
    modules = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(modules) > 250
    TopologicalSorter(modules).prepare()
