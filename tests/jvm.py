"""How the JVMs of test processes start: each lives for some seconds, so starting it is most of its time."""

from __future__ import annotations


def short_lived() -> dict[str, str]:
    """The environment of a process that starts Spark: no optimising compiler."""
    return {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
