"""S3 servers: versitygw, as in the compose file, built by Go if that is installed; else moto, in memory.

`python -m deploy.stack.s3` builds versitygw, or says why it cannot.
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

from deploy.stack.go_program import NoProgramError, go_program
from onefold.spark.jars import jar_home
from sample.broker import HOST

DOCKERFILE = Path(__file__).parents[1] / "s3" / "Dockerfile"
MOTO = "moto"


def version() -> str:
    """The version that the image has."""
    found = re.search(r"^FROM versity/versitygw:(v[\d.]+)@", DOCKERFILE.read_text(), re.MULTILINE)
    assert found, DOCKERFILE
    return found[1]


def built() -> Path:
    """The place of versitygw after its build."""
    return jar_home() / "versitygw" / version() / "versitygw"


def versitygw() -> Path:
    """The program, built first if it is missing.

    Raises:
        NoProgramError: it cannot be built here.
    """
    return go_program(built(), f"github.com/versity/versitygw/cmd/versitygw@{version()}")


def moto_command(port: int) -> list[str]:
    """The words that start moto on a port."""
    return [sys.executable, "-m", "deploy.stack.moto", str(port)]


def answers(port: int, path: str = "/health") -> bool:
    """Whether a server answers there, with any status."""
    try:
        urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def main() -> int:
    """Build versitygw, or say in one line why it cannot be built; 0 in both cases, because moto replaces it."""
    try:
        print(f"versitygw {version()} in {versitygw()}")
    except NoProgramError as error:
        print(f"{error}. The stack takes moto in its place, and tests on versitygw are skipped.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
