"""Undo log of the changes to a host, for the case that the rollback helper is killed before it rolls back.

It is in the state directory, where each network namespace has its own. The holder of its lock is its rollback helper; a
log without holder is to be undone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.host_state.state_dir import (
    NO_SPACE_REMEDY,
    POLL_S,
    WAIT_S,
    append,
    boot_id,
    ensure_user_dir,
    in_host_pidns,
    netns_suffix,
    user_dir,
)
from pytest_ipperf.core.portable.errors import LabError

_OF_OTHERS = re.compile(r"(?:journal|unrestored)-\d+\.(\d+)")
_SHOWN = 200

UndoRecord = dict[str, Any]


class UndoLog:
    """Undo log, locked from its creation until `close`. Its records are plain data, one per line."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._end = 0

    def records(self) -> tuple[list[UndoRecord], list[str]]:
        """Return the records of a killed rollback helper; none if the log is new, or the host was rebooted.

        Return also a sentence if a part of them cannot be read.
        """
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with open(self._descriptor, encoding="utf-8", errors="replace", closefd=False) as file:
            lines = file.read().split("\n")[:-1]  # an unfinished last line was never acted on
        read = [_record(line) for line in lines]
        this_boot = {"boot": boot_id()}
        if not read or read[0] not in (this_boot, None):
            return [], []
        torn = [line for line, record in zip(lines, read, strict=True) if record is None]
        trouble = [
            f"it is unknown whether all is restored: of the undo log {self._path} {len(torn)} of {len(lines)} lines "
            f"could not be read, such as {line[:_SHOWN]!r}"
            for line in torn[:1]
        ]
        return list(_readable(read[1:])) if read[0] == this_boot else [], trouble

    def clear(self) -> None:
        """Remove all records."""
        os.ftruncate(self._descriptor, 0)
        self.add({"boot": boot_id()})

    def add(self, record: UndoRecord) -> None:
        """Log a record before it is acted upon; raise LabError, with nothing logged, if that fails."""
        try:
            self._end = append(self._descriptor, json.dumps(record) + "\n")
        except OSError as error:
            raise _unwritable(self._path, error) from None

    def take_back(self) -> None:
        """Remove the last record, which needs no space."""
        os.ftruncate(self._descriptor, self._end)

    def close(self) -> None:
        """Delete the log: nothing is left to undo."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        self.release()

    def release(self) -> None:
        """Release the lock and keep the log for the next agent."""
        os.close(self._descriptor)


def claim_undo_log(wait_s: float = WAIT_S) -> UndoLog | None:
    """Return the undo log of this network, after its present holder; None if there can be none.

    There is none where the state directory cannot be written to, as by root of a user namespace. Raise LabError if
    another helper holds it for longer than `wait_s`.
    """
    here = netns_suffix()
    if here is None or not ensure_user_dir():
        return None
    path = user_dir() / f"journal{here}"
    end = time.monotonic() + wait_s
    try:
        while (descriptor := _locked(path, os.O_CREAT)) is None:
            if time.monotonic() > end:
                raise LabError(f"another agent is changing or restoring this host: {path} is locked; wait for its end")
            time.sleep(POLL_S)
    except OSError as error:
        raise _unwritable(path, error) from None
    return UndoLog(path, descriptor)


def abandoned_undo_log() -> UndoLog | None:
    """Return this network's undo log if its rollback helper was killed; raise LabError if the log is no file."""
    here = netns_suffix()
    if here is None:
        return None
    path = user_dir() / f"journal{here}"
    try:
        descriptor = _locked(path, 0)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # the folder may be root's, and closed to this user
    except OSError as error:
        raise LabError(
            f"it is unknown whether all is restored: the undo log {path} cannot be read: {error.strerror}; remove it"
        ) from None
    return None if descriptor is None else UndoLog(path, descriptor)


def remove_stale() -> None:
    """Remove the files of network namespaces that are gone, if this process sees all of the machine."""
    if not in_host_pidns() or not os.access(user_dir(), os.R_OK | os.X_OK):
        return
    alive = set(_networks())
    for path in user_dir().iterdir():
        of_other = _OF_OTHERS.fullmatch(path.name)
        with contextlib.suppress(OSError):  # anything but a file is none of ours
            if of_other and int(of_other[1]) not in alive and (descriptor := _locked(path, 0)) is not None:
                UndoLog(path, descriptor).close()


def _networks() -> Iterator[int]:
    """Yield the inodes of all existing network namespaces: those of processes, and named ones."""
    for found in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            yield found.stat().st_ino
    named = re.findall(r" net:\[(\d+)\] ", Path("/proc/self/mountinfo").read_text())
    yield from map(int, named)


def _record(line: str) -> UndoRecord | None:
    with contextlib.suppress(ValueError):
        record = json.loads(line)
        return record if isinstance(record, dict) else None
    return None


def _readable(read: Iterable[UndoRecord | None]) -> Iterator[UndoRecord]:
    """Yield the readable records without those that refer to an unreadable one."""
    whole = True
    for record in read:
        whole = record is not None and (whole or "made" not in record)
        if record is not None and whole:
            yield record


def _unwritable(path: Path, error: OSError) -> LabError:
    return LabError(f"no undo log of changes to this host can be kept: {error.strerror}: {path}; {NO_SPACE_REMEDY}")


def _locked(path: Path, flags: int) -> int | None:
    """Return a descriptor with the file's lock; None if another process holds it, or has just deleted the file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid == os.geteuid() and path.samefile(f"/proc/self/fd/{descriptor}"):
            return descriptor
    os.close(descriptor)
    return None
