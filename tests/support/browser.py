"""A real browser at Airflow's pages: Debian's chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, FrameLocator, Page, Request, sync_playwright

SCREENSHOTS = os.environ.get("ONEFOLD_TEST_SCREENSHOTS")
"""A folder for pictures of what the tests see, where one is wanted."""
SECONDS = 60_000


@dataclass
class Visitor:
    """A user's browser; what it complained of and which hosts it asked."""

    url: str
    page: Page
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(SECONDS)
        self.page.on("request", self._note_host)
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)

    def _note_host(self, request: Request) -> None:
        to = urlsplit(request.url)
        if to.scheme.startswith(("http", "ws")):  # others stay in the browser
            self.hosts.add(to.netloc)

    def log_in(self, user: str, password: str) -> None:
        self.page.goto(self.url)
        self.page.fill("input[name=username]", user)
        self.page.fill("input[name=password]", password)
        self.page.click("button[type=submit]")
        self.page.locator("a[href='/dags']").first.wait_for()

    def find_frame(self, path: str = "") -> FrameLocator:
        """What a page of ours shows within Airflow's."""
        return self.page.frame_locator(f"iframe[src*='onefold/{path}']")

    def take(self, name: str) -> None:
        if SCREENSHOTS:
            self.page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


@contextmanager
def visitor(url: str, **kind: Any) -> Iterator[Visitor]:
    """A browser without a login; `kind` is passed to the context, such as `color_scheme`."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no chromium here; install it with: sudo apt-get install chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        context: BrowserContext = browser.new_context(viewport={"width": 1400, "height": 900}, **kind)
        yield Visitor(url, context.new_page())
        browser.close()
