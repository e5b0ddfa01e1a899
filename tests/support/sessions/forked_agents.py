"""Start the agents of this machine as forks, as a new Python takes ten times as long to start one.

A fork behaves as a new Python with the agent's code does: it has the modules of the code archive, imported from the
archive before the first test and by nobody else, no other module that is not Python's own, and none of the files,
signal handlers and hooks of the process that it was forked from.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import functools
import gc
import importlib.abc
import importlib.machinery
import inspect
import os
import pkgutil
import platform
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from execnet import gateway_base, gateway_io

from pytest_ipperf.lab.access.local import PYTHON
from pytest_ipperf.lab.agents import client, fork_server
from pytest_ipperf.lab.agents.bootstrap import FORK_SERVER
from pytest_ipperf.lab.agents.code_archive import stored_archive
from tests.support.hosts.agents import NEW_AGENTS

_PACKAGE = "pytest_ipperf"
_NAMESPACES = {"user": 0x10000000, "uts": 0x04000000, "net": 0x40000000, "pid": 0x20000000, "mnt": 0x00020000}
# After `nsenter --target PID`.
_ENTRY = ("--mount", "--pid", "--net", "--uts", "env")
_ENTRY_WORDS = 3 + len(_ENTRY)
_GC_THRESHOLD = gc.get_threshold()  # of Python itself: a preload raises it afterwards
_new_agent = gateway_io.create_io


def install() -> None:
    """Let agent clients of this process fork their agents, unless an agent has to be a new process."""
    _archive_modules()
    client.create_io = create_io  # type: ignore[attr-defined]
    vars(fork_server)["subprocess"] = _Subprocess


def create_io(spec: Any, execmodel: Any) -> Any:
    """Return the connection to a new Python, as execnet's function does."""
    words = shlex.split(spec.python) if spec.popen and spec.python else []
    entry, python = words[: -len(PYTHON)], words[-len(PYTHON) :]
    way = _way_in(entry)
    if way is None or (*python,) != PYTHON or os.environ.get(NEW_AGENTS):
        return _new_agent(spec, execmodel)
    return _ForkIO(_Fork(gateway_io.popen_args(spec), *way), execmodel)


def _way_in(entry: Sequence[str]) -> tuple[int, Mapping[str, str]] | None:
    """Return the process whose namespaces are entered, 0 for none, and the variables set; None if not known."""
    if not entry:
        return 0, {}
    words, settings = entry[:_ENTRY_WORDS], entry[_ENTRY_WORDS:]
    if (*words[:1], *words[3:]) != ("nsenter", *_ENTRY) or not all("=" in each for each in settings):
        return None
    return int(words[2]), dict(each.split("=", 1) for each in settings)


class _Subprocess:
    """What fork servers of a lab's epochs use of `subprocess`."""

    DEVNULL, TimeoutExpired = subprocess.DEVNULL, subprocess.TimeoutExpired

    @staticmethod
    def Popen(argv: Sequence[str], *, pass_fds: Sequence[int], **streams: Any) -> Any:  # noqa: N802 - as it is called
        """Fork a process that runs as a new Python with the program in `argv` would."""
        python, program, fds = (*argv[: len(PYTHON)],), argv[len(PYTHON) + 1], argv[len(PYTHON) + 2 :]
        if python != PYTHON or program != FORK_SERVER or os.environ.get(NEW_AGENTS):
            return subprocess.Popen(argv, pass_fds=pass_fds, **streams)
        return _Forked(argv, functools.partial(_become_fork_server, fds, pass_fds))


class _ForkIO(gateway_io.Popen2IOMaster):
    def __init__(self, fork: _Fork, execmodel: Any) -> None:
        self.popen: Any = fork
        gateway_base.Popen2IO.__init__(self, fork.stdin, fork.stdout, execmodel=execmodel)


class _Forked:
    """A fork that runs as `args` would, with what agent clients, execnet and fork servers use of `Popen`."""

    def __init__(self, args: Sequence[str], become: Callable[[], None]) -> None:
        self.args = args
        sys.stdout.flush()
        sys.stderr.flush()
        _archive_modules()
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self.pid = os.fork()
        if not self.pid:
            become()

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            with os.fdopen(os.pidfd_open(self.pid)) as process:
                if not select.select([process], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired("agent", timeout or 0.0)
        status = self.poll()
        assert status is not None
        return status

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class _Fork(_Forked):
    """An agent that runs an execnet gateway."""

    def __init__(self, args: Sequence[str], pid_inside: int, settings: Mapping[str, str]) -> None:
        to_agent, from_agent = os.pipe(), os.pipe()
        namespaces = _opened(pid_inside)
        super().__init__(args, functools.partial(_become_agent, to_agent[0], from_agent[1], namespaces, settings))
        for each in (to_agent[0], from_agent[1], *namespaces.values()):
            os.close(each)
        self.stdin = os.fdopen(to_agent[1], "wb")
        self.stdout = os.fdopen(from_agent[0], "rb")


def _opened(pid: int) -> dict[str, int]:
    """Open the namespaces of a process, if there is one."""
    return {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in _NAMESPACES if kind != "user" and pid}


def _become_agent(stdin: int, stdout: int, namespaces: Mapping[str, int], settings: Mapping[str, str]) -> None:
    def run() -> int:
        if namespaces:
            _enter(namespaces)
        _forget(settings)
        return _run_gateway()

    _become(stdin, stdout, run)


def _become_fork_server(arguments: Sequence[str], fds: Sequence[int]) -> None:
    def run() -> int:
        _forget({}, fds)
        sys.argv[1:] = arguments
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(FORK_SERVER, vars(main))
        return 0

    null = os.open(os.devnull, os.O_RDWR)
    _become(null, null, run)


def _become(stdin: int, stdout: int, run: Callable[[], int]) -> None:
    status = 1
    try:
        # First of all: the process that was forked removes its own temporary folders, however this one ends.
        atexit._clear()
        for finalizer in [*weakref.finalize._registry]:  # type: ignore[attr-defined]
            finalizer.detach()
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        status = run()
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        os._exit(status)


def _enter(namespaces: Mapping[str, int]) -> None:
    """Enter namespaces as `nsenter` does: in a child, for which this process waits."""
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, descriptor in namespaces.items():
        if libc.setns(descriptor, _NAMESPACES[kind]):
            raise OSError(ctypes.get_errno(), f"cannot enter namespace {kind}")
    if pid := os.fork():
        _close_all()
        for stream in (0, 1):
            os.close(stream)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status < 0:
            signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        os._exit(status)


def _close_all(kept: Sequence[int] = ()) -> None:
    """Close all files but the three standard streams, the code archive and those `kept`."""
    first = 3
    for fd in sorted({_archive_fd(), *kept}):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def _forget(settings: Mapping[str, str], kept: Sequence[int] = ()) -> None:
    """Remove all traces of the process that was forked, as far as they matter to a program."""
    _ours.append(dict(sys.modules))  # nothing is destroyed: its files have other owners now
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLD)
    gc.enable()
    faulthandler.disable()
    _close_all(kept)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    threading._threading_atexits.clear()  # type: ignore[attr-defined]
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    warnings.filters[:] = []  # type: ignore[index]
    warnings.simplefilter("ignore")
    os.environ.update(settings)
    # Both may differ in a namespace.
    tempfile.tempdir = None
    platform._uname_cache = None  # type: ignore[attr-defined]
    sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *_path()]
    sys.meta_path[:] = [_FromArchive(), *(each for each in sys.meta_path if _is_pythons(each))]
    for name in [name for name in sys.modules if not _of_python(name)]:
        del sys.modules[name]
    sys.argv[:] = ["-c"]
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


_ours: list[object] = []
# Modules of each new Python that are not its own; Debian has the second.
_AT_START = {"__main__", "sitecustomize", "usercustomize"}


def _is_pythons(finder: object) -> bool:
    return getattr(finder, "__module__", "").startswith("_frozen_importlib")


def _run_gateway() -> int:
    """Run what execnet's `popen_bootstrapline` says, with the source of execnet's gateway compiled before the fork."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    source, compiled = _gateway_code()
    try:
        text = eval(sys.stdin.readline())
        if text.startswith(source):
            exec(compiled, vars(main))
            text = text[len(source) :]
        exec(text, vars(main))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


@cache
def _gateway_code() -> tuple[str, types.CodeType]:
    source = inspect.getsource(gateway_base)
    return source, compile(source, "<string>", "exec")


@cache
def _path() -> list[str]:
    """Return the module search path of a new Python that runs an agent, without PYTHONPATH."""
    says = [*PYTHON, "-c", "import sys; print(*sys.path, sep='\\n')"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(says, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


@cache
def _archive_fd() -> int:
    """Write the code archive to a file in memory, as an agent does."""
    descriptor = os.memfd_create("pytest-ipperf")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(stored_archive())
    return descriptor


@cache
def _archive_modules() -> dict[str, types.ModuleType]:
    """Import everything from the code archive, beside the modules of the same names that this process uses.

    Modules that need a library are left out: an agent imports them when it needs them, as it does the library.
    """
    _path(), _gateway_code()
    finders, path = [*sys.meta_path], [*sys.path]
    place = f"/proc/self/fd/{_archive_fd()}"
    others = {name: sys.modules.pop(name) for name in [*sys.modules] if not _of_python(name)}
    try:
        sys.meta_path[:] = [_NoLibrary(), *filter(_is_pythons, finders)]
        sys.path.insert(0, place)
        package = importlib.import_module(_PACKAGE)
        for module in pkgutil.walk_packages(package.__path__, f"{_PACKAGE}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)
        return {name: module for name, module in sys.modules.items() if not _of_python(name)}
    finally:
        sys.meta_path[:], sys.path[:] = finders, path
        # Each would read the archive again whenever the caches are invalidated, as at the start of every fork.
        for each in [each for each in sys.path_importer_cache if each.startswith(place)]:
            del sys.path_importer_cache[each]
        for name in [name for name in sys.modules if not _of_python(name)]:
            del sys.modules[name]
        sys.modules.update(others)
        # They live as long as this process, and many tests and all measurements collect its garbage.
        gc.collect()
        gc.freeze()


def _of_python(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names or name in _AT_START


class _NoLibrary(importlib.abc.MetaPathFinder):
    """Finder of no module but the package's and Python's."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        del path, target
        if not _of_python(fullname) and fullname.partition(".")[0] != _PACKAGE:
            raise ModuleNotFoundError(fullname, name=fullname)


class _FromArchive(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finder of the modules that were imported from the archive, for an agent that was sent the same archive."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname != _PACKAGE or not self._is_same():
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    @staticmethod
    def _is_same() -> bool:
        """Return whether the first place of the path is an archive like ours."""
        place = sys.path[0]
        if not place.startswith("/proc/self/fd/"):
            return False
        with open(place, "rb") as file:  # noqa: PTH123 - it has no path
            return file.read() == stored_archive()

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the package, with all modules below it as imported."""
        sys.modules.update(_archive_modules())
        return _archive_modules()[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the module as it is."""
