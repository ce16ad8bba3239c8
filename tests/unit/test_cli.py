"""The command line: help for every command, exit codes, and JSON that scripts may rely on. No Spark here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Never

import pytest

from onefold import __version__
from onefold.cli.app import app, run_command
from onefold.cli.console import with_ranges
from onefold.dataset import Dataset, find_dataset
from onefold.decisions import Decider, Skip, record, table_decisions
from onefold.draft import text_of
from onefold.errors import ContentionError, DataLossError, RepeatedKeysError, SparkStepError, UsageError
from onefold.generation import begin_rebuild, fix_generation, to_rebuild
from onefold.lake import Lake
from onefold.maintenance.keep import Keep, Maintained
from onefold.operations.in_process import InProcess
from onefold.operations.launcher import OpenLauncher
from onefold.settings import load_settings
from tests.support.landings import bytes_of, landed
from tests.support.project import THINGS, Done

PROJECT = Path(__file__).parents[2]
COMMANDS = (
    "validate", "run", "step", "show", "changes", "batches", "verdicts", "quarantine", "explain", "offsets",
    "rebuild", "rollback", "maintain", "demo", "init", "doctor", "release", "discard", "skip", "decisions",
    "replay", "prove", "config", "accept-gap", "held", "forget", "erase", "recover",
)  # fmt: skip


Onefold = Callable[..., Done]


@pytest.fixture
def onefold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Onefold:
    """Runs the command line in this process, in a project of its own with the shipped datasets."""
    monkeypatch.setenv("ONEFOLD_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("ONEFOLD_EXPORTS_BELOW", json.dumps([".", "s3://", str(PROJECT)]))
    for folder in ("datasets", "expectations"):
        (tmp_path / folder).symlink_to(PROJECT / folder)

    def run(*words: str, open_launcher: OpenLauncher = NoSpark) -> Done:
        code = run_command(words, open_launcher)
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return run


class NoSpark(InProcess):
    """A launcher of commands that start no Spark."""

    @property
    def session(self) -> Never:
        raise AssertionError("this command starts Spark")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The folder of dataset files, not the shipped ones."""
    (tmp_path / "datasets").unlink(missing_ok=True)
    (tmp_path / "datasets").mkdir(exist_ok=True)
    return tmp_path / "datasets"


def test_every_command_is_known_here() -> None:
    assert {command.name or command.callback.__name__ for command in app.registered_commands} == set(COMMANDS)  # type: ignore[union-attr]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(onefold: Onefold, command: str) -> None:
    done = onefold(command, "--help")
    assert done.code == 0
    assert f"Usage: onefold {command}" in done.out
    first = done.out.split("\n\n")[1].strip()
    assert first.endswith(".")


def test_the_help_lists_the_commands_and_exit_codes(onefold: Onefold) -> None:
    done = onefold("--help")
    assert done.code == 0
    assert all(f"\n  {command}" in done.out for command in COMMANDS)
    assert "3 gate red" in done.out


def test_no_command_shows_the_help(onefold: Onefold) -> None:
    done = onefold()
    assert done.code == 2
    assert "Usage: onefold" in done.out + done.err


def test_the_installed_program_says_its_version() -> None:
    program = Path(sys.executable).with_name("onefold")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"onefold {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("run",),
        ("run", "accounts", "--nonsense"),
        ("run", "accounts", "--from", "soon"),
        ("run", "accounts", "--from", "2026-01-01"),
        ("run", "accounts", "--from", "2026-01-02", "--to", "2026-01-01"),
        ("run", "accounts", "--export", "x", "--from", "2026-01-01", "--to", "2026-01-02"),
        ("step", "nonsense", "accounts"),
        ("step", "land", "accounts"),
        ("step", "land", "accounts", "--batch", "nonsense"),
        ("step", "land", "accounts", "--batch", "export_000000000000"),
        ("step", "publish", "accounts", "--batch", "export_000000000000"),
        ("verdicts", "accounts"),
        ("verdicts", "accounts", "--batch", "export_000000000000"),
        ("show", "accounts", "--at"),
        ("changes", "accounts", "--since", "export_000000000000"),
        ("quarantine", "accounts", "--batch", "export_000000000000"),
        ("explain", "accounts", "--key", "{"),
        ("init",),
        ("init", "orders"),
        ("init", "Orders", "--topic", "orders"),
        ("init", "orders", "--export", "sample", "--layout", "parquet"),
        ("init", "orders", "--topic", "orders", "--layout", "kcat"),
        ("init", "orders", "--export", "sample", "--topic", "^orders"),
        ("init", "orders", "--export", "sample", "--table", "orders"),
        ("init", "orders", "--topic", "orders", "--sample", "0"),
        ("init", "orders", "--topic", "orders"),
        ("init", "orders", "--export", "nowhere"),
        ("explain", "accounts", "--key", "[1]"),
        ("release", "export_000000000000"),
        ("release", "export_000000000000", "--reason", "known"),
        ("release", "accounts", "export_000000000000", "--reason", "known"),
        ("discard", "accounts", "nonsense", "--reason", "no"),
        ("skip", "accounts", "export_000000000000", "--reason", " "),
        ("skip", "accounts", "export_000000000000", "more", "--reason", "no"),
        ("maintain", "--attempts", "99999999999d"),
        ("maintain", "--attempts", "9999999d"),
        ("maintain", "--snapshots", "0s"),
        ("maintain", "--landing", "0s", "--reason", "full"),
        ("maintain", "--landing", "90d"),
        ("maintain", "--reason", "full"),
        ("forget", "accounts", "--reason", "old", "--who", "me", "--deleted-before", "9999999d"),
        ("explain", "accounts", "--key", '{"id": 1}'),
        ("explain", "accounts", "--key", '{"account_id": 1, "more": 2}'),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_a_sentence(onefold: Onefold, words: tuple[str, ...]) -> None:
    done = onefold(*words)
    assert done.code == 2, done
    assert done.out == ""
    assert "rror: " in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", ["run", "show", "batches", "offsets"])
def test_an_unknown_dataset_ends_with_2_and_the_list(onefold: Onefold, command: str) -> None:
    done = onefold(command, "acounts")
    assert done.code == 2
    assert done.out == ""
    text = " ".join(done.err.split())
    assert "no dataset 'acounts'" in text
    assert "(there: account_entries, accounts, orders, page_views)" in text


def test_a_setting_that_is_wrong_ends_with_2(onefold: Onefold, tmp_path: Path) -> None:
    (tmp_path / "onefold.toml").write_text("publish_tries = 0\n")
    done = onefold("batches", "accounts")
    assert (done.code, "publish_tries" in done.err) == (2, True)


def test_validate_is_green_for_what_is_shipped(onefold: Onefold) -> None:
    done = onefold("validate", "--json")
    assert done.code == 0
    assert [(row["dataset"], row["ok"], row["mode"], row["identity"], row["problem"]) for row in done.json] == [
        ("account_entries", True, "append", "business_key", ""),
        ("accounts", True, "upsert", "key_version", ""),
        ("orders", True, "upsert", "key_version", ""),
        ("page_views", True, "append", "message_id", ""),
    ]
    assert all(len(row["generation"]) == 12 for row in done.json)
    assert onefold("validate", "accounts").code == 0


def test_validate_says_every_problem_and_ends_with_2(onefold: Onefold, own: Path) -> None:
    (own / "good.yaml").write_text((PROJECT / "datasets" / "page_views.yaml").read_text().replace("page_views", "good"))
    (own / "bad.yaml").write_text("name: bad\nsorce: {}\n")
    done = onefold("validate", "--json")
    assert done.code == 2
    by_name = {row["dataset"]: row for row in done.json}
    assert by_name.keys() == {"bad", "good"}
    assert not by_name["bad"]["ok"]
    assert "bad.yaml:2: sorce: unknown key; did you mean 'source'?" in by_name["bad"]["problem"]
    assert by_name["good"]["problem"].endswith("cannot be read: No such file or directory. Nothing was run.")


def test_validate_of_one_that_is_not_there_lists_what_is(onefold: Onefold) -> None:
    done = onefold("validate", "acounts", "--json")
    assert done.code == 2
    assert "there: account_entries, accounts, orders, page_views" in done.json[0]["problem"]


def test_validate_of_nothing_ends_with_2(onefold: Onefold, own: Path) -> None:
    done = onefold("validate")
    assert (done.code, f"no dataset files in {own}" in done.err.replace("\n", "")) == (2, True)


def test_a_table_names_the_problem_too(onefold: Onefold, own: Path) -> None:
    (own / "bad.yaml").write_text("name: bad\nsource: {kafka: {}}\n")
    done = onefold("validate")
    assert done.code == 2
    assert "Fieldrequired" in "".join(re.findall(r"\w+", done.out)), "the table folds it"


@pytest.mark.parametrize("command", ["show", "batches", "quarantine", "offsets"])
def test_nothing_yet_is_an_empty_list(onefold: Onefold, command: str) -> None:
    done = onefold(command, "accounts", "--json")
    assert (done.code, done.json) == (0, [])
    assert re.search(r": nothing (yet|is quarantined)$", onefold(command, "accounts").out.rstrip())


def test_nothing_yet_has_no_changes_and_no_mark(onefold: Onefold) -> None:
    done = onefold("changes", "accounts", "--json")
    assert (done.code, done.json) == (0, {"since": None, "until": None, "rows": []})
    assert onefold("changes", "accounts").out == "payments.accounts: 0 changes: no rows\n"


def test_a_key_that_nothing_touched_has_no_records(onefold: Onefold) -> None:
    done = onefold("explain", "accounts", "--key", '{"account_id": "a-1"}', "--json")
    assert (done.code, done.json) == (0, [])


def test_a_batch_that_is_not_published_cannot_be_shown(onefold: Onefold) -> None:
    assert onefold("show", "accounts", "--at", "export_000000000000").code == 2


def test_a_missing_or_empty_export_ends_with_2(onefold: Onefold, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in ("nowhere", "empty"):
        done = onefold("run", "accounts", "--export", place)
        assert done.code == 2
        assert "does not exist or is empty. Nothing was planned." in " ".join(done.err.split())
    assert not (tmp_path / ".lake" / "sources").exists()


def test_a_dry_run_says_what_would_be_read_and_writes_nothing(onefold: Onefold, tmp_path: Path) -> None:
    export = PROJECT / "sample" / "exports" / "kcat" / "1-first"
    done = onefold("run", "accounts", "--export", str(export), "--dry-run", "--json")
    assert done.code == 0
    [row] = done.json
    assert (row["interval"], row["objects"], row["ignored"]) == (None, 2, 0)
    assert row["bytes"] == sum(file.stat().st_size for file in export.iterdir())
    assert onefold("run", "accounts", "--export", str(export), "--dry-run", "--json").json == [row]
    assert onefold("run", "accounts", "--export", str(export), "--dry-run").code == 0
    assert not list((tmp_path).rglob("*.json"))


def test_what_an_interval_would_read_is_described_in_words(onefold: Onefold, monkeypatch: pytest.MonkeyPatch) -> None:
    interval = {"start": "2026-01-05T00:00:00Z", "end": "2026-01-06T00:00:00Z"}
    row = {"batch": "b", "interval": interval, "partitions": 2, "offsets": 0, "notes": ["a waits", "b waits"]}
    monkeypatch.setattr("onefold.landing.plan.ObjectsPlan.preview", property(lambda plan: row))
    printed = onefold("run", "accounts", "--export", str(PROJECT / "sample/exports/kcat/1-first"), "--dry-run").out
    assert "2026-01-05T00:00:00Z to 2026-01-06T00:00:00Z" in printed
    assert not re.search(r"[{}\[\]]", printed)
    assert re.search(r"a waits.*\n.*b waits", printed)


def test_a_step_prints_its_document(onefold: Onefold) -> None:
    export = PROJECT / "sample" / "exports" / "kcat" / "1-first"
    plan = onefold("step", "plan", "accounts", "--export", str(export)).json
    assert [object_["name"] for object_ in plan["objects"]] == sorted(file.name for file in export.iterdir())
    [row] = onefold("batches", "accounts", "--json").json
    assert row == {
        "batch": row["batch"], "interval": None, "landed": 0, "verdicts": {}, "rows": None,
        "gate": None, "published": False,
    }  # fmt: skip
    manifest = onefold("step", "land", "accounts", "--batch", row["batch"]).json
    assert manifest["batch"] == row["batch"]
    assert onefold("step", "land", "accounts", "--batch", row["batch"]).json == manifest


def test_a_batch_that_is_only_landed_can_be_skipped_but_not_released(onefold: Onefold) -> None:
    export = PROJECT / "sample" / "exports" / "kcat" / "1-first"
    onefold("step", "plan", "accounts", "--export", str(export))
    [row] = onefold("batches", "accounts", "--json").json
    batch, why = row["batch"], ("--reason", "test data", "--who", "mia", "--dry-run", "--json")
    skip = onefold("skip", "accounts", batch, *why)
    assert (skip.code, "a landing, which has not run" in skip.err) == (2, True)
    onefold("step", "land", "accounts", "--batch", batch)
    release = onefold("release", batch, *why)
    assert (release.code, "upsert, which has not run" in release.err) == (2, True)
    [would] = onefold("skip", batch, *why).json
    assert (would["decision"], would["by"], would["reason"], would["state"]) == (
        "skip", "mia", "test data", "not recorded",
    )  # fmt: skip
    assert onefold("discard", batch, *why).json == [], "it is landed and nothing more"
    assert onefold("decisions", "--json").json == onefold("decisions", "accounts", "--json").json == []


def test_a_batch_of_two_datasets_must_be_named_with_one(onefold: Onefold, own: Path) -> None:
    text = (PROJECT / "datasets" / "accounts.yaml").read_text()
    (own / "accounts.yaml").write_text(text)
    (own / "others.yaml").write_text(text.replace("name: accounts", "name: others").replace(".accounts", ".others"))
    export = str(PROJECT / "sample" / "exports" / "kcat" / "1-first")
    onefold("step", "plan", "accounts", "--export", export)
    [row] = onefold("batches", "accounts", "--json").json
    for name in ("accounts", "others"):
        assert onefold("step", "land", name, "--batch", row["batch"]).code == 0
    done = onefold("skip", row["batch"], "--reason", "no", "--dry-run")
    assert (done.code, "is of accounts, others: name the dataset" in done.err) == (2, True), done
    assert onefold("skip", "others", row["batch"], "--reason", "no", "--dry-run").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("orders", "--export", "x", "--cluster", "prod-eu"), "--cluster 'prod-eu': String should match"),
        (("onefold_x", "--export", "x"), "DATASET: onefold_x: names that begin with onefold_ are those of"),
        (("orders__quarantine", "--export", "x"), "DATASET, or --table: 'kafka.orders__quarantine': names that end"),
        (("orders", "--export", "x", "--table", "a.b__quarantine"), "--table: 'a.b__quarantine': names that end in"),
        (("orders", "--topic", "a b"), "--topic: 'a b' is no topic's name"),
        (("orders", "--topic", "^("), "--topic: '^(' is no regular expression"),
        (("orders", "--topic", "a", "--connection", "a b"), "--connection 'a b': String should match"),
    ],
    ids=str,
)
def test_init_says_which_option_would_make_a_file_that_is_refused(
    onefold: Onefold, own: Path, words: tuple[str, ...], said: str
) -> None:
    done = onefold("init", *words)
    assert (done.code, done.out, said in done.err) == (2, "", True), done
    assert "No dataset file was written." in done.err
    assert list(own.iterdir()) == []


def test_init_writes_no_file_that_validate_refuses(
    onefold: Onefold, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is: here a folder whose draft is changed to one."""
    (tmp_path / "sample").symlink_to(PROJECT / "sample" / "exports" / "kcat")
    words = ("init", "orders", "--export", "sample/1-first")
    monkeypatch.setattr("onefold.draft.text_of", lambda draft: text_of(draft).replace("buckets: 8", "buckets: 0"))
    done = onefold(*words)
    assert (done.code, done.out, list(own.iterdir())) == (2, "", [])
    assert "orders: the drafted file would be refused at target.buckets: Input should be greater" in done.err


def test_a_batch_of_a_dataset_whose_file_cannot_be_used_is_no_batch_of_none(onefold: Onefold, own: Path) -> None:
    text = (PROJECT / "datasets" / "accounts.yaml").read_text()
    (own / "accounts.yaml").write_text(text)
    export = str(PROJECT / "sample" / "exports" / "kcat" / "1-first")
    onefold("step", "plan", "accounts", "--export", export)
    [row] = onefold("batches", "accounts", "--json").json
    onefold("step", "land", "accounts", "--batch", row["batch"])
    (own / "accounts.yaml").write_text(text.replace("name: accounts", "name: accounts\nnonsense: 1"))
    (own / "orders.yaml").write_text((PROJECT / "datasets" / "orders.yaml").read_text())
    done = onefold("skip", row["batch"], "--reason", "no", "--dry-run")
    assert done.code == 2
    assert re.search(r"accounts\.yaml:\d+: nonsense: unknown key", done.err), done.err


def test_decisions_of_datasets_with_usable_files_are_listed_and_the_other_datasets_are_named(
    onefold: Onefold, own: Path
) -> None:
    (own / "accounts.yaml").write_text((PROJECT / "datasets" / "accounts.yaml").read_text())
    (own / "b2.yaml").write_text("name: b2\nnonsense: 1\n")
    at = datetime(2026, 3, 9, tzinfo=UTC)
    record(Lake(load_settings()), Skip(dataset="accounts", batch="b", number=1, by="mia", reason="no", at=at))
    done = onefold("decisions", "--json")
    assert (done.code, [row["batch"] for row in done.json]) == (2, ["b"])
    assert re.search(r"b2\.yaml:2: nonsense: unknown key.*The dataset was left out\.", done.err), done.err
    listed = onefold("decisions", "b2", "--json")
    assert (listed.code, listed.out) == (2, "")
    assert onefold("decisions", "accounts", "--json").code == 0


def test_the_list_of_decisions_says_what_vouches_for_a_name(onefold: Onefold) -> None:
    lake, at = Lake(load_settings()), datetime(2026, 3, 9, tzinfo=UTC)
    for number, who in enumerate((Decider.of_airflow("7", "Ada"), Decider.asserted("mia"), Decider.earlier("noa")), 1):
        record(lake, Skip(dataset="accounts", batch="b", number=number, who=who, reason="known", at=at))
    listed = onefold("decisions", "accounts")
    assert all(words in listed.out for words in ("Ada (Airflow)", "mia (asserted)", "noa")), listed
    assert "noa (" not in listed.out
    rows = onefold("decisions", "accounts", "--json").json
    assert [(row["by"], row["who"]["how"]) for row in rows] == [("Ada", "airflow"), ("mia", "cli"), ("noa", None)]


@pytest.mark.parametrize("command", ["rollback accounts --to b", "skip accounts b", "forget accounts"])
def test_a_user_without_a_name_must_say_who_decides(
    onefold: Onefold, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """As in a container that runs under a number that no user has."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    words = (*command.split(), "--reason", "no", "--dry-run")
    done = onefold(*words)
    assert (done.code, "the system has no name for this user: say --who" in done.err) == (2, True), done
    assert "has no name" not in onefold(*words, "--who", "mia").err


def test_doctor_tells_what_an_export_cannot_be_asked(onefold: Onefold) -> None:
    done = onefold("doctor", "accounts", "--json")
    assert (done.code, done.json["dataset"], done.json["cluster"]) == (0, "accounts", None)
    assert [finding["rule"] for finding in done.json["findings"] if finding["severity"] == "unknown"] == ["export"]
    assert {"acks", "isolation.level", "retention.ms"} <= {check["setting"] for check in done.json["by_hand"]}


def test_doctor_of_a_live_topic_needs_a_connection(onefold: Onefold, own: Path, tmp_path: Path) -> None:
    live = "name: live\nsource: {kafka: {topics: [t]}}\nvalue: {fields: {id: string}}\napply: {mode: append}\n"
    (own / "live.yaml").write_text(live + "target: {table: live.rows}\n")
    done = onefold("doctor", "live")
    assert done.code == 2
    assert "nothing says how to reach the Kafka connection 'kafka_default'" in done.err
    assert not (tmp_path / ".lake" / "sources").exists()


def test_a_table_counts_holes_by_kind_and_shows_the_first_ranges_of_many() -> None:
    markers = [{"start": 3 * number, "end": 3 * number + 1, "kind": "control"} for number in range(1_000)]
    row = {
        "topic": "t",
        "covered": [[0, 5], [7, 9]],
        "holes": [*markers, {"start": 7, "end": 9, "kind": "aborted"}],
        "quarantined": [],
    }
    first = ", ".join(f"[{3 * number}, {3 * number + 1})" for number in range(8))
    assert with_ranges(row) == {
        "topic": "t",
        "covered": "[0, 5), [7, 9)",
        "holes": f"1000 control: {first}, and 992 more; 2 aborted: [7, 9)",
        "quarantined": "",
    }


LOOKING = (
    ("show",),
    ("changes",),
    ("batches",),
    ("quarantine",),
    ("offsets",),
    ("held",),
    ("explain", "--position", "t-0@1"),
)


@pytest.mark.parametrize("words", LOOKING, ids=[words[0] for words in LOOKING])
def test_a_command_that_looks_tells_of_the_table_that_readers_see_or_of_none(
    onefold: Onefold, own: Path, words: tuple[str, ...]
) -> None:
    """A changed file names another table: none, or one that a rebuild has not ended."""
    text = (PROJECT / "datasets" / "accounts.yaml").read_text()
    (own / "accounts.yaml").write_text(text)
    lake, file = Lake(load_settings()), find_dataset(own, "accounts")
    fix_generation(lake, file)
    assert onefold(words[0], "accounts", *words[1:]).code == 0
    (own / "accounts.yaml").write_text(re.sub(r"buckets: \d+", "buckets: 3", text))
    for begun in (False, True):
        if begun:
            begin_rebuild(lake, to_rebuild(lake, find_dataset(own, "accounts")))
        done = onefold(words[0], "accounts", *words[1:], "--json")
        assert (done.code, done.out) == (2, "")
        assert f"published as generation {file.generation}, of the dataset as it was" in " ".join(done.err.split())
    for asked in (("verdicts", "accounts", "--batch", "b"), ("decisions", "accounts")):
        looked = onefold(*asked)
        assert f"readers still see generation {file.generation}" in " ".join(looked.err.split()), (
            "a red rebuild is looked into"
        )


def test_a_dataset_that_changed_is_left_out_where_all_are_looked_at(onefold: Onefold, own: Path) -> None:
    """What of it waits is not known before its rebuild."""
    text = (PROJECT / "datasets" / "accounts.yaml").read_text()
    (own / "accounts.yaml").write_text(text)
    fix_generation(Lake(load_settings()), find_dataset(own, "accounts"))
    (own / "accounts.yaml").write_text(re.sub(r"buckets: \d+", "buckets: 3", text))
    (own / "orders.yaml").write_text((PROJECT / "datasets" / "orders.yaml").read_text())
    at = datetime(2026, 3, 9, tzinfo=UTC)
    for name in ("accounts", "orders"):
        record(Lake(load_settings()), Skip(dataset=name, batch="b", number=1, by="mia", reason="no", at=at))
    done = onefold("decisions", "--json")
    assert (done.code, [row["dataset"] for row in done.json]) == (2, ["orders"])
    printed = " ".join(done.err.split())
    assert re.search(r"accounts: the dataset has changed in buckets: .* The dataset was left out\.", printed), printed
    alone = onefold("decisions", "accounts", "--json")
    assert (alone.code, alone.out) == (2, "")
    begin_rebuild(Lake(load_settings()), to_rebuild(Lake(load_settings()), find_dataset(own, "accounts")))
    assert onefold("maintain", "accounts", "--json").code == 2, "what readers see is not proved by the rebuild's table"


class AccountsFail(InProcess):
    """A launcher whose Spark jobs fail for the dataset accounts, and start no JVM."""

    def maintain(self, dataset: Dataset, keep: Keep, *, dry_run: bool) -> Maintained:
        fail_for_accounts(dataset)
        return Maintained(dataset=dataset.name, branches=[], tables=[], generations=[])

    def sample(self, dataset: Dataset, count: int) -> list[dict[str, Any]]:
        fail_for_accounts(dataset)
        return [{"verdict": "applied"}] * count


def fail_for_accounts(dataset: Dataset) -> None:
    if dataset.name == "accounts":
        raise RepeatedKeysError("accounts", "t", 2, ("a",))


def test_s8_clearing_on_the_command_line_is_recorded_with_the_name_as_asserted(onefold: Onefold, own: Path) -> None:
    (own / "things.yaml").write_text(THINGS)
    lake = Lake(load_settings())
    dataset = find_dataset(own, "things")
    old, young = landed(lake, dataset, [timedelta(days=40), timedelta(days=3)])
    words = ("maintain", "things", "--landing", "30d", "--json")
    would = onefold(*words, "--dry-run", open_launcher=AccountsFail)
    assert (would.code, would.json[0]["landings"]) == (0, [old]), would
    assert (bytes_of(lake, dataset), table_decisions(lake, "things")) == ({old, young}, [])
    done = onefold(*words, "--reason", "the disk is full", "--who", "mia", open_launcher=AccountsFail)
    assert (done.code, done.json[0]["landings"]) == (0, [old]), done
    assert bytes_of(lake, dataset) == {young}
    [row] = onefold("decisions", "things", "--json").json
    assert (row["decision"], row["by"], row["who"]["how"], row["clears"]) == ("clear", "mia", "cli", [old])
    assert "mia (asserted)" in onefold("decisions", "things").out


def test_a_dataset_that_fails_keeps_no_other_one_from_being_maintained_or_sampled(onefold: Onefold, own: Path) -> None:
    for name in ("accounts", "orders"):
        (own / f"{name}.yaml").write_text((PROJECT / "datasets" / f"{name}.yaml").read_text())
    done = onefold("maintain", "--json", open_launcher=AccountsFail)
    assert (done.code, [row["dataset"] for row in done.json]) == (3, ["orders"])
    assert "error: accounts: 2 keys have more than one live row" in " ".join(done.err.split())
    sampled = onefold("validate", "--sample", "1", "--json", open_launcher=AccountsFail)
    assert (sampled.code, [row["sample"] for row in sampled.json]) == (3, [None, [{"verdict": "applied"}]])
    assert "error: accounts: 2 keys have more than one live row" in " ".join(sampled.err.split())


ENDS: dict[int, BaseException] = {
    1: SparkStepError("prove", "accounts", "no more memory"),
    2: UsageError("nothing is published"),
    3: RepeatedKeysError("accounts", "t", 2, ("a",)),
    4: DataLossError("accounts", "b_1", ("no unexplained offset: found 2",), "report.html"),
    5: ContentionError("payments.accounts", "b_1", 5),
    130: KeyboardInterrupt(),
}
"""How an operation may end, by the command's exit code."""


@pytest.mark.parametrize("code", ENDS)
def test_an_error_of_an_operation_is_one_sentence_and_its_exit_code(onefold: Onefold, code: int) -> None:
    class Failing(InProcess):
        def prove(self, *args: object) -> Never:
            raise ENDS[code]

    done = onefold("prove", "accounts", open_launcher=Failing)
    assert (done.code, done.out) == (code, "")
    printed = " ".join(done.err.split())
    assert "Traceback" not in printed
    if code != 130:
        assert f"error: {ENDS[code]}" in printed
