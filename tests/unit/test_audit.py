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
    "aliases": [],
    "affected": [{"package": {"name": "known", "ecosystem": "PyPI"}, "versions": ["1.0"], "ranges": []}],
}


class Advisories(BaseHTTPRequestHandler):
    """One vulnerability, as OSV tells it."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        told = json.dumps({"vulns": [KNOWN]} if asked["package"]["name"] == "known" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Advisories) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def audit(folder: Path, lock: str, address: str) -> tuple[int, str]:
    (folder / "requirements.lock").write_text(lock)
    options = ["--vulnerability-service", "osv", "--osv-url", address]
    command = [sys.executable, str(SCRIPT), "requirements.lock", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def test_a_known_vulnerability_ends_it_with_1(tmp_path: Path, service: str) -> None:
    code, said = audit(tmp_path, LOCK, service)
    assert code == 1
    assert said.splitlines() == [
        "known 1.0: PYSEC-0, fixed in no version yet",
        "2 packages audited, 1 vulnerabilities known",
    ]


def test_without_one_it_ends_with_0(tmp_path: Path, service: str) -> None:
    assert audit(tmp_path, LOCK.splitlines()[1], service) == (0, "1 packages audited, 0 vulnerabilities known\n")


def test_what_could_not_be_asked_is_said_and_fails_nothing(tmp_path: Path) -> None:
    code, said = audit(tmp_path, LOCK, "http://127.0.0.1:9")
    assert code == 0
    assert "requirements.lock was NOT audited, pip-audit failed: " in said
