"""One instance of a server, from its recipe to its last process: ready when started and gone when stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest_ipperf
from pytest_ipperf.agent.host_state.dirty_marks import LeftoverError
from pytest_ipperf.agent.host_state.private_dir import populate
from pytest_ipperf.agent.kernel.processes import Process, search_path, survivors, tree
from pytest_ipperf.agent.kernel.processors import Processors
from pytest_ipperf.agent.servers.containment import containment
from pytest_ipperf.agent.sockets.open_connections import open_connections
from pytest_ipperf.agent.sockets.ports import in_use, probe_ready
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.servers.base import Entry, Server, Site

_LOG = "log"
_LOG_LINES = 3
_LOG_BYTES = 1 << 16
# Printed by unshare when it fails to end itself by the SIGKILL that has ended its child (util-linux 2.38).
_UNSHARE_KILLED = "unshare: sigprocmask unblock failed: Invalid argument"
_READY_S = 15.0
_PROBE_S = 1.0
_TERM_S = 2.0
_KILL_S = 10.0  # a busy machine gives a killed process late the processor that it needs to end
_POLL_S = 0.005
_FIRST_POLL_S = 0.0005
_DYING_S = 3.0


class ServerProcess:
    """One instance of a server; start it from a thread that outlives it, as it ends with the thread.

    `code_fd` is an open file with the packed code for an embedded server (None: the code that runs here), `python` its
    interpreter, `env` additional environment variables. An embedded server starts on all `processors`, and is bound to
    those of this thread once it is ready. Its output goes to `log` in the site's folder; the folder stays when the
    server stops, so that it can be started again.
    """

    def __init__(
        self,
        server: Server,
        site: Site,
        *,
        code_fd: int | None = None,
        python: Sequence[str] = (sys.executable,),
        env: Mapping[str, str] | None = None,
        processors: Processors | None = None,
    ) -> None:
        self._server = server
        self._site = site
        self._code_fd = code_fd
        self._python = python
        self._env = env or {}
        self._processors = processors or Processors()
        self._kind = _socket_kind(server, site)
        self._popen: subprocess.Popen[bytes] | None = None
        self._containment = containment()
        self._launched_at = 0.0

    def start(self, ready_s: float = _READY_S) -> None:
        """Populate the site, start the server and return when every address answers.

        Raise LabError, with nothing left running, if it cannot run here, exits, or is not ready after `ready_s`
        seconds.
        """
        self.launch()
        self.wait_ready(ready_s)

    def launch(self) -> None:
        """Populate the site and start the server, without waiting until it answers; LabError if it cannot run here."""
        why = self._server.missing()
        if why:
            raise LabError(f"{self._server.name} cannot run here: {why}")
        for address in self._site.addresses:
            if in_use(address, self._site.port, self._kind):
                raise LabError(
                    f"{self._server.name}: port {self._site.port} on {address} is in use; give it a free one"
                )
        populate(self._site.folder, [*self._server.entries(self._site), Entry(_LOG, b"", 0o644)])
        try:
            self._spawn()
        except BaseException:
            self.stop()
            raise
        self._launched_at = time.monotonic()

    def wait_ready(self, ready_s: float = _READY_S) -> None:
        """Return when every address of a launched server answers; LabError, and nothing runs, if one does not.

        The `ready_s` seconds count from its launch.
        """
        try:
            self._wait_ready(self._launched_at + ready_s, ready_s)
        except BaseException:
            self.stop()
            raise

    @property
    def recipe(self) -> Server:
        """Return the server's recipe."""
        return self._server

    @property
    def site(self) -> Site:
        """Return the server's site: its place and contents."""
        return self._site

    def alive(self) -> bool:
        """Return whether the server runs."""
        return self._popen is not None and self._popen.poll() is None

    def exit_sentence(self) -> str:
        """Describe how the server ended unexpectedly, with the last lines of its log; empty while it is alive."""
        if self._popen is None or self._popen.poll() is None:
            return ""
        status = self._popen.returncode
        number = -status if status < 0 else status - 128  # a shell's way to report a signal
        if self._log_lines()[-1:] == [_UNSHARE_KILLED]:
            number = signal.SIGKILL
        how = f"was killed by signal {number}" if number > 0 else f"exited with status {status}"
        return f"{self._server.name} {how}; {self._log_end()}"

    def busy(self) -> str:
        """Describe in a few words what still goes on after a run; empty when idle."""
        count = 0 if self._kind == socket.SOCK_DGRAM else open_connections(self._site.port)
        connections = f"{count} connection{'s' * (count != 1)} still open" if count else ""
        return ", ".join(filter(None, (self._server.busy(self._site), connections)))

    def wait_quiet(self, limit_s: float) -> str:
        """Wait up to `limit_s` seconds until it is idle or dead; return what still goes on then, empty when idle."""
        end, wait_s = time.monotonic() + limit_s, _FIRST_POLL_S
        while (activity := self.busy()) and self.alive() and time.monotonic() < end:
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, 2 * _POLL_S)
        return f"{self._server.name}: {activity}" if activity else ""

    def unresponsive(self) -> str:
        """Say why the server does not answer its readiness probe: how it ended, or that it runs; empty if it answers.

        A process that is killed closes its sockets before it has ended.
        """
        name, port = self._server.name, self._site.port
        for address in self._site.addresses:
            if trouble := probe_ready(address, port, self._kind, self._server.probe, _PROBE_S):
                end = time.monotonic() + _DYING_S
                while self.alive() and time.monotonic() < end:
                    time.sleep(_POLL_S)
                silent = f"{name} runs but does not answer on {address} port {port}: {trouble}; {self._log_end()}"
                return self.exit_sentence() or silent
        return ""

    def log(self) -> str:
        """Return the end of its log, which includes earlier starts."""
        try:
            with Path(self._site.folder, _LOG).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES))
                return file.read().decode(errors="replace")
        except OSError:  # the site was never populated
            return ""

    def pids(self) -> list[int]:
        """Return the process ids of the server, without those that contain it."""
        return [process.pid for level in self._levels()[self._containment.wrappers :] for process in level]

    def cpu_seconds(self) -> float:
        """Return the processor time of all its processes so far, in user and kernel mode."""
        return sum(process.cpu_s for level in self._levels() for process in level)

    def stop(self) -> None:
        """Stop the server and all that it has started, by SIGTERM, then SIGKILL; raise LabError if a process survives.

        Stopping twice, or before a start, is no error.
        """
        if self._popen is None:
            return
        levels = self._levels()
        everything = [process for level in levels for process in level]
        asked = self._containment.wrappers - self._containment.relayed
        _send(signal.SIGTERM, [process for level in levels[asked : asked + 1] for process in level])
        self._wait_gone(everything)
        self._kill(everything)
        self._popen.wait()
        self._popen = None

    def _spawn(self) -> None:
        command = list(self._server.argv(self._site))
        env = {**search_path(), **self._env}
        if self._server.embedded:
            command[:1] = self._python
            env |= self._python_env()
        # Those that start side by side import their code on different processors.
        everywhere = self._processors.unbound() if self._server.embedded else contextlib.nullcontext()
        # Appending keeps what servers write there themselves.
        with everywhere, open(os.path.join(self._site.folder, _LOG), "ab") as log:  # noqa: PTH118, PTH123 - plain text
            self._popen = subprocess.Popen(
                self._containment.argv(command),
                cwd=self._site.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=() if self._code_fd is None else (self._code_fd,),
                start_new_session=True,  # the controller handles a Ctrl-C at the terminal
            )

    def _python_env(self) -> dict[str, str]:
        source = Path(pytest_ipperf.__file__).parents[1]
        code = str(source) if self._code_fd is None else f"/proc/self/fd/{self._code_fd}"
        path = os.pathsep.join(filter(None, (code, self._env.get("PYTHONPATH"))))
        # The site's folder, in which it runs, is no place for code.
        return {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def _wait_ready(self, end: float, ready_s: float) -> None:
        name, port = self._server.name, self._site.port
        for address in self._site.addresses:
            while trouble := probe_ready(address, port, self._kind, self._server.probe, _PROBE_S):
                if not self.alive():
                    raise LabError(self.exit_sentence())
                if time.monotonic() > end:
                    late = f"{name} was not ready on {address} port {port} after {ready_s:g} s"
                    raise LabError(f"{late}: {trouble}; {self._log_end()}")
                time.sleep(_POLL_S)
        if self._server.embedded:
            self._processors.bind_others(self.pids)
        if not self.alive():  # and another server has answered
            raise LabError(self.exit_sentence())

    def _log_end(self) -> str:
        lines = [line for line in self._log_lines() if line != _UNSHARE_KILLED]
        return f"its log ends: {' | '.join(lines[-_LOG_LINES:])}" if lines else "its log is empty"

    def _log_lines(self) -> list[str]:
        try:
            return Path(self._site.folder, _LOG).read_text(errors="replace").splitlines()
        except OSError:  # the folder may have been removed since
            return []

    def _levels(self) -> list[list[Process]]:
        # After it has been waited for, its process id may be another's.
        return tree(self._popen.pid) if self._popen and self.alive() else []

    def _wait_gone(self, everything: Sequence[Process]) -> None:
        end = time.monotonic() + _TERM_S
        while (self.alive() or survivors(everything)) and time.monotonic() < end:
            time.sleep(_POLL_S)

    def _kill(self, everything: Sequence[Process]) -> None:
        end = time.monotonic() + _KILL_S
        # Repeated, as a process being killed may be starting others.
        while left := survivors([*everything, *(process for level in self._levels() for process in level)]):
            _send(signal.SIGKILL, left)
            if time.monotonic() > end:
                first = left[0]
                raise LeftoverError(
                    f"{self._server.name}: process {first.pid} cannot be killed",
                    process=[first.pid, first.started_ticks],
                )
            time.sleep(_POLL_S)


def _socket_kind(server: Server, site: Site) -> socket.SocketKind:
    """Return the kind of socket by which a server is asked, as its protocol says, or the null server's replies."""
    known = server.protocol in PROTOCOLS
    datagram = PROTOCOLS[server.protocol].datagram if known else site.canned_replies.datagram is not None
    return socket.SOCK_DGRAM if datagram else socket.SOCK_STREAM


def _send(number: signal.Signals, processes: Sequence[Process]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
