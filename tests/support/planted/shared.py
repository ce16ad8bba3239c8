"""A plugin of pytest that plants faults in a process that goes on: one session and its JVM serve many of them.

Each test runs without a fault and then with one, for every fault that names it and is not caught yet. What was caught
is written to the file `RESULTS` as `{fault: why}`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

from tests.support.planted.faults import FAULTS
from tests.support.planted.plant import NotInPlaceError, planted

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

CHOSEN, RESULTS = "PLANTED_CHOSEN", "PLANTED_RESULTS"
"""Variables: the names of the faults and the file for what was caught, as JSON."""
CAUGHT: dict[str, str] = {}


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test with each fault that it is to catch, each time behind a run without."""
    del nextitem
    for name in json.loads(os.environ[CHOSEN]):
        if name in CAUGHT or not _names(FAULTS[name].test, item.nodeid):
            continue
        start = time.monotonic()
        if (clean := _run(item)) is not None:
            _log(item, f"fails without a fault: {clean}", start)
            return True
        try:
            with planted(name), _in_new_processes(name):
                why = _run(item)
        except NotInPlaceError:
            continue
        if why is not None:
            CAUGHT[name] = why
            _log(item, f"caught: {name}", start, (name, why))
    return True


@contextmanager
def _in_new_processes(name: str) -> Iterator[None]:
    os.environ["PLANTED_FAULT"] = name
    try:
        yield
    finally:
        del os.environ["PLANTED_FAULT"]


def _names(test: str, node: str) -> bool:
    """Whether a fault's test, of which it may name the file or the cases' function alone, is or has this one."""
    return node == test or node.startswith((f"{test}[", f"{test}::"))


def _run(item: Any) -> str | None:
    """Run a test once, with fixtures of its own; why it failed."""
    item._initrequest()
    for report in runtestprotocol(item, log=False, nextitem=None):
        if report.failed:
            return _why(str(report.longrepr))
    return None


def _why(text: str) -> str:
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E  ")]
    return (lines or text.splitlines()[-1:] or [""])[0][:200]


def _log(item: pytest.Item, word: str, start: float, *caught: tuple[str, str]) -> None:
    """Tell the process that shows how far all is."""
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="passed",
        longrepr=None,
        when="call",
        duration=time.monotonic() - start,
        user_properties=[("planted", word), *caught],
    )
    item.ihook.pytest_runtest_logreport(report=report)


class Results:
    """In the process that shows how far all is: prints what is caught as it comes, and keeps it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.caught = config, dict[str, str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print a line."""
        properties = dict(report.user_properties)
        if word := properties.pop("planted", None):
            self.caught |= {name: str(why) for name, why in properties.items()}
            terminal: TerminalReporter = self.config.get_terminal_writer()  # type: ignore[assignment]
            terminal.line(f"{report.duration:5.0f} s  {word}  ({report.nodeid})")
            for why in properties.values():
                terminal.line(f"  {why}")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        """No letters."""
        del report
        return "", "", ""

    def pytest_sessionfinish(self) -> None:
        """Keep what was caught."""
        Path(os.environ[RESULTS]).write_text(json.dumps(self.caught))


def pytest_configure(config: pytest.Config) -> None:
    """Show and keep results, once for all test processes."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(config))
