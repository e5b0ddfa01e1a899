"""Settings for the project's own tests: hypothesis profiles, pytest's tester, and what runs only when asked for."""

import contextlib
import ctypes
import fcntl
import gc
import os
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support.sessions.forked_python import ForkedPython, can_fork, end_servers

# pytest refuses this line in a conftest that it meets after its start. The tests' own is always met at the start,
# and at the top level it would load the tester into every measurement.
pytest_plugins = [
    "pytester",
    # Before those that import it, or its assertions could not be rewritten any more.
    "tests.support.needs",
    "tests.support.hosts.agents",
    "tests.support.hosts.ssh_hosts",
    "tests.support.hosts.private_paths",
    "tests.support.sessions.projects",
    "tests.support.tiers",
    "tests.support.hosts.uml_guest",
    "tests.support.hosts.users",
    "tests.support.sessions.xdist_workers",
]

# The same examples in every run, and no limit on the time that they take, because a measuring machine is busy at times.
_PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("project", derandomize=True, **_PATIENT)
hypothesis.settings.register_profile("long", derandomize=True, max_examples=5000, **_PATIENT)
hypothesis.settings.load_profile(os.environ.get("IPPERF_HYPOTHESIS", "project"))


_CLONE_NEWNET, _CLONE_NEWNS = 0x40000000, 0x00020000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_MARKS = pytest.StashKey[tempfile.TemporaryDirectory[str]]()

# A shell starts background jobs with Ctrl-C ignored, and nohup its command with SIGHUP ignored. Children inherit that,
# and the tests that end one by such a signal would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# What tests start reads bytecode and writes none, as a file that is written anew within a second would be taken for the
# one before; and it does without a plugin that it has no use for and that takes a second to load.
# OpenBLAS would start a thread for each processor, and the package uses one.
_STARTED = {
    "OPENBLAS_NUM_THREADS": "1",
    "PYTEST_ADDOPTS": "-p no:hypothesispytest",
    "PYTHONDONTWRITEBYTECODE": "1",
}
# These are, or hold, the longest files. Begun last they would keep one worker busy while the others have nothing left.
_LONGEST_FIRST = (
    "cli/", "system/trouble/test_far_faults.py", "system/trouble/test_faults.py", "system/far/", "system/trouble/",
    "plugin/", "system/truth/", "lab/", "agent/servers/", "system/security/", "system/agreement/", "agent/load/",
    "agent/flows/engines/",
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    os.environ.update(_STARTED)
    gc.disable()  # collecting the tests creates objects that live as long as the process
    if hasattr(config, "workerinput"):
        _leave_network()
        _have_memory(config)
        _have_marks(config)
    else:
        _have_separation(config)
    config.addinivalue_line("markers", "evidence: takes minutes; runs only when -m names it (make evidence)")


def _leave_network() -> None:
    """Give a worker of xdist a network of its own: in one network, sessions that measure wait for each other."""
    _unshare(_CLONE_NEWNET, "a network")
    # A network made within this one, as all of a lab's are, would share the host's table of TCP connections, and every
    # agent that looks for a free port reads all of it (ip-sysctl: tcp_child_ehash_entries, since Linux 6.2).
    with contextlib.suppress(OSError):
        Path("/proc/sys/net/ipv4/tcp_child_ehash_entries").write_text("2048", encoding="ascii")
        _unshare(_CLONE_NEWNET, "a network")
        Path("/proc/sys/net/ipv4/tcp_child_ehash_entries").write_text("2048", encoding="ascii")
    # Not by `ip`, which a minimal system lacks.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))
    # What a test starts is no worker.
    os.environ.pop("PYTEST_XDIST_WORKER", None)


def _unshare(flag: int, what: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flag):
        number = ctypes.get_errno()
        raise pytest.UsageError(f"-n takes root, as each worker needs {what} of its own: {os.strerror(number)}")


def _mount(source: bytes, target: Path, flags: int, options: bytes | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, os.fsencode(target), source, flags, options):
        number = ctypes.get_errno()
        raise pytest.UsageError(f"-n takes root, as each worker needs mounts of its own: {os.strerror(number)}")


def _have_memory(config: pytest.Config) -> None:
    """Keep the temporary files of a worker in memory: thousands of mailboxes take a disk's file system seconds.

    `/tmp` is replaced, or only the folder of all workers if a part of what runs is below `/tmp`.
    """
    folder, base = Path(tempfile.gettempdir()), Path(config.getoption("basetemp")).parent
    if any(Path(each).is_relative_to(folder) for each in (config.rootpath, sys.prefix, sys.base_prefix)):
        folder = base
    _unshare(_CLONE_NEWNS, "mounts")
    _mount(b"none", Path("/"), _MS_REC | _MS_PRIVATE, None)
    _mount(b"tmpfs", folder, 0, b"mode=700" if folder == base else b"mode=1777")
    base.mkdir(mode=0o700, parents=True, exist_ok=True)


def _have_marks(config: pytest.Config) -> None:
    """Gives a worker of xdist marks of its own: those of the machine tell all networks that one is not as it was."""
    config.stash[_MARKS] = tempfile.TemporaryDirectory(prefix="pytest-ipperf-run-")
    os.environ["IPPERF_RUN"] = config.stash[_MARKS].name


def _have_separation(config: pytest.Config) -> None:
    """Make the folder without which root's sshd serves nobody, and remove it at the end unless other tests run here."""
    folder = Path("/run/sshd")
    if os.geteuid() or (not folder.exists() and not os.access(folder.parent, os.W_OK)):
        return
    made = not folder.exists()
    folder.mkdir(mode=0o755, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    config.add_cleanup(lambda: _leave_separation(folder, lock, made=made))


def _leave_separation(folder: Path, lock: int, *, made: bool) -> None:
    with contextlib.suppress(BlockingIOError):
        if made:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder.rmdir()
    os.close(lock)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Keep garbage collection from visiting the collected tests, which outnumber the objects that tests create.

    It is also to be rare, as most garbage goes without it. The controller of xdist, which lives as long, collects no
    tests and gets here too.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # A worker of xdist is not waited for any longer, so a clean-up of its `config` may never come.
    end_servers()
    if _MARKS in session.config.stash:
        session.config.stash[_MARKS].cleanup()


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Give pytest's tester the environment of all that tests start, of which it has taken some away, and forks."""
    for name, value in _STARTED.items():
        monkeypatch.setenv(name, value)
    begin = pytester.popen

    def popen(argv: Sequence[str], stdin: Any = pytester.CLOSE_STDIN, **streams: Any) -> Any:
        if (
            (*argv[:2],) != (sys.executable, "-mpytest")
            or stdin is not pytester.CLOSE_STDIN
            or not can_fork(os.environ)
        ):
            return begin(argv, stdin=stdin, **streams)
        path = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
        env = os.environ | {"PYTHONPATH": path}
        # pytest before 8.4 hands on `close_fds` too, and a fork has no other files open.
        return ForkedPython(["-m", "pytest", *argv[2:]], env=env, stdout=streams["stdout"], stderr=streams["stderr"])

    monkeypatch.setattr(pytester, "popen", popen)
    return pytester


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_rank)
    if "evidence" in config.getoption("markexpr"):
        return
    evidence = [item for item in items if item.get_closest_marker("evidence")]
    if evidence:
        config.hook.pytest_deselected(items=evidence)
        items[:] = [item for item in items if item not in evidence]


def _rank(item: pytest.Item) -> int:
    here = Path(__file__).parent
    path = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""  # of the suites
    ranks = (rank for rank, start in enumerate(_LONGEST_FIRST) if path.startswith(start))
    return next(ranks, len(_LONGEST_FIRST))
