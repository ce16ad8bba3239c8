"""How the JVMs of tests start."""

from __future__ import annotations

import os

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For many small jobs: their plans are new each time, so compiling them costs more than it gives. Dedup of small
batches does so itself (`onefold.spark.codegen`).
"""
UNCHECKED = (
    {} if os.environ.get("ONEFOLD_TEST_PLANS") == "checked" else {"spark.sql.lightweightPlanChangeValidation": "false"}
)
"""For sessions of tests by day: Spark checks its own plans after each batch of its rules, which takes some 7 % of the
CPU of a small batch. At night (`ONEFOLD_TEST_PLANS=checked`) and in processes of their own it does so, as at users'.
"""

LEAN = "-XX:ReservedCodeCacheSize=480m -XX:+UseSerialGC"
"""Room for the code of half an hour: of the usual 240 MB the part for profiled code is full by then, and is compiled
again. And the collector that needs the least memory and threads."""


def short_lived() -> dict[str, str]:
    """The environment of a process that starts Spark for some seconds: without the optimising compiler, of 16 small
    batches the JVM takes two thirds of the CPU."""
    return {"SPARK_SUBMIT_OPTS": f"-XX:TieredStopAtLevel=1 {LEAN}"}


def long_lived() -> dict[str, str]:
    """That of a test process, which runs hundreds of batches: from the 40th on the optimising compiler has paid for
    itself, and a batch takes three quarters of the CPU."""
    filled = "-Xms2g -Xmn1g -XX:MetaspaceSize=256m"  # growing to these takes a tenth more
    return {"SPARK_SUBMIT_OPTS": f"{LEAN} {filled}"}
