"""moto's S3 server, which keeps objects in memory and checks no signature, with one put at a time.

moto itself checks for a key and writes it in two steps, so two puts with `If-None-Match: *` can both win.

`python -m deploy.stack.moto PORT` serves until it is ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from threading import Lock
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from sample.broker import HOST

Answer = Callable[..., Any]


def one_put_at_a_time(app: Answer) -> Answer:
    """A WSGI application with a lock around every put."""
    putting = Lock()

    def answer(environ: dict[str, Any], start_response: Answer) -> Iterable[bytes]:
        with putting if environ["REQUEST_METHOD"] == "PUT" else nullcontext():
            answered: Iterable[bytes] = app(environ, start_response)
            return answered  # the put has ended: only the response is sent after this

    return answer


if __name__ == "__main__":
    served = one_put_at_a_time(DomainDispatcherApplication(create_backend_app))
    make_server(HOST, int(sys.argv[1]), served, threaded=True, request_handler=MotoRequestHandler).serve_forever()
