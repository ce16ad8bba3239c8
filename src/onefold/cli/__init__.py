"""The command line. Importing it imports no pyspark: a session starts only for what needs one."""

from onefold.cli import act, ask, config, decide, doctor, erase, forget, gaps, init, replay, tend
from onefold.cli.app import app, main

__all__ = [
    "act", "app", "ask", "config", "decide", "doctor", "erase", "forget", "gaps", "init", "main", "replay", "tend",
]  # fmt: skip
