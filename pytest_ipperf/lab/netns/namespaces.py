"""The nodes of a lab: network namespaces of this machine, joined by the veth pairs of `veth.py`.

A pipe keeps the lab alive: the first process of its pid namespace reads from it. When we end, in whatever way, that
process reads the end of the file and exits, and the kernel removes all processes, namespaces and devices. The scratch
directory is a tmpfs of the lab's mount namespace and is removed with it. No name is made in the file system or in `ip
netns`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.agents.fork_server import Node
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.netns.veth import create_veths, settings

_PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"  # an ordinary user's PATH lacks `ip` on Debian
_PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2"}
_ENTER = ("nsenter", "--target")
_TIMEOUT_S = 10.0
_PREFIX = "pytest-ipperf-lab-"
_YOUNG_S = 5.0
# The first process mounts a private scratch directory, makes each node's namespace, and reads its input to the end. A
# node that cannot have its settings says so by the number 0.
_INIT = """
mount -t tmpfs -o mode=755 pytest-ipperf "$1" || exit 1
shift
while [ $# -gt 0 ]; do
    unshare --net --uts sh -c 'sh -ec "$2" && hostname "$1" && echo "$1 $$" || echo "$1 0"
        exec sleep infinity >/dev/null 2>&1' sh "$1" "$2" &
    shift 2
done
exec cat
"""
# The holder deliberately outlives us, in its own session, to remove the directory when the lab is gone.
_HOLDER = 'folder=$1; shift; "$@"; rmdir "$folder"'


def _unshare(*, user: bool) -> list[str]:
    identity = ["--user", "--map-root-user"] if user else []
    return ["unshare", *identity, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--uts"]


@cache
def _way_to_root() -> tuple[bool, str]:
    """Return whether a user namespace is needed, and why the lab cannot be built (empty if it can)."""
    for program, package in _PROGRAMS.items():
        if shutil.which(program, path=_PATH) is None:
            return False, f"program {program!r} is not installed (Debian: apt-get install {package})"
    reason = ""
    for user in (False, True) if os.geteuid() == 0 else (True,):
        try:
            done = subprocess.run(
                [*_unshare(user=user), "true"],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                env=_environment(),
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            reason = str(error)
            continue
        if done.returncode == 0:
            return user, ""
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return False, f"no rights for namespaces ({reason})"


def unusable() -> str:
    """Return why the lab cannot be built on this machine, as the end of a sentence; empty if it can."""
    return _way_to_root()[1]


def rights_of_hosts() -> list[str]:
    """Return the command prefix that gives a command the rights of a lab's hosts; empty if this user has them."""
    user, why = _way_to_root()
    return _unshare(user=True) if user and not why else []


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": _PATH, "LC_ALL": "C"}


@contextlib.contextmanager
def namespaces(testbed: Testbed, *, linked: bool = True) -> Iterator[Mapping[str, Sequence[str]]]:
    """Build a lab; yield, by host name, the command that enters it. The lab is removed when the context ends.

    Unless `linked`, its nodes have no links yet, see `link_nodes`.
    """
    user, why = _way_to_root()
    if why:
        why += "" if str(testbed.links) else "; --testbed=loopback needs no namespaces"  # loopback has no rate
        raise LabError(f"testbed {testbed.name}: cannot be built here: {why}")
    _sweep()
    folder, claim = _folder()
    nodes = [text for role, host in testbed.roles.items() for text in (host.name, settings(role))]
    holder = subprocess.Popen(
        ["sh", "-c", _HOLDER, "sh", folder, *_unshare(user=user), "sh", "-c", _INIT, "sh", folder, *nodes],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
        start_new_session=True,  # a Ctrl-C at the terminal is ours to handle, not the lab's
    )
    try:
        entries = _built(testbed, holder, folder, user=user)
        if linked:
            link_nodes(testbed, entries)
        yield entries
    finally:
        _end(holder)
        with contextlib.suppress(OSError):  # the holder has removed it already, unless it was killed
            Path(folder).rmdir()
        os.close(claim)


def link_nodes(testbed: Testbed, entries: Mapping[str, Sequence[str]]) -> None:
    """Make the links between the nodes of a lab; LabError on any failure."""
    try:
        inside = {role: _pid_inside(_pid_of(entries[host.name])) for role, host in testbed.roles.items()}
        create_veths(testbed, inside, lambda role, argv, text: _inside(entries[testbed.roles[role].name], argv, text))
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"the lab did not come up: {type(error).__name__}: {error}") from error


def _folder() -> tuple[str, int]:
    """Return a new scratch directory, and a descriptor whose lock shows that the lab is alive."""
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    Path(folder).chmod(0o755)
    claim = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(claim, fcntl.LOCK_EX)
    return folder, claim


def _sweep() -> None:
    """Remove the empty directories of labs whose owner and holder were both killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # not ours, not empty, or of a live lab, which would be unmounted
            if time.time() - folder.stat().st_mtime < _YOUNG_S:
                continue  # its owner may be about to claim it
            claim = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                folder.rmdir()
            finally:
                os.close(claim)


def _built(testbed: Testbed, holder: subprocess.Popen[str], folder: str, *, user: bool) -> dict[str, list[str]]:
    """Return the commands that enter the hosts, once they are there; LabError on any failure."""
    identity = ["--user", "--preserve-credentials"] if user else []
    try:
        nodes = _nodes(holder, [host.name for host in testbed.hosts])
    except (OSError, IndexError, KeyError) as error:
        raise LabError(f"the lab did not come up: {type(error).__name__}: {error}") from error
    return {
        name: [*_ENTER, str(outer), *identity, "--mount", "--pid", "--net", "--uts",
               "env", f"TMPDIR={folder}", f"IPPERF_RUN={folder}/run", f"PATH={_PATH}"]
        for name, outer in nodes.items()
    }  # fmt: skip


def _pid_of(entry: Sequence[str]) -> int:
    """Return the process whose namespaces a command enters, seen from outside."""
    return int(entry[len(_ENTER)])


def node_of(entry: Sequence[str]) -> Node:
    """Return the node that a command of `namespaces` enters."""
    variables = dict(word.partition("=")[::2] for word in entry[entry.index("env") + 1 :])
    return Node(_pid_of(entry), "--user" in entry, variables)


def _nodes(holder: subprocess.Popen[str], names: Sequence[str]) -> dict[str, int]:
    """Return the process id of each node, seen from outside, once it is in its own namespaces."""
    assert holder.stdin and holder.stdout and holder.stderr  # noqa: S101, PT018 - they are pipes, see above
    output = b""
    while output.count(b"\n") < len(names):
        if not select.select([holder.stdout], [], [], _TIMEOUT_S)[0]:
            raise LabError(f"the lab did not come up in {_TIMEOUT_S:.0f} s")
        more = os.read(holder.stdout.fileno(), 4096)
        if not more:
            raise LabError(f"the lab did not come up: {holder.stderr.read().strip() or 'no message'}")
        output += more
    inside = {name: int(pid) for name, pid in (line.split() for line in output.decode().splitlines())}
    if not all(inside.values()):
        holder.stdin.close()  # so that its messages end
        raise LabError(f"the lab did not come up: {holder.stderr.read().strip() or 'no message'}")
    init = _children(_children(holder.pid)[0])[0]
    outside = {_pid_inside(pid): pid for pid in _children(init)}
    return {name: outside[pid] for name, pid in inside.items()}


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _pid_inside(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    raise LabError("this kernel does not report process ids in namespaces (NSpid in /proc/PID/status)")


def _inside(entry: Sequence[str], argv: Sequence[str], text: str) -> None:
    done = subprocess.run(
        [*entry, *argv],
        input=text,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        env=_environment(),
        check=False,
    )
    if done.returncode:
        raise LabError(f"the lab did not come up: {done.stderr.strip() or 'no message'}")


def _end(holder: subprocess.Popen[str]) -> None:
    """Close the pipe, which ends the lab, and wait for it; kill what does not end by itself."""
    assert holder.stdin is not None  # noqa: S101 - it is a pipe, see above
    holder.stdin.close()
    try:
        holder.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):  # it may have gone meanwhile
            for pid in _children(holder.pid):
                os.kill(pid, signal.SIGKILL)  # unshare, which kills its child with it
        holder.kill()
        holder.wait()
    for pipe in (holder.stdout, holder.stderr):
        if pipe is not None:
            pipe.close()
