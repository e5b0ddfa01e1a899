"""Leftovers of earlier measurements, and the current holder of the lease."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.agent.facts.base import Facts, FactsRequest
from pytest_ipperf.agent.host_state.dirty_marks import all_marks, still_holds
from pytest_ipperf.agent.host_state.lease import Lease
from pytest_ipperf.agent.host_state.private_dir import abandoned_folders
from pytest_ipperf.agent.host_state.state_dir import user_dirs


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLeft:
    """Note of a dirty mark, and whether it still holds; None if only a person can judge."""

    said: str
    holds: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkLeft:
    """Dirty mark by a user."""

    user: int
    notes: list[NoteLeft]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverFacts(Facts):
    """The lease's holder, dirty marks, abandoned private folders, and undo logs of rollback helpers."""

    holder: str
    marks: list[MarkLeft]
    folders: list[str]
    undo_logs: list[str]

    @classmethod
    def collect(cls, request: FactsRequest) -> LeftoverFacts:
        """Look into the state and private folders that this user may read."""
        del request
        return cls(
            holder=Lease("").holder(),
            marks=[
                MarkLeft(
                    user=mark.user, notes=[NoteLeft(said=note["said"], holds=still_holds(note)) for note in mark.notes]
                )
                for mark in all_marks()
            ],
            folders=[str(folder) for folder in abandoned_folders()],
            undo_logs=[str(path) for path in _undo_logs()],
        )


def _undo_logs() -> Iterator[Path]:
    """Yield the undo logs of rollback helpers, which may still be running."""
    for _, folder in user_dirs():
        with suppress(OSError):  # root's folder is closed to others
            yield from sorted(path for path in folder.iterdir() if path.name.startswith("journal"))


facts = LeftoverFacts
