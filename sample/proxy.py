"""A TCP proxy in front of a broker that loses acknowledgements on request.

It reads only the necessary parts of Kafka's protocol: the length of each message, and the API key and
correlation id of each request (https://kafka.apache.org/protocol#protocol_messages). A lost
acknowledgement is a produce response that the broker sent and the client never gets: the proxy
drops it and closes the connection, as a failing network does. The records are then in the log.
A spoiled request has one changed byte: the broker refuses it by its checksum, and accepts the next
requests. A held request waits in the proxy until it is released, whatever its client does meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

from sample.broker import HOST

PRODUCE, END_TRANSACTION, WRITE_MARKERS = 0, 26, 27
_IN_THE_RECORDS = -24
"""A byte of the last record of a produce request."""


class LossyProxy:
    """Forwards `port` to `target`; the next `lose(n)` responses of a kind are dropped."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self.target: int | None = None
        self._lock = threading.Lock()
        self._to_lose: dict[int, int] = {}
        self._to_spoil = 0
        self._then: dict[tuple[int, bool], Callable[[], None]] = {}
        self._to_hold: dict[int, int] = {}
        self._released, self._answered = threading.Event(), threading.Event()
        self.lost = self.spoiled = self.held = 0
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # shutdown, not only close: a thread blocked in accept or recv wakes up then
        self._released.set()
        self._answered.set()
        for each in (self._listener, *self._open):
            _close(each)

    def lose(self, count: int, kind: int = PRODUCE) -> None:
        """Lose the next `count` responses to requests of a kind: their API key in the protocol."""
        with self._lock:
            self._to_lose[kind] = count

    def spoil(self, count: int) -> None:
        """Damage the next `count` produce requests."""
        with self._lock:
            self._to_spoil = count

    def hold(self, count: int, kind: int = PRODUCE) -> None:
        """Keep the next `count` requests of a kind, and all later ones, from the broker until `release`."""
        with self._lock:
            self._to_hold[kind] = count
            self._released.clear()
            self._answered.clear()

    def release(self, seconds: float, kind: int = PRODUCE) -> bool:
        """Release the held request, although its client has given it up; return whether the broker answered in time."""
        self.once(kind, self._answered.set, answered=True)
        self._released.set()
        return self._answered.wait(seconds)

    def once(self, kind: int, then: Callable[[], None], *, answered: bool) -> None:
        """Call `then` once, after a request of a kind was sent to the broker, or after its response arrived."""
        with self._lock:
            self._then[kind, answered] = then

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((HOST, self.target or 0))
            except OSError:  # the broker is down: the client may try again
                _close(client)
                continue
            self._open += [client, server]
            kinds: dict[int, int] = {}
            for way in ((client, server, kinds, False), (server, client, kinds, True)):
                threading.Thread(target=self._forward, args=way, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, kinds: dict[int, int], responses: bool) -> None:
        """`kinds` are the kinds of the requests under way, by correlation id."""
        with contextlib.suppress(OSError):
            while message := _message(source):
                if responses:
                    (correlation,) = struct.unpack_from(">i", message, 4)
                    kind = kinds.pop(correlation, -1)
                    lost = self._loses(kind)
                    self._reached(kind, answered=True)
                    if lost:
                        break
                    sink.sendall(message)
                else:
                    kind, _version, correlation = struct.unpack_from(">hhi", message, 4)
                    kinds[correlation] = kind
                    held = self._holds(kind)
                    if held:
                        self._released.wait()
                    sink.sendall(self._spoilt(message) if kind == PRODUCE else message)
                    if held:  # or the end of its client would end the connection to the broker
                        self._answered.wait()
                    self._reached(kind, answered=False)
        _close(source)
        _close(sink)

    def _loses(self, kind: int) -> bool:
        with self._lock:
            if not self._to_lose.get(kind):
                return False
            self._to_lose[kind] -= 1
            self.lost += 1
            return True

    def _holds(self, kind: int) -> bool:
        with self._lock:
            if not self._to_hold.get(kind):
                return False
            self._to_hold[kind] -= 1
            self.held += 1
            return True

    def _spoilt(self, message: bytes) -> bytes:
        with self._lock:
            if not self._to_spoil:
                return message
            self._to_spoil -= 1
            self.spoiled += 1
        turned = bytearray(message)
        turned[_IN_THE_RECORDS] ^= 0xFF
        return bytes(turned)

    def _reached(self, kind: int, *, answered: bool) -> None:
        with self._lock:
            then = self._then.pop((kind, answered), None)
        if then:
            then()


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
