"""Fork the agents of an epoch's lab from one Python, started for that epoch, that has imported their code."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pytest_ipperf.agent.rpc.fork_server import ForkRequest
from pytest_ipperf.core.portable.errors import AgentError
from pytest_ipperf.lab.access.local import PYTHON
from pytest_ipperf.lab.agents.bootstrap import FORK_SERVER
from pytest_ipperf.lab.agents.code_archive import code_file

_SHARED = ("mnt", "pid")
_OWN = ("net", "uts")
_FORKED_S = 60.0  # as an agent's start on a busy machine
_END_S = 5.0


@dataclass(frozen=True, slots=True)
class Node:
    """Node of a lab: a process in its namespaces, whether they have a user namespace, and environment variables."""

    pid: int
    user: bool
    variables: Mapping[str, str]


class ForkedProcess:
    """Process that is not a child of this one, with the methods of `subprocess.Popen` by which agents are ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._fd = os.pidfd_open(pid)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def poll(self) -> int | None:
        """Return None as long as it runs; its exit status is its parent's to know, and not returned."""
        return self._ended_within(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; subprocess.TimeoutExpired if it has not."""
        status = self._ended_within(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def kill(self) -> None:
        """Kill it; nothing happens if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def _ended_within(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()  # select's descriptors end at 1024
            waiting.register(self._fd, select.POLLIN)
            if waiting.poll(None if timeout_s is None else 1000 * timeout_s):
                self.returncode = 0
        return self.returncode


@dataclass(frozen=True, slots=True)
class ForkedAgent:
    """Forked agent: its process, and this end of its pipes, `to` and `back`."""

    process: ForkedProcess
    to: int
    back: int


class ForkServer:
    """Fork server for the nodes of one lab; use as a context manager. Forking may be asked for by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = False
        self._control, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_FORKED_S)
        # A process inherits blocked signals, and a Ctrl-C at the terminal is ours to handle.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with there:
                fds = (code_file(), there.fileno())
                self._process = subprocess.Popen(
                    [*PYTHON, "-c", FORK_SERVER, *map(str, fds)],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=fds,
                )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fork(self, node: Node) -> ForkedAgent:
        """Fork an agent into a node; AgentError if the fork server has ended, or does not answer."""
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            stdin, to = os.pipe()
            theirs.callback(os.close, stdin)
            ours.callback(os.close, to)
            back, stdout = os.pipe()
            theirs.callback(os.close, stdout)
            ours.callback(os.close, back)
            process = ForkedProcess(self._forked(node, [stdin, stdout], theirs))
            ours.pop_all()
            return ForkedAgent(process, to, back)

    def _forked(self, node: Node, pipes: Sequence[int], stack: contextlib.ExitStack) -> int:
        """Ask for an agent and return its process id; what is opened for that is put on the stack."""
        with self._lock:
            shared = () if self._entered else (*(("user",) if node.user else ()), *_SHARED)
            try:
                fds = [os.open(Path("/proc", str(node.pid), "ns", name), os.O_RDONLY) for name in (*shared, *_OWN)]
                for fd in fds:
                    stack.callback(os.close, fd)
                request = ForkRequest(shared=len(shared), variables=dict(node.variables))
                socket.send_fds(self._control, [request.text()], [*pipes, *fds])
                reply = self._control.recv(64)
            except OSError as error:
                raise AgentError(f"no agent could be forked: {error.strerror or error}") from error
            if not reply:
                raise AgentError("no agent could be forked: the process that forks them has ended")
            self._entered = True
            return int(reply)

    def close(self) -> None:
        """End the fork server, whose agents have ended."""
        self._control.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
