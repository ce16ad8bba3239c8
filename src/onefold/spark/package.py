"""The package itself, for Spark's workers: they run the driver's very code, wherever they are."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path

import onefold


def packed() -> Path:
    """The package's modules as an archive that Python imports from; it is gone when this process ends."""
    scratch = Path(tempfile.mkdtemp(prefix="onefold-package-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    root = Path(onefold.__file__).parent
    with zipfile.ZipFile(scratch / "onefold.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, file.relative_to(root.parent))
    return scratch / "onefold.zip"
