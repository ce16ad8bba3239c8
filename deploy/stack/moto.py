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
from werkzeug.serving import make_server

from sample.broker import HOST

Answer = Callable[..., Any]


def one_put_at_a_time(app: Answer) -> Answer:
    """An application of WSGI behind a lock for whatever is put."""
    putting = Lock()

    def answer(environ: dict[str, Any], start_response: Answer) -> Iterable[bytes]:
        with putting if environ["REQUEST_METHOD"] == "PUT" else nullcontext():
            answered: Iterable[bytes] = app(environ, start_response)
            return answered  # the put is over: only the answer is still sent

    return answer


if __name__ == "__main__":
    served = one_put_at_a_time(DomainDispatcherApplication(create_backend_app))
    make_server(HOST, int(sys.argv[1]), served, threaded=True, request_handler=MotoRequestHandler).serve_forever()
