"""How the JVMs of test processes start: each lives for some seconds, so starting it is most of its time."""

from __future__ import annotations

from pathlib import Path

_CLASSES = Path(__file__).parents[1] / ".jars" / "spark" / "classes.jsa"
"""Spark's classes, parsed and verified (`make test` archives them once); without it all works, slower."""


def short_lived() -> dict[str, str]:
    """The environment of a process that starts Spark: no optimising compiler, classes from the archive."""
    options = ["-XX:TieredStopAtLevel=1"]
    if _CLASSES.is_file():
        options += [f"-XX:SharedArchiveFile={_CLASSES}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return {"SPARK_SUBMIT_OPTS": " ".join(options)}
