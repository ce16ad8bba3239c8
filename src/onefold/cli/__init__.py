"""The command line. Importing it imports no pyspark: a session starts only for what needs one."""

from onefold.cli import act, ask, doctor, init, tend
from onefold.cli.app import app, main

__all__ = ["act", "app", "ask", "doctor", "init", "main", "tend"]
