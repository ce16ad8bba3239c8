"""A TCP proxy in front of a broker that loses acknowledgements on request.

It reads just enough of Kafka's protocol to do so: the length of each message, and the API key and
correlation id of each request (https://kafka.apache.org/protocol#protocol_messages). A lost
acknowledgement is a produce response that the broker sent and the client never sees: the proxy
throws it away and cuts the connection, as a failing network does. The records are in the log then.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Self

from sample.broker import HOST

PRODUCE = 0


class LossyProxy:
    """Forwards `port` to `target`; the next `lose(n)` produce responses do not come back."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self.target: int | None = None
        self._lock = threading.Lock()
        self._to_lose = 0
        self.lost = 0
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # shutdown, not only close: a thread blocked in accept or recv wakes up then
        for each in (self._listener, *self._open):
            _close(each)

    def lose(self, count: int) -> None:
        """Lose the next `count` produce responses."""
        with self._lock:
            self._to_lose = count

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self.target or 0))
            except OSError:
                return
            self._open += [client, server]
            produces: set[int] = set()
            for way in ((client, server, produces, False), (server, client, produces, True)):
                threading.Thread(target=self._forward, args=way, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, produces: set[int], responses: bool) -> None:
        with contextlib.suppress(OSError):
            while message := _message(source):
                if responses:
                    (correlation,) = struct.unpack_from(">i", message, 4)
                    if correlation in produces and self._loses():
                        break
                else:
                    api, _version, correlation = struct.unpack_from(">hhi", message, 4)
                    if api == PRODUCE:
                        produces.add(correlation)
                sink.sendall(message)
        _close(source)
        _close(sink)

    def _loses(self) -> bool:
        with self._lock:
            if not self._to_lose:
                return False
            self._to_lose -= 1
            self.lost += 1
            return True


def _message(source: socket.socket) -> bytes:
    """One whole message with its length, or nothing at the end of the stream."""
    head = _exactly(source, 4)
    if not head:
        return b""
    body = _exactly(source, struct.unpack(">i", head)[0])
    return head + body if body else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = source.recv(size - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
