"""Import one module, then run a Python program in a fork of this process for each request: `python -m ... MODULE`.

Its standard input is a Unix socket of kind SOCK_SEQPACKET. A request is a JSON object, together with descriptors: a
socket of its own for the reply, and the program's standard streams, of which the input may be missing. The reply is the
program's PID, then its status once it has ended, each as text in a packet.

A session with workers of pytest-xdist first forks a server of its own, from which its workers are forked.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import platform
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REQUEST_BYTES = 1 << 18
_NAMESPACES = {"mnt": 0x00020000, "uts": 0x04000000, "net": 0x40000000, "pid": 0x20000000}
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1
# The options that ask for workers, in arguments that may be within others.
_WORKERS = re.compile(r"(^|[ \"'])(-n|--numprocesses|--tx)\b|(^|[ \"'])-n(\d|auto|logical)")
_popen = subprocess.Popen


def main(module: str) -> None:
    """Serve until the other end of standard input is closed."""
    control = socket.socket(fileno=os.dup(0))
    importlib.import_module(module)
    _serve(control)


def _serve(control: socket.socket) -> None:
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is for the tests
    replies: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report_ended(replies)
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, 4)
        if not message:
            return
        reply, *streams = descriptors
        if not (pid := os.fork()):
            signal.set_wakeup_fd(-1)
            for each in (control.detach(), reply, woken, wake, *(other.detach() for other in replies.values())):
                os.close(each)
            _become(json.loads(message), streams)
        for stream in streams:
            os.close(stream)
        replies[pid] = socket.socket(fileno=reply)
        with contextlib.suppress(BrokenPipeError):
            replies[pid].send(str(pid).encode())


def _report_ended(replies: dict[int, socket.socket]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with replies.pop(ended[0]) as reply, contextlib.suppress(BrokenPipeError):
                reply.send(str(os.waitstatus_to_exitcode(ended[1])).encode())


def _become(request: dict[str, Any], streams: Sequence[int]) -> None:
    """Run the program of a request in this process, to its end."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, stream in enumerate(streams, start=3 - len(streams)):
        os.dup2(stream, number)
        os.close(stream)
    if request.get("new_session"):
        os.setsid()
    if network := request.get("network"):
        _have_network(network)
    if machine := request.get("machine"):
        _enter(machine)
        _show_as([sys.executable, *request["argv"]])
    if _WORKERS.search(" ".join(request["argv"])):
        _fork_workers(request["path"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.dont_write_bytecode = bool(request["env"].get("PYTHONDONTWRITEBYTECODE"))
    own = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*filter(None, own), *request["path"]]
    # An inner suite may have a folder of this name.
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    subprocess.Popen = _popen_or_fork  # type: ignore[assignment, misc]
    _run(request["argv"])


def _show_as(argv: Sequence[str]) -> None:
    """Let `ps` show these arguments for this process, as far as there is room for them."""
    start, end = map(int, Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[45:47])
    words = "\0".join(argv).encode()[: end - start - 1]
    ctypes.memmove(start, words.ljust(end - start, b"\0"), end - start)


def _have_network(script: str) -> None:
    """Go on in a network of its own, and with mounts that nobody else sees; a shell script sets up the network."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NAMESPACES["net"] | _NAMESPACES["mnt"]):
        raise OSError(ctypes.get_errno(), "there is no network namespace")
    libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    subprocess.run(["sh", "-ec", script], check=True)


def _enter(pid: int) -> None:
    """Go on in the namespaces of a process, as a child for which this process waits, as `nsenter` does."""
    libc = ctypes.CDLL(None, use_errno=True)
    opened = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in _NAMESPACES}
    for kind, descriptor in opened.items():
        if libc.setns(descriptor, _NAMESPACES[kind]):
            raise OSError(ctypes.get_errno(), f"cannot enter namespace {kind}")
        os.close(descriptor)
    if child := os.fork():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for stream in (0, 1, 2):
            os.close(stream)
        while os.WIFSTOPPED(status := os.waitpid(child, os.WUNTRACED)[1]):
            os.kill(os.getpid(), signal.SIGSTOP)
            os.kill(child, signal.SIGCONT)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            with contextlib.suppress(OSError):  # of SIGKILL
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)
    platform._uname_cache = None  # type: ignore[attr-defined]


def _run(argv: Sequence[str]) -> None:
    """Run `python ARGV` in this process, and end it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    status = 1
    try:
        status = _status(argv)
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        flushed = [_flush(stream) for stream in (sys.stdout, sys.stderr)]
        os._exit(status if all(flushed) else 120)


def _flush(stream: Any) -> bool:
    """Flush a stream that is open, and return whether it took all; Python's own status is 120 where it did not."""
    try:
        if stream is not None and not stream.closed:
            stream.flush()
    except OSError:
        return False
    return True


def _status(argv: Sequence[str]) -> int:
    kind, text, *arguments = argv
    try:
        if kind == "-m":
            sys.argv[:] = [text, *arguments]
            sys.path.insert(0, str(Path.cwd()))
            _give_workers_path()
            runpy.run_module(text, run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = ["-c", *arguments]
            sys.path.insert(0, "")
            main_module = type(sys)("__main__")
            sys.modules["__main__"] = main_module
            exec(compile(text, "<string>", "exec"), vars(main_module))
    except SystemExit as end:
        if isinstance(end.code, int | None):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        return 1
    return 0


def _give_workers_path() -> None:
    """Let xdist give its workers the path of this program; it took that of the process that imported it."""
    if plugin := sys.modules.get("xdist.plugin"):
        plugin._sys_path[:] = sys.path


def _fork_workers(path: Sequence[str]) -> None:
    """Let workers of pytest-xdist be forks of what this process is now."""
    from execnet import gateway_base, gateway_io  # noqa: PLC0415 - every preload has imported them, no test of them

    new_worker = gateway_io.create_io
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if not os.fork():
        ours.close()
        _serve(theirs)
        os._exit(0)
    theirs.close()

    class WorkerIO(gateway_io.Popen2IOMaster):
        def __init__(self, execmodel: Any) -> None:
            self.popen: Any = _Worker(ours, path)
            gateway_base.Popen2IO.__init__(self, self.popen.stdin, self.popen.stdout, execmodel=execmodel)

    def create_io(spec: Any, execmodel: Any) -> Any:
        return WorkerIO(execmodel) if spec.popen and not spec.python else new_worker(spec, execmodel)

    gateway_io.create_io = create_io


class _Worker:
    """A worker of pytest-xdist, with what execnet uses of `Popen`."""

    def __init__(self, server: socket.socket, path: Sequence[str]) -> None:
        argv = ["-c", "import sys;exec(eval(sys.stdin.readline()))"]  # as execnet has it
        request = {"argv": argv, "folder": os.getcwd(), "env": dict(os.environ), "path": path}  # noqa: PTH109
        stdin, to_worker = os.pipe()
        from_worker, stdout = os.pipe()
        self._reply, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        socket.send_fds(server, [json.dumps(request).encode()], [theirs.fileno(), stdin, stdout, 2])
        theirs.close()
        os.close(stdin)
        os.close(stdout)
        self.stdin, self.stdout = os.fdopen(to_worker, "wb"), os.fdopen(from_worker, "rb")
        self.pid = int(self._reply.recv(64))
        self._status: int | None = None

    def wait(self) -> int:
        if self._status is None:
            self._status = int(self._reply.recv(64) or -signal.SIGKILL)
        return self._status

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _popen_or_fork(argv: Any, *arguments: Any, **options: Any) -> Any:
    """Fork where a program starts pytest as `pytest-ipperf night` does; start a process for everything else."""
    words = list(argv) if isinstance(argv, list | tuple) else []
    start = [sys.executable, "-m", "pytest"]
    at = words.index("--") + 1 if "--pdeathsig" in words else 0
    if words[at : at + 3] != start or options != {"process_group": 0}:
        return _popen(argv, *arguments, **options)
    return _Child(words[at + 1 :], dies_with_parent=at > 0)


class _Child:
    """A fork of this process, with the methods of `Popen` that a night uses."""

    def __init__(self, argv: Sequence[str], *, dies_with_parent: bool) -> None:
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            return
        os.setpgid(0, 0)
        # The parent removes its own temporary folders.
        atexit._clear()
        for finalizer in [*weakref.finalize._registry]:  # type: ignore[attr-defined]
            finalizer.detach()
        if dies_with_parent:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
        _run(argv)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


if __name__ == "__main__":
    main(sys.argv[1])
