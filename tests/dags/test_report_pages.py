"""The report pages, without Airflow: who sees what, and that no path leads out of the reports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient

from onefold import lake_keys
from onefold.lake import Lake
from onefold.settings import load_settings
from onefold.ui.reports import reports_app

ALLOWED = {"accounts", "onefold_decide", "~bad"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    lake = Lake(load_settings(home=tmp_path, lake="lake"))
    for dataset, batch in (("accounts", "export_a"), ("accounts", "export_b"), ("salaries", "export_c")):
        lake.storage.write(lake_keys.report(dataset, batch, "html"), f"<body><p>{dataset} {batch}</p></body>".encode())
    lake.storage.write("secret.html", b"out of reach")
    runs = {
        ("accounts", "manual__2026-01-01T00:00:00+00:00"): ("accounts", "export_b"),
        ("onefold_decide", "one"): ("accounts", "export_a"),
        ("onefold_decide", "other"): ("salaries", "export_c"),
        ("onefold_decide", "third"): ("accounts", "<i>none</i>"),
    }
    app = reports_app(lambda: lake, lambda: ALLOWED, lambda dataset, run: runs.get((dataset, run)))
    with TestClient(app) as client:
        yield client


def test_the_overview_and_a_datasets_page_show_what_one_may_read_and_no_other(client: TestClient) -> None:
    overview, page = client.get("/").text, client.get("/datasets/accounts").text

    assert "datasets/accounts" in overview
    assert "reports/accounts/export_a" in page
    assert "reports/accounts/export_b" in page
    assert "salaries" not in overview + page
    assert client.get("/datasets/salaries").status_code == 403
    assert client.get("/datasets/none").status_code == 403


def test_a_report_is_served_without_scripts_or_other_hosts(client: TestClient) -> None:
    answer = client.get("/reports/accounts/export_a")

    assert "<p>accounts export_a</p>" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_report_is_the_file_behind_a_way_back(client: TestClient) -> None:
    page = client.get("/reports/accounts/export_a").text

    before, _, rest = page.partition("</nav>")
    assert before.startswith("<body><nav aria-label")
    assert 'href="/"' in before
    assert 'href="/datasets/accounts"' in before
    assert rest == "<p>accounts export_a</p></body>", "the file itself is as it was"


def test_links_begin_where_the_pages_are_mounted(client: TestClient) -> None:
    mounted = FastAPI(root_path="/airflow")
    mounted.mount("/onefold", client.app)

    with TestClient(mounted) as browser:
        for path in ("/", "/datasets/accounts", "/reports/accounts/export_a", "/runs/accounts/manual__2026-01-01"):
            links = re.findall(r'(?:href|action)="(/[^"]*)"', browser.get(f"/airflow/onefold{path}").text)
            assert links
            assert all(link.startswith("/airflow/onefold/") for link in links), links


def test_a_report_that_one_may_not_read_and_one_that_is_not_there_look_alike(client: TestClient) -> None:
    assert client.get("/reports/salaries/export_c").status_code == 403
    assert client.get("/reports/salaries/none").status_code == 403
    assert client.get("/reports/accounts/none").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/reports/accounts/..%2f..%2fsecret",
        "/reports/accounts/%2e%2e%2f%2e%2e%2fsecret",
        "/reports/..%2f..%2fsecret/export_a",
        "/reports/~bad/export_a",
        "/datasets/..%2f..%2fsecret",
        "/datasets/~bad",
        "/runs/..%2f..%2fsecret/x",
    ],
)
def test_no_path_leaves_the_reports(client: TestClient, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code in (403, 404)
    assert "out of reach" not in answer.text


def test_a_run_shows_its_batch_or_says_why_there_is_none(client: TestClient) -> None:
    page = client.get("/runs/accounts/manual__2026-01-01T00%3A00%3A00%2B00%3A00").text
    assert "<p>accounts export_b</p>" in page
    assert 'href="/datasets/accounts"' in page
    assert "has planned no batch" in client.get("/runs/accounts/other").text
    assert client.get("/runs/salaries/other").status_code == 403


def test_a_run_that_decides_shows_the_batch_to_a_user_who_may_read_its_dataset(client: TestClient) -> None:
    page = client.get("/runs/onefold_decide/one").text

    assert "<p>accounts export_a</p>" in page
    assert 'href="/datasets/accounts"' in page
    assert client.get("/runs/onefold_decide/other").status_code == 403
    assert "Batch <code>&lt;i&gt;none&lt;/i&gt;</code> of accounts has no report" in (
        client.get("/runs/onefold_decide/third").text
    )


def test_nothing_is_shown_without_a_login(tmp_path: Path) -> None:
    def refuse_login() -> set[str]:
        raise HTTPException(401)

    lake = Lake(load_settings(home=tmp_path, lake="lake"))
    client = TestClient(reports_app(lambda: lake, refuse_login, lambda *_: None))

    paths = ("/", "/?q=a", "/datasets/accounts", "/reports/accounts/export_a", "/runs/accounts/x")
    assert {client.get(path).status_code for path in paths} == {401}
