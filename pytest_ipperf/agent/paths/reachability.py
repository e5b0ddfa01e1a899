"""Reachability of a port of this host from another one, by TCP and by UDP."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from threading import Thread

from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import LabError

_WORD = b"pytest-ipperf"
_WAIT_S = 2.0  # one segment may be lost on the way
_UDP_TRIES = 4


class Responder:
    """Responder to probes by TCP and UDP on one free port of a range, in threads of its own until closed."""

    def __init__(self, address: str, ports: tuple[int, int]) -> None:
        self.port = free_port([address], *ports, random.Random())  # noqa: S311 - not a secret
        self._socks: list[socket.socket] = []
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                self._socks.append(socket.socket(_family(address), kind))
                if kind == socket.SOCK_STREAM:  # a connection of an earlier probe stays in TIME_WAIT for a minute
                    self._socks[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._socks[-1].bind((address, self.port))
            self._socks[0].listen()
        except OSError as error:
            self.close()
            raise LabError(
                f"no reachability probe can be answered on {address} port {self.port}: {error.strerror}"
            ) from None
        for answer in (self._answer_stream, self._answer_datagrams):
            Thread(target=answer, daemon=True).start()

    def _answer_stream(self) -> None:
        while True:
            try:
                found, _ = self._socks[0].accept()
            except (OSError, IndexError):  # it was closed
                return
            with found, contextlib.suppress(OSError):
                found.sendall(_WORD)

    def _answer_datagrams(self) -> None:
        while True:
            try:
                data, prober = self._socks[1].recvfrom(64)
            except (OSError, IndexError):
                return
            if prober is None:  # closed
                return
            with contextlib.suppress(OSError):  # a firewall of this host
                if data == _WORD[::-1]:  # not the reply of another responder
                    self._socks[1].sendto(_WORD, prober)

    def close(self) -> None:
        """Stop responding; may be called twice."""
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes the waiting threads
            sock.close()


def unreachable(source: str, address: str, port: int) -> dict[str, str]:
    """Return by `tcp` and `udp` why a responder there does not answer; empty if it does."""
    return {"tcp": _by_stream(source, address, port), "udp": _by_datagrams(source, address, port)}


def _by_stream(source: str, address: str, port: int) -> str:
    with socket.socket(_family(address), socket.SOCK_STREAM) as sock:
        sock.settimeout(_WAIT_S)
        try:
            sock.bind((source, 0))
            sock.connect((address, port))
            return "" if sock.recv(64) == _WORD else "something else answers"
        except TimeoutError:
            return "no answer"
        except OSError as error:
            return (error.strerror or str(error)).lower()


def _by_datagrams(source: str, address: str, port: int) -> str:
    with socket.socket(_family(address), socket.SOCK_DGRAM) as sock:
        sock.settimeout(_WAIT_S / _UDP_TRIES)
        trouble = "no answer"
        for _ in range(_UDP_TRIES):
            try:
                sock.bind((source, 0)) if not sock.getsockname()[1] else None
                sock.connect((address, port))
                sock.send(_WORD[::-1])
                if sock.recv(64) == _WORD:
                    return ""
            except TimeoutError:
                continue
            except OSError as error:
                trouble = (error.strerror or str(error)).lower()
                time.sleep(_WAIT_S / _UDP_TRIES)
        return trouble


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
