"""Completeness of a session: whole, still running or broken off, and how many of its cells were measured.

A report of a session that is not whole says so before anything else: its answers are of a part of what was asked.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass

UNMEASURED = "unmeasured"
"""The kind of an item that was to be measured and has no answer, as the session has not come to it."""
_STOPPED = (2, 3)
"""pytest's statuses of a session that was interrupted, or ended by an internal error."""


class SessionState(enum.Enum):
    """State of a session; the value is the word for it."""

    WHOLE = "whole"
    RUNNING = "running"
    BROKEN_OFF = "broken off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """Completeness of a session: `measured` cells of `planned` ones, None where its records do not say how many.

    `missing` are the items (pytest's node ids) that have no answer, with their cells. `resume` is what
    `--ipperf-resume` takes to measure the rest; empty where there is nothing to go on with.
    """

    state: SessionState
    measured: int = 0
    planned: int | None = None
    missing: tuple[tuple[str, str], ...] = ()
    resume: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether its answers are those to all that was asked."""
        return self.state is SessionState.WHOLE

    @property
    def banner(self) -> str:
        """The line with which every report of it begins; empty of a whole session."""
        if self.is_whole:
            return ""
        word, so_far = self.state.value.upper(), " so far" if self.state is SessionState.RUNNING else ""
        go_on = f"; go on with --ipperf-resume={self.resume}" if self.resume and not so_far else ""
        return f"{word}: {self.counts} measured{so_far}{go_on}"

    @property
    def counts(self) -> str:
        """How many cells were measured: `6 of 12 cells`."""
        if self.planned is None:
            return "some cells" if self.measured else "no cell"
        return f"{self.measured} of {self.planned} cell{'s' * (self.planned != 1)}"

    @property
    def why_missing(self) -> str:
        """The sentence about each missing item."""
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
    """Return the completeness of a session that was to answer `items` (cells by node id; None where that was not kept).

    `measured` are the cells that have a record, `missing` the node ids of items that the session has not come to.
    """
    return Completeness(
        state=state,
        measured=len(set(measured)),
        planned=None if items is None else len(set(items.values())),
        missing=tuple((nodeid, cell) for nodeid, cell in (items or {}).items() if nodeid in missing),
        resume=resume if state is SessionState.BROKEN_OFF else "",
    )


def state_of(status: int | None, missing: int | None, *, running: bool, tells_end: bool = True) -> SessionState:
    """Return the state of a session that ended with pytest's `status`, None where it has no end.

    `missing` counts the items that it had not come to by then; None where that was not kept: then its status decides.
    `running` says that a process is writing its records. Where they do not tell whether it ended (`tells_end`), as they
    keep no ends and stop at a whole line, it counts as whole: nothing is known against it.
    """
    if status is not None:
        stopped = status in _STOPPED if missing is None else missing > 0
        return SessionState.BROKEN_OFF if stopped else SessionState.WHOLE
    if running:
        return SessionState.RUNNING
    return SessionState.BROKEN_OFF if tells_end else SessionState.WHOLE
