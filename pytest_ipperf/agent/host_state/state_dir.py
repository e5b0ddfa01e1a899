"""State directory of a user, which outlives an agent: a reboot empties root's; those of others are in /tmp.

Root's is /run/pytest-ipperf, a user's has the user's number in its name; `$IPPERF_RUN`, if set, replaces both.
`$XDG_RUNTIME_DIR` would be unsuitable, as it is removed at the user's last log-out: after each ssh session.
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
USERS = "/tmp/pytest-ipperf-"  # noqa: S108 - a folder counts only if its owner is the one of its name
_OF_USER = re.compile(r"pytest-ipperf-(\d+)", re.ASCII)
_SO_NETNS_COOKIE = 71
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # include/linux/proc_ns.h: its inode
WAIT_S, POLL_S = 10.0, 0.02
"""Seconds to wait for a lock held by another process, and between two attempts."""
NO_SPACE_REMEDY = "make room there, or remove what stands in its way"
"""Remedy where nothing can be written, as the end of a sentence."""


def user_dir() -> Path:
    """Return this user's state directory; it may not exist yet."""
    default = ROOTS if os.geteuid() == 0 else f"{USERS}{os.geteuid()}"
    return Path(os.environ.get("IPPERF_RUN") or default)


def ensure_user_dir() -> bool:
    """Create this user's state directory if it is missing; return whether this user alone can write to it."""
    path = user_dir()
    try:
        path.mkdir(mode=0o711, exist_ok=True)
        found = path.lstat()
        if _is_of(found, os.geteuid()) and not found.st_mode & 0o011:
            path.chmod(0o711)  # others must not measure on a marked host either
    except OSError:
        return False
    writable = os.access(path, os.W_OK) and not os.statvfs(path).f_flag & os.ST_RDONLY
    return writable and _is_of(found, os.geteuid())


def user_dirs() -> Iterator[tuple[int, Path]]:
    """Yield the state directories of this host by user: this user's and root's; for root those of all users."""
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
    """Lock a user's state directory, so that no other holder changes it meanwhile; OSError if that fails.

    The folder is locked and not a file in it, as anyone who may read a file could lock it for good.
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
    end = time.monotonic() + WAIT_S  # the lock's holder may have been stopped
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
    """Append the text to a file and return its offset; raise OSError, with nothing appended, if not all fits."""
    rest, end = text.encode(), os.lseek(descriptor, 0, os.SEEK_END)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]  # a nearly full file system accepts only a part
    except OSError:
        os.ftruncate(descriptor, end)
        raise
    return end


def boot_id() -> str:
    """Return the kernel's identifier of this boot of the host (random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def in_host_netns() -> bool:
    """Return whether this process is in the network namespace of the machine itself."""
    own = Path("/proc/self/ns/net")
    with suppress(OSError):
        return in_host_pidns() and own.samefile("/proc/1/ns/net")
    return False


def netns_suffix() -> str | None:
    """Return the suffix of this network namespace in file names: empty for the machine's, None if unknown.

    It has a number that is never reused (Linux 5.14), unlike an inode, and the inode to find the namespace by.
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
    """Return whether this process is in the first pid namespace, and sees all processes of the machine."""
    return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
