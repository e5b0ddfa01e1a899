"""The journal of a session: one line of JSON for each event, and the raw samples beside them.

Each line is written whole and handed to the kernel at once, so that a killed session loses at most the run in flight.
A session's folder holds `NAME.jsonl` and `NAME.f64` for each writing process: `main`, or a worker of xdist.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pytest_ipperf.core.errors import LabError

SCHEMA = 1


def run_folder(root: Path) -> Path:
    """A new folder name below `root` for a session that starts now; sorts by time."""
    return root / "runs" / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"


class Journal:
    """Opens its files at the first event, so that a session which measures nothing leaves nothing."""

    def __init__(self, folder: Path, writer: str) -> None:
        self.folder = folder
        self._writer = writer
        self._lines: IO[str] | None = None
        self._samples: IO[bytes] | None = None

    def append(self, event: str, facts: Mapping[str, Any]) -> None:
        """Appends one event; LabError naming the file when it cannot be written."""
        try:
            if self._lines is None:
                self._open()
            assert self._lines is not None  # noqa: S101 - opened the line before
            line = {"event": event, "at": time.time(), **facts}
            self._lines.write(json.dumps(line, default=_plain) + "\n")
            self._lines.flush()
        except OSError as error:
            raise self._trouble(error) from error

    def append_samples(self, packed: bytes) -> int:
        """Appends raw float64 rows; returns the byte offset at which they start."""
        try:
            if self._samples is None:
                self._open()
            assert self._samples is not None  # noqa: S101 - opened the line before
            offset = self._samples.tell()
            self._samples.write(packed)
            self._samples.flush()
        except OSError as error:
            raise self._trouble(error) from error
        return offset

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lines = (self.folder / f"{self._writer}.jsonl").open("a", encoding="utf-8")
        self._samples = (self.folder / f"{self._writer}.f64").open("ab")

    def _trouble(self, error: OSError) -> LabError:
        return LabError(
            f"records: {self.folder} cannot be written ({error.strerror}); what was written before is kept; "
            "name another folder with --ipperf-records"
        )

    def close(self) -> None:
        """Closes the files."""
        for file in (self._lines, self._samples):
            if file is not None:
                file.close()


def _plain(value: Any) -> Any:
    """What JSON does not know: our frozen values as objects, everything else as its text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, (tuple, set, frozenset)) else str(value)
