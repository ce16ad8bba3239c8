"""A token server of the tests' own: OAuth 2's client credentials over TLS, tokens that brokers verify by its key."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET, AUDIENCE, SCOPE = "onefold", "correct:horse &%", "kafka", "topics.read"


class TokenServer:
    """Between `__enter__` and `__exit__` it answers at `url`; `keys` is a file with its public key (a JWKS).

    It knows one client, and gives a token to who asks for `SCOPE`. `asked` counts the tokens that it gave.
    """

    def __init__(self, folder: Path, store: Path, lives: int = 300) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._lives, self.asked = lives, 0
        self.keys = folder / "jwks.json"
        public = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        self.keys.write_text(json.dumps({"keys": [{**public, "kid": "1", "alg": "RS256", "use": "sig"}]}))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(store)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, login: str | None, form: dict[str, list[str]]) -> tuple[int, dict[str, object]]:
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if login != f"Basic {basic}":
            return 401, {"error": "invalid_client"}
        if form.get("grant_type") != ["client_credentials"] or form.get("scope") != [SCOPE]:
            return 400, {"error": "invalid_scope"}
        self.asked += 1
        now = int(time.time())
        claims = {"iss": "tests", "sub": CLIENT, "aud": AUDIENCE, "iat": now, "exp": now + self._lives, "scope": SCOPE}
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "1"})
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self._lives}

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                code, said = server._answer(self.headers["Authorization"], parse_qs(body))
                text = json.dumps(said).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Prints nothing."""

        return Handler
