"""`make audit`: pip-audit itself, on a service of the test's own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("pip_audit")
SCRIPT = Path(__file__).parents[2] / "scripts" / "audit"
LOCK = "".join(f"{name}==1.0 --hash=sha256:{'0' * 64}\n" for name in ("known", "clean"))
KNOWN = {
    "id": "PYSEC-0",
    "summary": "",
    "details": "",
    "aliases": ["CVE-0"],
    "affected": [{"package": {"name": "known", "ecosystem": "PyPI"}, "versions": ["1.0"], "ranges": []}],
}


class Advisories(BaseHTTPRequestHandler):
    """One vulnerability, as OSV tells it."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = json.dumps({"vulns": [KNOWN]} if asked["package"]["name"] == "known" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Advisories) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def audit(folder: Path, lock: str, address: str, *accepted: str) -> tuple[int, str]:
    (folder / "requirements.lock").write_text(lock)
    (folder / "accepted.txt").write_text("".join(f"{line}\n" for line in ("# none", "", *accepted)))
    options = ["--vulnerability-service", "osv", "--osv-url", address]
    command = [sys.executable, str(SCRIPT), "requirements.lock", "accepted.txt", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def test_s10_a_known_vulnerability_that_is_not_accepted_fails(tmp_path: Path, service: str) -> None:
    others = ("clean PYSEC-0 until 2999-12-31: of another package", "known PYSEC-1 until 2999-12-31: another id")
    code, said = audit(tmp_path, LOCK, service, *others)
    assert code == 1
    assert said.splitlines() == [
        "known 1.0: PYSEC-0, fixed in no version yet",
        "2 packages audited, 1 vulnerabilities known, 1 not accepted",
    ]


@pytest.mark.parametrize("name", ["PYSEC-0", "CVE-0"])
def test_s10_a_vulnerability_is_accepted_by_any_of_its_names_until_a_day(
    tmp_path: Path, service: str, name: str
) -> None:
    code, said = audit(tmp_path, LOCK, service, f"known {name} until 2999-12-31: not reachable here")
    assert code == 0, said
    assert "known 1.0: PYSEC-0, fixed in no version yet, accepted until 2999-12-31\n" in said


@pytest.mark.parametrize("package", ["known", "clean"])
def test_s10_an_expired_line_fails_whether_or_not_something_is_found(
    tmp_path: Path, service: str, package: str
) -> None:
    code, said = audit(tmp_path, LOCK.splitlines()[1], service, f"{package} PYSEC-0 until 2026-01-31: later")
    assert code == 1
    assert f"accepted.txt:3: {package} PYSEC-0 was accepted until 2026-01-31. Take it out, or look again" in said


@pytest.mark.parametrize("line", ["known PYSEC-0: no day", "known PYSEC-0 until 2999-13-01: no such day"])
def test_s10_a_line_without_a_day_is_refused(tmp_path: Path, service: str, line: str) -> None:
    code, said = audit(tmp_path, LOCK, service, line)
    assert code == 2
    assert "requirements.lock was NOT audited: accepted.txt:3: " in said


def test_s10_the_list_of_this_project_can_be_read(tmp_path: Path, service: str) -> None:
    lines = (SCRIPT.parent / "audit-accepted.txt").read_text().splitlines()
    code, said = audit(tmp_path, LOCK.splitlines()[1], service, *lines)
    assert code == 0, said


def test_without_one_it_ends_with_0(tmp_path: Path, service: str) -> None:
    said = "1 packages audited, 0 vulnerabilities known, 0 not accepted\n"
    assert audit(tmp_path, LOCK.splitlines()[1], service) == (0, said)


def test_s10_what_could_not_be_asked_is_said_and_is_no_success(tmp_path: Path) -> None:
    code, said = audit(tmp_path, LOCK, "http://127.0.0.1:9")
    assert code == 2
    assert "requirements.lock was NOT audited, pip-audit failed: " in said
