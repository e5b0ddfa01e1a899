"""Run Python programs in forks of a process that has imported their modules, as importing takes longer than most run.

There are such processes (`fork_server`) that have imported the libraries and the package (`session_preload`), the
libraries alone (`library_preload`), for programs that import a copy of the package from elsewhere, only what runs on
hosts (`agent_preload`), and pip (`pip_preload`). `preload_copy` starts one for a copy.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

from tests.support.sessions.fork_server import REQUEST_BYTES

_TOP = Path(__file__).parents[3]
_FOLDER = "tests.support.sessions"
# Variables that Python or the package reads at its start, which is over in a fork; the two others are set by hand.
_AT_START = ("PYTHON", "LC_", "LANG", "PATH", "TZ")
_SET_BY_HAND = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
_RUN = subprocess.run  # tests replace it to count what the package runs


class ForkedPython:
    """A fork that runs as `[sys.executable, *argv]` would, with a subset of the methods of `subprocess.Popen`.

    `argv` begins with `-m MODULE` or `-c CODE`. Streams are those of `subprocess.Popen`, as text; the input is empty.
    `copy_of_package`: the package is imported from the environment's PYTHONPATH. `machine` is a process whose
    namespaces it enters as by `nsenter`, of whose process are then `pid` and the signals. `network` is a script of sh
    that sets up a network of its own; such a program imports what runs on hosts. `-m pip` is pip. `control` is a
    descriptor that it has as its input. ValueError where the environment differs in a variable that only a new Python
    reads.
    """

    stdin = None

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdout: Any = None,
        stderr: Any = None,
        start_new_session: bool = False,
        copy_of_package: bool = False,
        machine: int = 0,
        network: str = "",
        control: int | None = None,
    ) -> None:
        env = dict(os.environ if env is None else env)
        if not can_fork(env):
            raise ValueError(f"no fork is as a new Python with {_at_start(env)} in its environment")
        self.returncode: int | None = None
        request = {
            "argv": [os.fspath(word) for word in argv], "folder": os.fspath(cwd or Path.cwd()), "env": env,
            "path": _path(), "new_session": start_new_session, "machine": machine, "network": network,
        }  # fmt: skip
        message = json.dumps(request).encode()
        assert len(message) < REQUEST_BYTES, "the program's arguments and environment are too long"
        self.stderr: Any = None
        with contextlib.ExitStack() as streams:
            self.stdout, out = _stream(stdout, sys.stdout, streams)
            err = out
            if stderr != subprocess.STDOUT:
                self.stderr, err = _stream(stderr, sys.stderr, streams)
            reply, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            # Open as long as this object, as several threads may wait for the end.
            self._reply = reply.detach()
            weakref.finalize(self, os.close, self._reply)
            self._reading = threading.Lock()
            with theirs:
                loaded = "agent" if network else "library" if copy_of_package else "session"
                server = _server("pip_preload" if [*argv[:2]] == ["-m", "pip"] else f"{loaded}_preload")
                if copy_of_package and env["PYTHONPATH"] in _servers:
                    server = _servers[env["PYTHONPATH"]][0]
                given = [] if control is None else [control]
                socket.send_fds(server, [message], [theirs.fileno(), *given, out, err])
        pid = os.read(self._reply, 64)
        assert pid, "the server of forks has ended"
        self.pid = int(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream:
                stream.close()
        self.wait()

    def poll(self) -> int | None:
        """Return its status once it has ended, negative for a signal."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, for its status. TimeoutExpired after `timeout` seconds."""
        if self.returncode is None and not select.select([self._reply], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("python", timeout or 0.0)
        with self._reading:
            if self.returncode is None:
                self.returncode = int(os.read(self._reply, 64))
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read its output to the end, and wait for it. TimeoutExpired after `timeout` seconds, with nothing kept."""
        texts: dict[Any, str] = {}

        def read(stream: Any) -> None:
            texts[stream] = stream.read()

        streams = [stream for stream in (self.stdout, self.stderr) if stream and not stream.closed]
        readers = [threading.Thread(target=read, args=(stream,), daemon=True) for stream in streams]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired("python", timeout or 0.0)
        self.wait(timeout)
        for stream in streams:
            stream.close()
        return texts.get(self.stdout, ""), texts.get(self.stderr, "")

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """End it by SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.send_signal(signal.SIGKILL)


def run_python(
    argv: Sequence[str | os.PathLike[str]], *, timeout: float = 300, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end, as `subprocess.run([sys.executable, *argv], capture_output=True, text=True)`."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ForkedPython(argv, **streams | options) as program:
        try:
            out, err = program.communicate(timeout)
        finally:
            program.kill()
    assert program.returncode is not None
    return subprocess.CompletedProcess([sys.executable, *argv], program.returncode, out, err)


def can_fork(env: Mapping[str, str]) -> bool:
    """Return whether a fork would be as a new Python with this environment."""
    return _at_start(env) == _FIRST


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_START) and name not in _SET_BY_HAND}


_FIRST = _at_start(os.environ)
# A test that looks for processes by their environment finds no server of forks, whichever test starts it.
_OF_SERVERS = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
_servers: dict[str, tuple[socket.socket, subprocess.Popen[bytes] | ForkedPython]] = {}


def _stream(wanted: Any, ours: Any, ends: contextlib.ExitStack) -> tuple[Any, int]:
    """Return our end of a stream, where that is a pipe, and the descriptor that the program writes to."""
    if wanted == subprocess.PIPE:
        to_read, to_write = os.pipe()
        ends.callback(os.close, to_write)
        return os.fdopen(to_read, encoding="utf-8"), to_write
    if wanted == subprocess.DEVNULL:
        null = os.open(os.devnull, os.O_WRONLY)
        ends.callback(os.close, null)
        return None, null
    return None, (wanted or ours).fileno()


def _server(preload: str) -> socket.socket:
    """Return the socket for requests to a server of forks, which is started if there is none."""
    if preload in _servers:
        return _servers[preload][0]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", f"{_FOLDER}.fork_server", f"{_FOLDER}.{preload}"],
            stdin=theirs.fileno(), cwd=_TOP, env=_OF_SERVERS, start_new_session=True,
        )  # fmt: skip
    _servers[preload] = ours, process
    return ours


def preload_copy(folder: Path) -> None:
    """Import a copy of the package below `folder` once for all programs with that PYTHONPATH, if they are several."""
    if str(folder) in _servers:
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = ForkedPython(
            ["-m", f"{_FOLDER}.fork_server", f"{_FOLDER}.session_preload"], control=theirs.fileno(), cwd="/",
            env=_OF_SERVERS | {"PYTHONPATH": f"{folder}{os.pathsep}{_TOP}"}, copy_of_package=True,
            start_new_session=True,
        )  # fmt: skip
    _servers[str(folder)] = ours, process


def end_servers() -> None:
    """End the servers of forks, and wait for them; they would end with this process, but unreaped."""
    while _servers:
        _, (control, process) = _servers.popitem()
        with control:
            control.shutdown(socket.SHUT_RDWR)  # whichever fork of this process still has it open
        process.wait(60)


@cache
def _path() -> list[str]:
    """Return where a new Python looks for modules, without PYTHONPATH and the folder that it is in."""
    code = "import json, sys; print(json.dumps(sys.path[1:]))"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    reported = _RUN([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, check=True).stdout
    path: list[str] = json.loads(reported)
    return path
