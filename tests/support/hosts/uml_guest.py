"""A guest machine with a kernel of its own (User Mode Linux, Debian's package), for tests of missing kernel features.

Its root is this machine's, read-only, so Python, pytest and the repository have the same paths there. It runs as root,
whoever started it. It may write to a folder shared with this machine, and to its memory, which vanishes with it.

Scripts are placed in the folder; their numbers are sent, and numbers and statuses received, over a terminal of its own.
When that is closed, the machine powers off. All of it lives in a pid namespace, which ends with its first process.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from xml.etree import ElementTree as ET

import pytest

from pytest_ipperf.agent.kernel.processes import tree

ROOT = Path(__file__).parents[3]
SEARCH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
MODULES = ("crc-ccitt", "ipv6", "tunnel4", "ip_tunnel", "sit", "veth", "sch_tbf", "sch_netem", "sch_ingress", "cls_bpf",
           "ifb", "tun")  # fmt: skip
"""In the order of their dependencies."""
_TREES = Path("/usr/lib/uml/modules")
_BOOT_S, _LONGEST_S, _END_S, _KILLED_S = 60.0, 600, 5.0, 60.0
_MEMORY_MB = 512
# Debian's `mount` drops root for the owner of its file, who is `nobody` if this was started without rights.
_INIT = """\
#!/bin/sh
export PATH={search} PYTHONPATH={packages} LC_ALL=C TMPDIR=/dev/shm HOME=/dev/shm
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 IPPERF_UML=1
mount() {{ busybox mount "$@" || echo "mount $* failed"; }}
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir /dev/shm
mount -t tmpfs shm /dev/shm
mkdir /dev/shm/ours
[ -O /bin/mount ] || ln -s "$(command -v busybox)" /dev/shm/ours/mount
mount -t hostfs -o {share} share {share}
for module in {modules}; do busybox insmod "$module" || echo "insmod $module failed"; done
exec 3<>/dev/tty1
stty raw -echo <&3
ip link set lo down; ip link set lo up
echo up >&3
cd {root}
while read -r number <&3; do
    sh {share}/$number </dev/null >{share}/$number.out 2>{share}/$number.err 3>&-
    echo "$number $?" >&3
done
echo o >/proc/sysrq-trigger
sleep 10
"""
_TRACED = "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) < 0)"  # PTRACE_TRACEME
# The first process of its namespace; not the kernel itself, which could then not be killed by its own signals.
_FIRST = 'folder=$1; shift; "$@"; rm -rf "$folder"'


def missing() -> str:
    """Return why no guest can be started here; empty if one can."""
    for program, package in (("linux.uml", "user-mode-linux"), ("busybox", "busybox-static"), ("stty", "coreutils")):
        if not shutil.which(program, path=SEARCH):
            return f"{program} is not installed (Debian: apt-get install {package})"
    if platform.machine() != "x86_64":
        return f"User Mode Linux is for x86_64, not for {platform.machine()}"
    if subprocess.run([sys.executable, "-I", "-S", "-c", _TRACED], capture_output=True, check=False).returncode:
        return "ptrace, by which User Mode Linux runs its processes, is forbidden here"
    if not _alone():
        return "no rights for a pid namespace, in which User Mode Linux leaves nothing behind"
    return ""


def in_guest() -> bool:
    """Return whether this process runs in a guest."""
    return "IPPERF_UML" in os.environ


def _alone(entry: Sequence[str] = ()) -> list[str]:
    """Return the words that make a command end everything that it has started, after those that enter namespaces.

    Empty without the rights for it.
    """
    for identity in ((), ("--user", "--map-root-user")):
        words = ["unshare", *identity, "--pid", "--fork", "--kill-child"]
        if not subprocess.run([*entry, *words, "true"], capture_output=True, check=False).returncode:
            return words
    return []


def _room() -> str:
    """Return a folder that can hold the machine's memory, from which programs may be executed."""
    for folder in ("/dev/shm", tempfile.gettempdir()):
        with contextlib.suppress(OSError):
            reported = os.statvfs(folder)
            free = reported.f_bavail * reported.f_frsize > _MEMORY_MB << 20
            if free and not reported.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK):
                return folder
    pytest.skip(f"no folder for temporary files has {_MEMORY_MB} MB from which programs may be executed")


@dataclass(frozen=True)
class Told:
    """Result of a test in the guest; `why` is empty if it passed."""

    name: str
    outcome: str
    why: str


class Guest:
    """A guest machine, up from construction to `close`; a context manager.

    `devices` are kernel arguments such as `vec0:transport=tap,ifname=eth0,depth=128,gro=1`, `entry` the words that
    enter the namespaces in which they are found.
    """

    def __init__(self, devices: Sequence[str] = (), entry: Sequence[str] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pytest-ipperf-uml-"))
        self._numbers = itertools.count()
        self._heard, self._hears = b"", True
        # Unlinked, but still readable when everything else has gone.
        self._console = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the machine
        try:
            self._process = self._started(devices, entry)
        except BaseException:
            self._console.close()
            shutil.rmtree(self.folder)
            raise
        try:
            assert self._hear(_BOOT_S) == "up"
            assert not re.search("(mount|insmod) .* failed", self.console()), self.console()
        except BaseException:
            self.close()
            raise

    def _started(self, devices: Sequence[str], entry: Sequence[str]) -> subprocess.Popen[bytes]:
        version = subprocess.run(["linux.uml", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        found = {path.stem: str(path) for path in (_TREES / version).rglob("*.ko")}
        init = self.folder / "init"
        modules = shlex.join(found[name] for name in MODULES)
        words = {"share": str(self.folder), "root": str(ROOT), "search": f"/dev/shm/ours:{SEARCH}"}
        words["packages"] = os.environ.get("PYTHONPATH", "")
        quoted = {name: shlex.quote(each) for name, each in words.items()}
        init.write_text(_INIT.format(modules=modules, **quoted))
        init.chmod(0o755)
        theirs, self._say = os.pipe()
        self._listen, their_end = os.pipe()
        kernel = ["linux.uml", f"mem={_MEMORY_MB}M", "rootfstype=hostfs", "rootflags=/", "ro", "root=/dev/root",
                  "quiet", f"uml_dir={self.folder}/", f"init={init}", "con=null", "con0=null,fd:1",
                  f"con1=fd:{theirs},fd:{their_end}", *devices]  # fmt: skip
        settings = [f"TMPDIR={_room()}", f"PATH={SEARCH}"]
        bounded = ["timeout", "--kill-after=5", str(_LONGEST_S)]
        argv = [*bounded, *entry, *_alone(entry), "sh", "-c", _FIRST, "sh", str(self.folder), "env", *settings, *kernel]
        try:
            return subprocess.Popen(
                argv, start_new_session=True, cwd="/", pass_fds=(theirs, their_end),
                stdin=subprocess.DEVNULL, stdout=self._console, stderr=subprocess.STDOUT,
            )  # fmt: skip
        finally:
            os.close(theirs)
            os.close(their_end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def console(self) -> str:
        """Return the output of the kernel and the first process."""
        self._console.seek(0)
        return self._console.read().decode(errors="replace")

    def _hear(self, patience_s: float) -> str:
        end = time.monotonic() + patience_s
        while b"\n" not in self._heard:
            left_s = max(end - time.monotonic(), 0)
            self._hears = bool(select.select([self._listen], [], [], left_s)[0])
            assert self._hears, f"silent for {patience_s} s:\n{self.console()}"
            more = os.read(self._listen, 4096)
            assert more, f"it went down:\n{self.console()}"
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode().strip()

    def begin(self, script: str) -> Callable[[float], subprocess.CompletedProcess[str]]:
        """Start a shell script in the repository's folder, one at a time; return a function that waits some seconds."""
        number = str(next(self._numbers))
        paths = [self.folder / f"{number}{end}" for end in ("", ".out", ".err")]
        paths[0].write_text(script)
        os.write(self._say, f"{number}\n".encode())

        def ended(patience_s: float) -> subprocess.CompletedProcess[str]:
            reported, status = self._hear(patience_s).split()
            assert reported == number
            out, err = (path.read_text(errors="replace") for path in paths[1:])
            return subprocess.CompletedProcess(script, int(status), out, err)

        return ended

    def sh(self, script: str, patience_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a shell script."""
        return self.begin(script)(patience_s)

    def run(self, argv: Sequence[str], patience_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return self.sh(shlex.join(argv), patience_s)

    def begin_pytest(self, *arguments: str) -> Callable[[float], list[Told]]:
        """Start tests of this repository with the Python that runs these; return a function that waits for them.

        No plugin is loaded that the arguments do not name.
        """
        junit = self.folder / "junit.xml"
        own = ["-p", "no:cacheprovider", f"--junitxml={junit}"]
        ended = self.begin(shlex.join([sys.executable, "-m", "pytest", *own, *arguments]))

        def reported(patience_s: float) -> list[Told]:
            done = ended(patience_s)
            assert done.returncode in (0, 1) and junit.exists(), done.stdout + done.stderr  # noqa: PT018 - one thing
            return list(_told(junit))

        return reported

    def pytest(self, *arguments: str, patience_s: float = 120.0) -> list[Told]:
        """Run tests of this repository; return the result of each."""
        return self.begin_pytest(*arguments)(patience_s)

    def close(self) -> None:
        """Power it off, or kill it if it does not answer."""
        os.close(self._say)
        try:
            self._process.wait(_END_S if self._hears else 0)
        except subprocess.TimeoutExpired:
            # It is the first of its namespace: the kernel kills all others, and processes that wait for it end.
            for each in itertools.chain(*tree(self._process.pid)):
                if _command(each.pid)[:2] == ["sh", "-c"]:
                    os.kill(each.pid, signal.SIGKILL)
            self._process.wait(_KILLED_S)
        os.close(self._listen)
        self._console.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # the process did it, unless it had to be killed


def _command(pid: int) -> list[str]:
    with contextlib.suppress(OSError):  # it may have gone meanwhile
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


def _told(junit: Path) -> Iterator[Told]:
    for case in ET.parse(junit).iter("testcase"):
        name, why = f"{case.get('classname')}::{case.get('name')}", next(iter(case), None)
        if why is None or why.tag not in ("failure", "error", "skipped"):
            yield Told(name, "passed", "")
        else:
            yield Told(name, {"failure": "failed"}.get(why.tag, why.tag), f"{why.get('message')}\n{why.text}")


@pytest.fixture(scope="module")
def uml() -> Iterator[Guest]:
    """A guest with the real sit driver, shared by the tests of a module."""
    if why := missing():
        pytest.skip(why)
    with Guest() as guest:
        yield guest
