"""The command line. Importing it imports no pyspark: a session starts only for what needs it."""

# isort: off
# `--help` lists the commands in the order of these imports.
from onefold.cli import run_commands
from onefold.cli import look_commands
from onefold.cli import config
from onefold.cli import decide_commands
from onefold.cli import doctor
from onefold.cli import erase
from onefold.cli import forget
from onefold.cli import gaps
from onefold.cli import init
from onefold.cli import replay
from onefold.cli import keep_commands

# isort: on
from onefold.cli.app import app, main

__all__ = [
    "app", "config", "decide_commands", "doctor", "erase", "forget", "gaps", "init", "keep_commands", "look_commands",
    "main", "replay", "run_commands",
]  # fmt: skip
