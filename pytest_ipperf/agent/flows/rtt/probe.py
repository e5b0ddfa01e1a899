"""What a probe of the near end is: one question, one reply, one time."""

from __future__ import annotations

import socket
import struct
import time
from abc import ABC, abstractmethod

LOST = -1
_NAP = struct.pack("ll", 0, 50_000)


class Probe(ABC):
    """Asks with one socket, or one after another; `close` it.

    `looks`: whether it waits by looking all the time, and else sleeps until something comes. `kind` says what is sent.
    `sources`, `families` and `peer` are what the sockets really were, and `connections` whether each reply is one.
    """

    kind: str
    connections = True

    def __init__(self, *, looks: bool) -> None:
        self.looks = looks
        self.peer = ""
        self.sources: set[str] = set()
        self.families: set[str] = set()

    @abstractmethod
    def ask(self, number: int, due_ns: int) -> int:
        """How long that took, in ns; LOST when there is no reply when the clock says `due_ns`. Numbers rise from 1.

        OSError where the socket has one; the reply is lost then.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the asking; may be called twice."""

    def pause(self, due_ns: int) -> None:
        """Waits until the clock says so."""
        if self.looks:
            while time.monotonic_ns() < due_ns:
                pass
        else:
            time.sleep(max(0, due_ns - time.monotonic_ns()) * 1e-9)

    def figures(self, asked: dict[int, int]) -> dict[int, int]:
        """What those that were `asked` and answered took in the end, by number; without those of which it is not known.

        Takes its time, as it may have to ask once more.
        """
        return asked

    def seen(self, sock: socket.socket) -> None:
        """What a connected socket really is, is asked of the kernel."""
        self.peer = sock.getpeername()[0]
        self.sources.add(sock.getsockname()[0])
        self.families.add(socket.AddressFamily(sock.family).name)


def patient(sock: socket.socket, *, looks: bool) -> None:
    """Gives it its way of waiting; who sleeps looks up now and then, to see how late it is."""
    sock.setblocking(not looks)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, _NAP)
