"""Definition of a probe of the near end: one request, one reply, one time."""

from __future__ import annotations

import socket
import struct
import time
from abc import ABC, abstractmethod

LOST = -1
_NAP = struct.pack("ll", 0, 50_000)


class Probe(ABC):
    """Probe by one socket, or by one after another; `close` it after use.

    `busy_polls` says whether it waits by polling or sleeps until something comes. `kind` names the messages sent.
    `sources`, `families` and `peer` are those of the real sockets; `connections` says whether each reply is a
    connection.
    """

    kind: str
    connections = True

    def __init__(self, *, busy_polls: bool) -> None:
        self.busy_polls = busy_polls
        self.peer = ""
        self.sources: set[str] = set()
        self.families: set[str] = set()

    @abstractmethod
    def round_trip_ns(self, number: int, due_ns: int) -> int:
        """Return the round-trip time in ns; LOST if there is no reply by `due_ns` of the clock. Numbers rise from 1.

        Raise OSError if the socket does; the reply is lost then.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the probe; may be called twice."""

    def pause(self, due_ns: int) -> None:
        """Wait until that time of the clock."""
        if self.busy_polls:
            while time.monotonic_ns() < due_ns:
                pass
        else:
            time.sleep(max(0, due_ns - time.monotonic_ns()) * 1e-9)

    def final_times_ns(self, asked: dict[int, int]) -> dict[int, int]:
        """Return the final times of the answered probes in `asked`, by number; those without a known time are left out.

        This may take a while, as further requests may be necessary.
        """
        return asked

    def note_socket(self, sock: socket.socket) -> None:
        """Record the addresses and family of a connected socket, as the kernel reports them."""
        self.peer = sock.getpeername()[0]
        self.sources.add(sock.getsockname()[0])
        self.families.add(socket.AddressFamily(sock.family).name)


def set_waiting(sock: socket.socket, *, busy_polls: bool) -> None:
    """Set how the socket waits; a sleeping one wakes now and then, to check the deadline."""
    sock.setblocking(not busy_polls)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, _NAP)
