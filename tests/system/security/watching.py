"""What processes listen on, seen from outside, as often as can be looked, for as long as they live."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

from pytest_ipperf.agent.kernel.processes import tree

_LISTENS = "0A"  # TCP's state
_POLL_S = 0.04
_ALL = ("0.0.0.0", "::")
_FILES = ("tcp", "tcp6", "udp", "udp6", "udplite", "udplite6")


def below(pid: int) -> Iterator[int]:
    """A process and all that come of it."""
    for level in tree(pid):
        for process in level:
            yield process.pid


class Watch:
    """Looks while the context lasts; `found` has, by protocol and address, who listened there and on which port.

    A socket of UDP counts that takes datagrams from everybody, as one that is not connected does; on all addresses, one
    that two looks see, as the kernel gives a socket that is just being connected its port first and its address then.
    Of the network namespace of the tests themselves only the sockets of those who are watched count.
    """

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self.found: dict[tuple[str, str], set[tuple[int, str]]] = {}
        self.looks = 0
        self._pids = pids
        self._own = str(Path("/proc/self/ns/net").readlink())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._unconnected: set[str] = set()  # inodes of UDP's sockets on all addresses, at the last look

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def addresses(self) -> set[str]:
        """On which anything listened."""
        return {address for _, address in self.found}

    def _run(self) -> None:
        over = False
        while not over:
            over = self._over.wait(_POLL_S)
            self._look()
            self.looks += 1
        self._look()  # all may have been too quick for one

    def _look(self) -> None:
        pids = list(self._pids())
        spaces: dict[str, list[int]] = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                spaces.setdefault(str(Path(f"/proc/{pid}/ns/net").readlink()), []).append(pid)
        before, self._unconnected = self._unconnected, set()
        for space, inside in spaces.items():
            seen = {inode: place for name in _FILES for inode, place in _listeners(inside[0], name)}
            anywhere = {inode for inode, place in seen.items() if place[0] == "udp" and place[1] in _ALL}
            self._unconnected |= anywhere
            for inode in anywhere - before:
                del seen[inode]
            if space != self._own and all(place[:2] in self.found for place in seen.values()):
                continue  # whose they are is long to find out
            owners = _owners(inside)
            for inode, (protocol, address, port) in seen.items():
                if space != self._own or inode in owners:
                    self.found.setdefault((protocol, address), set()).add((port, owners.get(inode, "")))


def _listeners(pid: int, name: str) -> Iterator[tuple[str, tuple[str, str, int]]]:
    """By inode, the sockets of a process's network namespace that anybody can send something to."""
    try:
        lines = Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    except OSError:  # it has gone, or the kernel has no such protocol
        return
    for line in lines:
        words = line.split()
        if words[3] == _LISTENS if name.startswith("tcp") else words[2].endswith(":0000"):
            address, port = words[1].split(":")
            yield words[9], (name.removesuffix("6"), _address(address), int(port, 16))


def _address(text: str) -> str:
    parts = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    return socket.inet_ntop(socket.AF_INET if len(parts) == 1 else socket.AF_INET6, b"".join(parts))


def _owners(pids: Iterable[int]) -> dict[str, str]:
    """By the inode of a socket, the command line of who has it."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = str(Path(entry.path).readlink())
                    if target.startswith("socket:["):
                        found[target[8:-1]] = words
    return found
