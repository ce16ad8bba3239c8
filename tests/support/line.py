"""A line to a broker that misbehaves: it is cut after some bytes, or slow. Knows nothing of Kafka."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Self

from sample.broker import HOST

_PIECE = 16_384


class Line:
    """Forwards `port` to `target`, and what the broker answers as slowly as is asked of it."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self.address = f"{HOST}:{self.port}"
        self.target = 0
        self._lock = threading.Lock()
        self._left: int | None = None
        self._when_cut: Callable[[], None] = lambda: None
        self._bytes_per_second: float | None = None
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            _close(each)

    def cut_after(self, count: int, then: Callable[[], None] = lambda: None) -> None:
        """Let so many bytes of answers through, then cut what is open, and do something."""
        with self._lock:
            self._left, self._when_cut = count, then

    def slow_down(self, bytes_per_second: float | None) -> None:
        """Let a connection's answers through at this pace; 0: none at all, None: all."""
        self._bytes_per_second = bytes_per_second

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((HOST, self.target))
            except OSError:
                _close(client)
                continue
            self._open += [client, server]
            for source, sink, answers in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._forward, args=(source, sink, answers), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                if answers:
                    self._take_time(len(piece))
                    if self._is_cut_by(len(piece)):
                        break
                sink.sendall(piece)
        _close(source)
        _close(sink)

    def _take_time(self, size: int) -> None:
        while (pace := self._bytes_per_second) == 0:
            time.sleep(0.01)
        if pace:
            time.sleep(size / pace)

    def _is_cut_by(self, size: int) -> bool:
        with self._lock:
            if self._left is None:
                return False
            self._left -= size
            if self._left > 0:
                return False
            self._left, then = None, self._when_cut
        then()
        for each in self._open:
            _close(each)
        self._open.clear()
        return True


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
