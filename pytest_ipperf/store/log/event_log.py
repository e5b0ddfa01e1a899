"""The event log of a session: one line of JSON for each event, and the raw samples beside them.

Each line is handed to the kernel whole and at once, so that a killed session loses at most the run in flight. Each has
the checksum of all lines up to it, and the line of a run that of its samples.
A session's folder holds `NAME.jsonl` and `NAME.f64` for each writing process: `main`, or a worker of xdist.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.store.log.checksum import checksum_of, with_checksum

_TAIL_BYTES = 1 << 20
"""Of an event log that is gone on with, the end that holds its last line."""


def run_folder(root: Path, at_s: float | None = None, token: str = "") -> Path:
    """Return a folder name below `root` for a session that starts at `at_s` since the epoch; names sort by time.

    Without arguments it is a new one of now; with them every process of a session finds the same.
    """
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_s))
    return root / "runs" / f"{at}-{token or secrets.token_hex(3)}"


def is_being_written(folder: Path) -> bool:
    """Whether a process has one of a session's event logs open, so that the session runs and was not broken off.

    Empty ones are not looked at: their writer is about to lock them, and this must not be in its way.
    """
    for path in folder.glob("*.jsonl"):
        # What cannot be opened, or is no file, is not being written; readers say what is wrong with it.
        with contextlib.suppress(OSError):
            if not path.is_file() or not path.stat().st_size:
                continue
            with path.open("rb") as file:
                if not _is_free(file):
                    return True
    return False


def _is_free(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


class EventLog:
    """Opens its files at the first event, so that a session which measures nothing leaves nothing."""

    def __init__(self, folder: Path, writer: str) -> None:
        self.folder = folder
        self._writer = writer
        self._files: dict[str, FileIO] = {}
        self._checksum = 0

    def append(self, event: str, facts: Mapping[str, Any]) -> None:
        """Appends one event; LabError naming the folder when it cannot be written."""
        plain = json.dumps({"event": event, "at": time.time(), **facts}, default=_plain)
        self._open("jsonl")  # the checksum continues that of what is there already
        line, checksum = with_checksum(plain, self._checksum)
        self._write("jsonl", line)
        self._checksum = checksum

    def append_samples(self, packed: bytes) -> int:
        """Appends raw float64 rows; returns the byte offset at which they start. LabError as for `append`."""
        return self._write("f64", packed)

    def write_file(self, name: str, data: bytes) -> None:
        """Writes a file of its own beside the events; LabError as for `append`."""
        try:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise self._trouble(error.strerror) from error

    def append_file(self, name: str, data: bytes, *, head_bytes: int) -> None:
        """Appends to a file of its own, leaving out so many first bytes where there is one already; as `write_file`."""
        try:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(data[head_bytes:] if file.tell() else data)
        except OSError as error:
            raise self._trouble(error.strerror) from error

    def sync(self) -> None:
        """Returns when the disk has all that was appended, so that not even a loss of power takes it back."""
        try:
            for file in self._files.values():
                os.fsync(file.fileno())
            for folder in (self.folder, self.folder.parent):  # which know the files by their names
                opened = os.open(folder, os.O_RDONLY)
                try:
                    os.fsync(opened)
                finally:
                    os.close(opened)
        except OSError as error:
            raise self._trouble(error.strerror) from error

    def sizes(self) -> dict[str, int]:
        """The bytes of each file of events or samples of the session but this event log's own, by name."""
        own = f"{self._writer}.jsonl"
        found = [*self.folder.glob("*.jsonl"), *self.folder.glob("*.f64")]
        try:
            return {path.name: path.stat().st_size for path in sorted(found) if path.name != own}
        except OSError as error:
            raise self._trouble(error.strerror) from error

    def _open(self, kind: str) -> FileIO:
        if kind not in self._files:
            path = self.folder / f"{self._writer}.{kind}"
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                # Unbuffered: what has been written is the kernel's, and no rest is left to fail once more at the end.
                self._files[kind] = _alone(path.open("ab", buffering=0))
                if kind == "jsonl" and self._files[kind].tell():
                    self._checksum = _last_checksum(path)
            except OSError as error:
                raise self._trouble(error.strerror) from error
        return self._files[kind]

    def _write(self, kind: str, data: bytes) -> int:
        file = self._open(kind)
        try:
            offset = file.tell()
            written = file.write(data)
        except OSError as error:
            raise self._trouble(error.strerror) from error
        if written != len(data):
            file.truncate(offset)  # half a line would spoil the next one, for which there may be room
            raise self._trouble(os.strerror(errno.ENOSPC))
        return offset

    def _trouble(self, why: str | None) -> LabError:
        return LabError(
            f"records: {self.folder} cannot be written ({why}); what was written before is kept; "
            "name another folder with --ipperf-records"
        )

    def close(self) -> None:
        """Closes the files."""
        for file in self._files.values():
            file.close()


def _last_checksum(path: Path) -> int:
    """Return the checksum of the last line of an event log; 0 where it has none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        lines = file.read().splitlines(keepends=True)
    return (checksum_of(lines[-1]) or 0) if lines else 0


def _alone(file: FileIO) -> FileIO:
    """The file, which no other process writes as long as this one does; OSError where one does already."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise OSError(errno.EBUSY, "another process is writing it") from error
    except OSError:  # a file system without locks; names of folders differ all the same
        return file
    return file


def _plain(value: Any) -> Any:
    """What JSON does not know: our frozen values as objects, everything else as its text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, (tuple, set, frozenset)) else str(value)
