"""moto's S3 server, which keeps objects in memory and checks no signature, with one put at a time.

By itself it looks whether a key is there and writes it in two steps, so that two puts with `If-None-Match: *` can win.

`python -m deploy.stack.moto PORT` serves until it is ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from threading import Lock
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from sample.broker import HOST

Answer = Callable[..., Any]


def server(port: int) -> BaseWSGIServer:
    """One that listens on a port (0: any free one), to be served."""
    moto, putting = DomainDispatcherApplication(create_backend_app), Lock()

    def answer(environ: dict[str, Any], start_response: Answer) -> Iterable[bytes]:
        with putting if environ["REQUEST_METHOD"] == "PUT" else nullcontext():
            return list(moto(environ, start_response))

    return make_server(HOST, port, answer, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    server(int(sys.argv[1])).serve_forever()
