"""Acceptance: a person's statement that a cell may be worse than its margin, with a reason and an end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pytest_ipperf.core.records.history_entry import HistoryKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Accepted worsening of the cells whose text matches the pattern `cell`, by `metric` or by all metrics (empty).

    `at` is the time of the statement (seconds since 1970), `by` its author, and `until` the last day (UTC) on which it
    holds. `up_to` is how much worse than the reference is accepted, as a fraction like a margin's; anything worse is a
    regression again. None accepts only that the cell is no longer measured. `withdrawn` says why and by whom the
    acceptance was ended early.
    """

    cell: str
    metric: str
    reason: str
    by: str
    at: float
    until: dt.date
    up_to: float | None
    withdrawn: str = ""

    def covers(self, key: HistoryKey) -> bool:
        """Return whether the acceptance covers that cell and metric; `*` in its pattern stands for any text."""
        return fnmatchcase(key.cell, self.cell) and self.metric in ("", key.metric)

    def replaces(self, earlier: Acceptance) -> bool:
        """Return whether it covers all cells and metrics of an earlier acceptance of the same kind."""
        same_kind = (self.up_to is None) == (earlier.up_to is None)
        return same_kind and fnmatchcase(earlier.cell, self.cell) and self.metric in ("", earlier.metric)

    def holds(self, today: dt.date) -> bool:
        """Return whether the acceptance has not expired."""
        return today <= self.until


def acceptance_of(key: HistoryKey, accepted: Iterable[Acceptance], today: dt.date) -> Acceptance | None:
    """Return the newest acceptance that covers a cell; None if there is none, or if it has expired.

    It replaces earlier ones for good, which may accept more.
    """
    newest = max((each for each in accepted if each.covers(key)), key=lambda each: each.at, default=None)
    return newest if newest is not None and newest.holds(today) else None
