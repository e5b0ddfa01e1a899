"""The event log of a session: one line of JSON for each event, and the raw samples beside them.

Each line is handed to the kernel whole and at once, so that a killed session loses at most the run in flight. Each line
has a checksum of all lines up to it, and the line of a run also that of its samples.
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
"""Size of the end of an event log that holds its last line, for continuing the log."""


def run_folder(root: Path, at_s: float | None = None, token: str = "") -> Path:
    """Return a folder name below `root` for a session that starts at `at_s` since the epoch; names sort by time.

    Without arguments it is a new name; with them every process of a session derives the same one.
    """
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_s))
    return root / "runs" / f"{at}-{token or secrets.token_hex(3)}"


def is_being_written(folder: Path) -> bool:
    """Return whether a process holds one of a session's event logs open, so that the session is still running.

    Empty ones are skipped: their writer is about to lock them, and this check must not interfere.
    """
    for path in folder.glob("*.jsonl"):
        # A file that cannot be opened is not being written; readers report what is wrong with it.
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
    """Writer of one process's events; files are opened at the first event, so an empty session leaves no files."""

    def __init__(self, folder: Path, writer: str) -> None:
        self.folder = folder
        self._writer = writer
        self._files: dict[str, FileIO] = {}
        self._checksum = 0

    def append(self, event: str, facts: Mapping[str, Any]) -> None:
        """Append one event; LabError naming the folder if it cannot be written."""
        plain = json.dumps({"event": event, "at": time.time(), **facts}, default=_plain)
        self._open("jsonl")  # the checksum continues that of what is there already
        line, checksum = with_checksum(plain, self._checksum)
        self._write("jsonl", line)
        self._checksum = checksum

    def append_samples(self, packed: bytes) -> int:
        """Append raw float64 rows and return their byte offset; LabError as for `append`."""
        return self._write("f64", packed)

    def write_file(self, name: str, data: bytes) -> None:
        """Write a separate file beside the events; LabError as for `append`."""
        try:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise self._trouble(error.strerror) from error

    def append_file(self, name: str, data: bytes, *, head_bytes: int) -> None:
        """Append to a separate file, without its first `head_bytes` if it exists already; LabError as for `append`."""
        try:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(data[head_bytes:] if file.tell() else data)
        except OSError as error:
            raise self._trouble(error.strerror) from error

    def sync(self) -> None:
        """Return once everything appended is on the disk, so that even a power failure cannot lose it."""
        try:
            for file in self._files.values():
                os.fsync(file.fileno())
            for folder in (self.folder, self.folder.parent):  # directories hold the files' names
                opened = os.open(folder, os.O_RDONLY)
                try:
                    os.fsync(opened)
                finally:
                    os.close(opened)
        except OSError as error:
            raise self._trouble(error.strerror) from error

    def sizes(self) -> dict[str, int]:
        """Return the size in bytes of each file of events or samples of the session, except this log's own, by name."""
        own = f"{self._writer}.jsonl"
        paths = [*self.folder.glob("*.jsonl"), *self.folder.glob("*.f64")]
        try:
            return {path.name: path.stat().st_size for path in sorted(paths) if path.name != own}
        except OSError as error:
            raise self._trouble(error.strerror) from error

    def _open(self, kind: str) -> FileIO:
        if kind not in self._files:
            path = self.folder / f"{self._writer}.{kind}"
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                # Unbuffered, so that written data is the kernel's and nothing remains that could fail at closing.
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
            file.truncate(offset)  # a partial line would corrupt the next one, for which there may be room
            file.seek(offset)  # where that one goes, as `truncate` leaves the position behind the end
            raise self._trouble(os.strerror(errno.ENOSPC))
        return offset

    def _trouble(self, why: str | None) -> LabError:
        return LabError(
            f"records: {self.folder} cannot be written ({why}); what was written before is kept; "
            "name another folder with --ipperf-records"
        )

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def _last_checksum(path: Path) -> int:
    """Return the checksum of the last line of an event log; 0 if it has none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        lines = file.read().splitlines(keepends=True)
    return (checksum_of(lines[-1]) or 0) if lines else 0


def _alone(file: FileIO) -> FileIO:
    """Lock the file against other writers and return it; OSError if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise OSError(errno.EBUSY, "another process is writing it") from error
    except OSError:  # a file system without locks; folder names are unique anyway
        return file
    return file


def _plain(value: Any) -> Any:
    """Convert a value that JSON does not know: frozen dataclasses to objects, everything else to its text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, (tuple, set, frozenset)) else str(value)
