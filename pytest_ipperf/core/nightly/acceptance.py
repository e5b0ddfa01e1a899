"""Acceptance: a person's statement that a cell may be worse than its margin, with a reason and an end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pytest_ipperf.core.records.history_entry import HistoryKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What is accepted of the cells whose text matches the pattern `cell`, of that `metric` or of all (empty).

    `at` is when it was said (seconds since 1970), `by` whom, and `until` the last day (UTC) on which it holds. `up_to`
    is how much worse than the reference is accepted, a fraction as of a margin; None where no more is accepted than
    that the cell is not measured any longer. What is worse than that is a regression again. `withdrawn` says why and by
    whom it was ended before its time.
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
        """Whether it speaks of that cell and metric; `*` in its pattern stands for any text."""
        return fnmatchcase(key.cell, self.cell) and self.metric in ("", key.metric)

    def holds(self, today: dt.date) -> bool:
        """Whether it has not expired."""
        return today <= self.until


def acceptance_of(key: HistoryKey, accepted: Iterable[Acceptance], today: dt.date) -> Acceptance | None:
    """The newest that speaks of a cell and has not expired."""
    found = [each for each in accepted if each.covers(key) and each.holds(today)]
    return max(found, key=lambda each: each.at, default=None)
