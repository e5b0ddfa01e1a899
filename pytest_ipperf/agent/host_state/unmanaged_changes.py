"""Changes without rollback, to a host that is thrown away with them, as the nodes of a lab."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.host_state.restorer import run
from pytest_ipperf.core.portable.errors import LabError


class UnmanagedChanges(Changes):
    """Changes made by the agent itself, quickly; only a failed transaction is undone, and nothing verified."""

    discarded = True

    def __init__(self) -> None:
        super().__init__()
        self._undo: list[Sequence[str]] = []

    def run(self, do: Sequence[str], undo: Sequence[str] | None) -> None:
        """Run a command; raise LabError in its own words if it fails."""
        if trouble := run(do):
            raise LabError(trouble)
        self._undo += [undo] if undo else []

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo the commands within the context if it fails; files keep what was written to them."""
        self._undo = []
        try:
            yield
        except Exception:
            for each in reversed(self._undo):
                run(each)
            raise

    def write(self, path: str, value: str) -> None:
        """Set a file below /proc/sys; raise LabError if that fails."""
        try:
            Path(path).write_text(value, encoding="ascii")
        except OSError as error:
            raise LabError(f"{path} cannot be set to {value}: {error.strerror}") from None

    def undo(self) -> list[str]:
        """Return no sentences, as nothing is verified."""
        return []
