"""Changes to a host for a measurement, which are rolled back however the agent ends.

The agent itself changes nothing. A separate process, the rollback helper, does, and outlives it: see `restorer.py`.
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
_KILLED = "the process that changes this host and restores it was killed"


class Changes:
    """Changes to this host, in force until `undo` or the agent's end; usable again after `undo`.

    `code_fd` is an open file with the packed code, as for a `ServerProcess`; None: the code that runs here.
    """

    discarded = False
    """True if the host is thrown away together with its changes."""

    def __init__(self, code_fd: int | None = None) -> None:
        self._code_fd = code_fd
        self._pipe: _HelperPipe | None = None
        self._before: Any = None
        self._notes: list[dict[str, Any]] = []
        roll_back_abandoned()

    def run(self, do: Sequence[str], undo: Sequence[str] | None) -> None:
        """Run a command that changes this host; `undo` is the command that reverts it, logged before.

        Raise LabError in the command's own words if it fails; then there is nothing to undo.
        """
        self._make({"do": list(do), "undo": [list(undo)] if undo else []})

    def write(self, path: str, value: str) -> None:
        """Set a file below /proc/sys, unless it has the value already; raise LabError if that fails."""
        self._make({"path": path, "value": value})

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo the changes within the context at once if it fails."""
        kept = len(self._notes)
        try:
            yield
        except Exception as error:
            if len(self._notes) > kept and str(error) not in {SILENT, _KILLED}:
                with contextlib.suppress(LabError):  # a failed rollback is reported at the end
                    self._ask({"request": "back", "keep": kept})
                    self._notes[kept:] = [{**note, "undo": []} for note in self._notes[kept:]]
            raise

    def undo(self) -> list[str]:
        """Undo all changes in reverse order, then verify; return a sentence for each fact that is not as it was.

        The host is marked dirty with these sentences. Nothing is done if nothing was changed.
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
            sentences: list[str] = answer["said"]
        except LabError as error:
            if str(error) == SILENT:  # the silent helper cannot mark the host itself
                with contextlib.suppress(LabError):
                    mark_dirty([SILENT])
            return [str(error)]
        finally:
            self._close()
            self._before, self._notes = None, []
        return sentences

    def _reopen(self) -> None:
        """Start a new rollback helper, which first does what the previous one could not."""
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
            self._close()  # or the next change would be made by a helper that does not know the state before
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
    """Pipe to a rollback helper of its own: a line of JSON out, a line of JSON back."""

    def __init__(self, code_fd: int | None) -> None:
        code = str(Path(pytest_ipperf.__file__).parents[1]) if code_fd is None else f"/proc/self/fd/{code_fd}"
        try:
            # The helper forks and its parent ends at once, so that ending an agent with its process tree spares the
            # helper.
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
            raise LabError(f"nothing can be changed here: no process to restore it: {error}") from None
        self._received = b""
        self._request_number = 0

    def alive(self) -> bool:
        """Return whether the rollback helper still runs; its end closes the pipe."""
        try:
            while self._receive(0):
                pass
        except LabError:
            return False
        return True

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the helper's reply to a request; raise LabError if it is dead, or silent for too long."""
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
            if answer["number"] == self._request_number:  # else it replies to an interrupted request
                return answer

    def _receive(self, patience_s: float) -> bool:
        """Return whether more was received within that time; raise LabError if the pipe is closed."""
        assert self._popen.stdout is not None  # noqa: S101 - it is a pipe
        if not select.select([self._popen.stdout], [], [], patience_s)[0]:
            return False
        more = os.read(self._popen.stdout.fileno(), 1 << 16)
        if not more:
            raise LabError(_KILLED)
        self._received += more
        return True

    def close(self) -> None:
        """Close the pipe and thereby end the rollback helper, which undoes the remaining changes."""
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unwritten data no longer matters
                    pipe.close()
        self._popen.wait()
