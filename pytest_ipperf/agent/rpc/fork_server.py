"""Fork server of an epoch: a fresh Python that imports an agent's code once, and forks an agent for each node of a lab.

Importing takes most of an agent's start. Forks share the memory layout and the hash seed of their parent, which change
the speed of a program, so each epoch has a fork server of its own.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_ipperf.agent.rpc.handlers import HANDLERS

_REQUEST_BYTES, _MOST_FDS = 1 << 16, 16
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """Request to fork an agent, which is sent with descriptors, in this order: `stdin`, `stdout`, then namespaces.

    The fork server itself enters the first `shared` of the namespaces, which all nodes have in common; the agent
    enters the others. `variables` are added to its environment.
    """

    shared: int
    variables: dict[str, str]

    def text(self) -> bytes:
        """Return the request as one message."""
        return json.dumps([self.shared, self.variables]).encode()

    @classmethod
    def parsed(cls, message: bytes) -> ForkRequest:
        """Return the request of a message."""
        shared, variables = json.loads(message)
        return cls(shared=shared, variables=variables)


def serve_forks(control: socket.socket, run_agent: Callable[[], None]) -> None:
    """Import the code, then fork an agent for each request on `control` and reply its process id, until that closes.

    Each agent executes `run_agent` with its pipes as standard input and output.
    """
    for name in HANDLERS:
        HANDLERS[name]
    gc.freeze()  # so that no collection in an agent looks at, and copies, what all of them share
    gc.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel itself reaps agents that have ended
    while True:
        message, fds, _, _ = socket.recv_fds(control, _REQUEST_BYTES, _MOST_FDS)
        if not message:
            return
        request = ForkRequest.parsed(message)
        pipes, namespaces = fds[:2], fds[2:]
        _enter(namespaces[: request.shared])
        pid = os.fork()
        if not pid:
            control.close()
            _become_agent(pipes, namespaces[request.shared :], request.variables, run_agent)
        for fd in fds:
            os.close(fd)
        control.send(str(pid).encode())


def _become_agent(
    pipes: Sequence[int], namespaces: Sequence[int], variables: dict[str, str], run_agent: Callable[[], None]
) -> None:
    """Run an agent in this process, and end it."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _enter(namespaces)
        os.environ.update(variables)
        for number, fd in enumerate(pipes):
            os.dup2(fd, number)
            os.close(fd)
        run_agent()
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, this process must not go on as a second fork server
        traceback.print_exc()
    finally:
        os._exit(status)


def _enter(namespaces: Sequence[int]) -> None:
    """Enter the namespaces of these descriptors, and close them."""
    for fd in namespaces:
        if _LIBC.setns(fd, 0):
            raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}")
