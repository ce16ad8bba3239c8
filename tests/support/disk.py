"""A disk of its own for a test, as small as it wants it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOM = 512 << 20


@dataclass(frozen=True)
class Disk:
    """A file system in memory."""

    place: Path

    def resize(self, size: int) -> None:
        """Let it hold so many bytes: never fewer than it does."""
        subprocess.run(["mount", "-o", f"remount,size={size}", self.place], check=True)

    @contextmanager
    def filled(self, left: int) -> Iterator[None]:
        """For a while there is room for so many more bytes; then there is enough."""
        had = os.statvfs(self.place)
        self.resize((had.f_blocks - had.f_bfree) * had.f_frsize + left)
        try:
            yield
        finally:
            self.resize(ROOM)


@contextmanager
def mounted(place: Path, size: int) -> Iterator[Disk]:
    """A disk at a folder."""
    place.mkdir()
    words = [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", f"size={size}", "onefold", str(place)]
    if not shutil.which("mount") or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can only be mounted by root")
    yield Disk(place)
    subprocess.run(["umount", "--lazy", place], check=True)
