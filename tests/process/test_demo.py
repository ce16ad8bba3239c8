"""`onefold demo`, the one command of the README, as a user starts it: what it prints, and what it has published."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from onefold.dataset import find_dataset
from onefold.lake import Lake
from onefold.report.ledger import rows_of
from onefold.settings import Settings
from sample import orders
from tests.support.project import PROJECT, Project

pytestmark = [pytest.mark.process, pytest.mark.kafka, pytest.mark.timeout(1200)]
VIEWS = 10_000
"""The fewest, about, of which no part has more duplicates than the dataset allows."""


@pytest.mark.parametrize("how", ["here", pytest.param("as a process", marks=pytest.mark.nightly)])
def test_the_demo_prints_what_the_readme_shows_and_publishes_what_was_sent(project: Project, how: str) -> None:
    for folder in ("datasets", "expectations"):
        shutil.copytree(PROJECT / folder, project.home / folder, dirs_exist_ok=True)
    (project.home / "sample").symlink_to(PROJECT / "sample")

    words = ("demo", "--views", str(VIEWS))
    done = project.onefold(*words) if how == "here" else project.finish(project.start(*words), seconds=900)

    assert done.code == 0, done.err
    shown = re.findall(r"^ ?\d+ of 14 .*\S", (PROJECT / "README.md").read_text(), re.MULTILINE)
    arrived = re.findall(r"^ ?\d+ of 14 .*\S", done.err, re.MULTILINE)
    assert [line for line in arrived if line in shown] == shown
    again = [number for number, line in enumerate(arrived, 1) if " already published " in line]
    red = [number for number, line in enumerate(arrived, 1) if " red, main untouched " in line]
    assert (len(arrived), again, red) == (14, [5], [14])
    assert "The last batch is meant to be red: the gate stopped it, and readers see nothing of it." in done.out
    assert "conflicts: found 1, wanted at most 0" in done.out
    report = re.search(r"^Its report: (.+)$", done.out, re.MULTILINE)
    assert report
    assert "found 1, wanted at most 0" in Path(report[1]).read_text()

    lake = Lake(Settings(home=project.home, lake=str(project.home / ".demo/lake"), catalog=None))
    read = {name: rows_of(lake, find_dataset(project.home / "datasets", name)) for name in ("orders", "page_views")}
    assert {row["order_id"]: row["revision"] for row in read["orders"]} == {
        order: row["revision"] for order, row in orders.rows().items()
    }
    assert len({row["view_id"] for row in read["page_views"]}) == len(read["page_views"]) == VIEWS
