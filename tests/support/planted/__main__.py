"""Plants each fault and runs its test, which must fail: `python -m tests.support.planted [--list] [WORD…]`.

WORD chooses faults whose name, law, exit code or point contains it. Ends with 1 where a test passes all the same, or
fails without a fault.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.planted.faults import FAULTS, Fault
from tests.support.planted.plant import PROJECT, module_of

SITE = Path(__file__).with_name("site")
HEAD = "| fault | breaks | function | what it does | caught by |\n| --- | --- | --- | --- | --- |"
FAILED = 1
"""How pytest ends where tests ran and one failed; any other end is no catch."""


def table() -> str:
    """The faults as docs/planted-faults.md lists them."""
    rows = [f"| {name} | {one.breaks} | `{one.function}` | {one.what} | `{one.test}` |" for name, one in FAULTS.items()]
    return "\n".join([HEAD, *rows])


def run_test(test: str, fault: str = "") -> tuple[int, str]:
    """Run one test, with a fault planted in every process; pytest's exit code, and why it failed."""
    path = os.pathsep.join(map(str, (SITE, PROJECT / "src", PROJECT)))
    planted = {"PLANTED_FAULT": fault, "PYTHONPATH": path} if fault else {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider", "--no-header", test],
        cwd=PROJECT,
        env=os.environ | {"ONEFOLD_TEST_POINTS": "all"} | planted,
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
        name: one
        for name, one in FAULTS.items()
        if not words or any(word == one.breaks or word in name for word in words)
    }
    if not chosen:
        print(f"no fault has {' or '.join(words)} in its name (see --list)", file=sys.stderr)
        return 2
    broken = []
    for test in dict.fromkeys(one.test for one in chosen.values()):
        code, end = run_test(test)
        if code:
            broken.append(test)
            print(f"FAILS WITHOUT A FAULT: {test}\n  {end}", flush=True)
    missed = [name for name, one in chosen.items() if one.test not in broken and not catch(name, one)]
    print(f"{len(chosen)} faults, {len(missed)} not caught; {len(broken)} tests fail without a fault")
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
