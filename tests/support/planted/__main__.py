"""Plants each fault and runs its test, which must fail: `python -m tests.support.planted [--list] [WORD…]`.

WORD chooses faults whose name, law, exit code or point contains it. Most are planted in a few test processes that go on
(`tests.support.planted.shared`); what was not caught there is planted again in a process of its own. Ends with 1 where
a test passes all the same, or fails without a fault.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.support.planted.faults import FAULTS, Fault
from tests.support.planted.plant import PROJECT, module_of
from tests.support.planted.shared import CHOSEN, RESULTS

SITE = Path(__file__).with_name("site")
HEAD = "| fault | breaks | function | what it does | caught by |\n| --- | --- | --- | --- | --- |"
FAILED = 1
"""How pytest ends where tests ran and one failed; any other end is no catch."""


def table() -> str:
    """The faults as docs/planted-faults.md lists them."""
    rows = [
        f"| {name} | {fault.breaks} | `{fault.function}` | {fault.what} | `{fault.test}` |"
        for name, fault in FAULTS.items()
    ]
    return "\n".join([HEAD, *rows])


PYTEST = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", "--no-header"]
ENVIRONMENT = {
    "ONEFOLD_TEST_POINTS": "all",
    "PYTHONPATH": os.pathsep.join(map(str, (SITE, PROJECT / "src", PROJECT))),
}


def caught_together(names: Iterable[str]) -> dict[str, str]:
    """Plant faults in test processes that go on, and show how far they are; those that are caught, and why a test
    failed then."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "caught.json")
        more = {CHOSEN: json.dumps(list(names)), RESULTS: str(results)}
        tests = list(dict.fromkeys(FAULTS[name].test for name in names))
        files = {test.partition("::")[0] for test in tests}
        processes = ["--numprocesses", str(min((os.cpu_count() or 1) + 1, len(files))), "--dist", "loadfile"]
        command = [*PYTEST, "-p", "tests.support.planted.shared", *processes, *tests]
        subprocess.run(command, cwd=PROJECT, env=os.environ | ENVIRONMENT | more, check=False)
        return dict(json.loads(results.read_text())) if results.exists() else {}


def run_test(test: str, fault: str = "") -> tuple[int, str]:
    """Run one test, with a fault planted in every process; pytest's exit code, and why it failed."""
    planted = {"PLANTED_FAULT": fault} if fault else {}
    done = subprocess.run(
        [*PYTEST, "-x", test],
        cwd=PROJECT,
        env=os.environ | ENVIRONMENT | planted,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    why = next((line[1:].strip() for line in lines if line.startswith("E  ")), "\n".join(lines[-3:]))
    return done.returncode, why[:200]


def catch(name: str, fault: Fault) -> bool:
    """Plant a fault and say whether its test fails."""
    start = time.monotonic()
    code, end = run_test(fault.test, name)
    caught = code == FAILED
    state = "caught" if caught else "NOT CAUGHT"
    seconds = time.monotonic() - start
    print(f"{state:<11}{seconds:5.0f} s  {fault.breaks}: {name} (in {module_of(fault.function)})", flush=True)
    print(f"  {end}" if caught else f"  {fault.test} ended with {code}:\n  {end}", flush=True)
    return caught


def main(words: list[str]) -> int:
    """Plant the faults that are chosen; 0 where each is caught."""
    if "--list" in words:
        print(table())
        return 0
    chosen = {
        name: fault
        for name, fault in FAULTS.items()
        if not words or any(word == fault.breaks or word in name for word in words)
    }
    if not chosen:
        print(f"no fault has {' or '.join(words)} in its name (see --list)", file=sys.stderr)
        return 2
    together = caught_together(chosen)
    left = {name: fault for name, fault in chosen.items() if name not in together}
    print(f"{len(together)} of {len(chosen)} faults caught; {len(left)} left for processes of their own", flush=True)
    broken = []
    for test in dict.fromkeys(fault.test for fault in left.values()):
        code, end = run_test(test)
        if code:
            broken.append(test)
            print(f"FAILS WITHOUT A FAULT: {test}\n  {end}", flush=True)
    missed = [name for name, fault in left.items() if fault.test not in broken and not catch(name, fault)]
    print(f"{len(chosen)} faults, {len(missed)} not caught; {len(broken)} tests fail without a fault")
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
