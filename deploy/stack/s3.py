"""S3 servers: versitygw, the one of the compose file, built by Go where that is installed; else moto, in memory.

`python -m deploy.stack.s3` builds the first one, or says why it cannot.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from onefold.spark.jars import jar_home
from sample.broker import HOST

BUILD_SECONDS = 900
DOCKERFILE = Path(__file__).parents[1] / "s3" / "Dockerfile"
MOTO = "moto"


class NoServerError(RuntimeError):
    """versitygw cannot be had on this machine; the message says why."""


def version() -> str:
    """The version that the image has."""
    found = re.search(r"^FROM versity/versitygw:(v[\d.]+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert found, DOCKERFILE
    return found[1]


def built() -> Path:
    """Where versitygw lies once it is built."""
    return jar_home() / "versitygw" / version() / "versitygw"


def versitygw() -> Path:
    """The program, built first where it is missing: Go holds its sources against the public checksums.

    Raises:
        NoServerError: there is no Go, or it could not build it.
    """
    place = built()
    if place.exists():
        return place
    go = shutil.which("go")
    if go is None:
        raise NoServerError("no Go toolchain on this machine (https://go.dev/doc/install), which builds versitygw")
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test processes may want it at once
        if place.exists():
            return place
        words = [go, "install", f"github.com/versity/versitygw/cmd/versitygw@{version()}"]
        given = os.environ | {"GOBIN": scratch}
        try:
            done = subprocess.run(words, env=given, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
        except subprocess.TimeoutExpired:
            raise NoServerError(f"Go did not build versitygw within {BUILD_SECONDS} s") from None
        if done.returncode:
            raise NoServerError(f"Go could not build versitygw: {done.stderr.strip()[-500:]}")
        (Path(scratch) / "versitygw").replace(place)
    return place


def moto_command(port: int) -> list[str]:
    """moto's server, which keeps objects in memory and checks no signature."""
    return [sys.executable, "-m", "moto.server", "--host", HOST, "--port", str(port)]


def answers(port: int, path: str = "/health") -> bool:
    """Whether a server answers there, whatever it says."""
    try:
        urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def main() -> int:
    """Build versitygw, or say in one line why there will be none; 0 either way: moto is there."""
    try:
        print(f"versitygw {version()} in {versitygw()}")
    except NoServerError as error:
        print(f"{error}. The stack takes moto in its place, and tests on versitygw are skipped.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
