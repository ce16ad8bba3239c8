"""Staging is used again only where the code that judged it is the same: the digest covers all of that code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import onefold
from onefold.dedup.code_digest import JUDGING

SOURCE = Path(onefold.__file__).parent
SESSIONS = (
    "__init__", "ca_bundle", "codegen", "concurrently", "iceberg_tables", "jars", "job", "key_filter", "package",
    "result", "session", "settings",
)  # fmt: skip
"""Of the package `spark`: what a session is, not what its rows are."""
DECIDES_NOTHING = {
    "iceberg": "opens tables", "catalog": "opens tables",
    "storage": "opens objects", "lake.py": "opens objects", "lake_keys.py": "names objects",
    "settings.py": "how it runs", "setting_origins.py": "how it runs", "faults.py": "how it runs",
    "processes.py": "how it runs", **{f"spark/{name}.py": "how it runs" for name in SESSIONS},
    "generation.py": "part of where staging lies",
    **{f"schemas/{name}.py": "asks registries" for name in ("client", "connection")},
    "errors.py": "what is said", "jvm_errors.py": "what is said", "__init__.py": "nothing",
    "decisions": "part of where staging lies", "upsert": "reads what was published",
    **{f"kafka/{name}.py": "asks brokers" for name in (
        "activity", "cluster", "condition", "connection", "logins", "pem", "record",
    )},
    **{f"kafka/{name}.py": "explains offsets without records" for name in ("missing_offsets", "raw_log")},
    **{f"landing/{name}.py": "which bytes are judged, which are part of where staging lies" for name in (
        "compaction", "cuts", "earlier_landings", "exports", "holes", "incarnations", "land", "landed_ranges",
        "leader_epochs", "live", "live_logs", "looks", "manifest", "places", "plan", "source",
    )},
}  # fmt: skip
"""What the step imports and the digest leaves out, and why."""


def file_of(module: str) -> Path | None:
    place = SOURCE.parent.joinpath(*module.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def imported(file: Path) -> Iterator[str]:
    """The modules of Onefold that a file imports, in functions, too."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if file_of(below) else node.module


def files_of_the_step() -> set[Path]:
    """Every file that the dedup step imports, from file to file; readers of layouts are imported by their names."""
    found = {*(SOURCE / "records" / "layouts").glob("*.py")}
    left = [SOURCE.parents[1] / "spark_jobs" / "dedup.py", *found]
    while left:
        for module in imported(left.pop()):
            file = file_of(module) if module.startswith("onefold") else None
            if file and file not in found:
                found.add(file)
                left.append(file)
    return found


def is_below(name: str, places: Iterator[str] | tuple[str, ...] | dict[str, str]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)


def test_every_file_that_the_dedup_step_imports_is_in_the_digest_or_decides_nothing() -> None:
    names = {file.relative_to(SOURCE).as_posix() for file in files_of_the_step()}
    assert len(names) > 50
    assert [name for name in sorted(names) if not is_below(name, JUDGING) and not is_below(name, DECIDES_NOTHING)] == []


def test_what_is_in_the_digest_exists() -> None:
    assert all((SOURCE / place).exists() for place in JUDGING)
    assert all((SOURCE / place).exists() for place in DECIDES_NOTHING)
