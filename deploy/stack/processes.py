"""Services as processes that outlive us: started with a log and a file of their process id, ended by that file."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from deploy.stack.compose import MARK, Service
from sample.broker import last_lines

FIRST = "airflow-"
"""These are ended first: what their tasks have begun wants the others."""
FIRST_SECONDS, STOP_SECONDS = 15, 20


class StackError(RuntimeError):
    """The stack cannot be what was asked for; the message says what to do."""


class ServiceDiedError(StackError):
    """A service ended, or did not answer in time; the message holds the last lines of its log."""

    def __init__(self, what: str, log: Path) -> None:
        self.what, self.log = what, log
        super().__init__(f"{what}. The last lines of its log:\n{last_lines(log)}")


@dataclass(frozen=True, slots=True)
class Files:
    """Where the processes of one stack leave what is known of them."""

    folder: Path

    def log(self, name: str) -> Path:
        """What a service says."""
        return self.folder / "logs" / f"{name}.log"

    def start(self, service: Service, command: Iterable[str], user: str | None = None) -> subprocess.Popen[bytes]:
        """Start a service that lives on when we end."""
        log = self.log(service.name)
        for folder in (log.parent, self.folder / "pids"):
            folder.mkdir(exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                list(command),
                env=service.environment,
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=user,
                start_new_session=True,
            )
        born = psutil.Process(process.pid).create_time()
        (self.folder / "pids" / service.name).write_text(f"{process.pid} {born}\n")
        return process

    def forget(self, name: str) -> None:
        """Of a service that has done its work nothing is left to end."""
        (self.folder / "pids" / name).unlink()

    def standing(self) -> dict[str, psutil.Process | None]:
        """The services that were started, and the process of each that lives."""
        files = sorted((self.folder / "pids").glob("*"))
        return {file.name: _process(file) for file in files}

    def stop(self) -> int:
        """End everything that was started, politely first; how many processes there were."""
        leaders = {name: one for name, one in self.standing().items() if one}
        first = [one for name, one in leaders.items() if name.startswith(FIRST)]
        then = [one for name, one in leaders.items() if not name.startswith(FIRST)]
        kept = _with_children(then)
        counted = _end(first, [one for one in self._marked() if one not in kept], FIRST_SECONDS)
        counted += _end(then, self._marked(), STOP_SECONDS)
        return counted

    def _marked(self) -> set[psutil.Process]:
        """Whatever carries this stack's mark, wherever it went."""
        found = set()
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if one.environ().get(MARK) == str(self.folder):
                    found.add(one)
        return found


def alive(process: psutil.Process) -> bool:
    """Whether it runs: what has ended and was not asked for its code is still listed."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _process(file: Path) -> psutil.Process | None:
    number, born = file.read_text().split()
    with contextlib.suppress(psutil.NoSuchProcess):
        found = psutil.Process(int(number))
        if found.create_time() == float(born) and alive(found):  # a number is used again one day
            return found
    return None


def _with_children(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    found: set[psutil.Process] = set()
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= {one, *one.children(recursive=True)}
    return found


def _end(leaders: list[psutil.Process], others: Iterable[psutil.Process], seconds: float) -> int:
    """Ask the leaders to end and wait; kill what is left of them and of the others."""
    everybody = _with_children([*leaders, *others])
    for one in leaders:
        with contextlib.suppress(psutil.NoSuchProcess):
            # A Postgres that is terminated waits for its clients; interrupted it does not.
            (one.send_signal(signal.SIGINT) if "postgres" in one.name() else one.terminate())
    deadline = time.monotonic() + seconds
    while any(map(alive, everybody)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for one in _with_children(filter(alive, everybody)):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    while any(map(alive, everybody)):
        time.sleep(0.1)
    return len(everybody)
