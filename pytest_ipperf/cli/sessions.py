"""Find the sessions named on the command line, in the records folder or elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pytest_ipperf.cli.records_folder import records_root
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.core.records.completeness import Completeness
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import strictest
from pytest_ipperf.store import (
    LAST,
    VERDICT,
    Archive,
    SessionEntry,
    check_verdict_is_there,
    read_session_summary,
    read_verdict,
    records_in,
)

SESSION = "last, last~1 (the one before), a name given by --ipperf-save, the beginning of its own name, or its folder"
"""Forms of a session's name, for help texts."""


@dataclass(frozen=True, slots=True)
class SessionRef:
    """A session named on the command line; `entry` is None if it lies outside the records folder."""

    name: str
    folder: Path
    entry: SessionEntry | None


class Records:
    """The records folder, by default the nearest one; opened on first use."""

    def __init__(self, folder: str) -> None:
        self._asked = folder

    @cached_property
    def root(self) -> Path:
        """Path of the folder; UsageError if there is none."""
        return records_root(self._asked)

    @cached_property
    def archive(self) -> Archive:
        """Archive of all sessions in the folder."""
        return Archive(self.root)

    def close(self) -> None:
        """Print the archive's notes on unreadable records, and close it."""
        if "archive" in self.__dict__:
            for note in self.archive.notes:
                print(note, file=sys.stderr)  # noqa: T201 - apart from the output
            self.archive.close()

    def session(self, name: str) -> SessionRef:
        """Return the session of that name, or in that folder; raise UsageError if there is none."""
        folder = Path(name)
        if name and self._elsewhere(folder):
            return SessionRef(folder.resolve().name, folder, None)
        entry = self.archive.find(name)
        return SessionRef(entry.name, entry.folder, entry)

    def pair(self, then: str, now: str | None) -> tuple[SessionRef, SessionRef]:
        """Return two sessions to compare, the earlier one first; without `now` the later one is the last session.

        If `then` names the last session too, as `last` or the name of a series do, it stands for the session before.
        Raise UsageError if there is none.
        """
        if now is not None:
            return self.session(then), self.session(now)
        last, earlier = self.session(LAST), self.session(then)
        if earlier.folder.resolve() != last.folder.resolve():
            return earlier, last
        there = self.archive.whole()
        series = [entry for entry in there[:-1] if then in (LAST, entry.saved)]
        if not series:
            raise UsageError(f"session {last.name} is the last, and {then!r} names no earlier one to compare it with")
        return SessionRef(series[-1].name, series[-1].folder, series[-1]), last

    def _elsewhere(self, folder: Path) -> bool:
        if not any(folder.glob("*.jsonl")):
            return False
        with contextlib.suppress(UsageError):  # two folders can be compared without a records folder
            return folder.resolve().parent != (self.root / "runs").resolve()
        return True

    def completeness(self, session: SessionRef) -> Completeness:
        """Return the completeness of a session."""
        if session.entry is None:
            return read_session_summary(session.folder).completeness
        return replace(session.entry.completeness, resume=self.archive.resume_of(session.entry))

    def history_entries(self, session: SessionRef) -> dict[HistoryKey, HistoryEntry]:
        """Return the history entries of a session by key; of several questions about a cell the strictest."""
        if session.entry:
            return self.archive.history_entries(session.entry)
        return strictest(records_in(session.folder), session.name)


@contextlib.contextmanager
def records(folder: str) -> Iterator[Records]:
    """Open the records folder; close it at the end."""
    found = Records(folder)
    try:
        yield found
    finally:
        found.close()


def summary_of(found: Records, session: SessionRef, *, damage: list[str] | None = None) -> SessionSummary:
    """Return a session's summary, with its cells' history over the sessions of its name, and the night it screened.

    Raise DamageError if some of its records cannot be read; if `damage` is a list, the messages are appended to it
    instead, and the summary has the readable part.
    """
    if session.entry is None:
        return read_session_summary(session.folder, damage=damage)
    try:
        check_verdict_is_there(found.root, session.name)
        if os.path.lexists(found.root / "nights" / session.name / VERDICT):
            return _decided_again(found.archive, session.folder)
    except (DamageError, UsageError) as error:  # files by which the night was decided may be missing or damaged
        if damage is None:
            raise
        damage.append(str(error))
    more: list[str] = []
    resume = found.archive.resume_of(session.entry)
    summary = read_session_summary(session.folder, resume=resume, damage=None if damage is None else more)
    if damage is not None:
        damage += [each for each in more if each not in damage]
    if not summary.saved:
        return summary
    return replace(summary, histories=found.archive.histories(session.name, saved=summary.saved))


def _decided_again(archive: Archive, screening: Path) -> SessionSummary:
    """Decide the night again from the records, as its stored verdict has no measurements."""
    from pytest_ipperf.cli.night.decide import decide_again  # noqa: PLC0415 - loads scipy

    return decide_again(archive, screening, read_verdict(archive.root, screening.name)).summary
