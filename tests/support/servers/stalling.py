"""An HTTP server of one thread that serves one connection after the other and stalls once.

As a script it prints its port: `stalling.py ADDRESS STALLED STALL_S PAGE`, until the end of its input.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from typing import Self


class StallingServer:
    """Sends `page` to each connection, but first stalls `stall_s` at number `stalled`, counted from 1.

    The stall lasts until `others` more connections have come; `came` is their number.
    """

    def __init__(self, address: str, page: bytes, stalled: int, stall_s: float, others: int = 0) -> None:
        self._page, self._stalled, self._stall_s, self._others = page, stalled, stall_s, others
        self._waiting: list[socket.socket] = []
        self.came = 0
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._sock = socket.create_server((address, 0), family=family, backlog=1000)
        self._sock.settimeout(0.05)
        self.port: int = self._sock.getsockname()[1]
        self._ended = False
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join(10)
        self._sock.close()
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        served = 0
        while not self._ended:
            with contextlib.suppress(OSError):
                conn = self._waiting.pop(0) if self._waiting else self._sock.accept()[0]
                with conn:
                    served += 1
                    if served == self._stalled:
                        self._stall()
                    conn.settimeout(5)
                    conn.recv(65536)
                    conn.sendall(self._page)

    def _stall(self) -> None:
        time.sleep(self._stall_s)
        end = time.monotonic() + 20
        while len(self._waiting) < self._others and time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                self._waiting.append(self._sock.accept()[0])
        self.came = len(self._waiting)


if __name__ == "__main__":
    with StallingServer(sys.argv[1], sys.argv[4].encode(), int(sys.argv[2]), float(sys.argv[3])) as server:
        print(server.port, flush=True)  # noqa: T201 - whoever started the script reads it
        sys.stdin.read()
