"""The journal of what has been changed on a host, for the case that the guardian is killed who would put it back.

It lies in a folder of root's that a reboot empties, /run/pytest-ipperf, or in `$IPPERF_RUN`. Network namespaces have
journals of their own there. Who holds the lock of one is its guardian; one without holder is to be undone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_ipperf.core.errors import LabError

_FOLDER = "/run/pytest-ipperf"
_SO_NETNS_COOKIE = 71
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # include/linux/proc_ns.h: its inode
_WAIT_S, _POLL_S = 10.0, 0.02
_OF_OTHERS = re.compile(r"(?:journal|unrestored)-\d+\.(\d+)")


class Journal:
    """Held from its making until `close`. Its records are plain data, one a line."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def records(self) -> list[dict[str, Any]]:
        """What an earlier guardian wrote that was killed; nothing where it is new, or the host was rebooted."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with open(self._descriptor, encoding="utf-8", closefd=False) as file:
            lines = file.read().split("\n")[:-1]  # what follows the last line's end was never done
        records = [json.loads(line) for line in lines]
        return records[1:] if records and records[0] == {"boot": _boot()} else []

    def clear(self) -> None:
        """Forgets all records."""
        os.ftruncate(self._descriptor, 0)
        self.add({"boot": _boot()})

    def add(self, record: dict[str, Any]) -> None:
        """Writes one down, before it is acted upon."""
        os.lseek(self._descriptor, 0, os.SEEK_END)
        os.write(self._descriptor, json.dumps(record).encode() + b"\n")

    def close(self) -> None:
        """Removes it: nothing is left to undo."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)


def claimed(wait_s: float = _WAIT_S) -> Journal | None:
    """The journal of this network, waited for while another guardian has it; None where there can be none.

    That is where the folder cannot be written to: whoever is not root, and has root's rights in a namespace alone.
    LabError where another one has it for longer.
    """
    network = _network()
    if network is None or not _own_folder():
        return None
    path = _folder() / f"journal{network}"
    end = time.monotonic() + wait_s
    try:
        while (descriptor := _locked(path, os.O_CREAT)) is None:
            if time.monotonic() > end:
                raise LabError(f"another agent changes this host, or puts it back: {path} is locked; wait for its end")
            time.sleep(_POLL_S)
    except OSError as error:
        raise LabError(f"no journal of changes to this host: {error.strerror}: {path}") from None
    return Journal(path, descriptor)


def abandoned() -> Journal | None:
    """The journal of this network if a guardian was killed that has not undone it."""
    network = _network()
    # The folder may be root's, and closed to this user.
    if network is None or not os.access(_folder() / f"journal{network}", os.F_OK):
        return None
    descriptor = _locked(_folder() / f"journal{network}", 0)
    return None if descriptor is None else Journal(_folder() / f"journal{network}", descriptor)


def mark(sentences: list[str]) -> None:
    """Notes that this host is not as it was."""
    network = _network()
    if sentences and network is not None and _own_folder():
        path = _folder() / f"unrestored{network}"
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in ([] if marked() else [_boot()]) + sentences)


def marked() -> str:
    """What is not as it was on this host since an earlier measurement, in a sentence; empty where all is."""
    path = _folder() / f"unrestored{_network()}"
    try:
        boot, *sentences = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    if boot != _boot():
        path.unlink()
        return ""
    return f"an earlier measurement has left it changed: {'; '.join(sentences)}; put it in order, then remove {path}"


def tidy() -> None:
    """Removes what is kept there of network namespaces that are gone; only who sees all of the machine can tell."""
    if not _sees_all() or not os.access(_folder(), os.R_OK | os.X_OK):
        return
    alive = set(_networks())
    for path in _folder().iterdir():
        of_other = _OF_OTHERS.fullmatch(path.name)
        if of_other and int(of_other[1]) not in alive and (descriptor := _locked(path, 0)) is not None:
            Journal(path, descriptor).close()


def _folder() -> Path:
    return Path(os.environ.get("IPPERF_RUN") or _FOLDER)


def _own_folder() -> bool:
    try:
        _folder().mkdir(mode=0o700, exist_ok=True)
        found = _folder().lstat()
    except OSError:
        return False
    writable = os.access(_folder(), os.W_OK) and not os.statvfs(_folder()).f_flag & os.ST_RDONLY
    return writable and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def is_machines_own() -> bool:
    """Whether this network is that of the machine itself, and no namespace beside it."""
    own = Path("/proc/self/ns/net")
    with contextlib.suppress(OSError):
        return _sees_all() and own.samefile("/proc/1/ns/net")
    return False


def _network() -> str | None:
    """What tells this network namespace from others in names: empty for the machine's own, None where nothing does.

    A number that is never given twice (Linux 5.14), as inodes are given again at once, and the inode to find it by.
    """
    if is_machines_own():
        return ""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            cookie: int = struct.unpack("Q", sock.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8))[0]
        return f"-{cookie}.{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return None


def _sees_all() -> bool:
    """Whether this process sees those of the whole machine."""
    return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE


def _networks() -> Iterator[int]:
    """The inodes of all network namespaces that live: by their processes, and those that have a name."""
    for found in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            yield found.stat().st_ino
    named = re.findall(r" net:\[(\d+)\] ", Path("/proc/self/mountinfo").read_text())
    yield from map(int, named)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _locked(path: Path, flags: int) -> int | None:
    """The descriptor with the file's lock; None where another one has it, or has just removed it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid == os.geteuid() and path.samefile(f"/proc/self/fd/{descriptor}"):
            return descriptor
    os.close(descriptor)
    return None
