"""Change a host without rollback: one that is thrown away with all that was changed, as the nodes of a lab."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.host_state.restorer import run
from pytest_ipperf.core.portable.errors import LabError


class UnmanagedChanges(Changes):
    """Made by the agent itself, quickly; nothing is verified, or undone unless something fails half-way."""

    def __init__(self) -> None:
        super().__init__()
        self._undo: list[Sequence[str]] = []

    def run(self, do: Sequence[str], undo: Sequence[str] | None) -> None:
        """Runs a command; LabError in its own words where it fails."""
        if said := run(do):
            raise LabError(said)
        self._undo += [undo] if undo else []

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Has the commands within it undone where it fails; what was written to files stays."""
        self._undo = []
        try:
            yield
        except Exception:
            for each in reversed(self._undo):
                run(each)
            raise

    def write(self, path: str, value: str) -> None:
        """Gives a file below /proc/sys that value; LabError where it cannot be."""
        try:
            Path(path).write_text(value, encoding="ascii")
        except OSError as error:
            raise LabError(f"{path} cannot be set to {value}: {error.strerror}") from None

    def undo(self) -> list[str]:
        """Nothing is left to say."""
        return []
