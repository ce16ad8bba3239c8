"""How the JVMs of test processes start: each lives for some seconds, so starting it is most of its time."""

from __future__ import annotations

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For many small jobs: their plans are new each time, so compiling them costs more than it gives. Dedup of small
batches does so itself (`onefold.spark.codegen`).
"""


def short_lived() -> dict[str, str]:
    """The environment of a process that starts Spark: no optimising compiler, as much room for code as with it, and the
    collector that needs the least memory and threads. Of 16 small batches the JVM takes two thirds of the CPU then."""
    return {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"}
