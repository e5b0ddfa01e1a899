"""Completeness of a session: whole, still running or broken off, and how many of its cells were measured.

A report of an incomplete session says so before anything else, as its answers cover only part of the questions.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass

UNMEASURED = "unmeasured"
"""Kind of an item without an answer because the session did not reach it."""
_STOPPED = (2, 3)
"""pytest's exit statuses of a session that was interrupted, or ended by an internal error."""


class SessionState(enum.Enum):
    """State of a session; the value is the word for it."""

    WHOLE = "whole"
    RUNNING = "running"
    BROKEN_OFF = "broken off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """Completeness of a session: `measured` cells of `planned` ones, None if its records do not say how many.

    `missing` are the items (pytest's node ids) that have no answer, with their cells. `resume` is the value of
    `--ipperf-resume` that measures the rest; empty if there is nothing to resume.
    """

    state: SessionState
    measured: int = 0
    planned: int | None = None
    missing: tuple[tuple[str, str], ...] = ()
    resume: str = ""

    @property
    def is_whole(self) -> bool:
        """Return whether all questions of the session have an answer."""
        return self.state is SessionState.WHOLE

    @property
    def banner(self) -> str:
        """First line of every report about the session; empty for a whole session."""
        if self.is_whole:
            return ""
        word, so_far = self.state.value.upper(), " so far" if self.state is SessionState.RUNNING else ""
        go_on = f"; go on with --ipperf-resume={self.resume}" if self.resume and not so_far else ""
        return f"{word}: {self.counts} measured{so_far}{go_on}"

    @property
    def counts(self) -> str:
        """Number of cells measured: `6 of 12 cells`."""
        if self.planned is None:
            return "some cells" if self.measured else "no cell"
        return f"{self.measured} of {self.planned} cell{'s' * (self.planned != 1)}"

    @property
    def why_missing(self) -> str:
        """Sentence about each missing item."""
        if self.state is SessionState.RUNNING:
            return "not measured yet: the session is running"
        return "not measured: the session was broken off before"


WHOLE = Completeness(state=SessionState.WHOLE)


def completeness_of(
    items: Mapping[str, str] | None,
    measured: Collection[str],
    missing: Collection[str],
    *,
    state: SessionState,
    resume: str = "",
) -> Completeness:
    """Return the completeness of a session with these `items` (cells by node id; None if they were not logged).

    `measured` are the cells that have a record, `missing` the node ids of items that the session did not reach.
    """
    missing = frozenset(missing)
    return Completeness(
        state=state,
        measured=len(set(measured)),
        planned=None if items is None else len(set(items.values())),
        missing=tuple((nodeid, cell) for nodeid, cell in (items or {}).items() if nodeid in missing),
        resume=resume if state is SessionState.BROKEN_OFF else "",
    )


def state_of(status: int | None, missing: int | None, *, running: bool, tells_end: bool = True) -> SessionState:
    """Return the state of a session that ended with pytest's `status`, None if it has no end.

    `missing` counts the items that it had not reached by then; if it is None, the status decides. `running` says that a
    process is writing its records. With `tells_end` False its records never contain an end, so the session counts as
    whole.
    """
    if status is not None:
        stopped = status in _STOPPED if missing is None else missing > 0
        return SessionState.BROKEN_OFF if stopped else SessionState.WHOLE
    if running:
        return SessionState.RUNNING
    return SessionState.BROKEN_OFF if tells_end else SessionState.WHOLE
