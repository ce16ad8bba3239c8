"""A proxy before an S3 server that keeps what is asked, and spoils what passes, request by request.

with Faulty("http://127.0.0.1:9000") as proxy:
    proxy.spoil("PUT", Fault.LOST)
"""

from __future__ import annotations

import enum
import http.client
import ssl
import threading
from collections.abc import Collection
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from sample.broker import HOST

PIECE = 7


class Fault(enum.Enum):
    """What becomes of a request."""

    CUT = "the connection breaks before the server has seen it"
    LOST = "the server does it, and its answer is lost"
    BUSY = "503 SlowDown"
    INTERNAL = "500 InternalError"
    GATEWAY = "502, and no answer of S3's"
    TIMEOUT = "504, and no answer of S3's"
    UNKNOWN = "501 NotImplemented, as some answer If-None-Match"
    LATE = "the server does it when `late` is set, and the client has its answer then"
    CONFLICT = "409 ConditionalRequestConflict, as Amazon's answers two puts at once"
    HALF = "half of the answer's body, then the connection breaks"
    SILENT = "half of the answer's body, then nothing more until the client gives up"
    SLOW = "the answer's body in pieces of some bytes"


ANSWERS = {
    Fault.BUSY: (503, "SlowDown"),
    Fault.INTERNAL: (500, "InternalError"),
    Fault.GATEWAY: (502, None),
    Fault.TIMEOUT: (504, None),
    Fault.UNKNOWN: (501, "NotImplemented"),
    Fault.CONFLICT: (409, "ConditionalRequestConflict"),
}
"""Status and code of faults that no server is asked for."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked: `headers` in small letters, `body` of a POST."""

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Faulty:
    """The proxy between `__enter__` and `__exit__`; `seen` is what it met: method, and the fault if there was one.

    With a certificate (a file with its key) it speaks TLS. Headers that it is to forget (small letters) do not reach
    the server: `if-none-match` makes it one without conditional puts.
    """

    def __init__(self, target: str, certificate: Path | None = None, forget: Collection[str] = ()) -> None:
        self._target = urlsplit(target).netloc
        self._forget = forget
        self._faults: list[tuple[str, Fault]] = []
        self.late = threading.Event()
        self._lock = threading.Lock()
        self.seen: list[tuple[str, Fault | None]] = []
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._server.daemon_threads = True
        self.requests: list[Request] = []
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.address = f"http{'s' if certificate else ''}://{HOST}:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def spoil(self, method: str, *faults: Fault) -> None:
        """The next requests of a method meet these faults, one each."""
        with self._lock:
            self._faults += [(method, fault) for fault in faults]

    @property
    def left(self) -> list[Fault]:
        """The faults that no request has met."""
        return [fault for _, fault in self._faults]

    def _next(self, method: str) -> Fault | None:
        with self._lock:
            found = next((fault for fault in self._faults if fault[0] == method), None)
            if found:
                self._faults.remove(found)
            fault = found[1] if found else None
            self.seen.append((method, fault))
            return fault

    def _keep(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        asked = urlsplit(path)
        _, bucket, *key = unquote(asked.path).split("/", 2)
        query = {name: values[0] for name, values in parse_qs(asked.query, keep_blank_values=True).items()}
        lower = {name.lower(): value for name, value in headers.items()}
        kept = body if method == "POST" else b""
        self.requests.append(Request(method, bucket, "".join(key), query, lower, kept))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                fault = proxy._next(self.command)
                if self.headers.get("Expect"):  # the client waits for it before it sends the body
                    self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    del self.headers["Expect"]
                body = self._body()
                proxy._keep(self.command, self.path, dict(self.headers.items()), body)
                self.close_connection = fault is not None
                if fault is Fault.CUT:
                    return
                if fault in ANSWERS:
                    status, code = ANSWERS[fault]
                    said = f"<Error><Code>{code}</Code><Message>{fault.value}</Message></Error>" if code else "<html/>"
                    self._answer(status, [], said.encode(), fault)
                    return
                if fault is Fault.LATE:
                    proxy.late.wait()
                server = http.client.HTTPConnection(proxy._target, timeout=60)
                server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in proxy._forget:
                        server.putheader(name, value)
                server.endheaders(body)
                answer = server.getresponse()
                content = answer.read()
                server.close()
                if fault is not Fault.LOST:
                    self._answer(answer.status, answer.getheaders(), content, fault)

            def _body(self) -> bytes:
                """All of it; what came in chunks, as boto3 sends it over TLS, goes on with its length."""
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                pieces = []
                while size := int(self.rfile.readline(), 16):
                    pieces.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                body = b"".join(pieces)
                del self.headers["Transfer-Encoding"]
                self.headers["Content-Length"] = str(len(body))
                return body

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass  # noqa: N815

            def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, fault: Fault | None) -> None:
                self.send_response_only(status)
                kept = [header for header in headers if header[0].lower() not in ("transfer-encoding", "connection")]
                if not any(name.lower() == "content-length" for name, _ in kept):
                    kept.append(("Content-Length", str(len(body))))
                for name, value in kept:
                    self.send_header(name, value)
                self.end_headers()
                step = PIECE if fault is Fault.SLOW else len(body) or 1
                end = len(body) // 2 if fault in (Fault.HALF, Fault.SILENT) else len(body)
                for start in range(0, end, step):
                    self.wfile.write(body[start : min(start + step, end)])
                    self.wfile.flush()
                if fault is Fault.SILENT:
                    self.connection.recv(1)  # comes back when the client has closed

            def log_message(self, *_: object) -> None:
                pass

        return Handler
