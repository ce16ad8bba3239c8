"""Services as processes that outlive this one, started with a log and a file with their process id."""

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
"""These are ended first: processes that their tasks have started need the others."""
FIRST_SECONDS, STOP_SECONDS = 15, 20


class StackError(RuntimeError):
    """The stack cannot do what was requested; the message says what to do."""


class ServiceDiedError(StackError):
    """A service ended, or did not answer in time; the message has the last lines of its log."""

    def __init__(self, what: str, log: Path) -> None:
        self.what, self.log = what, log
        super().__init__(f"{what}. The last lines of its log:\n{last_lines(log)}")


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one stack's processes: logs and process ids."""

    folder: Path

    def log(self, name: str) -> Path:
        """The log of a service."""
        return self.folder / "logs" / f"{name}.log"

    def start(self, service: Service, command: Iterable[str], user: str | None = None) -> subprocess.Popen[bytes]:
        """Start a service that keeps running after this process ends."""
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
        """Forget a service that has done its work: there is nothing to end."""
        (self.folder / "pids" / name).unlink()

    def standing(self) -> dict[str, psutil.Process | None]:
        """The services that were started, each with its process if that is running."""
        files = sorted((self.folder / "pids").glob("*"))
        return {file.name: _process(file) for file in files}

    def stop(self) -> int:
        """End everything that was started, gracefully first; return the number of processes."""
        leaders = {name: process for name, process in self.standing().items() if process}
        first = [process for name, process in leaders.items() if name.startswith(FIRST)]
        then = [process for name, process in leaders.items() if not name.startswith(FIRST)]
        kept = _with_children(then)
        counted = _end(first, [process for process in self._marked() if process not in kept], FIRST_SECONDS)
        counted += _end(then, self._marked(), STOP_SECONDS)
        return counted

    def _marked(self) -> set[psutil.Process]:
        """All processes with this stack's mark, also detached ones."""
        found = set()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.folder):
                    found.add(process)
        return found


def alive(process: psutil.Process) -> bool:
    """Whether it is running: a process that has ended without a `wait` is still listed."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _process(file: Path) -> psutil.Process | None:
    number, born = file.read_text().split()
    with contextlib.suppress(psutil.NoSuchProcess):
        found = psutil.Process(int(number))
        if found.create_time() == float(born) and alive(found):  # process ids are used again
            return found
    return None


def _with_children(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    found: set[psutil.Process] = set()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= {process, *process.children(recursive=True)}
    return found


def _end(leaders: list[psutil.Process], others: Iterable[psutil.Process], seconds: float) -> int:
    """Ask the leaders to end and wait; then kill the rest of them and the others."""
    processes = _with_children([*leaders, *others])
    for leader in leaders:
        with contextlib.suppress(psutil.NoSuchProcess):
            # Postgres waits for its clients on SIGTERM, but not on SIGINT.
            (leader.send_signal(signal.SIGINT) if "postgres" in leader.name() else leader.terminate())
    deadline = time.monotonic() + seconds
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in _with_children(filter(alive, processes)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    while any(map(alive, processes)):
        time.sleep(0.1)
    return len(processes)
