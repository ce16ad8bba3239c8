"""S10: who may open the files of a lake, of Onefold, pyiceberg, SQLite and Spark alike."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.project import Project, thing

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]
MODES = {"owner": ({0o600}, {0o700}), "group": ({0o660}, {0o2770}), "everyone": ({0o644}, {0o755})}
"""Of files and of folders, by `lake_access`."""


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Processes start with a umask that keeps no one out."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.nightly(reason="tests/unit/test_storage.py has the modes of files, and two users write one lake by day")
@pytest.mark.parametrize("access", [None, "group", "everyone"])
def test_s10_who_may_open_the_files_of_a_lake_is_its_owner_or_who_the_setting_says(
    tmp_path: Path, access: str | None
) -> None:
    project = Project(tmp_path)
    project.put("things/1.jsonl", [thing(0, "a"), thing(1, "b"), thing(2, "b")])
    if access:
        file = tmp_path / "onefold.toml"
        file.write_text(f'lake_access = "{access}"\n{file.read_text()}')

    for words in (("run", "things"), ("maintain", "things"), ("prove", "things")):
        done = project.process(*words)
        assert done.code == 0, done.err

    lake = tmp_path / ".lake"
    places = [lake, *lake.rglob("*")]
    folders = {stat.S_IMODE(place.stat().st_mode) for place in places if place.is_dir()}
    files = {stat.S_IMODE(place.stat().st_mode) for place in places if place.is_file()}
    kinds = {place.suffix for place in places if place.is_file()}
    assert {".json", ".parquet", ".avro", ".db", ".log", ".lease", ".html"} <= kinds
    assert (files, folders) == MODES[access or "owner"]


WRITES = """
import os, sys, tempfile
from pathlib import Path
import pyarrow as pa
from onefold.iceberg.connection import open_catalog
from onefold.lake import Lake
from onefold.publish.lease import hold
from onefold.settings import Settings

def write(home, access):
    lake = Lake(Settings(home=Path(home), lake="lake", lake_access=access))
    catalog = open_catalog(lake)
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table_if_not_exists(("shop", "things"), pa.schema([("x", pa.int64())]))
    table.append(pa.table({"x": [1]}))
    lake.storage.write("documents/same.json", b"1")
    lake.storage.write(f"documents/{os.getuid()}.json", b"1")
    with hold(lake, "shop.things") as got:
        assert got
    return len(table.scan().to_arrow())

write(tempfile.mkdtemp(), "owner")  # everything is imported while the interpreter may be read
home, access, user = sys.argv[1:]
os.setgroups([GROUP]); os.setgid(int(user)); os.setuid(int(user))
print(write(home, access))
"""


@pytest.mark.by_day(
    "group-written0", why="without the setting the mode of a file is its owner's (tests/unit/test_storage.py)"
)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two other users")
@pytest.mark.parametrize(("access", "written"), [("group", ["1", "2"]), ("owner", ["1"])])
def test_s10_users_of_one_group_write_one_lake_where_the_setting_says_so(access: str, written: list[str]) -> None:
    group, home = 4242, Path(tempfile.mkdtemp(prefix="onefold-users-"))
    home.chmod(0o711)
    lake = home / "lake"
    try:
        lake.mkdir()
        os.chown(lake, 4001, group)
        lake.chmod(0o2770)
        script = WRITES.replace("GROUP", str(group))
        words = [[sys.executable, "-c", script, str(home), access, user] for user in ("4001", "4002")]
        done = [subprocess.run(command, cwd=home, capture_output=True, text=True, check=False) for command in words]
    finally:
        shutil.rmtree(home)
    assert [line for run in done for line in run.stdout.splitlines()] == written, done[-1].stderr
    assert done[-1].returncode == (0 if access == "group" else 1)
