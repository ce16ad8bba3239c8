"""The command line. Importing it imports no pyspark: a session starts only for what needs one."""

from onefold.cli.app import main

__all__ = ["main"]
