"""Programs that Go builds, once per machine. Go compares their sources with the public checksums."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

BUILD_SECONDS = 900


class NoProgramError(RuntimeError):
    """The program cannot be built on this machine; the message says why."""


def go_program(place: Path, package: str, sources: Path | None = None) -> Path:
    """The program at `place`, built first if it is missing: from `package`, with its version, or in the folder of its
    sources.

    Raises:
        NoProgramError: there is no Go, or it could not build it.
    """
    if place.exists():
        return place
    go = shutil.which("go")
    if go is None:
        raise NoProgramError(f"no Go toolchain on this machine (https://go.dev/doc/install), which builds {place.name}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test processes may need it at once
        if place.exists():
            return place
        given = os.environ | {"GOBIN": scratch}
        words = [go, "install", package]
        try:
            done = subprocess.run(
                words, cwd=sources, env=given, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise NoProgramError(f"Go did not build {place.name} within {BUILD_SECONDS} s") from None
        if done.returncode:
            raise NoProgramError(f"Go could not build {place.name}: {done.stderr.strip()[-500:]}")
        (Path(scratch) / place.name).replace(place)
    return place
