"""Change a host for a measurement so that it is undone however the agent ends.

The agent itself changes nothing. A process of its own, the rollback helper, does, and outlives it: see `restorer.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest_ipperf
from pytest_ipperf.agent.host_state.dirty_marks import mark_dirty
from pytest_ipperf.agent.host_state.restorer import PATIENCE_S, SILENT, roll_back_abandoned
from pytest_ipperf.agent.kernel.processes import search_path
from pytest_ipperf.core.portable.errors import LabError

_START = "import sys; sys.path.insert(0, sys.argv[1]); from pytest_ipperf.agent.host_state.restorer import main; main()"
_KILLED = "the process that changes this host and puts it back was killed"


class Changes:
    """Until `undo`, or the agent's end, whichever comes first; usable again after it.

    `code_fd` is an open file with the packed code, as for a `ServerProcess`; None: the code that runs here.
    """

    def __init__(self, code_fd: int | None = None) -> None:
        self._code_fd = code_fd
        self._pipe: _HelperPipe | None = None
        self._before: Any = None
        self._notes: list[dict[str, Any]] = []
        roll_back_abandoned()

    def run(self, do: Sequence[str], undo: Sequence[str] | None) -> None:
        """Runs a command that changes this host; `undo` is the one that takes it back, noted before.

        LabError in the command's own words where it fails, and then there is nothing to undo.
        """
        self._make({"do": list(do), "undo": [list(undo)] if undo else []})

    def write(self, path: str, value: str) -> None:
        """Gives a file below /proc/sys that value; nothing is done where it has it. LabError where it cannot be."""
        self._make({"path": path, "value": value})

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo at once what is changed within it, where it fails."""
        kept = len(self._notes)
        try:
            yield
        except Exception as error:
            if len(self._notes) > kept and str(error) not in {SILENT, _KILLED}:
                with contextlib.suppress(LabError):  # what it cannot undo is reported at the end
                    self._ask({"request": "back", "keep": kept})
                    self._notes[kept:] = [{**note, "undo": []} for note in self._notes[kept:]]
            raise

    def undo(self) -> list[str]:
        """Undoes all of it in reverse order, then looks whether all is as it was; a sentence for what is not.

        Where there are sentences, the host is marked. Nothing is done where nothing was changed.
        """
        if self._before is None:
            return []
        try:
            if self._pipe is None or not self._pipe.alive():
                self._reopen()
            try:
                answer = self._ask({"request": "undo"})
            except LabError as error:
                if str(error) != _KILLED:  # a moment ago, or just now
                    raise
                self._reopen()
                answer = self._ask({"request": "undo"})
            said: list[str] = answer["said"]
        except LabError as error:
            if str(error) == SILENT:  # who else would mark the host?
                with contextlib.suppress(LabError):
                    mark_dirty([SILENT])
            return [str(error)]
        finally:
            self._close()
            self._before, self._notes = None, []
        return said

    def _reopen(self) -> None:
        """With a rollback helper that does first what the one before could not."""
        self._close()
        self._open()

    def _make(self, request: dict[str, Any]) -> None:
        if self._pipe is None:
            self._open()
        self._notes += self._ask({"request": "make", **request})["noted"]

    def _open(self) -> None:
        self._pipe = _HelperPipe(self._code_fd)
        try:
            self._before = self._ask({"request": "start", "before": self._before, "notes": self._notes})["before"]
        except LabError:
            self._close()  # or the next change would be made where nobody knows what was before
            raise
        self._notes = []

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._pipe is not None  # noqa: S101 - it is opened before
        answer = self._pipe.ask(request)
        if "error" in answer:
            raise LabError(answer["error"])
        return answer

    def _close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


class _HelperPipe:
    """The pipe to a rollback helper of its own: a line of JSON there, a line of JSON back."""

    def __init__(self, code_fd: int | None) -> None:
        code = str(Path(pytest_ipperf.__file__).parents[1]) if code_fd is None else f"/proc/self/fd/{code_fd}"
        try:
            # Leaves a child behind and ends at once, so that what ends an agent with all below it leaves that alone.
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, code, "pytest-ipperf-rollback"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **search_path()},
                cwd="/",
                pass_fds=() if code_fd is None else (code_fd,),
                start_new_session=True,
            )
        except OSError as error:
            raise LabError(f"nothing can be changed here: no process to put it back: {error}") from None
        self._received = b""
        self._request_number = 0

    def alive(self) -> bool:
        """Whether the rollback helper has not ended, which ends its line."""
        try:
            while self._receive(0):
                pass
        except LabError:
            return False
        return True

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer to a request; LabError where it is dead, or silent for too long."""
        assert self._popen.stdin is not None  # noqa: S101 - it is a pipe
        self._request_number += 1
        try:
            self._popen.stdin.write(json.dumps({**request, "number": self._request_number}).encode() + b"\n")
            self._popen.stdin.flush()
        except OSError:
            raise LabError(_KILLED) from None
        end = time.monotonic() + PATIENCE_S
        while True:
            line, ended, rest = self._received.partition(b"\n")
            if not ended:
                if not self._receive(max(0.0, end - time.monotonic())):
                    raise LabError(SILENT)
                continue
            self._received = rest
            answer: dict[str, Any] = json.loads(line)
            if answer["number"] == self._request_number:  # the one before may have been broken off by a signal
                return answer

    def _receive(self, patience_s: float) -> bool:
        """Whether it has said more within that time; LabError where it will not."""
        assert self._popen.stdout is not None  # noqa: S101 - it is a pipe
        if not select.select([self._popen.stdout], [], [], patience_s)[0]:
            return False
        more = os.read(self._popen.stdout.fileno(), 1 << 16)
        if not more:
            raise LabError(_KILLED)
        self._received += more
        return True

    def close(self) -> None:
        """Ends the line, and with it the rollback helper, which undoes what is left."""
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what could not be written matters no more
                    pipe.close()
        self._popen.wait()
