"""Provide the state directory of a user, which outlives an agent: root's is emptied by a reboot, others' are in /tmp.

Root's is /run/pytest-ipperf, a user's is named by the user's number; `$IPPERF_RUN` is the only one where it is set.
`$XDG_RUNTIME_DIR` would be no place, as it goes with the user's last log-out: at the end of each session by ssh.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOTS = "/run/pytest-ipperf"
USERS = "/tmp/pytest-ipperf-"  # noqa: S108 - what lies there counts only where its owner is the one of its name
_OF_USER = re.compile(r"pytest-ipperf-(\d+)", re.ASCII)
_SO_NETNS_COOKIE = 71
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # include/linux/proc_ns.h: its inode
WAIT_S, POLL_S = 10.0, 0.02
"""For how long another one may hold what is waited for, and how often it is looked at."""
NO_SPACE_REMEDY = "make room there, or remove what stands in its way"
"""What to do where nothing can be written, as the end of a sentence."""


def user_dir() -> Path:
    """Return this user's state directory; it may not exist yet."""
    default = ROOTS if os.geteuid() == 0 else f"{USERS}{os.geteuid()}"
    return Path(os.environ.get("IPPERF_RUN") or default)


def ensure_user_dir() -> bool:
    """Create this user's state directory where it is missing; whether it is this user's alone to write to."""
    path = user_dir()
    try:
        path.mkdir(mode=0o711, exist_ok=True)
        found = path.lstat()
        if _is_of(found, os.geteuid()) and not found.st_mode & 0o011:
            path.chmod(0o711)  # others must not measure on a host that is marked, either
    except OSError:
        return False
    writable = os.access(path, os.W_OK) and not os.statvfs(path).f_flag & os.ST_RDONLY
    return writable and _is_of(found, os.geteuid())


def user_dirs() -> Iterator[tuple[int, Path]]:
    """Yield the state directories that tell of this host, by user: one's own and root's; to root those of all users."""
    if set_apart := os.environ.get("IPPERF_RUN"):
        found = [(os.geteuid(), Path(set_apart))]
    else:
        own, everybody = Path(f"{USERS}{os.geteuid()}"), Path(USERS)
        users = everybody.parent.glob(f"{everybody.name}*") if os.geteuid() == 0 else [own]
        named = ((_OF_USER.fullmatch(path.name), path) for path in users)
        found = [(0, Path(ROOTS)), *((int(match[1]), path) for match, path in named if match)]
    for user, path in sorted(found):
        with suppress(OSError):
            if _is_of(path.lstat(), user):
                yield user, path


@contextmanager
def locked(path: Path, user: int) -> Iterator[int]:
    """Lock a user's state directory, so that no other holder changes anything meanwhile; OSError where that fails.

    The folder and no file in it, as whoever may read a file may lock it, and keep it so.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if not _is_of(os.fstat(descriptor), user):
            raise PermissionError(errno.EACCES, f"it is not the folder of user {user} alone", str(path))
        _lock(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    end = time.monotonic() + WAIT_S  # its holder may have been stopped
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S)
        else:
            return


def _is_of(found: os.stat_result, user: int) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o022


def append(descriptor: int, text: str) -> int:
    """Writes it at the end of a file, and gives where that was; OSError where not all can be, and then nothing is."""
    rest, end = text.encode(), os.lseek(descriptor, 0, os.SEEK_END)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]  # of a full file system the last bytes are given
    except OSError:
        os.ftruncate(descriptor, end)
        raise
    return end


def boot_id() -> str:
    """Return the kernel's identifier of this start of the host (random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def in_host_netns() -> bool:
    """Whether this process is in the network namespace of the machine itself."""
    own = Path("/proc/self/ns/net")
    with suppress(OSError):
        return in_host_pidns() and own.samefile("/proc/1/ns/net")
    return False


def netns_suffix() -> str | None:
    """Return what distinguishes this network namespace in file names: empty for the machine's, None where nothing does.

    A number that is never given twice (Linux 5.14), as inodes are given again at once, and the inode to find it by.
    """
    if in_host_netns():
        return ""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            cookie: int = struct.unpack("Q", sock.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8))[0]
        return f"-{cookie}.{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return None


def in_host_pidns() -> bool:
    """Whether this process is in the first pid namespace, and sees all processes of the machine."""
    return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
