"""The overview and a dataset's page, served from a real lake folder: what they say, to whom, and what they read."""

from __future__ import annotations

import json
import os
import pkgutil
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from onefold import lake_keys
from onefold.decisions import Decision, Discard, Release, RolledBack, Skip, Waiver
from onefold.lake import Lake
from onefold.landing.plan import Interval
from onefold.offsets import Present
from onefold.quality.documents import CheckResult
from onefold.report.document import Report
from onefold.report.history import Entry, History, gather, strip_of
from onefold.settings import load_settings
from onefold.storage import LocalStorage, ObjectInfo
from onefold.ui.charts import HIGH, charts_of, lines_of, trend_of
from onefold.ui.dataset_status import status_of
from onefold.ui.histories import UNKEPT
from onefold.ui.overview import ROWS
from onefold.ui.reports import LARGEST, find_page, reports_app
from onefold.upsert.coverage import PartitionAccount

NINE = datetime(2026, 3, 9, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
PROJECT = Path(__file__).parents[2]
EVIL = "<script>alert(1)</script>"
CONFLICTS = CheckResult(
    id="conflicts", title="conflicts", by="spark", status="failed", observed="1", expected="at most 0"
)


class Watched(LocalStorage):
    """A folder that notes what is read and listed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[str] = []
        self.lists: list[str] = []

    def read(self, key: str) -> bytes | None:
        self.reads.append(key)
        return super().read(key)

    def list(self, prefix: str = "") -> Any:
        self.lists.append(prefix)
        found: list[ObjectInfo] = [*super().list(prefix)]
        return iter(found)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "lake")


@pytest.fixture
def lake(tmp_path: Path, watched: Watched) -> Lake:
    made = Lake(load_settings(home=tmp_path, lake="lake"))
    made.__dict__["storage"] = watched
    return made


Client = Callable[..., TestClient]


@pytest.fixture
def client(lake: Lake) -> Client:
    """The browser of a user who may read some datasets."""
    return lambda *allowed: TestClient(reports_app(lambda: lake, lambda: set(allowed), lambda *_: None))


def report(lake: Lake, dataset: str, batch: str, end: datetime | None = NINE, **changed: Any) -> None:
    interval = Interval(start=end - HOUR, end=end) if end else None
    fields: dict[str, Any] = {
        "dataset": dataset, "description": "", "owner": "payments", "table": f"tests.{dataset}", "mode": "append",
        "deciding": "message_id", "exact": True, "batch": batch, "interval": interval, "attempt": "a1",
        "status": "published", "why": [], "snapshot": 1, "landed": 10, "covered": 0, "objects": [], "ignored": [],
        "counts": {"applied": {"insert": 8}, "duplicate": {"position": 1, "message_id": 1}}, "changes": {},
        "accounts": [], "checks": [], "examples": {}, "written": NINE + timedelta(minutes=10),
    }  # fmt: skip
    lake.put(lake_keys.report(dataset, batch, "json"), Report(**(fields | changed)))
    lake.storage.write(lake_keys.report(dataset, batch, "html"), b"<body>the report</body>")


def red(lake: Lake, dataset: str, batch: str, end: datetime | None = NINE, **changed: Any) -> None:
    report(lake, dataset, batch, end, status="red", checks=[CONFLICTS], snapshot=None, **changed)


def keep(lake: Lake, dataset: str, **changed: Any) -> None:
    """The history as the step `report` keeps it."""
    entries, batches = gather(lake, dataset, (), 200)
    fields = {"table": f"tests.{dataset}", "owner": "payments", "mode": "append", "written": NINE} | changed
    lake.put(lake_keys.history(dataset), History(dataset=dataset, entries=entries, batches=batches, **fields))


def decide(lake: Lake, decision: Decision) -> None:
    lake.put(f"{lake_keys.decisions(decision.dataset)}{decision.batch}/{decision.number:04d}.json", decision)


def words(page: str) -> str:
    """What a page says, without its tags."""
    return " ".join(unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)).split())


def list_datasets(page: str) -> list[str]:
    """The datasets of the overview's rows, in their order."""
    return re.findall(r'<th role="rowheader" scope="row"><a href="/datasets/(\w+)"', page)


# Who sees what


def test_nothing_is_said_or_counted_of_datasets_that_one_may_not_read(lake: Lake, client: Client) -> None:
    report(lake, "accounts", "export_a")
    for hidden in ("salaries", "bonuses"):
        red(lake, hidden, "export_b")
        keep(lake, hidden)
    keep(lake, "accounts")

    page = client("accounts", "some_other_dag").get("/").text

    assert list_datasets(page) == ["accounts"]
    assert "1 dataset nothing waits for a decision" in words(page)
    assert "salaries" not in page
    assert list_datasets(client("accounts").get("/?q=bonuses").text) == []
    assert client("accounts").get("/datasets/salaries").status_code == 403
    assert client("accounts").get("/datasets/none").status_code == 403


@pytest.mark.parametrize("name", ["~bad", "..%2f..%2fsecret", "%2e%2e"])
def test_no_name_of_a_dataset_leaves_its_folder(client: Client, name: str) -> None:
    assert client("~bad", "..", "../../secret").get(f"/datasets/{name}").status_code in (403, 404)


@pytest.mark.parametrize("batch", ["..", ".", "...", "a..b", ".a", "a.", "a/b", "a\n", "", "a" * 129])
def test_no_name_of_a_batch_leaves_its_folder(lake: Lake, batch: str) -> None:
    (Path(lake.where("reports/accounts")) / "a").mkdir(parents=True)
    lake.storage.write(lake_keys.report("accounts", batch, "html"), b"<body>a page</body>")

    assert find_page(lake, "accounts", batch) is None


def test_s6_a_report_is_handed_on_in_pieces_and_none_beyond_a_limit_is_read(
    lake: Lake, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = lake_keys.report("accounts", "export_a", "html")
    report(lake, "accounts", "export_a")
    data = b"<head></head><body>" + b"x" * (5 << 20) + b"</body>"
    lake.storage.write(page, data)
    with client("accounts").stream("GET", "/reports/accounts/export_a") as answer:
        pieces = list(answer.iter_raw())
    assert max(map(len, pieces)) < 2 << 20
    whole = b"".join(pieces)
    assert (whole.count(b"<nav"), whole.replace(b"x", b"").endswith(b"</body>")) == (1, True)
    assert len(whole) > len(data)

    read: list[str] = []
    monkeypatch.setattr(type(lake.storage), "open", lambda _, key: read.append(key))
    lake.storage.write(page, b"x" * (LARGEST + 1))
    refused = client("accounts").get("/reports/accounts/export_a")
    assert (refused.status_code, read) == (413, [])
    assert "has 33,554,433 bytes" in words(refused.text)


def test_a_batch_of_an_interval_with_a_fraction_of_a_second_is_linked_and_shown(lake: Lake, client: Client) -> None:
    half = timedelta(seconds=0.5)
    batch = f"{Interval(start=NINE + half, end=NINE + HOUR + half).name}_0123456789ab"
    report(lake, "accounts", batch, NINE + HOUR + half)
    keep(lake, "accounts")
    browser = client("accounts")

    for path in ("/", "/datasets/accounts"):
        (there,) = {unescape(link) for link in re.findall(r'href="(/reports/[^"]*)"', browser.get(path).text)}
        assert "000.500000Z" in there
        assert "the report" in browser.get(there).text


def test_the_pages_run_no_scripts_and_only_the_overview_sends_a_form_to_itself(lake: Lake, client: Client) -> None:
    report(lake, "accounts", "export_a")
    forms = {}
    for path in ("/", "/datasets/accounts", "/reports/accounts/export_a"):
        answer = client("accounts").get(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
        assert "script-src" not in policy
        assert "<script" not in answer.text
        assert not re.search(r'(src|href|action)="(https?:)?//', answer.text)
        assert answer.headers["cache-control"] == "no-store"
        forms[path] = "form-action 'self'" in policy
    assert forms == {"/": True, "/datasets/accounts": False, "/reports/accounts/export_a": False}


@pytest.mark.parametrize("name", ["duplicate_rate", "duplicate rate"], ids=["id", "title of an earlier history"])
def test_a_red_batch_shows_the_title_of_its_first_red_check(lake: Lake, client: Client, name: str) -> None:
    rates = [CONFLICTS.model_copy(update={"id": id_, "title": "as it was"}) for id_ in (name, "held_age")]
    report(lake, "accounts", "export_a", status="red", checks=rates)
    keep(lake, "accounts")
    assert "red: waits for a decision duplicate rate and 1 more" in words(client("accounts").get("/").text)


def test_what_reports_and_people_wrote_is_escaped(lake: Lake, client: Client) -> None:
    named = CONFLICTS.model_copy(update={"id": EVIL, "title": EVIL})
    report(lake, "accounts", "export_a", status="red", checks=[named])
    keep(lake, "accounts", description=EVIL, owner=EVIL)
    decide(lake, Discard(dataset="accounts", batch="export_a", number=1, by=EVIL, reason=EVIL, at=NINE))
    browser = client("accounts")

    for path in ("/", "/datasets/accounts"):
        page = browser.get(path).text
        assert EVIL not in page
        assert unescape(page).count(EVIL) >= 2
    asked = browser.get("/", params={"q": f'"{EVIL}'}).text
    assert EVIL not in asked
    assert EVIL in unescape(asked)


# What they say


def test_what_needs_a_person_comes_first(lake: Lake, client: Client) -> None:
    now = datetime.now(UTC)
    report(lake, "fine", "export_a", now - HOUR)
    report(lake, "late", "export_a", now - 5 * HOUR)
    red(lake, "stopped", "export_a", now - HOUR)
    lake.storage.write(lake_keys.report("broken", "export_a", "json"), b"{")
    report(lake, "begun", "export_a", now - HOUR, status="unpublished", counts={}, landed=None)
    for name in ("fine", "late", "stopped", "broken", "begun", "empty"):
        keep(lake, name, freshness=7200.0)

    page = client("fine", "late", "stopped", "broken", "begun", "empty").get("/").text

    assert list_datasets(page) == ["stopped", "broken", "late", "begun", "fine", "empty"]
    said = words(page)
    assert "6 datasets 1 red batch waits for a decision 1 late 1 report cannot be read" in said
    assert "red: waits for a decision conflicts" in said
    assert "late: 5" in said
    assert "not finished" in said
    assert "green: published" in said
    assert "no batch yet" in said


def test_a_row_counts_holes_duplicates_held_and_rejected_records(lake: Lake, client: Client) -> None:
    line = PartitionAccount(
        partition="prod/t/1/0", start=0, end=20, distinct=10, quarantined=0,
        explained={"control": 3}, unexplained=[(4, 11)],
    )  # fmt: skip
    counts = {"applied": {"insert": 60}, "duplicate": {"position": 30}, "rejected": {"missing_field": 10}}
    report(lake, "accounts", "export_a", NINE - HOUR, counts=counts, held=17)
    red(lake, "accounts", "export_b", counts=counts, accounts=[line])
    keep(lake, "accounts")

    page = client("accounts").get("/").text

    assert '<b class="bad">7 unexplained</b>' in page
    assert ">3 control<" in page
    assert re.search(r'data-label="Held">17<', page)
    assert re.search(r'data-label="Rejected, last 30 batches">20<', page)
    assert "<b>30.0\N{NARROW NO-BREAK SPACE}%</b>" in page
    assert "Duplicate rate of 2 batches, the oldest first" in page


def test_an_earlier_red_batch_is_named_behind_a_green_one(lake: Lake, client: Client) -> None:
    red(lake, "accounts", "export_a", NINE - HOUR)
    report(lake, "accounts", "export_b", NINE)
    keep(lake, "accounts")

    said = words(client("accounts").get("/").text)

    assert "green: published 1 earlier batch waits for a decision" in said


def test_an_earlier_batch_that_is_not_finished_is_named_behind_a_green_one_and_comes_first(
    lake: Lake, client: Client
) -> None:
    report(lake, "begun", "export_a", NINE - HOUR, status="unpublished", counts={}, landed=None)
    for name in ("accounts", "begun"):
        report(lake, name, "export_b", NINE)
        keep(lake, name)

    page = client("accounts", "begun").get("/").text

    assert "green: published 1 earlier batch is to be run again" in words(page)
    assert list_datasets(page) == ["begun", "accounts"]


def test_the_filter_looks_into_names_tables_owners_and_descriptions(lake: Lake, client: Client) -> None:
    report(lake, "accounts", "export_a")
    keep(lake, "accounts", description="The newest state of each account.")
    report(lake, "clicks", "export_a")
    keep(lake, "clicks", owner="web")
    browser = client("accounts", "clicks")

    assert list_datasets(browser.get("/?q=CLICK").text) == ["clicks"]
    assert list_datasets(browser.get("/?q=web").text) == ["clicks"]
    assert list_datasets(browser.get("/?q=state+newest").text) == ["accounts"]
    assert list_datasets(browser.get("/?q=tests.").text) == ["accounts", "clicks"]
    assert "Nothing matches “no such thing”" in words(browser.get("/?q=no+such+thing").text)


def test_pages_together_are_all_datasets_once_and_keep_the_filter(lake: Lake, client: Client) -> None:
    names = [f"thing_{number:02d}" for number in range(ROWS + 4)]
    for name in names:
        keep(lake, name, description="of A&B")
    browser = client(*names)

    first, second = browser.get("/?q=thing").text, browser.get("/?q=thing&page=2").text

    assert len(list_datasets(first)) == ROWS
    assert list_datasets(first) + list_datasets(second) == names
    assert 'href="/?page=2&amp;q=thing"' in first
    assert 'href="/?page=1&amp;q=thing"' in second
    assert list_datasets(browser.get("/?q=thing&page=99").text) == list_datasets(second)
    assert browser.get("/?page=0").status_code == 422
    (following,) = re.findall(r'rel="next" href="([^"]*)"', browser.get("/?q=a%26b").text)
    assert unescape(following) == "/?page=2&q=a%26b"


def test_what_needs_a_person_is_on_the_first_page_whatever_its_name(lake: Lake, client: Client) -> None:
    names = [f"thing_{number:02d}" for number in range(ROWS + 4)]
    red(lake, names[-1], "export_a")
    for name in names:
        keep(lake, name)

    assert list_datasets(client(*names).get("/").text)[0] == names[-1]


def test_a_lake_without_a_batch_says_so(client: Client, lake: Lake) -> None:
    assert "There are no datasets to show" in words(client("accounts").get("/").text)
    assert "No batch yet" in words(client("accounts").get("/datasets/accounts").text)


def test_a_dataset_file_without_a_batch_has_a_row_and_an_ordinary_dag_has_none(
    lake: Lake, client: Client, watched: Watched
) -> None:
    folder = lake.settings.datasets_folder
    folder.mkdir()
    (folder / "accounts.yaml").write_text("name: accounts\n")

    page = client("accounts", "nightly_cleanup").get("/").text

    assert list_datasets(page) == ["accounts"]
    assert "no batch yet" in words(page)
    assert not [prefix for prefix in watched.lists if "nightly_cleanup" in prefix], "its reports were looked for"


def test_a_dataset_without_a_history_is_shown_with_what_its_file_says_now(lake: Lake, client: Client) -> None:
    folder = lake.settings.datasets_folder
    folder.mkdir()
    file = folder / "accounts.yaml"
    text = (PROJECT / "datasets" / "accounts.yaml").read_text()
    file.write_text(text)
    report(lake, "accounts", "export_a")
    browser = client("accounts")
    assert "payments.accounts · payments" in words(browser.get("/").text)

    file.write_text(text.replace("owner: payments", "owner: treasury"))

    assert "payments.accounts · treasury" in words(browser.get("/").text)


def test_a_datasets_page_has_its_batches_with_numbers_and_links(lake: Lake, client: Client) -> None:
    counts = {"applied": {"insert": 1200}, "duplicate": {"position": 34}, "conflict": {"same_version": 2}}
    rows = {"inserted": 1100, "updated": 60, "deleted": 7}
    report(lake, "accounts", "export_a", None, counts=counts, landed=1236, readers=rows)
    keep(lake, "accounts", description="The newest state.", identity="business_key, position, message_id")

    page = client("accounts").get("/datasets/accounts").text
    said = words(page)

    assert "The newest state." in said
    assert "Same message by business key reasons named by position, message id" in said
    assert '<a href="/reports/accounts/export_a" title="export_a">export_a</a>' in page
    assert "green: published 1 236 1 200 34 2 0 1 100 60 7 0" in said


def test_every_chart_and_strip_says_in_words_what_it_shows(lake: Lake, client: Client) -> None:
    strips = [strip_of("prod/t/1/0", Present(present=[(0, 90)], holes=[(90, 100, "aborted")]))]
    report(lake, "accounts", "export_a")
    keep(lake, "accounts", coverage=strips)
    browser = client("accounts")

    drawn = []
    for path in ("/", "/datasets/accounts"):
        for picture in re.findall(r"<svg[^>]*labelledby[^>]*>.*?</svg>", browser.get(path).text, re.DOTALL):
            (labels,) = re.findall(r'aria-labelledby="([^"]+)"', picture)
            title, tells = labels.split()
            assert f'<title id="{title}">' in picture
            assert f'<desc id="{tells}">' in picture
            drawn.append(re.findall(r"<desc[^>]*>(.*?)</desc>", picture)[0])
    assert drawn == [
        "Duplicate rate of 1 batches, the oldest first: between 20.0\N{NARROW NO-BREAK SPACE}% and "
        "20.0\N{NARROW NO-BREAK SPACE}%.",
        "10 in 1 batches, at most 10 in a batch. The table of batches has the numbers.",
        "2 in 1 batches, at most 2 in a batch. The table of batches has the numbers.",
        "Offsets [0, 100): 10 aborted.",
    ]


# What was decided since


def test_a_decision_counts_from_the_moment_it_is_on_record(lake: Lake, client: Client) -> None:
    red(lake, "accounts", "export_a", written=NINE)
    keep(lake, "accounts")
    browser = client("accounts")
    assert "red: waits for a decision" in words(browser.get("/").text)

    later = NINE + HOUR
    lake.storage.write(f"{lake_keys.decisions('accounts')}export_a/0001.skipped.json", b"{}")  # what a skip took out
    decide(lake, Skip(dataset="accounts", batch="export_a", number=1, by="mira", reason="a load test", at=later))

    for path in ("/", "/datasets/accounts"):
        said = words(browser.get(path).text)
        assert "red: decided, not run yet" in said
        assert "decision cannot be read" not in said
        assert "more cannot be read" not in said
    assert "nothing waits for a decision" in words(browser.get("/").text)
    assert "skip export_a mira a load test" in words(browser.get("/datasets/accounts").text)


def test_a_batch_that_is_red_again_under_a_decision_waits_for_another(lake: Lake, client: Client) -> None:
    red(lake, "accounts", "export_a", written=NINE + HOUR)
    keep(lake, "accounts")
    waived = [Waiver(check="conflicts", value="1")]
    decide(
        lake,
        Release(
            dataset="accounts",
            batch="export_a",
            number=1,
            by="mira",
            reason="known",
            at=NINE,
            waivers=waived,
            attempt="a1",
        ),
    )

    said = words(client("accounts").get("/datasets/accounts").text)

    assert "1 red batch waits for a decision" in said
    assert "waived: conflicts=1" in said


def test_a_decision_of_a_kind_that_is_not_known_is_listed_and_settles_nothing(lake: Lake, client: Client) -> None:
    red(lake, "accounts", "export_a", written=NINE)
    keep(lake, "accounts")
    written = b'{"kind": "bless", "batch": "export_a", "by": "mira", "reason": "why not", "at": "2026-03-09T10:00:00Z"}'
    lake.storage.write(f"{lake_keys.decisions('accounts')}export_a/0001.json", written)

    said = words(client("accounts").get("/datasets/accounts").text)

    assert "bless export_a mira why not" in said
    assert "1 red batch waits for a decision" in said


def test_a_batch_that_was_rolled_back_is_not_shown_as_published(lake: Lake, client: Client) -> None:
    report(lake, "accounts", "export_a", NINE - HOUR, written=NINE)
    report(lake, "accounts", "export_b", NINE, written=NINE)
    keep(lake, "accounts", coverage=[strip_of("prod/t/1/0", Present(present=[(0, 9)]))])
    rolled = RolledBack(
        dataset="accounts", to="export_a", undone=["export_b"], snapshot=1, by="mira", reason="wrong rates",
        at=NINE + HOUR,
    )  # fmt: skip
    lake.put(f"{lake_keys.decisions('accounts')}20260309T100000Z-rollback-1.json", rolled)
    browser = client("accounts")

    assert "rolled back" in words(browser.get("/").text)
    said = words(browser.get("/datasets/accounts").text)
    assert "rolled back: waits for an operator rollback by mira" in said
    assert "The table was reset to export_a since this was written" in said

    report(lake, "accounts", "export_b", NINE, written=NINE + 2 * HOUR)  # it ran again
    assert "rolled back" not in words(browser.get("/datasets/accounts").text).split("Decisions")[0]


# What is broken


def test_damage_costs_a_row_its_numbers_and_no_more(lake: Lake, client: Client) -> None:
    report(lake, "accounts", "export_a", NINE - HOUR)
    lake.storage.write(lake_keys.report("accounts", "export_b", "json"), b'{"dataset": "acc')
    lake.storage.write(lake_keys.report("accounts", "export_c", "html"), b"<body>a page</body>")
    lake.storage.write(lake_keys.history("accounts"), b"\x00")
    lake.storage.write(f"{lake_keys.decisions('accounts')}export_a/0001.json", b"{}")
    report(lake, "clicks", "export_a")
    browser = client("accounts", "clicks")

    page = browser.get("/").text
    assert list_datasets(page) == ["accounts", "clicks"]
    assert "1 decision cannot be read" in words(page)

    page = browser.get("/datasets/accounts").text
    said = words(page)
    assert page.count('<span class="state damaged">') == 2
    assert "Its file is damaged. onefold step report accounts --batch export_b writes it again." in said
    assert "Its page is there, its numbers cannot be read." in said
    assert "1 more cannot be read." in said
    assert 'href="/reports/accounts/export_c"' in page
    assert 'href="/reports/accounts/export_b"' not in page


def test_an_invalid_dataset_file_costs_no_other_dataset_its_row(lake: Lake, client: Client) -> None:
    folder = lake.settings.datasets_folder
    folder.mkdir()
    contents = {"torn": b"{", "listed": b"- 1\n", "odd": b"name: odd\nsurprise: 1\n", "latin": b"name: latin # \xe9\n"}
    for name, data in contents.items():
        (folder / f"{name}.yaml").write_bytes(data)
    (folder / "folder.yaml").mkdir()
    for name in ("torn", "accounts"):
        report(lake, name, "export_a")
    keep(lake, "accounts")

    page = client("accounts", "folder", *contents).get("/").text

    assert sorted(list_datasets(page)) == ["accounts", "folder", "latin", "listed", "odd", "torn"]
    assert words(page).count("green: published") == 2


def drop_the_zone(lake: Lake, key: str, name: str) -> None:
    """Write a document with an instant without a zone: its place in time is unknown."""
    document = json.loads(lake.storage.read(key) or b"")
    document[name] = "2026-03-09T09:00:00"
    lake.storage.write(key, json.dumps(document).encode())


def test_an_instant_without_a_zone_is_damage_and_no_more(lake: Lake, client: Client) -> None:
    for name in ("fine", "late", "undated", "decided"):
        report(lake, name, "export_a", None, status="red", checks=[CONFLICTS])
        keep(lake, name, freshness=7200.0)
    drop_the_zone(lake, lake_keys.history("late"), "written")
    drop_the_zone(lake, lake_keys.report("undated", "export_a", "json"), "written")
    lake.storage.remove(lake_keys.history("undated"))
    decide(lake, Skip(dataset="decided", batch="export_a", number=1, by="mira", reason="", at=NINE))
    drop_the_zone(lake, f"{lake_keys.decisions('decided')}export_a/0001.json", "at")
    browser = client("fine", "late", "undated", "decided")

    page = browser.get("/").text

    assert sorted(list_datasets(page)) == ["decided", "fine", "late", "undated"]
    assert "3 red batches wait for a decision 1 report cannot be read" in words(page)
    assert "1 decision cannot be read" in words(page)
    for name in ("fine", "late", "undated", "decided"):
        assert browser.get(f"/datasets/{name}").status_code == 200


@pytest.mark.parametrize("place", ["onefold.ui.histories.gather", "onefold.ui.overview.status_of"])
def test_an_unforeseen_error_in_one_dataset_costs_no_other_its_row(
    lake: Lake, client: Client, monkeypatch: pytest.MonkeyPatch, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours = pkgutil.resolve_name(place)
    monkeypatch.setattr(place, lambda *given, **named: 1 / 0 if "odd" in str(given) else ours(*given, **named))
    for name in ("accounts", "odd"):
        report(lake, name, "export_a")

    page = client("accounts", "odd").get("/").text

    assert list_datasets(page) == ["odd", "accounts"]
    assert "cannot be shown: the API server's log says why" in words(page)
    assert "green: published" in words(page)
    assert "dataset odd cannot be shown on the overview" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_lake_that_cannot_be_read_is_said_without_its_place(lake: Lake, client: Client, watched: Watched) -> None:
    report(lake, "accounts", "export_a")
    keep(lake, "accounts")
    browser = client("accounts")
    assert browser.get("/").status_code == 200

    loop = watched.root / "histories" / "accounts.json"
    loop.unlink()
    loop.symlink_to(loop)
    answer = browser.get("/")

    assert answer.status_code == 503
    assert "Nothing is shown rather than something old" in words(answer.text)
    assert str(watched.root) not in answer.text


# What is read


def test_the_overview_reads_one_document_a_dataset_and_then_only_what_changed(
    lake: Lake, client: Client, watched: Watched
) -> None:
    names = [f"thing_{number}" for number in range(6)]
    for name in names:
        for batch in ("export_a", "export_b", "export_c"):
            report(lake, name, batch)
        keep(lake, name)
    browser = client(*names)
    watched.reads.clear()

    browser.get("/")
    assert sorted(watched.reads) == [f"histories/{name}.json" for name in names]

    watched.reads.clear()
    watched.lists.clear()
    browser.get("/")
    assert watched.reads == []
    assert sorted(watched.lists) == sorted(["histories/", *(f"datasets/{name}/decisions/" for name in names)])

    report(lake, "thing_3", "export_d")
    keep(lake, "thing_3")
    watched.reads.clear()
    browser.get("/")
    assert watched.reads == ["histories/thing_3.json"]


def test_a_lake_without_histories_is_read_report_by_report_and_only_the_newest(
    lake: Lake, client: Client, watched: Watched
) -> None:
    for number in range(UNKEPT + 3):
        report(lake, "accounts", f"export_{number:03d}", NINE + number * HOUR)
    browser = client("accounts")
    watched.reads.clear()

    assert list_datasets(browser.get("/").text) == ["accounts"]
    assert len(watched.reads) == UNKEPT

    watched.reads.clear()
    browser.get("/")
    assert watched.reads == []


def test_a_datasets_page_reads_the_reports_that_its_history_does_not_know(
    lake: Lake, client: Client, watched: Watched
) -> None:
    report(lake, "accounts", "export_a")
    keep(lake, "accounts")
    report(lake, "accounts", "export_b")  # its history was never written
    browser = client("accounts")
    watched.reads.clear()

    assert "export_b" in browser.get("/datasets/accounts").text
    assert watched.reads == ["histories/accounts.json", "reports/accounts/export_b.json"]

    watched.reads.clear()
    assert "export_b" in browser.get("/datasets/accounts").text
    assert watched.reads == []


# The status of a dataset


def entry(hour: int, status: str = "published", **more: Any) -> Entry:
    end = NINE + hour * HOUR
    interval = Interval(start=end - HOUR, end=end)
    return Entry(batch=f"b{hour}", etag="1", written=end, status=status, interval=interval, **more)  # type: ignore[arg-type]


def history(*entries: Entry, **more: Any) -> History:
    ordered = sorted(entries, key=lambda item: item.at, reverse=True)
    return History(dataset="things", batches=len(entries), entries=ordered, **more)


@pytest.mark.parametrize(("minutes", "late"), [(119, False), (120, False), (121, True)])
def test_a_dataset_is_late_when_its_newest_published_batch_is_older_than_it_may_be(minutes: int, late: bool) -> None:
    batches = history(entry(0), entry(1, "red"), freshness=7200.0)

    status = status_of(batches, [], 0, NINE + timedelta(minutes=minutes))

    assert status.late is late
    assert not status_of(history(entry(0)), [], 0, NINE + 999 * HOUR).late, "nothing is declared"


def dateless(batch: str, days: int, **more: Any) -> Entry:
    """A batch without an interval, published so many days ago."""
    return Entry(batch=batch, etag="1", status="published", **({"written": NINE - days * DAY} | more))  # type: ignore[arg-type]


def test_a_report_that_is_written_again_makes_no_batch_newer_and_no_dataset_fresh() -> None:
    older, newer = (dateless(f"export_{days}", days, committed=NINE - days * DAY) for days in (30, 20))
    again = older.model_copy(update={"written": NINE})

    for entries in ((older, newer), (again, newer)):
        status = status_of(history(*entries, freshness=2 * DAY.total_seconds()), [], 0, NINE)
        assert status.late
        assert status.age == 20 * DAY.total_seconds()
        assert status.last
        assert status.last.entry.batch == "export_20"


@pytest.mark.parametrize("batch", ["forget_0f3b", "gap_0f3b", "replay_0f3b"])
def test_what_people_decide_of_earlier_batches_makes_no_dataset_fresh(batch: str) -> None:
    silent, decided = entry(-30 * 24, held=7), dateless(batch, 0, committed=NINE, held=5)

    status = status_of(history(silent, decided, freshness=2 * DAY.total_seconds()), [], 0, NINE)

    assert status.late
    assert status.newest == silent
    assert status.held == 5, "the table holds what the last batch left in it, whichever that was"
    assert status_of(history(decided), [], 0, NINE).newest is None


def test_what_the_table_holds_is_what_the_batch_left_that_was_published_last() -> None:
    """A backfill of an earlier interval may bring what the later one waited for."""
    later, earlier = entry(24, held=5, committed=NINE), entry(0, held=0, committed=NINE + HOUR)

    assert status_of(history(later, earlier), [], 0, NINE).held == 0


def test_the_pages_say_when_a_batch_was_published_not_when_its_report_was_written(lake: Lake, client: Client) -> None:
    now = datetime.now(UTC)
    for days in (30, 20):
        report(lake, "accounts", f"export_{days}", None, committed=now - days * DAY, written=now - days * DAY)
    report(lake, "accounts", "export_30", None, committed=now - 30 * DAY, written=now)
    report(lake, "accounts", "forget_0f3b", None, committed=now, written=now, counts={}, landed=0)
    keep(lake, "accounts", freshness=2 * DAY.total_seconds())

    assert "1 late" in words(client("accounts").get("/").text)
    for path in ("/", "/datasets/accounts"):
        assert "late: 20 d ago" in words(client("accounts").get(path).text)


def test_the_bars_of_a_chart_are_as_high_as_their_counts() -> None:
    old = entry(0, counts={"applied": 30, "duplicate": 10}, duplicates={"position": 4, "message_id": 6})
    new = entry(1, counts={"applied": 20}, unexplained=5)

    records, duplicates, conflicts, rejected, unexplained = charts_of(status_of(history(old, new), [], 0, NINE).batches)

    heights = [[(part.kind, round(part.height / HIGH, 6)) for part in bar.parts] for bar in records.bars]
    assert heights == [[("applied", 0.75), ("duplicate", 0.25)], [("applied", 0.5)]]
    assert [part.top for part in records.bars[0].parts] == [HIGH * 0.25, 0]
    assert [(part.kind, round(part.height / HIGH, 6)) for part in duplicates.bars[0].parts] == [
        ("position", 0.4),
        ("message_id", 0.6),
    ]
    assert (conflicts.total, rejected.total, unexplained.total) == (0, 0, 5)
    assert records.bars[0].title.endswith("30 applied, 10 duplicate (green: published)")


def test_a_trend_leaves_a_place_to_a_batch_that_was_not_judged() -> None:
    judged, begun = entry(0, counts={"applied": 3, "duplicate": 1}), entry(1, "unpublished")

    trend = trend_of(status_of(history(judged, begun), [], 0, NINE))

    assert trend
    assert [bar.left for bar in trend.bars] == [0, 4]
    assert [bar.parts[0].height > 0 for bar in trend.bars] == [True, False]
    assert trend_of(status_of(history(begun), [], 0, NINE)) is None


def test_offsets_that_nothing_accounts_for_are_drawn_over_what_is_covered() -> None:
    strip = strip_of("prod/t/1/0", Present(present=[(0, 1000)]))
    lost = entry(0, "red", unexplained=20, missing=[("prod/t/1/0", 980, 1000)])

    (line,) = lines_of(status_of(history(lost, coverage=[strip]), [], 0, NINE))

    assert line.unexplained == 20
    assert [(piece.kind, piece.left, piece.width) for piece in line.pieces] == [
        ("landed", 0, 1000),
        ("unexplained", 980, 20),
    ]
    mended = entry(0, missing=[("prod/t/1/0", 980, 1000)])
    (line,) = lines_of(status_of(history(mended, coverage=[strip]), [], 0, NINE))
    assert line.unexplained == 0


def test_offsets_that_nothing_accounted_for_are_no_alarm_once_their_batch_was_settled() -> None:
    assert status_of(history(entry(0, "red", unexplained=5)), [], 0, NINE).unexplained == 5
    assert status_of(history(entry(0, "unpublished", unexplained=5)), [], 0, NINE).unexplained == 0


def test_s10_the_pages_leave_the_umask_of_airflows_api_server_as_it_is(lake: Lake, client: Client) -> None:
    """They only read: `lake_access` is for processes that write the lake."""
    decide(lake, Skip(dataset="accounts", batch="export_a", number=1, who="mira", reason="", at=NINE))
    before = os.umask(0o027)
    try:
        for page in ("/", "/datasets/accounts", "/reports/accounts/export_a"):
            client("accounts").get(page)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
