"""What a user has of a fault, as in the tables of docs/faults.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """`seconds` is the time from its beginning until it was reported; None: it was not.

    `runs` are those in the records. Nothing else is left.
    """

    fault: str
    report: str
    seconds: float | None
    outcome: str
    runs: int

    def __str__(self) -> str:
        after = "" if self.seconds is None else f"{self.seconds:.1f}"
        return f"| {self.fault} | {self.report} | {after} | {self.outcome} | {self.runs} |"
