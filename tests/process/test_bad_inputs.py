"""Whatever an export holds, every landed line has exactly one verdict, and nothing that is refused is lost (L2, L6)."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from onefold.iceberg.connection import open_catalog
from onefold.report.ledger import records_of, rows_of, verdicts_of
from onefold.tables.names import STAGING
from tests.support.project import ACCOUNTS, THINGS, Project, account, line, thing

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]


def at(partition: int, *payloads: object) -> list[bytes]:
    """Lines of a partition, from offset 0."""
    return [line(offset, payload, partition=partition) for offset, payload in enumerate(payloads)]


GOOD = {"id": "x", "n": 1}
FILES: dict[str, list[bytes]] = {
    "empty.jsonl": [],
    "newline.jsonl": [b"\n"],
    "truncated.jsonl": [thing(0, "t0", partition=1), thing(1, "t1", partition=1)[:40]],
    "no-newline-at-the-end.jsonl": [thing(0, "e0", partition=2), thing(1, "e1", partition=2).rstrip(b"\n")],
    "not-kcat.jsonl": [
        b"hello\n", b"\n", b"[]\n", b"{}\n", b"null\n", b"5\n", b'{"topic": "things"}\n', b"\x00\x01\x02\n",
        b'{"topic":"things","partition":3,"offset":"seven","payload":"{}"}\n',
        thing(0, "two", partition=3).rstrip() + thing(1, "on a line", partition=3),
        thing(2, "junk", partition=3).rstrip() + b" behind\n",
        thing(3, "bracket", partition=3).rstrip() + b"]\n",
        thing(4, "comma", partition=3).rstrip() + b",\n",
    ],
    "not-utf8.jsonl": [
        b'{"topic":"things","partition":4,"offset":0,"ts":1,"key":null,"payload":"{\\"id\\":\\"\xff\\",\\"n\\":1}"}\n',
        b"\xff\xfe\n",
    ],
    "windows.jsonl": [thing(0, "w0", partition=5).rstrip() + b"\r\n", thing(1, "w1", partition=5).rstrip() + b"\r\n"],
    "payloads.jsonl": at(
        6, None, "", " ", "no json", "5", "[]", "null", "{}", '{"id": "p8", "n": 1} junk', '{"id": "p9"}',
        '{"id": 5, "n": 1}', '{"id": "p11", "n": "1"}', '{"id": "p12", "n": 1.5}',
        '{"id": "p13", "n": 9223372036854775808}',
        '{"id": null, "n": 1}', '{"id": "p15", "n": 1, "price": 1.005}', '{"id": "p16", "n": 1, "at": "yesterday"}',
        '{"id": "p17", "n": 1', "[" * 3000,
    ),
    "odd-but-good.jsonl": at(
        7, '{"id": "first", "id": "o0", "n": 1}', '{"id": "o1", "n": 1, "more": {"a": [1]}}',
        '{"n": -0, "id": "\\u006f2"}',
        ' {"id": "o3", "n": 9223372036854775807, "price": "12.30"} ', {"id": "z" * 200_000, "n": 1},
        {"id": "Zoë \U0001f600", "n": 1, "price": None},
    ),
    "zipped.jsonl.gz": [gzip.compress(b"".join(thing(offset, f"g{offset}", partition=8) for offset in range(3)))],
    "we ird [na]m{e}+%20#1?.jsonl": [thing(0, "odd name", partition=9)],
    "stamps.jsonl": [
        thing(0, "micros", partition=10, ts=1_767_225_600_000_000),
        thing(1, "nanos", partition=10, ts=1_767_225_600_000_000_000),
        thing(2, "before", partition=10, ts=-1_767_225_600_000_000_000),
        line(3, "no json", partition=10, ts=1_767_225_600_000_000_000),
    ],
    "no-topic-of-a-broker.jsonl": [thing(0, "slashes", partition=11, topic="a/b//3")],
}  # fmt: skip
LINES = {
    "empty.jsonl": 0, "newline.jsonl": 1, "truncated.jsonl": 2, "no-newline-at-the-end.jsonl": 2, "not-kcat.jsonl": 13,
    "not-utf8.jsonl": 2, "windows.jsonl": 2, "payloads.jsonl": 19, "odd-but-good.jsonl": 6, "zipped.jsonl.gz": 3,
    "we ird [na]m{e}+%20#1?.jsonl": 1, "stamps.jsonl": 4, "no-topic-of-a-broker.jsonl": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """All files in one batch, in a lake whose own path is odd too."""
    made = Project(tmp_path_factory.mktemp("bad inputs") / "a lake [with] {odd} letters")
    made.write_dataset("things", THINGS.replace("holes: none", "holes: {kind: transactional, longest: 1000}"))
    for name, lines in FILES.items():
        made.put(f"things/{name}", lines)
    made.put("things/README.md", [b"not an export object"])
    done = made.onefold("run", "things", "--json")
    assert done.code == 0, done
    return made


def verdicts(project: Project) -> list[dict[str, object]]:
    [record] = records_of(project.lake, project.dataset())
    rows, published = verdicts_of(project.lake, project.dataset(), record.batch)
    assert published
    return rows


def test_every_landed_line_has_one_verdict(project: Project) -> None:
    given = Counter(row["object"] for row in verdicts(project))
    assert given == Counter({name: count for name, count in LINES.items() if count})
    [record] = records_of(project.lake, project.dataset())
    assert record.landed == sum(LINES.values()) == sum(record.by_verdict().values())
    [row] = project.onefold("batches", "things", "--json").json
    assert row["landed"] == sum(row["verdicts"].values()) == sum(LINES.values())


def test_what_can_be_used_is_in_the_table_and_nothing_else(project: Project) -> None:
    ids = sorted(str(row["id"]) for row in rows_of(project.lake, project.dataset()))
    odd = ["z" * 200_000, "Zoë \U0001f600", "odd name", "micros", "nanos", "before", "slashes"]
    assert ids == sorted(["t0", "e0", "e1", "w0", "w1", "o0", "o1", "o2", "o3", "g0", "g1", "g2", *odd])


def test_every_refused_payload_says_why(project: Project) -> None:
    reasons = {row["offset"]: row["reason"] for row in verdicts(project) if row["object"] == "payloads.jsonl"}
    assert reasons == {
        0: "null_value", 1: "undecodable", 2: "undecodable", 3: "undecodable", 4: "wrong_type", 5: "wrong_type",
        6: "null_value", 7: "missing_field", 8: "undecodable", 9: "missing_field", 10: "wrong_type", 11: "wrong_type",
        12: "wrong_type", 13: "wrong_type", 14: "null_identity", 15: "wrong_type", 16: "wrong_type", 17: "undecodable",
        18: "undecodable",
    }  # fmt: skip


def test_lines_that_are_no_records_are_quarantined_with_their_bytes(project: Project) -> None:
    table = open_catalog(project.lake).load_table((STAGING, f"things__verdicts_{project.dataset().generation}"))
    kept = table.scan(selected_fields=("object", "verdict", "raw_value", "detail")).to_arrow().to_pylist()
    refused = [row for row in kept if row["object"] == "not-kcat.jsonl"]
    assert {row["verdict"] for row in refused} == {"rejected"}
    assert all(row["detail"] for row in refused)
    assert sorted(row["raw_value"] for row in refused) == without_ends("not-kcat.jsonl")
    not_utf8 = [row for row in kept if row["object"] == "not-utf8.jsonl"]
    assert sorted(row["raw_value"] for row in not_utf8) == [b'{"id":"\xff","n":1}', b"\xff\xfe"], "a record's value"


def without_ends(name: str) -> list[bytes]:
    """The lines of a file without their ends."""
    return sorted(raw.removesuffix(b"\n") for raw in FILES[name])


def test_a_refused_record_keeps_its_position_where_it_can_be_read(project: Project) -> None:
    positions = [(row["partition"], row["offset"]) for row in verdicts(project) if row["object"] == "not-utf8.jsonl"]
    assert sorted(positions, key=str) == [(4, 0), (None, None)]


def test_a_stamp_that_is_no_milliseconds_is_shown_as_the_last_there_is(project: Project) -> None:
    last, shown = "9999-12-31T23:59:59.999000+00:00", {}
    for offset in range(4):
        [row] = project.onefold("explain", "things", "--position", f"things-10@{offset}", "--json").json
        shown[offset] = row["timestamp"], row["verdict"]
    assert shown == {0: (last, "applied"), 1: (last, "applied"), 2: (None, "applied"), 3: (last, "rejected")}
    kept = {row["object"]: row["timestamp"] for row in project.onefold("quarantine", "things", "--json").json}
    assert kept["stamps.jsonl"] == last


def test_offsets_of_the_quarantine_are_not_covered(project: Project) -> None:
    by_partition = {row["partition"]: row for row in project.onefold("offsets", "things", "--json").json}
    assert by_partition[6]["quarantined"] == [[0, 19]]
    assert by_partition[6]["covered"] == []
    assert by_partition[7]["covered"] == [[0, 6]]
    assert (by_partition[11]["topic"], by_partition[11]["covered"]) == ("a/b//3", [[0, 1]])


def test_lines_that_kcat_could_not_decode_delete_nothing(tmp_path: Path) -> None:
    """The registry did not answer: each line of the second export has a null and the error in place of its value."""
    project = Project(tmp_path)
    project.write_dataset("accounts", ACCOUNTS)
    project.put("accounts/1.jsonl", [account(offset, f"a-{offset}", {"n": offset}) for offset in range(5)])
    assert project.onefold("run", "accounts").code == 0
    error = "Failed to fetch schema: Host not found"
    failed = [account(offset, f"a-{offset - 5}", None, payload_error=error) for offset in range(5, 10)]
    project.put("accounts/2.jsonl", failed)
    [ended] = project.onefold("run", "accounts", "--json").json
    assert ended["verdicts"] == {"rejected": 5}
    assert len(project.onefold("show", "accounts", "--json").json) == 5
    kept = project.onefold("quarantine", "accounts", "--json").json
    assert {(row["reason"], row["detail"]) for row in kept} == {
        ("undecodable", f"kcat could not decode the payload: {error}")
    }
    project.put("accounts/3.jsonl", [account(offset, f"a-{offset - 5}", None) for offset in range(5, 10)])
    [again] = project.onefold("run", "accounts", "--json").json
    assert (again["verdicts"], project.onefold("show", "accounts", "--json").json) == ({"applied": 5}, [])


def test_the_report_names_what_was_ignored_and_runs_no_script(project: Project) -> None:
    [record] = records_of(project.lake, project.dataset())
    report = project.home / ".lake" / "reports" / "things" / f"{record.batch}.json"
    assert json.loads(report.read_text())["ignored"] == ["README.md"]
    assert Path(report.with_suffix(".html")).stat().st_size > 1000
