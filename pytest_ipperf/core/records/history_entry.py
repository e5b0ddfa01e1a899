"""History entry of a cell: its result in one session by one metric, short enough to be kept for years of nights.

It is separate from the complete record because thousands of entries are read for one comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class HistoryKey(NamedTuple):
    """Key of a history: cell, metric and version of the workload.

    A change of the hosts is reported beside the history and does not begin a new one.
    """

    cell: str
    metric: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.cell} {self.metric}"

    @property
    def is_twin(self) -> bool:
        """Whether the arm is the reference measured once more, which is no part of an answer."""
        return self.cell.endswith("-twin")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """Result for `key` in the session of that name, which began at `began_at` (seconds since 1970).

    `change` is on the metric's scale: the log ratio of the arm to the reference, or the difference of shares;
    `sd_epoch` is the standard deviation over its `epochs`. Both are None if a design has a single epoch. `test_value`
    and `reference_value` are the arms' means in the metric's unit. `fingerprint` is the digest of the hosts and the
    server. `sound` is False if its night found the cell worse, or was unstable: later nights are not compared with it.
    `usable` is that of the record: if it is False, nothing is compared with it. `commit` is that of the session's code,
    as `commit_of` gives it.
    """

    key: HistoryKey
    session: str
    began_at: float
    change: float | None
    sd_epoch: float | None
    epochs: int
    test_value: float
    reference_value: float
    margin: str
    margin_fraction: float | None
    header_cost: float
    verdict: str
    fingerprint: str
    sound: bool = True
    usable: bool = True
    commit: str = ""


def commit_of(session: Mapping[str, Any]) -> str:
    """Return the commit in the facts of a session, with `-dirty` if files had changed since; empty if unknown."""
    commit = str(session.get("commit") or "")
    return f"{commit}-dirty" if commit and session.get("dirty") else commit
